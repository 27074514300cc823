#!/usr/bin/env python3
"""Sampling through the whole house: several answers at once, biases, penalties, stop strings."""

import unittest

from case import Case, tenant, text_of
from gguf_vocab import token_texts

PROMPT = text_of("sampling", 60)


def choices_of(reply):
    """(texts, finish reasons) by index, of a whole reply or of a stream."""
    texts, reasons = {}, {}
    for event in reply.objects:
        for choice in event["choices"]:
            index = choice["index"]
            part = choice.get("delta") or choice.get("message") or choice
            texts[index] = texts.get(index, "") + (part.get("content") or part.get("text") or "")
            if choice["finish_reason"] is not None:
                assert index not in reasons, "a choice ends twice"
                reasons[index] = choice["finish_reason"]
    return [texts[i] for i in sorted(texts)], [reasons[i] for i in sorted(reasons)]


def id_of(text, texts):
    """The piece's id: bytes, which models do not choose, come before it."""
    return len(texts) - 1 - texts[::-1].index(text)


class SamplingTest(Case):
    def setUp(self):
        super().setUp()
        self.running = self.serve()

    def ask(self, prompt=PROMPT, **fields):
        return self.assert_ok(self.running.complete(prompt, **{"max_tokens": 16, **fields}))

    def tokens_of(self, reply):
        return reply.json["choices"][0]["logprobs"]["tokens"]

    def test_three_greedy_answers_are_one_answer_and_their_prompt_counts_once(self):
        alone = self.ask()
        reply = self.ask(n=3, headers=tenant("three"))
        texts, reasons = choices_of(reply)
        self.assertEqual(texts, [alone.text] * 3)
        self.assertEqual(reasons, ["length"] * 3)
        self.assertEqual(reply.usage["prompt_tokens"], alone.usage["prompt_tokens"])
        self.assertEqual(reply.usage["completion_tokens"], 3 * 16)
        self.assertEqual(reply.cached_tokens, 0, "the first answer's prefix was cold")

    def test_answer_j_is_that_of_seed_plus_j_streamed_and_whole_in_both_dialects(self):
        messages = [{"role": "user", "content": PROMPT}]
        for send, said in ((self.running.complete, PROMPT), (self.running.chat, messages)):
            fields = dict(max_tokens=16, temperature=1, top_p=0.9)
            alone = [self.assert_ok(send(said, seed=5 + j, **fields)).text for j in range(3)]
            self.assertEqual(len(set(alone)), 3)
            whole = self.assert_ok(send(said, seed=5, n=3, **fields))
            self.assertEqual(choices_of(whole)[0], alone)
            stream = self.assert_ok(send(said, seed=5, n=3, stream=True,
                                         stream_options={"include_usage": True}, **fields))
            self.assertTrue(stream.done)
            self.assertEqual(choices_of(stream), (alone, ["length"] * 3))
            self.assertEqual(stream.usage["completion_tokens"], 3 * 16)
            self.assertEqual(sum(1 for event in stream.events if event.get("usage")), 1)

    def test_several_prompts_are_answered_in_order_as_each_would_be_alone(self):
        prompts = [text_of("first", 40), text_of("second", 70)]
        fields = dict(temperature=1, seed=9, n=2, echo=True)
        alone = [self.ask(prompt, **fields) for prompt in prompts]
        reply = self.ask(prompts, **fields)
        texts, _ = choices_of(reply)
        self.assertEqual(texts, choices_of(alone[0])[0] + choices_of(alone[1])[0])
        self.assertTrue(texts[2].startswith(prompts[1]))
        self.assertEqual(reply.usage["prompt_tokens"],
                         sum(one.usage["prompt_tokens"] for one in alone))

    def test_a_bias_bans_and_forces_a_token(self):
        texts = token_texts(self.tiny())
        plain = self.ask(logprobs=1)
        first = self.tokens_of(plain)[0]
        token = id_of(first, texts)
        banned = self.ask(logprobs=1, logit_bias={str(token): -100})
        self.assertNotIn(first, self.tokens_of(banned))
        # What the model thought of it is still told.
        tops = banned.json["choices"][0]["logprobs"]["top_logprobs"]
        self.assertEqual(list(tops[0]), [first])
        forced = self.ask(temperature=1, logprobs=1, logit_bias={str(token): 100})
        self.assertEqual(self.tokens_of(forced), [first] * 16)

    def test_penalties_end_a_repetition(self):
        texts = token_texts(self.tiny())
        token = id_of(self.tokens_of(self.ask(logprobs=1))[0], texts)
        pushed = dict(logprobs=1, logit_bias={str(token): 12})

        def count(**fields):
            return self.tokens_of(self.ask(**pushed, **fields)).count(texts[token])

        self.assertEqual(count(), 16)
        self.assertLessEqual(count(repetition_penalty=50), 1)
        self.assertLessEqual(count(repeat_penalty=50), 1)
        self.assertEqual(count(repetition_penalty=50, repeat_last_n=0), 16)
        self.assertLess(count(frequency_penalty=2), 12)
        self.assertGreater(count(frequency_penalty=2), 1)
        self.assertEqual(count(presence_penalty=-2), 16)

    def test_every_sampler_gives_an_answer_that_its_seed_gives_again(self):
        loose = dict(temperature=2, seed=3)
        plain = self.ask(**loose).text
        for fields in (dict(typical_p=0.2), dict(top_n_sigma=0.05),
                       dict(xtc_probability=1, xtc_threshold=0.0001),
                       dict(presence_penalty=2), dict(repetition_penalty=2, repeat_last_n=8)):
            with self.subTest(fields):
                one = self.ask(**loose, **fields).text
                self.assertEqual(one, self.ask(**loose, **fields).text)
                self.assertNotEqual(one, plain)

    def test_a_stop_string_across_tokens_ends_every_answer_before_it(self):
        text = self.ask().text
        stop = text[5:9]
        reply = self.ask(n=2, stop=["never said", stop])
        self.assertEqual(choices_of(reply), ([text[:text.index(stop)]] * 2, ["stop"] * 2))

    def test_what_cannot_be_is_named(self):
        vocab = len(token_texts(self.tiny()))
        for field, fields in (("logit_bias", dict(logit_bias={str(vocab): 1})),
                              ("logit_bias", dict(logit_bias={"the": 1})),
                              ("n", dict(n=129)), ("n", dict(n=65, prompt=["a", "b"])),
                              ("best_of", dict(n=2, best_of=3)),
                              ("prompt[1]", dict(prompt=["a", [1]])),
                              ("prompt[1]", dict(prompt=[[1], [10 ** 6]])),
                              ("repetition_penalty", dict(repetition_penalty=0)),
                              ("presence_penalty", dict(presence_penalty=3))):
            with self.subTest(field=field, **fields):
                body = {"model": "local", "prompt": "a", "max_tokens": 1, **fields}
                reply = self.running.send("/v1/completions", body)
                self.assertEqual(reply.status, 400, reply.body)
                self.assertEqual(reply.error["param"], field)


if __name__ == "__main__":
    unittest.main()
