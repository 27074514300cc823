#!/usr/bin/env python3
"""What a server does for many at once: one prefill for equal prompts, tiers below the pool, bounded
contexts, refusals in time, and nothing about one tenant that another could learn."""

import statistics
import threading
import unittest

from case import Case, tenant, text_of
from health import HealthWatch


class LoadedServerTest(Case):
    def test_equal_cold_prompts_at_once_are_computed_once(self):
        running = self.serve(self.slow())
        prompt = text_of(1, 600)
        replies = [None] * 8

        def ask(index):
            replies[index] = running.complete(prompt, 8)

        askers = [threading.Thread(target=ask, args=(index,)) for index in range(len(replies))]
        with HealthWatch(self, running):
            for asker in askers:
                asker.start()
            for asker in askers:
                asker.join()
        self.assertEqual(len({reply.answer for reply in replies}), 1)
        engine = running.stats()["engine"]
        total = replies[0].usage["prompt_tokens"]
        # Whoever came while the first was at it waited, and computed one token of its own.
        self.assertLess(engine["computed_tokens"], total + 7 * 32)

    def test_what_the_pool_loses_comes_back_from_host_memory(self):
        running = self.serve(arguments=["--set", "engine.kv_memory=1MiB", "--no-disk",
                                        "--set", "cache.host_memory=16MiB"])
        first = self.assert_ok(running.complete(text_of(2, 500), 16))
        for seed in range(10, 16):
            self.assert_ok(running.complete(text_of(seed, 480), 4))
        again = running.complete(text_of(2, 500), 16)
        self.assertGreater(again.tier("host"), 0)
        self.assertEqual(again.answer, first.answer)
        self.assertGreater(running.stats()["engine"]["host_blocks"], 0)

    def test_a_bounded_context_answers_more_than_the_memory_holds(self):
        for policy in ("sliding_window", "attention_sink", "least_attended"):
            with self.subTest(policy):
                running = self.serve(arguments=["--set", "engine.kv_memory=1MiB", "--no-disk",
                                                "--set", f"engine.context_policy={policy}",
                                                "--set", "engine.context_policy_tokens=256"])
                reply = self.assert_ok(running.complete(text_of(3, 1500), 64))
                self.assertEqual(reply.usage["completion_tokens"], 64)
                self.assertGreater(reply.usage["prompt_tokens"], 2048)
                # Its KV is not that of the whole prompt: nothing beyond the bound may be reused.
                again = running.complete(text_of(3, 1500), 64)
                self.assertLessEqual(again.cached_tokens, 256 + 256)
                running.terminate()

    def test_what_cannot_meet_the_ttft_objective_is_refused_with_the_time_to_wait(self):
        running = self.serve(self.slow(), arguments=["--set", "engine.ttft_slo_ms=1"])
        for stream in (False, True):
            refused = running.complete(text_of(4, 2000), 8, stream=stream)
            self.assertEqual(refused.status, 429)
            self.assertEqual(refused.error["type"], "rate_limit_error")
            self.assertIn("first token", refused.error["message"])
            self.assertIn("engine.ttft_slo_ms", refused.error["message"])
            self.assertNotIn("ry again later", refused.error["message"])
            self.assertGreaterEqual(int(refused.headers["retry-after"]), 1)
        self.assertEqual(running.stats()["engine"]["refused_by_slo"], 2)

    def test_a_tenant_learns_nothing_of_anothers_prefix_from_the_time(self):
        running = self.serve(self.slow())
        known = text_of(5, 1200)
        self.assert_ok(running.complete(known, 2, tenant("victim")))
        own = running.complete(known, 2, tenant("victim"), stream=True)
        self.assertGreater(own.cached_tokens, 0)
        guesses, others = [], []
        for attempt in range(5):
            guess = running.complete(known, 2, tenant(f"curious-{attempt}"), stream=True)
            other = running.complete(text_of(50 + attempt, 1200), 2, tenant(f"other-{attempt}"),
                                     stream=True)
            self.assertEqual((guess.cached_tokens, other.cached_tokens), (0, 0))
            guesses.append(guess.ttft_ms)
            others.append(other.ttft_ms)
        # A hit would take a tenth of the time; a miss takes what any other text takes.
        self.assertGreater(statistics.median(guesses), 0.6 * statistics.median(others))
        self.assertLess(own.ttft_ms, 0.5 * statistics.median(guesses))


if __name__ == "__main__":
    unittest.main()
