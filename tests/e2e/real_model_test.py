#!/usr/bin/env python3
"""A trained model through the whole house: stories260K against an independent engine's output."""

import json
import unittest

from case import Case
from gguf_vocab import token_texts

# By KV dtype: f16 is the default, f32 is what the reference had.
LOGPROB_DIFFERENCE_MAX = {"f16": 2e-2, "f32": 1e-3}


class RealModelTest(Case):
    def setUp(self):
        super().setUp()
        self.path = self.shared_model("stories260K.gguf")
        self.texts = token_texts(self.path)

    def ask(self, prompt, **fields):
        return self.assert_ok(self.running.complete(prompt, ignore_eos=False, **fields))

    def test_two_hundred_greedy_tokens_equal_the_reference_text(self):
        self.running = self.serve(self.path)
        expected = self.path.with_suffix(".greedy.txt").read_text()
        reply = self.ask("Once upon a time", max_tokens=200)
        self.assertEqual(reply.text, expected)
        self.assertEqual(reply.usage["completion_tokens"], 200)
        # And once more from the cache.
        again = self.ask("Once upon a time", max_tokens=200)
        self.assertEqual(again.answer, reply.answer)

    def test_texts_and_top_logprobs_equal_the_reference_with_the_default_f16_cache(self):
        self.compare_all("f16")

    def test_texts_and_top_logprobs_equal_the_reference_closely_with_an_f32_cache(self):
        self.compare_all("f32")

    def compare_all(self, kv_dtype):
        self.running = self.serve(self.path, arguments=["--set", f"engine.kv_dtype={kv_dtype}"])
        reference = json.loads(self.path.with_suffix(".reference.json").read_text())
        self.assertGreaterEqual(len(reference["prompts"]), 8)
        for expected in reference["prompts"]:
            with self.subTest(prompt=expected["prompt"]):
                self.compare(expected, LOGPROB_DIFFERENCE_MAX[kv_dtype])

    def compare(self, expected, difference_max):
        texts = self.texts
        reply = self.ask(expected["prompt"], max_tokens=len(expected["greedy_ids"]), logprobs=10)
        self.assertEqual(reply.usage["prompt_tokens"], len(expected["tokens_add_special"]))
        self.assertEqual(reply.text, expected["greedy_text"])
        logprobs = reply.json["choices"][0]["logprobs"]
        # The first token after a prompt may be shown without its leading space or with it.
        self.assertEqual([t.strip(" ") for t in logprobs["tokens"]],
                         [texts[i].strip(" ") for i in expected["greedy_ids"]])
        for step, wanted in enumerate(expected["steps_top10"]):
            got = sorted(logprobs["top_logprobs"][step].items(), key=lambda item: -item[1])
            self.assertEqual(len(got), len(wanted))
            for (text, value), (token, wanted_value) in zip(got, wanted):
                self.assertLess(abs(value - wanted_value), difference_max,
                                f"step {step}, {text!r} against {texts[token]!r}")
            # Names too, where no neighbour is near enough to change places with.
            self.assertEqual(got[0][0].strip(" "), texts[wanted[0][0]].strip(" "))


if __name__ == "__main__":
    unittest.main()
