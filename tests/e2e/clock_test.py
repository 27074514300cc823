#!/usr/bin/env python3
"""A wall clock that jumps by years, forwards and backwards, changes dates and nothing else."""

import email.utils
import os
import shutil
import subprocess
import threading
import time
import unittest
from pathlib import Path
from unittest import mock

import server
from case import Case, text_of

YEAR = 365 * 24 * 3600
JUMPS = (10 * YEAR, -10 * YEAR, 1, 0)


class ClockTest(Case):
    def setUp(self):
        super().setUp()
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            self.skipTest("no C compiler to make the clock shim with")
        shim = self.folder / "clock_shim.so"
        made = subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", shim,
                               Path(__file__).with_name("clock_shim.c")],
                              capture_output=True, text=True)
        self.assertEqual(made.returncode, 0, made.stderr)
        self.offset = self.folder / "offset"
        self.set_clock(0)
        patch = mock.patch.dict(os.environ, {"KVGATE_CLOCK_FILE": str(self.offset)})
        patch.start()
        self.addCleanup(patch.stop)
        linked = subprocess.run(["ldd", server.binary_path()], capture_output=True, text=True)
        if "libasan" in linked.stdout or "libtsan" in linked.stdout:
            self.skipTest("a sanitizer's library has to be loaded before any other")
        self.preload = mock.patch.dict(os.environ, {"LD_PRELOAD": str(shim)})

    def set_clock(self, seconds):
        partial = self.folder / "offset.new"
        partial.write_text(str(seconds))
        os.replace(partial, self.offset)

    def serve_shimmed(self):
        with self.preload:
            return self.serve()

    def wrong_by(self, running):
        """How wrong the server's clock is, as its own date says."""
        date = email.utils.parsedate_to_datetime(running.get("/health").headers["date"])
        return date.timestamp() - time.time()

    def test_jumps_change_the_date_and_neither_timers_nor_answers_nor_the_disk(self):
        self.tiny()
        running = self.serve_shimmed()
        expected = {}
        for step, jump in enumerate(JUMPS):
            self.set_clock(jump)
            self.assertAlmostEqual(self.wrong_by(running), jump, delta=5)
            prompt = text_of(f"clock {step}", 200)
            expected[prompt] = self.assert_ok(running.complete(prompt)).answer
            for known, answer in expected.items():
                reply = self.assert_ok(running.complete(known, stream=True))
                self.assertEqual(reply.answer, answer)
                self.assertGreater(reply.cached_tokens, 0)
            self.assertLess(running.wait_on_disk(timeout=10), 5)
        running.kill()
        self.set_clock(-10 * YEAR)  # and the store is from the future
        with self.preload:
            running.restart()
        for known, answer in expected.items():
            reply = self.assert_ok(running.complete(known))
            self.assertEqual(reply.answer, answer)
            self.assertGreater(reply.tier("disk") + reply.tier("device"), 0)

    def test_a_jump_during_an_answer_cuts_no_timeout_short_and_none_out(self):
        running = self.serve_shimmed()
        replies = []
        client = threading.Thread(target=lambda: replies.append(
            running.complete(text_of("jump", 100), max_tokens=3000, stream=True)))
        client.start()
        running.wait_for("it to run", lambda s: s["engine"]["running"] == 1, timeout=20)
        for jump in JUMPS:
            self.set_clock(jump)
            time.sleep(0.2)
        client.join()
        self.assertTrue(replies and replies[0].done)
        self.set_clock(-10 * YEAR)
        # A drain that went by the wall clock would take years.
        self.assertEqual(running.terminate(timeout=60), 0)


if __name__ == "__main__":
    unittest.main()
