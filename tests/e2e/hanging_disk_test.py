#!/usr/bin/env python3
"""A data directory whose disk hangs: what needs no disk goes on as if nothing was, what needs it
gets its 503 in bounded time and never says that something is stored, and when the disk is back all
of it works again."""

import os
import shutil
import subprocess
import threading
import time
import unittest
from pathlib import Path
from unittest import mock

import server
from case import Case, tenant, text_of
from health import HealthWatch

TIMEOUT_SECONDS = 2
# More stored responses at once than the pool that waits for the disk has threads.
NUM_STORED = 7


class HangingDiskTest(Case):
    def setUp(self):
        super().setUp()
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            self.skipTest("no C compiler to make the shim with")
        linked = subprocess.run(["ldd", server.binary_path()], capture_output=True, text=True)
        if "libasan" in linked.stdout or "libtsan" in linked.stdout:
            self.skipTest("a sanitizer's library has to be loaded before any other")
        shim = self.folder / "hanging_disk_shim.so"
        made = subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", shim,
                               Path(__file__).with_name("hanging_disk_shim.c"), "-ldl"],
                              capture_output=True, text=True)
        self.assertEqual(made.returncode, 0, made.stderr)
        self.flag = self.folder / "flag"
        data = self.folder / "data"
        self.environment = {"LD_PRELOAD": str(shim), "KVGATE_HANG_FLAG": str(self.flag),
                            "KVGATE_HANG_DIR": str(data)}
        with mock.patch.dict(os.environ, self.environment):
            self.running = self.serve(data_dir=data, arguments=[
                "--set", f"store.timeout_seconds={TIMEOUT_SECONDS}"])
        self.addCleanup(self.flag.unlink, missing_ok=True)

    def hang(self, kinds):
        self.flag.write_text(kinds)

    def ask(self, **fields):
        body = {"model": "local", "input": "remember", "max_output_tokens": 4, **fields}
        return self.running.send("/v1/responses", body)

    def together(self, count, ask):
        replies = [None] * count

        def one(index):
            replies[index] = ask(index)

        threads = [threading.Thread(target=one, args=(index,)) for index in range(count)]
        for thread in threads:
            thread.start()
        return threads, replies

    def check_what_needs_no_disk(self):
        with HealthWatch(self, self.running):
            self.assertEqual(self.running.get("/ready").status, 200)
            self.assert_ok(self.running.complete(text_of(time.monotonic(), 40), 2))
            self.assert_ok(self.ask(store=False))
            self.assertEqual(self.running.get("/metrics").status, 200)
            self.assertEqual(self.running.get("/kvgate/v1/stats").status, 200)
            self.assert_ok(self.running.complete("another tenant's", 2, tenant("other")))

    def check_refused(self, replies):
        for reply in replies:
            self.assertEqual(reply.status, 503, reply.body[:300])
            self.assertNotIn(b'"store": true', reply.body)
            self.assertNotIn(b'"store":true', reply.body)
            self.assertGreaterEqual(int(reply.headers["retry-after"]), 1)

    def test_writes_that_hang_hold_up_only_who_waits_for_them(self):
        kept = self.assert_ok(self.ask()).json
        self.hang("W")
        threads, replies = self.together(NUM_STORED, lambda _: self.ask())
        self.check_what_needs_no_disk()
        for thread in threads:
            thread.join()
        self.check_refused(replies)
        # The watchdog has told of the threads that stand, with their stacks.
        self.assertIn(b'kvgate_stalled_threads_total{pool="store"} ',
                      self.running.get("/metrics").body)
        told = [line for line in self.running.log().splitlines() if "the disk is slow" in line]
        self.assertTrue(told)
        self.assertIn("kvgate+0x", told[0])
        self.assertNotIn("remember", "".join(told))
        # Known by now: the next one is refused before it has an answer computed for nothing.
        self.assertIn("disk has not answered", self.ask().error["message"])
        self.check_what_needs_no_disk()
        self.flag.unlink()
        self.running.wait_for("storing to work again", lambda _: self.ask().status == 200, 20)
        self.assertEqual(self.running.get(f"/v1/responses/{kept['id']}").json["id"], kept["id"])

    def test_reads_and_writes_that_hang_hold_up_only_who_waits_for_them(self):
        kept = self.assert_ok(self.ask()).json
        self.running.terminate()
        with mock.patch.dict(os.environ, self.environment):
            self.running.restart()  # now it is on the disk alone
        self.hang("RW")
        threads, replies = self.together(
            NUM_STORED, lambda index: self.ask(previous_response_id=kept["id"]) if index % 2 else
            self.running.get(f"/v1/responses/{kept['id']}"))
        self.check_what_needs_no_disk()
        for thread in threads:
            thread.join()
        # What is still in the kernel's or the database's memory is read without the disk; what
        # waits for the disk is refused. Nobody waits for longer than that.
        for reply in replies:
            self.assertIn(reply.status, (200, 503))
        self.flag.unlink()
        self.running.wait_for(
            "reading to work again",
            lambda _: self.running.get(f"/v1/responses/{kept['id']}").status == 200, 20)


if __name__ == "__main__":
    unittest.main()
