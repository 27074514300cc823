#!/usr/bin/env python3
"""A model with sliding windows: kill -9 under load, branches, and a prefix that is moved."""

import random
import shutil
import subprocess
import time
import unittest

import server
from case import FULL, TINY, Case, tenant, text_of
from kill_test import kill_under_load

ROUNDS = 40 if FULL else 6
# Six layers with a window of 96 tokens, one without.
WINDOWED = dict(TINY, arch="gemma3", layers=7, window=96)


class WindowTest(Case):
    def windowed(self):
        return self.model(WINDOWED, "windowed")

    def test_the_answers_after_kill_9_are_those_of_a_server_that_was_never_killed(self):
        seed = random.SystemRandom().randrange(1 << 30)
        rng = random.Random(seed)
        # Branches from the middle of one another, longer than several windows.
        stem = text_of(f"{seed} stem", 400)
        words = stem.split()
        prompts = [" ".join(words[:rng.randrange(50, 400)]) + " " + text_of(f"{seed} {i}", 120)
                   for i in range(10)]
        with server.Server(self.windowed(), self.folder / "never-killed") as never_killed:
            expected = []
            for index, prompt in enumerate(prompts):
                cold = self.assert_ok(never_killed.complete(prompt, headers=tenant(str(index))))
                self.assertEqual(cold.cached_tokens, 0)
                expected.append(cold.answer)
        # So little memory that windows are lost all the time.
        killed = self.serve(self.windowed(), self.folder / "killed",
                            ["--set", "engine.kv_memory=4MiB", "--set", "cache.host_memory=2MiB"])
        disk_tokens = 0
        for round_index in range(ROUNDS):
            disk_tokens += kill_under_load(self, killed, prompts, expected, rng,
                                           f"seed {seed}, round {round_index}")
        self.assertGreater(disk_tokens, 0, "no round restored anything: the test showed nothing")

    def test_a_branch_from_the_middle_is_a_disk_hit_after_kill_9(self):
        running = self.serve(self.windowed())
        stem = text_of("stem", 600)
        first = self.assert_ok(running.complete(stem))
        running.wait_on_disk()
        running.kill()
        running.restart()
        branch = " ".join(stem.split()[:300]) + " " + text_of("other", 80)
        hit = self.assert_ok(running.complete(branch))
        self.assertGreater(hit.tier("disk"), 150)
        self.assertLess(hit.tier("disk"), first.usage["prompt_tokens"])
        cold = self.assert_ok(running.complete(branch, headers=tenant("nobody")))
        self.assertEqual(cold.cached_tokens, 0)
        self.assertEqual(hit.answer, cold.answer)

    def test_windows_hold_a_part_of_the_memory_and_are_counted(self):
        running = self.serve(self.windowed())
        engine = running.stats()["engine"]
        groups = engine["kv_groups"]
        self.assertEqual([group["window"] for group in groups], [0, 96])
        self.assertEqual([group["layers"] for group in groups], [1, 6])
        self.assertLess(groups[1]["blocks"], groups[0]["blocks"] // 4)
        self.assert_ok(running.complete(text_of("counted", 600)))
        running.wait_for("windows are let go", lambda stats:
                         stats["engine"]["window_blocks_used"] == 0, timeout=10)
        self.assertGreater(running.stats()["engine"]["window_blocks_cached"], 0)

    def test_an_exported_prefix_takes_its_windows_along(self):
        running = self.serve(self.windowed(), self.folder / "here")
        prompt = text_of("moved", 500)
        cold = self.assert_ok(running.complete(prompt))
        running.wait_on_disk()
        prefixes = running.get("/kvgate/v1/prefixes").json["data"]
        longest = max(prefixes, key=lambda prefix: prefix["blocks"])
        running.terminate()
        file = str(self.folder / "prefix.kv")
        self.cache("export", longest["id"], file, folder="here")
        (self.folder / "other").mkdir(mode=0o700)  # with the secret that opens what was exported
        shutil.copy(self.folder / "here" / "secret.key", self.folder / "other")
        other = self.serve(self.windowed(), self.folder / "other")
        other.terminate()
        self.cache("import", file, folder="other")
        other.restart()
        hit = self.assert_ok(other.complete(prompt))
        whole_blocks = (cold.usage["prompt_tokens"] - 1) // 32 * 32
        self.assertEqual(hit.tier("disk"), whole_blocks)
        self.assertEqual(hit.answer, cold.answer)

    def cache(self, *arguments, folder):
        command = [str(server.binary_path()), "cache", *arguments,
                   "--data-dir", str(self.folder / folder)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout


if __name__ == "__main__":
    unittest.main()
