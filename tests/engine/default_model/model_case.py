"""The base of the tests of engine/default_model: where its scripts and the program are."""

import os
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
SCRIPTS = ROOT / "engine/default_model"
for folder in (SCRIPTS, SCRIPTS / "corpus", ROOT / "tests/e2e"):
    sys.path.insert(0, str(folder))

import server  # noqa: E402

FULL = os.environ.get("KVGATE_TEST_FULL") == "1"


def program():
    """The path of kvgate; skips by name where it is not built."""
    path = server.binary_path()
    if not path.exists():
        if os.environ.get("KVGATE_E2E_REQUIRED") == "1":
            raise AssertionError(f"{path} is not built")
        raise unittest.SkipTest(f"{path} is not built")
    return str(path)


class ModelCase(unittest.TestCase):
    maxDiff = 2000

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="kvgate-default-model-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
