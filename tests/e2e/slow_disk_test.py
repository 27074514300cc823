#!/usr/bin/env python3
"""A hit on a disk of 1 MB/s, 20 MB/s or full speed never costs more than no hit at all.

The model is one whose KV is dear to read and quick to compute (a megabyte for 32 tokens), so that
recomputing wins on the slow disks and restoring on the fast one: the planner has to tell.
"""

import os
import random
import shutil
import statistics
import subprocess
import unittest
from pathlib import Path
from unittest import mock

import server
from case import Case

SHAPE = dict(arch="llama", layers=16, hidden=512, heads=8, kv_heads=8, ffn=1024, vocab=2048,
             context=4096, type="q8_0", seed=5)
PROMPT_TOKENS = 1200
PAIRS = 3
# The server's own bound is a twentieth; the rest is the machine's that the test runs on.
FACTOR, NOISE_MS = 1.1, 40


class SlowDiskTest(Case):
    def setUp(self):
        super().setUp()
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            self.skipTest("no C compiler to make the shim with")
        self.shim = self.folder / "slow_disk_shim.so"
        made = subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", self.shim,
                               Path(__file__).with_name("slow_disk_shim.c"), "-ldl"],
                              capture_output=True, text=True)
        self.assertEqual(made.returncode, 0, made.stderr)
        linked = subprocess.run(["ldd", server.binary_path()], capture_output=True, text=True)
        if "libasan" in linked.stdout or "libtsan" in linked.stdout:
            self.skipTest("a sanitizer's library has to be loaded before any other")

    def start(self, rate=None):
        environment = {}
        if rate is not None:
            environment = {"LD_PRELOAD": str(self.shim),
                           "KVGATE_READ_BYTES_PER_SECOND": str(rate)}
        with mock.patch.dict(os.environ, environment):
            running = server.Server(self.model(SHAPE, "dear-kv"), self.folder / "data",
                                    ["--kv-memory", "512MiB"]).start()
        self.addCleanup(running.__exit__)
        return running

    @staticmethod
    def prompt(seed):
        rng = random.Random(seed)
        return [rng.randrange(300, 2000) for _ in range(PROMPT_TOKENS)]

    def test_a_hit_costs_no_more_than_no_hit_on_any_disk(self):
        rates = (1_000_000, 20_000_000, None)
        writer = self.start()
        expected = {}
        for seed in range(len(rates) * PAIRS):
            expected[seed] = writer.complete(self.prompt(seed), 4).text
        writer.terminate()
        for index, rate in enumerate(rates):
            running = self.start(rate)
            colds, hits = [], []
            for pair in range(PAIRS):
                seed = index * PAIRS + pair
                colds.append(running.complete(self.prompt(1000 + seed), 4, stream=True).ttft_ms)
                hit = running.complete(self.prompt(seed), 4, stream=True)
                self.assertEqual(hit.text, expected[seed])
                hits.append(hit.ttft_ms)
            engine = running.stats()["engine"]
            running.terminate()
            cold, hit = statistics.median(colds), statistics.median(hits)
            name = "full speed" if rate is None else f"{rate / 1e6:.0f} MB/s"
            print(f"{name}: cold {cold:.0f} ms, hit {hit:.0f} ms; first hit {hits[0]:.0f} ms; "
                  f"{engine['disk_tokens']} tokens from disk, {engine['restores_cut']} loads given "
                  f"up, {engine['restores_skipped']} not begun", flush=True)
            self.assertLessEqual(hit, FACTOR * cold + NOISE_MS, name)
            # The first one, when nothing is known of the disk yet, too.
            self.assertLessEqual(hits[0], FACTOR * max(colds) + NOISE_MS, name)
            if rate is None:
                self.assertGreater(engine["disk_tokens"], PAIRS * (PROMPT_TOKENS - 64))
                self.assertLess(hit, cold / 2)
            elif rate == 1_000_000:
                self.assertGreaterEqual(engine["restores_cut"] + engine["restores_skipped"], PAIRS)


if __name__ == "__main__":
    unittest.main()
