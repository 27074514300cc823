#!/usr/bin/env python3
"""The commands beside serve, run as a user runs them: what they print and how they exit."""

import signal
import subprocess
import time
import unittest

import server
from case import TEST_DATA, Case, text_of


def run(*arguments, text=None, timeout=60):
    return subprocess.run([server.binary_path(), *map(str, arguments)], input=text,
                          capture_output=True, text=True, timeout=timeout)


class CliTest(Case):
    def assert_fails(self, done, code, *words):
        self.assertEqual(done.returncode, code, done.stderr + done.stdout)
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertEqual(done.stdout, "")

    def test_version_and_wrong_usage(self):
        self.assertRegex(run("--version").stdout, r"^kvgate \d+\.\d+\.\d+\n$")
        self.assertEqual(run("no-such-command").returncode, 2)
        self.assertEqual(run("serve", "--no-such-flag").returncode, 2)

    def test_make_model_says_which_option_is_wrong_and_leaves_no_file(self):
        out = self.folder / "model.gguf"
        self.assert_fails(run("make-model", "--arch", "llama", "--heads", "3", "--out", out), 2,
                          "head")
        self.assertFalse(out.exists())

    def test_tokenize_prints_the_reference_ids_of_a_real_vocabulary(self):
        vocabulary = TEST_DATA / "vocab" / "gpt-2.gguf"
        if not vocabulary.exists():
            self.skipTest(f"{vocabulary} is not there (KVGATE_TEST_DATA)")
        done = run("tokenize", "--model", vocabulary, "--no-special", text="Hello world")
        self.assertEqual(done.stdout, "15496 995\n")

    def test_tokenize_of_what_is_no_model_is_one_clear_line(self):
        broken = self.folder / "broken.gguf"
        broken.write_bytes(b"GGUF\x03\x00\x00\x00")
        done = run("tokenize", "--model", broken, text="x")
        self.assert_fails(done, 1, "tensor count")
        self.assertEqual(len(done.stderr.splitlines()), 1)

    def test_config_check_names_the_unknown_key(self):
        config = self.folder / "kvgate.toml"
        config.write_text("[engine]\nthreads = 1\n")
        self.assertEqual(run("config", "check", config).stdout, "ok\n")
        config.write_text("[engine]\nthreds = 1\n")
        self.assert_fails(run("config", "check", config), 1, "threds", "2")

    def test_cache_commands_see_the_same_through_a_server_and_without_one(self):
        data = self.folder / "data"
        running = self.serve(data_dir=data)
        self.assert_ok(running.complete(text_of("cache", 300), max_tokens=2))
        running.wait_on_disk(timeout=20)
        through = run("cache", "ls", "--data-dir", data).stdout.splitlines()
        self.assertEqual(len(through), 2, through)
        self.assertIn("checked", run("cache", "verify", "--data-dir", data).stdout)
        self.assertEqual(running.terminate(timeout=60), 0)
        self.assertEqual(run("cache", "ls", "--data-dir", data).stdout.splitlines(), through)
        self.assertRegex(run("cache", "stats", "--data-dir", data).stdout, r"store\.records [1-9]")
        prefix = through[1].split()[0]
        self.assertRegex(run("cache", "rm", prefix, "--data-dir", data).stdout, "removed [1-9]")
        self.assertEqual(len(run("cache", "ls", "--data-dir", data).stdout.splitlines()), 1)
        self.assert_fails(run("cache", "rm", prefix, "--data-dir", data), 1, prefix)

    def test_chat_answers_a_line_of_input_and_ctrl_c_ends_it(self):
        running = self.serve()
        done = run("chat", "--url", f"http://{running.address}", text="hello\n")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.strip())
        process = subprocess.Popen([server.binary_path(), "chat", "--url",
                                    f"http://{running.address}"], stdin=subprocess.PIPE,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(process.kill)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=10), 130)
        process.stdin.close()
        self.assert_fails(run("chat", "--url", f"http://{running.address}", text=""), 2, "input")


if __name__ == "__main__":
    unittest.main()
