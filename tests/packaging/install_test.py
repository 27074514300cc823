#!/usr/bin/env python3
"""What cmake --install installs works elsewhere: for CMake, for pkg-config, shared and static."""

import gzip
import shutil
import subprocess
import unittest

import package_case
from package_case import BUILD, HERE, PackageCase


class InstallTest(PackageCase):
    def build_with_cmake(self, prefix, library="kvgate"):
        folder = self.folder / f"cmake-{library}"
        self.run_tool("cmake", "-S", HERE / "outside_cmake", "-B", folder, "-G", "Ninja",
                      f"-DCMAKE_PREFIX_PATH={prefix}", f"-DOUTSIDE_LIBRARY={library}")
        self.run_tool("cmake", "--build", folder)
        said = self.run_tool(folder / "outside", self.tiny(), self.folder / f"data-{library}")
        self.assertRegex(said, r"^kvgate \d+\.\d+\.\d+ says [1-9]\d* bytes\n$")

    def build_with_make(self, prefix, *variables):
        folder = self.folder / "-".join(["make", *variables])
        shutil.copytree(HERE / "outside_make", folder)
        self.run_tool("make", *variables, cwd=folder,
                      PKG_CONFIG_PATH=str(prefix / "lib" / "pkgconfig"))
        return folder / "outside"

    def assert_tells(self, binary):
        """The program in C reaches the server, and says so where there is none."""
        running = self.serve()
        url = f"http://{running.address}"
        self.assertRegex(self.run_tool(binary, url), r"^\d+\.\d+\.\d+ 200\n$")
        running.kill()
        self.assertRegex(self.run_tool(binary, url), r"^\d+\.\d+\.\d+ UNAVAILABLE\n$")

    def assert_relocatable(self, prefix):
        """No text that was installed names where it was installed or built; the service has to."""
        for path in prefix.rglob("*"):
            if path.is_symlink() or path.is_dir() or path.parent.name in ("system", "bin") \
                    or path.name == "kvgate.toml" or ".so." in path.name or path.suffix == ".a":
                continue
            data = path.read_bytes()
            data = gzip.decompress(data) if path.suffix == ".gz" else data
            for place in (BUILD.parent.parent, self.folder):
                self.assertNotIn(str(place).encode(), data, path)
        self.assertEqual((prefix / "lib/libkvgate.so.1").resolve().parent, prefix / "lib")

    def test_outside_projects_build_and_run_where_the_prefix_was_moved_to(self):
        self.need("cmake", "ninja", "make", "pkg-config", "cc")
        prefix = self.installed()
        self.assert_relocatable(prefix)
        headers = sorted(p.relative_to(prefix / "include").as_posix()
                         for p in (prefix / "include").rglob("*.*"))
        self.assertIn("kvgate.h", headers)
        self.assertIn("kvgate/client.h", headers)
        self.assertNotIn("kvgate/README.md", headers)
        self.build_with_cmake(prefix)
        self.assert_tells(self.build_with_make(prefix))
        said = self.run_tool(prefix / "bin" / "kvgate", "config", "check",
                             prefix / "etc/kvgate/kvgate.toml")
        self.assertEqual(said.splitlines()[0], "ok")

    def test_another_version_and_a_missing_component_are_refused(self):
        self.need("cmake")
        prefix = self.installed()
        project = self.folder / "asks"
        project.mkdir()
        for asked, why in (("1.0 CONFIG REQUIRED", "requested version"),
                           ("CONFIG REQUIRED COMPONENTS static", "static")):
            (project / "CMakeLists.txt").write_text(
                "cmake_minimum_required(VERSION 3.25)\nproject(asks LANGUAGES CXX)\n"
                f"find_package(kvgate {asked})\n")
            done = subprocess.run(["cmake", "-S", project, "-B", self.folder / "asked",
                                   f"-DCMAKE_PREFIX_PATH={prefix}"],
                                  capture_output=True, text=True, timeout=120)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(why, " ".join(done.stderr.split()))

    @unittest.skipUnless(package_case.FULL, "the static library: KVGATE_TEST_FULL=1")
    def test_a_static_program_shares_no_symbol_with_the_library(self):
        self.need("cmake", "ninja", "make", "pkg-config", "cc", "nm")
        self.run_tool("cmake", "--build", BUILD, "--target", "kvgate_static", timeout=1800)
        prefix = self.installed("static")
        listed = self.run_tool("nm", "--extern-only", "--defined-only", "--format=posix",
                               prefix / "lib" / "libkvgate.a")
        symbols = {line.split()[0] for line in listed.splitlines() if " " in line}
        self.assertIn("kvgate_open", symbols)
        self.assertEqual([s for s in sorted(symbols) if not s.startswith("kvgate_")], [])
        self.build_with_cmake(prefix, "static")
        binary = self.build_with_make(prefix, "STATIC=1")
        self.assertNotIn("libkvgate", self.run_tool("ldd", binary))
        self.assert_tells(binary)


if __name__ == "__main__":
    unittest.main()
