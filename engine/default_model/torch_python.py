"""Finds a Python that has PyTorch and numpy. Standard library only."""

import os
import subprocess
import sys

HINT = "no Python with torch and numpy was found: apt-get install python3-torch python3-numpy"


def find():
    """The path of an interpreter, or None."""
    for path in dict.fromkeys([sys.executable, "/usr/bin/python3"]):
        if path and os.path.exists(path) and subprocess.run(
                [path, "-c", "import torch, numpy"], capture_output=True).returncode == 0:
            return path
    return None


def run_by_it():
    """Runs this program anew by such a Python, if this one is none."""
    try:
        import torch  # noqa: F401
        return
    except ImportError:
        pass
    path = find()
    if path is None:
        raise SystemExit(HINT)
    os.execv(path, [path, *sys.argv])
