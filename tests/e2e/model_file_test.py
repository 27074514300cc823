#!/usr/bin/env python3
"""The model file changes while it is served: no other answer, no KV of another model, no crash."""

import os
import shutil
import unittest
from pathlib import Path

import server
from case import TINY, Case, text_of

PROMPT = text_of("model file", 200)


class ModelFileTest(Case):
    def setUp(self):
        super().setUp()
        self.original = Path(self.tiny())
        self.other = Path(server.make_model(self.models / "tiny-other.gguf",
                                            **{**TINY, "seed": 8}))
        self.served = self.folder / "model.gguf"
        shutil.copy(self.original, self.served)

    def overwrite(self, source):
        """The bytes of another file, under the same name and in the same inode."""
        with open(self.served, "r+b") as target, open(source, "rb") as bytes_of:
            target.write(bytes_of.read())

    def refuse(self, running, prompt):
        reply = running.complete(prompt, max_tokens=4)
        self.assertEqual(reply.status, 503, reply.body)
        self.assertIn("the model file changed", reply.error["message"])
        self.assertNotIn(str(self.served), reply.error["message"])

    def assert_closed(self, running):
        """Nobody is served from now on, and whoever watches the server can see it."""
        self.refuse(running, PROMPT)
        self.refuse(running, text_of("never seen", 50))
        self.assertEqual(running.get("/ready").status, 503)
        self.assertEqual(running.get("/health").status, 200)
        self.assertIn(str(self.served), running.log())
        self.assertEqual(running.terminate(), 0, running.log()[-2000:])

    def test_one_that_is_overwritten_answers_nothing_more_and_stores_nothing_wrong(self):
        running = self.serve(model=self.served)
        first = self.assert_ok(running.complete(PROMPT, max_tokens=4))
        running.wait_on_disk()
        self.overwrite(self.other)
        self.assert_closed(running)
        # The first file comes back, as after a restored backup: what is on disk is its own.
        self.overwrite(self.original)
        # A machine that is busy may compute sooner than it reads: then it is asked once more.
        for _ in range(3):
            running.restart()
            warm = self.assert_ok(running.complete(PROMPT, max_tokens=4))
            self.assertEqual(warm.answer, first.answer)
            if warm.tier("disk") > 0:
                break
        self.assertGreater(warm.tier("disk"), 0)
        other = text_of("never seen", 50)
        again = self.assert_ok(running.complete(other, max_tokens=4))
        self.assertEqual(again.tier("disk"), 0)

    def test_one_that_is_cut_is_an_error_and_no_signal(self):
        running = self.serve(model=self.served)
        self.assert_ok(running.complete(PROMPT, max_tokens=4))
        os.truncate(self.served, 4096)
        self.assert_closed(running)

    def test_an_idle_server_is_not_ready_any_more(self):
        running = self.serve(model=self.served)
        self.overwrite(self.other)
        running.wait_for("the change to be noticed",
                         lambda _: running.get("/ready").status == 503, timeout=30)

    def test_one_that_is_replaced_by_rename_is_served_on(self):
        running = self.serve(model=self.served)
        first = self.assert_ok(running.complete(PROMPT, max_tokens=4))
        new = self.folder / "new"
        shutil.copy(self.other, new)
        os.replace(new, self.served)
        self.assertEqual(self.assert_ok(running.complete(PROMPT, max_tokens=4)).answer,
                         first.answer)
        self.assertEqual(running.get("/ready").status, 200)
        # And after a restart it is the other model, whose KV is its own.
        running.terminate()
        running.restart()
        fresh = self.assert_ok(running.complete(PROMPT, max_tokens=4))
        self.assertEqual(fresh.tier("disk"), 0)


if __name__ == "__main__":
    unittest.main()
