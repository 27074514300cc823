#!/usr/bin/env python3
"""The recipes for Docker, vcpkg and Conan, as far as they can be checked without these programs."""

import ast
import json
import re
import subprocess
import unittest
from pathlib import Path

from package_case import PackageCase

import server

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGING = ROOT / "packaging"


class RecipesTest(PackageCase):
    def version(self):
        return re.search(r"project\(kvgate VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())[1]

    def setup_packages(self):
        """What scripts/lib/setup.sh installs for a build."""
        script = 'source scripts/lib/setup.sh; echo "${KVGATE_PACKAGES_BUILD[@]}"'
        return set(self.run_tool("bash", "-euc", script, cwd=ROOT).split())

    def test_the_port_has_the_version_of_the_tree(self):
        port = json.loads((PACKAGING / "vcpkg/kvgate/vcpkg.json").read_text())
        self.assertEqual(port["version"], self.version())
        self.assertIn(self.version(), self.run_tool(server.binary_path(), "--version"))

    def test_the_conanfile_installs_what_the_build_installs_and_finds_the_version(self):
        text = (PACKAGING / "conan/conanfile.py").read_text()
        words = {node.value for node in ast.walk(ast.parse(text))
                 if isinstance(node, ast.Constant) and isinstance(node.value, str)}
        named = {word for word in words if re.fullmatch(r"[a-z0-9.+-]+-dev", word)}
        of_tests = {"libgtest-dev", "libgmock-dev"}
        self.assertEqual(named, {name for name in self.setup_packages()
                                 if name.endswith("-dev")} - of_tests)
        project = (ROOT / "CMakeLists.txt").read_text()
        self.assertIn("project(kvgate VERSION ", words)
        self.assertEqual(project.split("project(kvgate VERSION ")[1].split()[0], self.version())
        for word in words:
            if word.endswith("/*"):
                self.assertTrue((ROOT / word[:-2]).is_dir(), word)

    def test_the_image_copies_what_is_there_and_refuses_to_be_open_to_all(self):
        text = (PACKAGING / "docker/Dockerfile").read_text()
        copied = re.findall(r"^COPY (\S+) ", text, re.MULTILINE)
        self.assertIn("packaging/docker/kvgate.toml", copied)
        for path in copied:
            self.assertTrue((ROOT / path).exists(), path)
        config = PACKAGING / "docker/kvgate.toml"
        said = self.run_tool(server.binary_path(), "config", "check", config)
        self.assertEqual(said.splitlines()[0], "ok")
        done = subprocess.run([server.binary_path(), "serve", "--config", config, "--listen",
                               "0.0.0.0:0", "--data-dir", self.folder / "data", "--no-disk"],
                              env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True,
                              timeout=120)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("KVGATE_KEY", done.stderr)


if __name__ == "__main__":
    unittest.main()
