#!/usr/bin/env python3
"""Prompts of gateways that share a real Redis-protocol server: what one of them sent first is sent
by all in the same bytes, so that the provider's cache is hit whichever gateway a request takes."""

import json
import random
import sys
import time
import unittest
from pathlib import Path

import server
from case import Case, text_of
from redis_server import RedisServer

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

from provider_simulator import Simulator  # noqa: E402



def request(seed, first="hello"):
    """A first request whose ten tools stand in an order, with orders of their keys, of the seed."""
    shuffle = random.Random(seed)
    tools = [{"name": f"tool_{n}", "description": text_of(n, 60),
              "input_schema": {"type": "object", "properties": {
                  "path": {"type": "string"}, "n": {"type": "number"}}, "required": ["path"]}}
             for n in range(10)]
    shuffle.shuffle(tools)
    return {"model": "claude-sonnet-5", "max_tokens": 20, "system": text_of(7, 1500),
            "tools": [dict(sorted(tool.items(), key=lambda _: shuffle.random()))
                      for tool in tools],
            "messages": [{"role": "user", "content": first}]}


class SharedPromptsTest(Case):
    def setUp(self):
        super().setUp()
        self.provider = Simulator().__enter__()
        self.addCleanup(self.provider.__exit__)
        self.redis = RedisServer(self.folder / "redis").start()
        self.addCleanup(self.redis.kill)
        self.secret = self.share_a_secret()
        self.config = self.folder / "kvgate.toml"
        self.config.write_text(f"""
[[upstream]]
name = "anthropic"
dialect = "anthropic"
base_url = "{self.provider.url}"
mode = "pin"
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
        # What was sent is told and heard within about a second each, on a machine that keeps up.
        for attempt in range(4):
            key = f"sk-test-{attempt}"
            self.say(self.first, request(1 + attempt), key)
            before = self.sent()
            time.sleep(2.5 * (1 + attempt))
            read = self.say(self.second, request(100 + attempt, "another conversation"), key)
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
        self.say(self.second, request(7), "sk-another")
        self.assertNotEqual(self.sent(), before)

    def test_without_the_store_each_gateway_goes_on_alone(self):
        self.redis.kill()
        for number, running in enumerate((self.first, self.second)):
            self.say(running, request(1, "one"), f"sk-test-{number}")
            self.assertGreater(self.say(running, request(2, "two"), f"sk-test-{number}"), 1000)


if __name__ == "__main__":
    unittest.main()
