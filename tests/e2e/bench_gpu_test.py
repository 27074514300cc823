#!/usr/bin/env python3
"""scripts/bench gpu on the CPU with a tiny model: that every figure is there and is a number."""

import json
import math
import os
import re
import subprocess
import sys
import unittest
from unittest import mock

import server
from case import ROOT, Case

sys.path.insert(0, str(ROOT / "scripts" / "lib"))
import bench_gpu  # noqa: E402

TINY = ["--shape", "tiny", "--device", "cpu", "--quick"]
# Each part and some figure of it, that one beside a limit.
FIGURES = {
    "limits": "memory, read", "products bf16": "ffn_up [512, 256] of 1 rows",
    "products q8_0": "output [1024, 256] of 16 rows", "attention": "1 x 1 rows at 640",
    "step bf16": "step at 640, noted by the CPU", "decode bf16": "16 sequences at 32",
    "decode q8_0": "1 sequence at 640", "decode q4_k": "1 sequence at 32",
    "prefill bf16": "640 tokens", "prefill q8_0": "256 tokens",
    "TTFT of a prefix, bf16": "2048 tokens, disk hit", "agents bf16, 1 session": "TTFT p99",
    "agents bf16, 4 sessions": "hit rate in tokens",
}


class BenchGpuTest(Case):
    def bench(self, *arguments, code=0):
        environment = dict(os.environ, KVGATE_BIN=str(server.binary_path()))
        made = subprocess.run([ROOT / "scripts" / "bench", "gpu", *arguments], env=environment,
                              capture_output=True, text=True, timeout=300)
        self.assertEqual(made.returncode, code, made.stdout + made.stderr)
        return made

    def test_every_figure_is_there_and_finite(self):
        report = json.loads(self.bench(*TINY, "--json").stdout)
        figures = {(figure["part"], figure["name"]): figure for figure in report["figures"]}
        self.assertEqual(len(figures), len(report["figures"]), "a figure is there twice")
        for (part, name), figure in figures.items():
            with self.subTest(part=part, name=name):
                self.assertTrue(math.isfinite(figure["measured"]))
                # A tier that nothing came from has 0 per cent.
                self.assertGreaterEqual(figure["measured"], 0)
                if figure["unit"] != "%":
                    self.assertGreater(figure["measured"], 0)
                self.assertFalse(figure["missed"])
        for key in FIGURES.items():
            self.assertIn(key, figures)
            self.assertEqual(figures[key]["limit"] is None, key[0] == "limits", key)
        self.assertIn("CPU", report["facts"]["device"])
        self.assertIn("invariant alone", report["facts"]["numerics"])
        self.assertIsInstance(report["transformers"], str)

    def test_the_table_grows_by_rows_and_only_names_the_parts(self):
        made = self.bench(*TINY, "--only", "prefill", "--dtype", "q8_0", "--minutes", "5")
        self.assertRegex(made.stdout, r"\n  640 tokens +[\d.]+ tok/s +[\d.]+ tok/s +\d+\.\d\d  ")
        self.assertNotIn("decode", made.stdout)
        self.assertRegex(made.stdout, r"\n\d+ figures, 0 missed\n")
        self.assertIn("prefill q8_0: 640 tokens", made.stderr)

    def test_without_time_parts_are_left_out_and_said_to_be(self):
        made = self.bench(*TINY, "--only", "tiers,agents", "--dtype", "bf16", "--minutes", "0.01")
        for part in "tiers", "agents":
            self.assertRegex(made.stdout, rf"\n{part}: cut short: the time is over")

    def test_what_it_does_not_know_is_refused_by_name(self):
        self.assertIn("--only", self.bench(*TINY, "--only", "dance", code=2).stderr)
        self.assertIn("--shape", self.bench("--shape", "9b", code=2).stderr)

    def test_the_comparison_asks_the_other_engine_for_the_same_figures(self):
        model = mock.Mock()
        model.decode.return_value = 50.0
        model.prefill.return_value = 1000.0
        rows = bench_gpu.compare(
            [{"part": "decode bf16", "name": "64 sequences at 512", "measured": 100.0},
             {"part": "decode q8_0", "name": "1 sequence at 512", "measured": 9.0},
             {"part": "prefill bf16", "name": "8192 tokens", "measured": 4000.0}], model)
        model.decode.assert_called_once_with(64, 512)
        model.prefill.assert_called_once_with(8192)
        self.assertEqual([row["ratio"] for row in rows], [2.0, 4.0])

    def test_the_shape_compared_is_the_shape_measured(self):
        text = (ROOT / "gateway" / "bench" / "bench_shapes.cc").read_text()
        shape = dict(re.findall(r"\.(\w+) = (\d+)", text[text.index('{"8b"'):]))
        self.assertEqual(
            [int(shape[key]) for key in ("hidden_dim", "num_layers", "num_heads", "num_kv_heads",
                                         "ffn_dim", "vocab_size", "context_length")],
            list(bench_gpu.SHAPE.values())[:7])


if __name__ == "__main__":
    unittest.main()
