#!/usr/bin/env python3
"""The Debian packages: built, judged by lintian, installed into a clean Debian, used, purged.

The clean Debian is made with debootstrap, which needs the network and root: KVGATE_TEST_FULL=1.
KVGATE_CLEAN_ROOT names a folder with one that was made before; a copy of it is used.
"""

import os
import re
import shlex
import shutil
import subprocess
import unittest
from pathlib import Path

import package_case
import server
from package_case import BUILD, HERE, PackageCase, missing

PACKAGES = ("kvgate", "libkvgate1", "libkvgate-dev")
PORT = 8080


@unittest.skipUnless(package_case.FULL, "Debian packages: KVGATE_TEST_FULL=1")
class DebTest(PackageCase):
    def packages(self):
        """The packages of this build: name -> file."""
        self.need("cpack", "dpkg-shlibdeps", "dpkg-deb", "file")
        made = self.folder / "packages"
        self.run_tool("cpack", "-G", "DEB", "-B", made, cwd=BUILD, timeout=1800)
        found = {file.name.split("_")[0]: file for file in made.glob("*.deb")}
        self.assertEqual(set(found), set(PACKAGES))
        return found

    def clean_root(self):
        """A minimal Debian 12 of its own; nothing of it is left at the end."""
        self.need("debootstrap", "chroot")
        if os.geteuid() != 0:
            missing("a clean Debian needs root")
        root = self.folder / "root"
        made = os.environ.get("KVGATE_CLEAN_ROOT")
        if made:
            self.run_tool("cp", "-a", made, root)
        else:
            self.run_tool("debootstrap", "--variant=minbase", "bookworm", root,
                          "http://deb.debian.org/debian", timeout=1800)
        self.addCleanup(shutil.rmtree, root, ignore_errors=True)
        return root

    def inside(self, root, *command, **options):
        return self.run_tool("chroot", root, *command, timeout=1800,
                             DEBIAN_FRONTEND="noninteractive", LC_ALL="C.UTF-8",
                             PATH="/usr/sbin:/usr/bin:/sbin:/bin", **options)

    def install(self, root, packages):
        shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
        (root / "packages").mkdir()
        for file in packages.values():
            shutil.copy(file, root / "packages")
        self.inside(root, "apt-get", "update", "-q")
        self.inside(root, "apt-get", "install", "-y", "-q", "--no-install-recommends",
                    *(f"/packages/{file.name}" for file in packages.values()))

    def unit(self, root):
        """The settings of the service: KEY -> value."""
        text = (root / "usr/lib/systemd/system/kvgate.service").read_text()
        return dict(re.findall(r"^(\w+)=(.*)$", text, re.MULTILINE))

    def start(self, root):
        """Runs what the service runs, as its user, with nothing but what it may have."""
        unit = self.unit(root)
        command = ["chroot", f"--userspec={unit['User']}:{unit['Group']}", str(root), "env", "-i",
                   "PATH=/usr/bin:/bin", *shlex.split(unit["ExecStart"]),
                   "--set", "engine.kv_memory=64MiB"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   text=True, umask=0o077)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        said = []
        for line in process.stdout:
            said.append(line)
            found = re.search(r"listening on http://(\S+)", line)
            if found:
                running = server.Server(None, root / "var/lib/kvgate")
                running.address = found.group(1)
                return process, running
        self.fail("".join(said))

    def test_lintian_finds_no_error(self):
        self.need("lintian")
        packages = self.packages()
        done = subprocess.run(["lintian", "--no-cfg", "--fail-on", "none", *packages.values()],
                              capture_output=True, text=True, timeout=600)
        errors = [line for line in done.stdout.splitlines() if line.startswith("E:")]
        self.assertEqual(errors, [], done.stdout + done.stderr)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_systemd_takes_the_service_and_calls_it_confined(self):
        self.need("systemd-analyze")
        prefix = self.installed()
        unit = prefix / "lib/systemd/system/kvgate.service"
        # It names the prefix before it was moved: here it is to be read, not started.
        text = unit.read_text().replace(str(self.folder / "before"), str(prefix))
        unit.write_text(text)
        self.run_tool("systemd-analyze", "verify", "--man=no", unit)
        self.run_tool("systemd-analyze", "security", "--offline=true", "--threshold=30", unit)

    def test_installed_into_a_clean_debian_it_serves_and_goes_without_a_trace(self):
        packages = self.packages()
        root = self.clean_root()
        self.install(root, packages)
        state, config = root / "var/lib/kvgate", root / "etc/kvgate/kvgate.toml"
        self.assertEqual(state.stat().st_mode & 0o7777, 0o700)
        wanted = root / "etc/systemd/system/multi-user.target.wants/kvgate.service"
        self.assertTrue(wanted.is_symlink())

        process, running = self.start(root)
        self.assertEqual(running.address, f"127.0.0.1:{PORT}")
        self.assertEqual(running.get("/health").status, 200)
        self.assert_ok(running.chat([{"role": "user", "content": "Hello"}], max_tokens=4))
        owner = Path(f"/proc/{process.pid}").stat().st_uid
        self.assertEqual(owner, state.stat().st_uid)
        self.assertNotEqual(owner, 0)
        process.terminate()
        self.assertEqual(process.wait(60), 0, process.stdout.read())
        self.assertTrue(any(state.iterdir()))

        self.use_library(root)
        config.write_text(config.read_text() + "# mine\n")
        self.inside(root, "apt-get", "remove", "-y", "-q", *PACKAGES)
        self.assertFalse((root / "usr/bin/kvgate").exists())
        self.assertIn("# mine", config.read_text())
        self.assertTrue(any(state.iterdir()))
        self.inside(root, "dpkg", "--purge", "kvgate", "libkvgate1")
        self.assertFalse(config.parent.exists())
        self.assertFalse(state.exists())
        left = [path for path in root.rglob("*kvgate*") if "packages" not in path.parts
                and not path.is_relative_to(root / "proc")]
        self.assertEqual(left, [])

    def use_library(self, root):
        """A program in C, built there with pkg-config and run."""
        shutil.copytree(HERE / "outside_make", root / "outside")
        self.addCleanup(shutil.rmtree, root / "outside", ignore_errors=True)
        self.inside(root, "apt-get", "install", "-y", "-q", "--no-install-recommends", "gcc",
                    "libc6-dev", "make", "pkg-config")
        self.inside(root, "make", "-C", "/outside")
        said = self.inside(root, "/outside/outside", "http://127.0.0.1:1")
        self.assertRegex(said, r"^\d+\.\d+\.\d+ UNAVAILABLE\n$")
        self.assertIn("libkvgate.so.1", self.inside(root, "ldd", "/outside/outside"))


if __name__ == "__main__":
    unittest.main()
