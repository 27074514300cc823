#!/usr/bin/env python3
"""Gateways that share KV by a real Redis-protocol server: what one computed another restores, bit
by bit; whatever happens to that server, no request fails, waits long or gets a wrong answer."""

import os
import random
import secrets
import statistics
import threading
import time
import unittest

from case import FULL, Case, tenant, text_of, wait_until
from redis_server import RedisServer, SlowRelay

SECRET = "KVGATE_TEST_SECRET"
PHASE_SECONDS = 60 if FULL else 2.5  # of each way in which the store fails


class SharedStoreTest(Case):
    def setUp(self):
        super().setUp()
        self.redis = RedisServer(self.folder / "redis").start()
        self.addCleanup(self.redis.kill)
        self.secret = self.share_a_secret()

    def gateway(self, name, *arguments, port=None):
        return self.serve(data_dir=self.folder / name, arguments=[
            *self.secret, "--set", f"store.shared=redis://127.0.0.1:{port or self.redis.port}",
            *arguments])

    def wait_shared(self, running, blocks):
        wait_until(lambda: running.stats()["shared"]["writes"] >= blocks,
                   lambda: f"{blocks} blocks in the shared store; {running.stats()['shared']}")

    def shared_hit(self, first, second, what, **more):
        """(cold, hit) of a prompt that `first` computes and `second` restores. On a machine that
        stands still for longer than an answer of the store may take, a prompt is computed instead:
        then another one is tried."""
        for attempt in range(4):
            prompt = text_of(f"{what} {attempt}", 1000)
            writes = first.stats()["shared"]["writes"]
            cold = self.assert_ok(first.complete(prompt, **more))
            self.assertEqual(cold.cached_tokens, 0)
            self.wait_shared(first, writes + cold.usage["prompt_tokens"] // 32)
            hit = self.assert_ok(second.complete(prompt, **more))
            self.assertEqual(hit.answer, cold.answer)
            if hit.tier("shared") >= cold.usage["prompt_tokens"] - 64:
                return prompt, cold, hit
        self.fail(f"nothing was restored: {second.stats()['shared']}")

    def test_what_one_gateway_computed_another_restores(self):
        first, second = self.gateway("first"), self.gateway("second")
        prompt, cold, hit = self.shared_hit(first, second, "shared")
        tokens = cold.usage["prompt_tokens"]
        self.assertEqual(hit.tier("disk"), 0)
        self.assertEqual(hit.usage["prompt_tokens_details"]["cached_tokens"], hit.tier("shared"))
        record = self.record_of(second, hit.headers["x-kvgate-request-id"])
        self.assertEqual(record["tiers"]["shared"], hit.tier("shared"))
        stats = second.stats()
        self.assertTrue(stats["shared"]["reachable"])
        self.assertIn("redis", stats["shared"]["server"])
        self.assertGreaterEqual(stats["engine"]["shared_tokens"], hit.tier("shared"))
        metrics = second.get("/metrics").body.decode()
        self.assertIn("kvgate_shared_up 1", metrics)
        self.assertRegex(metrics, r'kvgate_prompt_tokens_by_tier_total{tier="shared"} [1-9]')
        # It is the second one's own now: in memory, and on its disk after a kill.
        self.assertGreater(self.assert_ok(second.complete(prompt)).tier("device"), 0)
        second.wait_on_disk()
        second.kill()
        self.redis.kill()
        second.restart()
        again = self.assert_ok(second.complete(prompt))
        self.assertEqual(again.answer, cold.answer)
        self.assertGreaterEqual(again.tier("disk"), tokens - 64)

    def test_other_tenants_and_other_secrets_find_nothing(self):
        first, second = self.gateway("first"), self.gateway("second")
        prompt, cold, _ = self.shared_hit(first, second, "private", headers=tenant("alice"))
        bob = self.assert_ok(second.complete(prompt, headers=tenant("bob")))
        self.assertEqual((bob.cached_tokens, bob.answer), (0, cold.answer))
        os.environ[SECRET] = secrets.token_hex(32)
        stranger = self.gateway("stranger")
        reply = self.assert_ok(stranger.complete(prompt, headers=tenant("alice")))
        self.assertEqual((reply.cached_tokens, reply.answer), (0, cold.answer))
        # Nothing of a prompt stands in the store in clear.
        for key in self.redis.keys():
            self.assertTrue(key.startswith(("kvg:b:", "kvg:f:")), key)

    def test_a_damaged_or_forged_value_is_a_miss_and_is_deleted(self):
        rng = random.Random(5)
        prompts = [text_of(f"damage {i}", 300) for i in range(3)]
        first = self.gateway("first")
        expected = [self.assert_ok(first.complete(prompt)).answer for prompt in prompts]
        tokens = first.complete(prompts[0]).usage["prompt_tokens"]
        self.wait_shared(first, 3 * (tokens // 32))
        keys = self.redis.keys("kvg:b:*")
        for index, key in enumerate(keys):
            if index % 3 == 0:  # noise, and what belongs elsewhere
                self.redis.cli("-x", "SET", key, stdin=rng.randbytes(5000))
            elif index % 3 == 1:
                self.redis.cli("COPY", keys[index - 1 - index % 3], key, "REPLACE")
            else:
                self.redis.cli("SETRANGE", key, rng.randrange(4000), "damage")
        second = self.gateway("second")
        for prompt, answer in zip(prompts, expected):
            reply = self.assert_ok(second.complete(prompt))
            self.assertEqual((reply.answer, reply.tier("shared")), (answer, 0))
        shared = second.stats()["shared"]
        self.assertGreater(shared["dropped"], 0)
        self.assertEqual(shared["reads"], 0)
        # Good ones take their places, and a third one reads those.
        wait_until(lambda: second.stats()["shared"]["writes"] > 0, "a block is written again")
        third = self.gateway("third")
        self.assertEqual(self.assert_ok(third.complete(prompts[0])).answer, expected[0])

    def load(self, gateways, prompts, expected, stop, times):
        """One client at random gateways until stopped; every answer must be the right one."""
        rng = random.Random(len(times))
        while not stop.is_set():
            index = rng.randrange(len(prompts))
            began = time.monotonic()
            reply = rng.choice(gateways).complete(prompts[index], max_tokens=4,
                                                  headers=tenant(str(rng.randrange(40))))
            times.append(time.monotonic() - began)
            self.failures += [] if reply.status == 200 and reply.answer == expected[index] else [
                (reply.status, reply.body[:300])]

    def during(self, gateways, prompts, expected, what):
        """Sorted seconds of the requests while what() goes on."""
        self.failures, times, stop = [], [], threading.Event()
        clients = [threading.Thread(target=self.load,
                                    args=(gateways, prompts, expected, stop, times))
                   for _ in range(3)]
        for client in clients:
            client.start()
        try:
            what()
        finally:
            stop.set()
            for client in clients:
                client.join()
        self.assertEqual(self.failures, [])
        return sorted(times)

    def test_a_store_that_hangs_trickles_dies_and_is_flushed_hurts_nobody(self):
        relay = SlowRelay(self.redis.port)
        self.addCleanup(relay.close)
        prompts = [text_of(f"chaos {i}", 200 + 40 * i) for i in range(6)]
        with_relay = [self.gateway(name, port=relay.port) for name in ("first", "second")]
        expected = [self.assert_ok(with_relay[0].complete(prompt, max_tokens=4)).answer
                    for prompt in prompts]
        rows = {}
        rows["well"] = self.during(with_relay, prompts, expected, lambda: time.sleep(PHASE_SECONDS))

        def hang():
            self.redis.hang()
            time.sleep(PHASE_SECONDS)
            self.redis.go_on()

        def trickle():
            relay.seconds_per_byte = 1
            time.sleep(PHASE_SECONDS)
            relay.seconds_per_byte = 0

        def die():
            self.redis.kill()
            time.sleep(PHASE_SECONDS)
            self.redis.start()
            time.sleep(1)

        def flush():
            for _ in range(5):
                self.redis.cli("FLUSHALL")
                time.sleep(0.4)

        for name, what in (("hangs", hang), ("1 byte/s", trickle), ("killed", die),
                           ("flushed", flush)):
            rows[name] = self.during(with_relay, prompts, expected, what)
        for name, times in rows.items():
            p99 = times[int(len(times) * 0.99)]
            print(f"{name:<10} {len(times):>6} requests, median "
                  f"{1000 * statistics.median(times):.1f} ms, p99 {1000 * p99:.1f} ms, longest "
                  f"{1000 * times[-1]:.1f} ms", flush=True)
            self.assertLess(times[-1], 5, name)
        # It comes back by itself.
        def is_back():
            with_relay[0].complete(text_of(f"back {time.monotonic()}", 100), max_tokens=1)
            return with_relay[0].stats()["shared"]["reachable"]

        wait_until(is_back, lambda: with_relay[0].stats()["shared"])
        self.assertIn("serving goes on without the shared store", with_relay[0].log())
        self.assertIn("the shared store answers again", with_relay[0].log())

    def test_a_start_without_the_store_serves_and_bad_settings_are_refused(self):
        self.redis.kill()
        running = self.gateway("first")
        self.assert_ok(running.complete(text_of("alone", 200)))
        wait_until(lambda: not running.stats()["shared"]["reachable"], "the store is missed")
        self.assertIn("kvgate_shared_up 0", running.get("/metrics").body.decode())


if __name__ == "__main__":
    unittest.main()
