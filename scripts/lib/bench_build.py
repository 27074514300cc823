"""scripts/bench build: how long people wait for the compiler.

Builds the program of the release preset in a folder of its own without a compiler cache: once cold,
then after one source and after one header was touched. Prints the time of each, the objects that
took longest, and which folders the time went to.
"""

import argparse
import collections
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
# A source that one library holds, a header of one part, and a header that everything includes.
TOUCHED = ("gateway/prompt/planner/plan.cc", "gateway/prompt/parse/segment.h", "base/result.h")


def run(*command):
    """Seconds that the command took; its own output shows how far it is."""
    began = time.monotonic()
    done = subprocess.run(command, cwd=ROOT, stdout=sys.stderr,
                          env={**os.environ, "CCACHE_DISABLE": "1"}, check=False)
    if done.returncode != 0:
        sys.exit(f"{command[0]} ended with {done.returncode}")
    return time.monotonic() - began


def steps(folder):
    """(seconds, output) of each step that ninja has recorded, the newest record of each."""
    newest = {}
    for line in (folder / ".ninja_log").read_text().splitlines()[1:]:
        start, end, _, output, _ = line.split("\t")
        newest[output] = (int(end) - int(start)) / 1000
    return [(seconds, output) for output, seconds in newest.items()]


def source_of(output):
    """engine/CMakeFiles/kvgate_engine.dir/kv/a.cc.o is made from engine/kv/a.cc."""
    parts = output.split("/")
    while "CMakeFiles" in parts:
        at = parts.index("CMakeFiles")
        del parts[at:at + 2]  # with the target's folder
    return os.path.normpath("/".join(".." if part == "__" else part for part in parts))


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench build", description=__doc__)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--objects", type=int, default=15, help="how many objects to list")
    options = parser.parse_args()
    folder = ROOT / "build" / "bench-build"
    shutil.rmtree(folder, ignore_errors=True)
    configure = run("cmake", "--preset", "release", "-B", str(folder))
    build = ("cmake", "--build", str(folder), "-j", str(options.jobs), "--target", "kvgate")
    cold = run(*build)
    objects = sorted((seconds, source_of(output)) for seconds, output in steps(folder)
                     if output.endswith((".o", ".gch")))[::-1]
    total = sum(seconds for seconds, _ in objects)
    print(f"cold, {options.jobs} jobs, no compiler cache: configure {configure:.0f} s, build "
          f"{cold:.0f} s: {len(objects)} objects, {total:.0f} s of compiling", flush=True)
    for touched in TOUCHED:
        (ROOT / touched).touch()
        print(f"  after a change of {touched}: {run(*build):.1f} s", flush=True)
    print("slowest objects:")
    for seconds, output in objects[:options.objects]:
        print(f"  {seconds:6.1f} s  {output}")
    folders = collections.Counter()
    for seconds, output in objects:
        folders["/".join(output.split("/")[:2])] += seconds
    print("by folder:")
    for name, seconds in folders.most_common():
        print(f"  {seconds:6.0f} s  {100 * seconds / total:3.0f} %  {name}")


if __name__ == "__main__":
    main()
