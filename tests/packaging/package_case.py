"""The base of the tests of packages: a build that is installed, and commands that must succeed.

KVGATE_BUILD is the build tree; without KVGATE_E2E_REQUIRED=1 a test skips by name where something
was not built or a tool is missing.
"""

import os
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))

from case import FULL, TINY, Case, wait_until  # noqa: E402

BUILD = Path(os.environ.get("KVGATE_BUILD", HERE.parent.parent / "build" / "dev"))


def missing(what):
    """A failure where everything has to be there, else a skip by name."""
    if os.environ.get("KVGATE_E2E_REQUIRED") == "1":
        raise AssertionError(what)
    raise unittest.SkipTest(what)


class PackageCase(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for file in ("lib/libkvgate.so", "packaging/help/made"):
            if not (BUILD / file).exists():
                missing(f"{BUILD / file} is not there: cmake --build {BUILD} --target installable")

    def need(self, *tools):
        for tool in tools:
            if shutil.which(tool) is None:
                missing(f"{tool} is not installed")

    def run_tool(self, *command, cwd=None, timeout=300, **environment):
        """The output of a command that succeeds."""
        done = subprocess.run([str(word) for word in command], cwd=cwd, timeout=timeout,
                              capture_output=True, text=True, env={**os.environ, **environment})
        said = done.stdout + done.stderr
        self.assertEqual(done.returncode, 0, f"{command}\n{said[-4000:]}")
        return done.stdout

    def installed(self, *components):
        """A prefix into which the build was installed, and which was then moved."""
        before, prefix = self.folder / "before", self.folder / "moved"
        self.run_tool("cmake", "--install", BUILD, "--prefix", before)
        for component in components:
            self.run_tool("cmake", "--install", BUILD, "--prefix", before, "--component", component)
        before.rename(prefix)
        return prefix


__all__ = ["BUILD", "FULL", "HERE", "PackageCase", "TINY", "missing", "wait_until"]
