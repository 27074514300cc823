#!/usr/bin/env python3
"""What gateways remember together, by a real Redis-protocol server: facts in memory of sessions and
tenants, at once, and pins, within seconds; whatever happens to the store."""

import json
import sys
import threading
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

import server  # noqa: E402
from case import Case, text_of, wait_until  # noqa: E402
from redis_server import RedisServer  # noqa: E402

MEMORY = "/kvgate/v1/sessions/k/memory"


def ask(running, method, path, body=None):
    connection = running.connect()
    try:
        connection.request(method, path, None if body is None else json.dumps(body),
                           {} if body is None else {"Content-Type": "application/json"})
        reply = connection.getresponse()
        return server.Reply(reply.status, dict(reply.getheaders()), reply.read())
    finally:
        connection.close()


class SharedMemoriesTest(Case):
    def setUp(self):
        super().setUp()
        self.redis = RedisServer(self.folder / "redis").start()
        self.addCleanup(self.redis.kill)
        self.secret = self.share_a_secret()
        self.first, self.second = self.gateway("first"), self.gateway("second")

    def gateway(self, name):
        return self.serve(data_dir=self.folder / name, arguments=[
            *self.secret, "--set", f"store.shared=redis://127.0.0.1:{self.redis.port}",
            "--set", "engine.kv_memory=32MiB"])

    def metric(self, running, name):
        lines = running.get("/metrics").body.decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(name))

    def say(self, running, text):
        body = {"model": "local", "max_tokens": 4, "temperature": 0,
                "messages": [{"role": "user", "content": text}]}
        return self.assert_ok(
            running.send("/v1/chat/completions", body, {"x-kvgate-session": "k"}))

    def set(self, running, facts, path=MEMORY):
        self.assert_ok(ask(running, "PATCH", path, {"facts": facts}))

    def facts(self, running, path=MEMORY):
        return self.assert_ok(running.get(path)).json["facts"]

    def said_of_memory(self, running):
        """What the newest turn's prompt says of memory that the one before did not."""
        turns = self.assert_ok(running.get("/kvgate/v1/sessions/k")).json["data"]
        return turns[-1].get("memory", {}).get("facts")

    def wait_told(self, running):
        wait_until(lambda: self.metric(running, "kvgate_shared_memory_untold") == 0,
                   "all changes are told", 30)

    def test_what_is_remembered_at_one_gateway_holds_at_the_other(self):
        first, second = self.first, self.second
        self.say(first, "before")
        self.set(first, {"name": "Ann"})
        self.set(first, {"lang": "de"}, "/kvgate/v1/memory")
        self.assertEqual(self.facts(second), {"name": "Ann"})
        self.say(second, "after")
        self.assertEqual(self.said_of_memory(second), {"lang": "de", "name": "Ann"})
        # Both change it at the same time, each many times.
        def change(index):
            for number in range(12):
                self.set((first, second)[index], {f"fact {index} {number}": number})

        writers = [threading.Thread(target=change, args=(index,)) for index in range(2)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        self.wait_told(first)
        self.wait_told(second)
        self.assertEqual(len(self.facts(first)), 25)
        self.assertEqual(self.facts(first), self.facts(second))
        # What is removed is in no prompt from then on.
        self.assert_ok(ask(second, "DELETE", MEMORY + "/name"))
        self.assertNotIn("name", self.facts(first))
        self.say(first, "and now")
        self.assertNotIn("name", self.said_of_memory(first))
        # A store that hangs keeps nobody from remembering.
        self.redis.hang()
        self.set(first, {"meanwhile": True})
        self.assertIn("meanwhile", self.facts(first))
        self.assertNotIn("meanwhile", self.facts(second))
        self.redis.go_on()
        self.wait_told(first)
        self.assertEqual(self.facts(first), self.facts(second))
        self.assertIn("meanwhile", self.facts(second))
        for key in self.redis.keys("kvg:m:*"):
            value = self.redis.cli("GET", key)
            for word in ("name", "lang", "Ann", "fact"):
                self.assertNotIn(word, value)

    def test_changes_while_the_store_is_away_are_told_and_removals_stay(self):
        first, second = self.first, self.second
        self.set(first, {"kept": 1, "removed": 1, "both": 1})
        self.assertEqual(self.facts(second), {"kept": 1, "removed": 1, "both": 1})
        # The store loses all that it had.
        self.redis.kill()
        self.set(first, {"removed": None, "of first": 1})
        self.set(second, {"of second": 1, "both": 2})
        self.assertEqual(self.facts(first), {"kept": 1, "both": 1, "of first": 1})
        self.assertEqual(self.facts(second),
                         {"kept": 1, "removed": 1, "both": 2, "of second": 1})
        first.kill()
        first.restart()
        self.redis.start()
        self.wait_told(first)
        self.wait_told(second)
        merged = {"kept": 1, "both": 2, "of first": 1, "of second": 1}
        self.assertEqual(self.facts(first), merged)
        self.assertEqual(self.facts(second), merged)
        # A session goes with its memory, everywhere.
        self.say(first, "a turn")
        self.assert_ok(ask(second, "DELETE", MEMORY))
        self.redis.kill()
        self.redis.start()
        self.wait_told(second)
        wait_until(lambda: self.facts(first) == {}, "the removal is told again", 30)
        self.assertEqual(self.facts(second), {})

    def warm(self, running, name):
        system = {"role": "system", "content": text_of(name, 150)}
        return self.assert_ok(running.send("/kvgate/v1/prefixes/warm", {
            "model": "local", "messages": [system],
            "kvgate": {"name": name, "version": "7", "priority": 3, "pin": True}})).json

    def pinned(self, running):
        """The pinned prefixes by name."""
        rows = self.assert_ok(running.get("/kvgate/v1/prefixes")).json["data"]
        return {row["name"]: row for row in rows if row["pinned"]}

    def test_what_is_pinned_at_one_gateway_is_pinned_at_the_other(self):
        first, second = self.first, self.second
        made = self.warm(first, "agent")
        wait_until(lambda: "agent" in self.pinned(second), "the pin is told", 30)
        there = self.pinned(second)["agent"]
        self.assertEqual((there["blocks"], there["version"], there["priority"]),
                         (made["blocks"], "7", 3))
        wait_until(lambda: self.pinned(second)["agent"]["tier"] == "device",
                   "the prefix is in the second gateway's memory", 30)
        # Pinned while the store is away, told when it is back, with all that it has lost.
        self.redis.kill()
        self.warm(second, "helper")
        self.redis.start()
        wait_until(lambda: set(self.pinned(first)) == {"agent", "helper"}, "both are pinned", 30)
        # Unpinned at the second one while the first is away.
        first.kill()
        self.assert_ok(ask(second, "DELETE", f"/kvgate/v1/prefixes/{there['id']}/pin"))
        first.restart()
        wait_until(lambda: set(self.pinned(first)) == {"helper"}, "the unpin is told", 30)
        second.kill()
        second.restart()
        self.assertEqual(set(self.pinned(second)), {"helper"})
        # A gateway that starts later, and has the model.
        third = self.gateway("third")
        wait_until(lambda: set(self.pinned(third)) == {"helper"}, "it has the pins", 30)
        self.assertEqual(set(self.pinned(first)), {"helper"})
        for key in self.redis.keys("kvg:m:*"):
            self.assertNotIn("helper", self.redis.cli("GET", key))


if __name__ == "__main__":
    unittest.main()
