#!/usr/bin/env python3
"""A loaded model is in memory once: the file's pages are let go as its weights are packed."""

import unittest
from pathlib import Path

from case import Case

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


if __name__ == "__main__":
    unittest.main()
