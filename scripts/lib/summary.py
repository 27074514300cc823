"""One screen about a test run, from ctest's JUnit files: counts, failures, and what was skipped.

Exits 1 when a test failed or a step before did (--failed 1), and when nothing ran at all.
"""

import argparse
import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

LINES_MAX = 30
# "name (class.name) ... skipped" with the first line of a docstring between, where there is one.
UNITTEST_SKIP = re.compile(
    r"^(\w+) \((\S+)\)(?: \.\.\. |\n[^\n]* \.\.\. )skipped ['\"](.*)['\"]$", re.MULTILINE)
GTEST_SKIP = re.compile(r"^\S+:\d+: Skipped\n(.*)$", re.MULTILINE)


class Run:
    """One JUnit file: the names of what passed, failed and was skipped, with the reasons."""

    def __init__(self, path):
        self.name = path.stem
        self.passed, self.failed, self.skipped = [], [], []
        root = ElementTree.parse(path).getroot()
        self.seconds = sum(float(case.get("time", 0)) for case in root.iter("testcase"))
        for case in root.iter("testcase"):
            self.add(case)

    def add(self, case):
        name, status = case.get("name"), case.get("status")
        output = case.findtext("system-out") or ""
        if status == "run":
            self.passed.append(name)
        elif status in ("notrun", "disabled") or case.find("skipped") is not None:
            reason = GTEST_SKIP.search(output)
            self.skipped.append((name, reason.group(1) if reason else status))
        else:
            self.failed.append(name)
        # A Python test program is one ctest; what it skipped inside stands in its output.
        for test, where, reason in UNITTEST_SKIP.findall(output):
            self.skipped.append((f"{name}: {where if test == 'setUpClass' else test}", reason))


def screen(lines, title):
    if lines:
        print(f"\n{title}:")
        for line in lines[:LINES_MAX]:
            print(f"  {line}")
        if len(lines) > LINES_MAX:
            print(f"  and {len(lines) - LINES_MAX} more")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=0)
    parser.add_argument("--failed", type=int, default=0)
    parser.add_argument("results", type=Path)
    options = parser.parse_args()
    runs = [Run(path) for path in sorted(options.results.glob("*.xml"))]
    print(f"\n{'run':<16}{'passed':>8}{'failed':>8}{'skipped':>9}{'test time':>12}")
    for run in runs:
        print(f"{run.name:<16}{len(run.passed):>8}{len(run.failed):>8}{len(run.skipped):>9}"
              f"{run.seconds:>10.0f} s")
    screen([f"{run.name}: {name}: {reason}" for run in runs for name, reason in run.skipped],
           "skipped")
    screen([f"{run.name}: {name} (see {options.results / run.name}.log)"
            for run in runs for name in run.failed], "FAILED")
    failed = options.failed or not any(run.passed for run in runs) or any(r.failed for r in runs)
    print(f"\n{'FAILED' if failed else 'all tests passed'} in {options.seconds // 60} min "
          f"{options.seconds % 60} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
