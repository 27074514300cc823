#!/usr/bin/env python3
"""Training: right gradients, checkpoints that survive a kill, and logits that the engine shares.

These need PyTorch and skip by name without it. The checks run in training_checks.py, in a Python
that has it.
"""

import json
import subprocess
import unittest

from model_case import FULL, HERE, SCRIPTS, ModelCase, program

import torch_python  # noqa: E402

PYTHON = torch_python.find()


@unittest.skipIf(PYTHON is None, torch_python.HINT)
class TrainingTest(ModelCase):
    def check(self, name, *arguments):
        done = subprocess.run([PYTHON, HERE / "training_checks.py", name, *map(str, arguments)],
                              capture_output=True, text=True, timeout=600)
        self.assertEqual(done.returncode, 0, done.stdout[-2000:] + done.stderr[-3000:])
        return done.stdout

    def test_gradients_are_those_of_the_formulas_and_an_untrained_model_copies(self):
        self.check("gradients,copying")

    def test_a_checkpoint_survives_kill_9_at_any_moment(self):
        self.check("survival", self.folder)

    def test_a_run_that_was_stopped_goes_on_as_it_would_have(self):
        self.check("resume", self.folder)

    def test_the_faster_type_of_products_is_found_beside_other_work(self):
        self.check("types")

    def test_the_losses_of_both_held_out_parts_are_in_the_curve(self):
        self.check("unseen", self.folder)

    def test_the_engine_has_the_logits_of_the_model(self):
        program()
        self.check("agreement", self.folder)

    @unittest.skipUnless(FULL, "three minutes of training: only with KVGATE_TEST_FULL=1")
    def test_a_small_model_is_built_evaluated_and_learns(self):
        out = self.folder / "small.gguf"
        command = [PYTHON, SCRIPTS / "build.py", "--small", "--minutes", "3", "--out", out,
                   "--kvgate", program(), "--threads", "1"]
        subprocess.run(command, check=True, timeout=1800)
        work = self.folder / "small.gguf.work"
        curve = (work / "curve.csv").read_text().splitlines()
        first, last = (float(line.split(",")[4]) for line in (curve[1], curve[-1]))
        self.assertLess(last, 0.85 * first)
        results = json.loads((work / "evaluation.json").read_text())
        self.assertEqual({kind: result["asked"] for kind, result in results.items()},
                         {"facts": 60, "reading_200": 40, "reading_1000": 40, "reading_4000": 40,
                          "tools": 50})
        # Called again, nothing is left to do but export and evaluation.
        again = subprocess.run([*command, "--no-evaluation"], check=True, timeout=600,
                               capture_output=True, text=True).stdout
        self.assertNotIn("train.jsonl", again)


if __name__ == "__main__":
    unittest.main()
