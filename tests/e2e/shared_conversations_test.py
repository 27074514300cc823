#!/usr/bin/env python3
"""Conversations whose requests go to any of three gateways that share a Redis-protocol server: what
is sent extends what was sent, whichever gateway sent it, for a provider that binds thinking."""

import os
import random
import sys
import time
import unittest
from pathlib import Path

import server
from append_only_test import Agent, prompt_of
from case import FULL, Case
from redis_server import RedisServer

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

from provider_simulator import Simulator  # noqa: E402

SEED = int(os.environ.get("KVGATE_SEED", random.SystemRandom().randrange(1 << 30)))
HEADERS = {"x-api-key": "sk-test", "anthropic-version": "2023-06-01"}
HABITS = (("pin", {"shuffles": True}), ("stabilize", {"has_clock": True, "shuffles": True}))


class SharedConversationsTest(Case):
    def setUp(self):
        super().setUp()
        self.provider = Simulator().__enter__()
        self.addCleanup(self.provider.__exit__)
        self.provider.thinks = True
        self.redis = RedisServer(self.folder / "redis").start()
        self.addCleanup(self.redis.kill)
        self.secret = self.share_a_secret()
        print(f"seed {SEED} (KVGATE_SEED)", file=sys.stderr)

    def start(self, mode, count=3):
        self.config = self.folder / f"{mode}.toml"
        self.config.write_text(f"""
[[upstream]]
name = "anthropic"
dialect = "anthropic"
base_url = "{self.provider.url}"
mode = "{mode}"
""")
        return [self.gateway(f"{mode}-{number}-{time.monotonic_ns()}") for number in range(count)]

    def gateway(self, name):
        running = server.Server(None, self.folder / name, [
            "--config", str(self.config), *self.secret,
            "--set", f"store.shared=redis://127.0.0.1:{self.redis.port}"])
        self.addCleanup(running.__exit__)
        return running.start()

    def post(self, running, body):
        reply = running.send("/v1/messages", body, HEADERS)
        self.assertEqual(reply.status, 200, reply.body)
        return reply.json

    def metric(self, running, name):
        for line in running.get("/metrics").body.decode().splitlines():
            if line.startswith(name + " "):
                return float(line.split()[-1])
        self.fail(f"no {name} in /metrics")

    def converse(self, agent, requests, choose):
        """Each request goes where `choose` says, and extends the one before."""
        before = None
        for number in range(requests):
            running = choose(number)
            answer = self.post(running, agent.body())
            sent = prompt_of(self.provider.requests[-1].body)
            if before is not None:
                self.assertEqual(sent[:len(before)], before, f"request {number}, seed {SEED}")
            before = sent
            agent.take(answer)
            self.assertEqual(self.metric(running, "kvgate_requests_with_lost_state_total"), 0)

    def test_each_request_extends_the_one_before_at_whichever_gateway(self):
        chance = random.Random(SEED)
        for mode, habits in HABITS:
            gateways = self.start(mode)
            for seed in range(20 if FULL else 2):
                self.converse(Agent(seed, **habits), 8, lambda _: chance.choice(gateways))
            rewrites = 'kvgate_prefix_rewrites_total{cause="gateway"}'
            found = 'kvgate_shared_conversations_asked_total{result="found"}'
            self.assertEqual([self.metric(running, rewrites) for running in gateways], [0, 0, 0])
            self.assertGreater(sum(self.metric(running, found) for running in gateways), 0)
            for running in gateways:
                running.terminate()
        # Neither texts nor names stand there in clear.
        for key in self.redis.keys("kvg:r:*"):
            kind = self.redis.cli("TYPE", key)
            command = {"list": ("LRANGE", key, 0, -1), "hash": ("HGETALL", key)}
            value = self.redis.cli(*command.get(kind, ("GET", key)))
            for word in ("agent", "tool_1", "Current time", "anthropic"):
                self.assertNotIn(word, value)

    def test_a_gateway_that_is_killed_loses_nothing_that_it_sent(self):
        chance = random.Random(SEED)
        gateways = self.start("stabilize")

        def choose(number):
            running = chance.choice(gateways)
            if number % 3 == 2:  # it has answered something, and dies without a word
                gateways.remove(running)
                running.kill()
                gateways.append(self.gateway(f"anew-{time.monotonic_ns()}"))
            return chance.choice(gateways)

        self.converse(Agent("killed", has_clock=True, shuffles=True), 9, choose)

    def test_requests_that_follow_each_other_at_one_gateway_ask_nobody(self):
        first, second = self.start("stabilize", 2)
        agent = Agent("stays", has_clock=True)
        self.converse(agent, 6, lambda _: first)
        asked = 'kvgate_shared_conversations_asked_total{result="%s"}'
        for result in ("found", "unknown", "failed"):
            self.assertEqual(self.metric(first, asked % result), 0, result)
        # Another gateway explains what it would send, without having heard of the conversation.
        reply = second.send("/kvgate/v1/explain?endpoint=messages&upstream=anthropic",
                            agent.body(), HEADERS)
        self.assertEqual(reply.status, 200, reply.body)
        self.assertFalse(reply.json["conversation"]["first"], reply.json)

    def test_without_the_store_each_gateway_goes_on_with_what_it_knows(self):
        first, second = self.start("stabilize", 2)
        agent = Agent("alone", has_clock=True)
        self.converse(agent, 3, lambda _: first)
        self.redis.hang()
        self.addCleanup(self.redis.go_on)
        self.converse(agent, 3, lambda _: first)
        # Nobody can say what the first one has sent: the request goes out, soon, as it comes, which
        # a provider that binds thinking would refuse.
        self.provider.thinks = False
        began = time.monotonic()
        self.post(second, agent.body())
        self.assertLess(time.monotonic() - began, 1.5)
        self.redis.go_on()


if __name__ == "__main__":
    unittest.main()
