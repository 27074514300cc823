#!/usr/bin/env python3
"""Prompts of gateways that share a real Redis-protocol server: what one of them sent first is sent
by all in the same bytes, so that the provider's cache is hit whichever gateway a request takes."""

import json
import sys
import time
import unittest
from pathlib import Path

import server
from case import Case, text_of, wait_until
from modes_test import messages_turn
from redis_server import RedisServer

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

from provider_simulator import Simulator  # noqa: E402



class SharedPromptsTest(Case):
    def setUp(self):
        super().setUp()
        self.provider = Simulator().__enter__()
        self.addCleanup(self.provider.__exit__)
        self.redis = RedisServer(self.folder / "redis").start()
        self.addCleanup(self.redis.kill)
        self.secret = self.share_a_secret()

    def start(self, mode):
        self.config = self.folder / "kvgate.toml"
        self.config.write_text(f"""
[[upstream]]
name = "anthropic"
dialect = "anthropic"
base_url = "{self.provider.url}"
mode = "{mode}"
""")
        self.first, self.second = self.gateway("first"), self.gateway("second")

    def gateway(self, name):
        running = server.Server(None, self.folder / name, [
            "--config", str(self.config), *self.secret,
            "--set", f"store.shared=redis://127.0.0.1:{self.redis.port}"])
        self.addCleanup(running.__exit__)
        return running.start()

    def say(self, running, body, key="sk-test"):
        reply = running.send("/v1/messages", body,
                             {"x-api-key": key, "anthropic-version": "2023-06-01"})
        self.assertEqual(reply.status, 200, reply.body)
        return reply.json["usage"]["cache_read_input_tokens"]

    def sent(self):
        """The tools of the newest request that the provider got, as they were spelt."""
        return json.dumps(json.loads(self.provider.requests[-1].body)["tools"])

    def test_tools_that_one_gateway_sent_first_go_out_the_same_at_another(self):
        self.start("pin")
        # What was sent is told and heard within about a second each, on a machine that keeps up.
        for attempt in range(4):
            key = f"sk-test-{attempt}"
            self.say(self.first, messages_turn(0, seed=1 + attempt), key)
            before = self.sent()
            time.sleep(2.5 * (1 + attempt))
            read = self.say(self.second, messages_turn(0, seed=100 + attempt), key)
            if self.sent() == before:
                self.assertGreater(read, 1000)
                break
        else:
            self.fail("the second gateway sends its own spelling")
        # Nothing of it stands there in clear, and another tenant's prompts begin as they come.
        feeds = [name for name in self.redis.keys() if name.startswith("kvg:f:")]
        self.assertEqual(len(feeds), 1)
        rows = self.redis.cli("XRANGE", feeds[0], "-", "+")
        self.assertNotIn("tool_1", rows)
        self.say(self.second, messages_turn(0, seed=7), "sk-another")
        self.assertNotEqual(self.sent(), before)

    def test_without_the_store_each_gateway_goes_on_alone(self):
        self.start("pin")
        self.redis.kill()
        for number, running in enumerate((self.first, self.second)):
            self.say(running, messages_turn(0, seed=1), f"sk-test-{number}")
            read = self.say(running, messages_turn(0, seed=2), f"sk-test-{number}")
            self.assertGreater(read, 1000)

    def test_a_line_that_changed_at_one_gateway_is_known_at_another(self):
        self.start("stabilize")
        system = text_of(7, 1500) + "\nThe deployment window of this region opens at 10:3{}.\n"
        headers = {"x-api-key": "sk-test", "anthropic-version": "2023-06-01"}

        def known(running):
            reply = running.get("/kvgate/v1/templates", headers)
            self.assertEqual(reply.status, 200, reply.body)
            return reply.json["data"]

        for turn in range(2):
            self.say(self.first, messages_turn(turn, system=system.format(turn)))
        learnt = known(self.first)
        self.assertTrue(learnt)
        wait_until(lambda: known(self.second) == learnt, lambda: f"{known(self.second)}; {learnt}")
        # A gateway that is started only now knows it, too.
        third = self.gateway("third")
        wait_until(lambda: known(third) == learnt, "a third one to know it")


if __name__ == "__main__":
    unittest.main()
