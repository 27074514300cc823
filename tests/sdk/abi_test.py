#!/usr/bin/env python3
"""Compares the border of the shared library with the committed one.

Usage: abi_test.py LIBRARY [HEADER_FOLDER]
Skips (exit 77) where abigail-tools are missing. KVGATE_ABI_UPDATE=1 writes the committed one anew.
"""
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BASELINE = ROOT / "sdk/abi/libkvgate.abi"
SKIPPED = 77


def write_dump(library, headers, path):
    """What is said of places in sources and folders would change with each build."""
    subprocess.run(["abidw", "--headers-dir", headers, "--drop-private-types", "--no-show-locs",
                    "--no-corpus-path", "--no-comp-dir-path", "--exported-interfaces-only",
                    "--no-elf-needed", "--no-architecture",
                    "--out-file", path, library], check=True)


def main():
    if not shutil.which("abidw") or not shutil.which("abidiff"):
        print("skipped: abidw and abidiff are not installed (Debian's abigail-tools)")
        return SKIPPED
    library = sys.argv[1]
    headers = sys.argv[2] if len(sys.argv) > 2 else str(ROOT / "sdk/include")
    if os.environ.get("KVGATE_ABI_UPDATE") == "1":
        write_dump(library, headers, BASELINE)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        dump = Path(folder) / "now.abi"
        write_dump(library, headers, dump)
        done = subprocess.run(["abidiff", str(BASELINE), str(dump)], capture_output=True, text=True)
    if done.returncode != 0:
        print(done.stdout + done.stderr)
        print("libkvgate's ABI is another than sdk/abi/libkvgate.abi says; see sdk/abi/README.md")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
