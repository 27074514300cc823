#!/usr/bin/env python3
"""The promise: a cold prefill, a memory hit and a disk hit give the same answer, bit for bit."""

import concurrent.futures
import random
import unittest

from case import FULL, Case, slowness, tenant, text_of
from gguf_vocab import token_texts


class MainPathTest(Case):
    def test_cold_memory_and_disk_after_kill_9_give_the_same_answer(self):
        prompt = text_of("main path", 700)
        running = self.serve()
        cold = self.assert_ok(running.complete(prompt))
        memory = self.assert_ok(running.complete(prompt))
        seconds = running.wait_on_disk()
        slow = slowness(running)
        running.kill()
        running.restart()
        disk = self.assert_ok(running.complete(prompt))
        again = self.assert_ok(running.complete(prompt))

        # All but the last partial block, and never the whole prompt: its last token is computed.
        prompt_tokens = cold.usage["prompt_tokens"]
        whole_blocks = (prompt_tokens - 1) // 32 * 32
        self.assertGreater(whole_blocks, 500)
        self.assertEqual(cold.cached_tokens, 0)
        self.assertGreaterEqual(memory.tier("device"), whole_blocks)
        self.assertEqual(memory.tier("disk"), 0)
        self.assertGreaterEqual(disk.tier("disk"), whole_blocks)
        self.assertGreaterEqual(again.tier("device"), whole_blocks)
        for hit in (memory, disk, again):
            self.assertEqual(hit.answer, cold.answer)
            self.assertEqual(hit.usage["prompt_tokens_details"]["cached_tokens"],
                             hit.cached_tokens)
        self.assertTrue(cold.text)
        self.assertLess(seconds, 2.0 * slow, "idle write back")

    def test_the_hash_of_the_logits_tells_answers_apart(self):
        running = self.serve()
        one = self.assert_ok(running.complete(text_of(1, 100)))
        two = self.assert_ok(running.complete(text_of(2, 100)))
        self.assertNotEqual(one.explain["logits_hash"], two.explain["logits_hash"])

    def test_streamed_and_whole_replies_hold_the_same_answer(self):
        running = self.serve()
        prompt = text_of("stream", 200)
        whole = self.assert_ok(running.complete(prompt))
        streamed = self.assert_ok(running.complete(prompt, stream=True,
                                                   stream_options={"include_usage": True}))
        self.assertTrue(streamed.done)
        self.assertGreater(len(streamed.events), 2)
        self.assertEqual(streamed.answer, whole.answer)
        self.assertEqual(streamed.usage["completion_tokens"], whole.usage["completion_tokens"])
        self.assertGreater(streamed.usage["prompt_tokens_details"]["cached_tokens"], 0)

    def test_a_conversations_second_turn_reuses_decode_written_kv_and_equals_a_cold_prefill(self):
        # As token ids: the text of sampled tokens need not tokenize back into them.
        ids = {text: index for index, text in enumerate(token_texts(self.tiny()))}
        rng = random.Random("turns")
        first, question = ([rng.choice(list(ids.values())) for _ in range(n)] for n in (300, 40))
        running = self.serve()
        one = self.assert_ok(running.complete(first, max_tokens=128, logprobs=1))
        said = [ids[text] for text in one.json["choices"][0]["logprobs"]["tokens"]]
        self.assertEqual(len(said), 128)
        second = first + said + question
        warm = self.assert_ok(running.complete(second))
        cold = self.assert_ok(running.complete(second, headers=tenant("nobody has been here")))
        self.assertEqual(cold.cached_tokens, 0)
        # The hit reaches past the first prompt, over all whole blocks that decoding wrote.
        self.assertGreaterEqual(warm.cached_tokens, (300 + 128 - 1) // 32 * 32)
        self.assertEqual(warm.answer, cold.answer)

    def test_a_chat_grows_at_its_end_and_each_turn_reuses_the_one_before(self):
        running = self.serve()
        messages = [{"role": "system", "content": text_of("system", 400)}]
        prefix_tokens = 0
        for turn in range(3):
            messages.append({"role": "user", "content": text_of(turn, 30)})
            warm = self.assert_ok(running.chat(messages, max_tokens=40))
            cold = self.assert_ok(running.chat(messages, max_tokens=40,
                                               headers=tenant(f"turn {turn}")))
            self.assertEqual(cold.cached_tokens, 0)
            self.assertEqual(warm.answer, cold.answer)
            self.assertGreaterEqual(warm.cached_tokens, prefix_tokens // 32 * 32)
            prefix_tokens = warm.usage["prompt_tokens"]
            messages.append({"role": "assistant", "content": warm.text})

    def test_a_shared_prefix_is_reused_and_a_changed_first_word_is_not(self):
        running = self.serve()
        prefix = text_of("shared", 500)
        self.assert_ok(running.complete(prefix + " one"))
        shared = self.assert_ok(running.complete(prefix + " two"))
        changed = self.assert_ok(running.complete("Changed " + prefix))
        self.assertGreater(shared.cached_tokens, 500)
        self.assertLess(changed.cached_tokens, 32)

    def test_nothing_is_shared_between_tenants(self):
        running = self.serve()
        prompt = text_of("tenants", 300)
        mine = self.assert_ok(running.complete(prompt, headers=tenant("a")))
        theirs = self.assert_ok(running.complete(prompt, headers=tenant("b")))
        again = self.assert_ok(running.complete(prompt, headers=tenant("a")))
        self.assertEqual(theirs.cached_tokens, 0)
        self.assertGreater(again.cached_tokens, 0)
        self.assertEqual(mine.answer, theirs.answer)

    def test_a_batch_of_seven_answers_as_one_alone(self):
        running = self.serve()
        prompts = [text_of(f"batch {i}", 150 + 40 * i) for i in range(7)]
        alone = [self.assert_ok(running.complete(p, 48, tenant("alone"))) for p in prompts]
        with concurrent.futures.ThreadPoolExecutor(7) as pool:
            together = list(pool.map(lambda p: running.complete(p, 48, tenant("together")),
                                     prompts))
        for one, other in zip(alone, together):
            self.assertEqual(other.answer, one.answer)

    def test_the_server_may_be_started_twice_on_port_0(self):
        one = self.serve()
        two = self.serve(data_dir=self.folder / "other")
        self.assertNotEqual(one.address, two.address)
        for running in (one, two):
            self.assertEqual(running.get("/health").status, 200)
            self.assertEqual(running.get("/ready").status, 200)
            self.assertEqual(running.get("/v1/models").json["object"], "list")
            self.assertIn(b"kvgate_", running.get("/metrics").body)


@unittest.skipUnless(FULL, "long: set KVGATE_TEST_FULL=1")
class LongTest(Case):
    def test_two_hundred_restarts_keep_one_prefix(self):
        prompt = text_of("restarts", 300)
        running = self.serve()
        cold = self.assert_ok(running.complete(prompt))
        running.wait_on_disk()
        for _ in range(200):
            running.kill()
            running.restart()
            hit = self.assert_ok(running.complete(prompt))
            self.assertGreater(hit.tier("disk"), 0)
            self.assertEqual(hit.answer, cold.answer)
        self.assertEqual(running.stats()["store"]["dropped"], 0)


if __name__ == "__main__":
    unittest.main()
