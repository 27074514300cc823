#!/usr/bin/env python3
"""A loaded model is in memory once: the file's pages are let go as its weights are packed."""

import subprocess
import tempfile
import unittest
from pathlib import Path

import server
from case import FULL, Case

# About 75 million weights: 140 MiB of f16, 80 of q8_0, 40 of q4_k.
LARGE = dict(arch="llama", layers=6, hidden=1024, heads=8, kv_heads=2, ffn=3072, vocab=2048,
             context=2048, seed=7)
MIB = 1 << 20


def peak_bytes(running):
    status = Path(f"/proc/{running.process.pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


class MemoryTest(Case):
    def peak_of(self, model, name):
        running = self.serve(model, self.folder / name, ["--set", "engine.kv_memory=64MiB"])
        self.assert_ok(running.complete("once", max_tokens=4))
        peak = peak_bytes(running)
        running.kill()
        return peak

    def test_the_peak_is_the_file_and_what_a_tiny_model_takes(self):
        tiny = self.tiny()
        without = self.peak_of(tiny, "tiny") - tiny.stat().st_size
        for weights in ("f16", "q8_0", "q4_k"):
            with self.subTest(weights=weights):
                model = self.model(dict(LARGE, type=weights), f"memory_{weights}")
                size = model.stat().st_size
                self.assertGreater(size, 35 * MIB)
                peak = self.peak_of(model, weights)
                # Activations grow with the width, and 16 MiB of the file may be there twice. The
                # whole file twice would be past this bound in every format.
                self.assertLess(peak - without, 1.15 * size + 26 * MIB)


class LittleMemoryTest(Case):
    """What a start does that gets less memory than it wants, or no thread."""

    def start(self, limit):
        """The exit status, what was said, and whether it served; it does not outlive this."""
        made = server.Server(self.tiny(), Path(tempfile.mkdtemp(dir=self.folder)),
                             ["--set", "engine.kv_memory=192MiB", "--threads", "2"])
        with tempfile.TemporaryFile() as log:
            process = subprocess.Popen(["prlimit", limit, *made.command()], stderr=log,
                                       stdout=subprocess.PIPE)
            try:
                serves = any(b"listening on" in line for line in process.stdout)
            finally:
                process.kill()
                process.stdout.close()
            status = process.wait()
            log.seek(0)
            return status, log.read().decode(errors="replace"), serves

    def test_it_serves_or_ends_with_what_it_wanted_and_what_to_lower(self):
        outcomes = set()
        for mib in (*range(220, 1500, 6 if FULL else 120), 6_000):
            with self.subTest(mib=mib):
                status, said, serves = self.start(f"--as={mib << 20}")
                outcomes.add(serves)
                if serves:
                    continue
                self.assertEqual(status, 1, said[-3000:])
                last = said.strip().splitlines()[-1]
                self.assertRegex(last, r"kvgate: .*(memory|thread)")
                self.assertRegex(last, r"engine\.kv_memory")
                self.assertNotIn("terminate called", said)
                self.assertNotIn("check failed", said.lower())
        self.assertIn(False, outcomes, "no limit was small enough")
        self.assertIn(True, outcomes, "none was large enough")


if __name__ == "__main__":
    unittest.main()
