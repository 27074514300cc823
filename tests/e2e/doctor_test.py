#!/usr/bin/env python3
"""`kvgate doctor`: it sees what serve would stumble on, says what to do, and changes nothing."""

import json
import os
import re
import signal
import socket
import subprocess
import unittest

import server
from case import Case, text_of


class DoctorTest(Case):
    def doctor(self, *arguments, code=0):
        """The findings by the name of their check."""
        made = subprocess.run([server.binary_path(), "doctor", "--json", *map(str, arguments)],
                              capture_output=True, text=True, timeout=120)
        self.assertEqual(made.returncode, code, made.stdout + made.stderr)
        report = json.loads(made.stdout)
        self.assertEqual(report["ok"], code == 0)
        for finding in report["checks"]:
            self.assertEqual(finding["advice"] == "", finding["status"] == "ok", finding)
        return {finding["check"]: finding for finding in report["checks"]}

    def common(self, *changes):
        """Flags under which all is well, with some of them changed."""
        flags = {"--model": self.tiny(), "--data-dir": self.folder / "data",
                 "--kv-memory": "64MiB", "--listen": "127.0.0.1:0", "--disk-cache": "64MiB",
                 **dict(zip(changes[::2], changes[1::2]))}
        return [str(part) for flag in flags.items() for part in flag]

    def test_a_good_configuration_is_ok_in_every_check_and_nothing_is_made(self):
        found = self.doctor(*self.common())
        for check in ("config", "data directory", "disk space", "model", "memory", "KV memory",
                      "CPU", "listen", "open files"):
            self.assertIn(check, found)
        self.assertEqual(found["model"]["status"], "ok")
        self.assertFalse((self.folder / "data").exists())

    def test_text_is_one_line_for_each_check(self):
        made = subprocess.run([server.binary_path(), "doctor", *self.common()],
                              capture_output=True, text=True, timeout=120)
        lines = made.stdout.splitlines()
        self.assertEqual(len(lines), len(self.doctor(*self.common())))
        for line in lines:
            self.assertRegex(line, r"^(ok|warning|failure) ")

    def test_it_finds_the_running_server_and_asks_it(self):
        running = self.serve()
        self.assert_ok(running.complete(text_of("doctor", 100)))
        running.wait_on_disk()
        found = self.doctor(*self.common("--listen", running.address))
        self.assertIn(f"http://{running.address}", found["lock"]["detail"])
        self.assertRegex(found["store"]["detail"], r"^[1-9]\d* records")
        self.assertIn("that server's", found["listen"]["detail"])
        running.terminate()
        found = self.doctor(*self.common())
        self.assertIn("free", found["lock"]["detail"])
        self.assertRegex(found["store"]["detail"], r"^[1-9]\d* records")

    def test_a_lock_without_a_server_is_a_failure(self):
        running = self.serve()
        running.process.send_signal(signal.SIGSTOP)
        self.addCleanup(running.process.send_signal, signal.SIGCONT)
        info = self.folder / "data" / "server.json"
        holder = json.loads(info.read_text())
        info.write_text(json.dumps({**holder, "address": ""}))
        found = self.doctor(*self.common(), code=1)
        self.assertIn(str(holder["pid"]), found["lock"]["detail"])

    def test_each_fault_is_named_with_what_to_do(self):
        taken = socket.socket()
        self.addCleanup(taken.close)
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        junk = self.folder / "junk.gguf"
        junk.write_bytes(b"not a model")
        file = self.folder / "a-file"
        file.write_text("")
        shared = self.folder / "shared"
        shared.mkdir()
        (shared / "letter").write_text("")
        shared.chmod(0o755)
        # (arguments, the check that fails, what its line must say)
        faults = [
            (["--listen", f"127.0.0.1:{port}"], "listen", "in use"),
            (["--listen", "0.0.0.0:0"], "listen", "loopback"),
            (["--model", junk], "model", "GGUF"),
            (["--model", self.folder / "none.gguf"], "model", "none.gguf"),
            (["--data-dir", file], "data directory", "not a directory"),
            (["--data-dir", shared], "data directory", "0755"),
            (["--kv-memory", "100000GiB"], "memory", "needed"),
        ]
        for arguments, check, says in faults:
            with self.subTest(check=check, arguments=arguments):
                found = self.doctor(*self.common(*arguments), code=1)
                self.assertEqual(found[check]["status"], "failure")
                self.assertIn(says, found[check]["detail"])
        found = self.doctor("--set", "store.nonsense=1", code=1)
        self.assertIn("nonsense", found["config"]["detail"])

    def test_what_only_costs_is_a_warning(self):
        warnings = [
            (["--kv-memory", "1MiB"], "KV memory"),
            (["--disk-cache", "100000GiB"], "disk space"),
            (["--threads", "1000"], "CPU"),
            (["--set", "store.disk=false"], "data directory"),
            (["--set", "limits.connections=1000000"], "open files"),
        ]
        for arguments, check in warnings:
            with self.subTest(check):
                self.assertEqual(self.doctor(*self.common(*arguments))[check]["status"], "warning")

    def test_a_model_that_serve_would_not_load_is_not_judged(self):
        upstream = self.folder / "upstream.toml"
        upstream.write_text('[[upstream]]\nname = "u"\nbase_url = "http://127.0.0.1:1/v1"\n')
        found = self.doctor("--config", upstream, "--data-dir", self.folder / "data",
                            "--listen", "127.0.0.1:0")
        self.assertIn("none is loaded", found["model"]["detail"])
        for check in ("memory", "KV memory", "CPU", "device"):
            self.assertNotIn(check, found)

    def test_room_for_more_than_one_request_is_said_to_be_that_of_many(self):
        detail = self.doctor(*self.common("--kv-memory", "64MiB"))["KV memory"]["detail"]
        said = re.search(r"one request may have (\d+) tokens; room for (\d+) tokens, "
                         r"(\d+) such requests", detail)
        context, room, requests = map(int, said.groups())
        self.assertEqual(requests, room // context, detail)

    def test_kv_memory_is_counted_in_the_kv_dtype_that_is_configured(self):
        def room(kv_dtype):
            found = self.doctor(*self.common("--kv-dtype", kv_dtype))
            return int(re.search(r"room for (\d+) tokens", found["KV memory"]["detail"])[1])
        self.assertEqual(room("f16"), 2 * room("f32"))
        self.assertEqual(room("fp8_e4m3"), 2 * room("f16"))

    def test_a_damaged_store_is_a_failure_that_names_it(self):
        running = self.serve()
        self.assert_ok(running.complete(text_of("damage", 100)))
        running.wait_on_disk()
        self.assertEqual(running.terminate(), 0)
        meta = self.folder / "data" / "meta"
        for file in meta.glob("MANIFEST*"):
            os.truncate(file, 3)
        found = self.doctor(*self.common(), code=1)
        self.assertIn("meta", found["store"]["detail"])


if __name__ == "__main__":
    unittest.main()
