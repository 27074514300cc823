#!/usr/bin/env python3
"""Sessions of gateways that share a real Redis-protocol server: they go on at any of them, of two
writers one wins, and no acknowledged turn is lost by kills of gateways or a store that goes."""

import http.client
import json
import os
import random
import threading
import time
import unittest

from case import FULL, Case, text_of, wait_until
from redis_server import RedisServer

ROUNDS = 100 if FULL else 8
KILLS = 30 if FULL else 3


class SharedSessionsTest(Case):
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

    def say(self, running, key, text, **more):
        body = {"model": "local", "max_tokens": 4, "temperature": 0,
                "messages": [{"role": "user", "content": text}], **more}
        return running.send("/v1/chat/completions", body, {"x-kvgate-session": key})

    def turns(self, running, key):
        """The ids and first words of a session's turns, oldest first."""
        reply = running.get(f"/kvgate/v1/sessions/{key}")
        self.assertEqual(reply.status, 200, reply.body)
        return [(turn["id"], json.dumps(turn["input"])) for turn in reply.json["data"]]

    def keys(self, running):
        reply = self.assert_ok(running.get("/kvgate/v1/sessions?limit=100"))
        return sorted(session["key"] for session in reply.json["data"])

    def test_a_list_and_a_purge_have_the_sessions_of_all_gateways(self):
        both = (self.first, self.second)
        for number in range(6):
            self.assert_ok(self.say(both[number % 2], f"s{number}", text_of(f"said {number}", 20)))
        expected = [f"s{number}" for number in range(6)]
        self.assertEqual(self.keys(self.first), expected)
        self.assertEqual(self.keys(self.second), expected)
        # One that begins later, with an empty directory, has them too, and what goes on elsewhere
        # goes on in its list.
        third = self.gateway("third")
        self.assertEqual(self.keys(third), expected)
        self.assert_ok(self.say(self.second, "s0", text_of("more", 20)))
        listed = third.get("/kvgate/v1/sessions?limit=100").json["data"]
        self.assertEqual({s["key"]: s["turns"] for s in listed}["s0"], 2)
        self.assert_ok(self.say(self.first, "last", text_of("last", 20)))
        connection = third.connect()
        connection.request("DELETE", "/kvgate/v1/sessions")
        reply = connection.getresponse()
        body = json.loads(reply.read())
        connection.close()
        self.assertEqual((reply.status, body["deleted"]), (200, 7), body)
        for running in (*both, third):
            self.assertEqual(self.keys(running), [])
            self.assertEqual(running.get("/kvgate/v1/sessions/s3").status, 404)

    def test_a_session_goes_on_at_any_gateway(self):
        alone = self.serve(data_dir=self.folder / "alone")
        for turn in range(6):
            text = text_of(f"turn {turn}", 60)
            expected = self.assert_ok(self.say(alone, "k", text))
            said = self.assert_ok(self.say((self.first, self.second)[turn % 2], "k", text))
            self.assertEqual(said.answer, expected.answer, f"turn {turn}")
            if turn > 1:
                self.assertGreater(said.cached_tokens, 60 * (turn - 1))
        self.assertEqual(self.turns(self.first, "k"), self.turns(self.second, "k"))
        self.assertEqual(len(self.turns(self.first, "k")), 6)
        # Removed at one, it is gone at both, and its key is free.
        connection = self.second.connect()
        connection.request("DELETE", "/kvgate/v1/sessions/k")
        self.assertEqual(connection.getresponse().status, 200)
        connection.close()
        self.assertEqual(self.first.get("/kvgate/v1/sessions/k").status, 404)
        self.assert_ok(self.say(self.first, "k", "anew"))
        self.assertEqual(len(self.turns(self.second, "k")), 1)
        for key in self.redis.keys():  # those of store/FORMAT.md
            self.assertRegex(key, "^kvg:[bsifnrcm]:")

    def test_of_two_streams_at_once_the_slower_one_ends_with_the_conflict(self):
        self.assert_ok(self.say(self.first, "k", "before"))
        for attempt in range(8):
            replies = [None, None]

            def write(index):
                replies[index] = self.say((self.first, self.second)[index], "k",
                                          f"stream {attempt} of {index}", stream=True)

            writers = [threading.Thread(target=write, args=(index,)) for index in range(2)]
            for writer in writers:
                writer.start()
            for writer in writers:
                writer.join()
            errors = [event["error"] for reply in replies for event in reply.objects
                      if "error" in event]
            self.assertLessEqual(len(errors), 1)
            if errors:
                self.assertIn("another gateway", errors[0]["message"])
                kept = self.turns(self.first, "k")
                self.assertEqual(kept, self.turns(self.second, "k"))
                self.assertEqual(len(kept), 2 + 2 * attempt)
                return
        self.fail("no two streams met")

    def test_responses_and_conversations_go_on_at_any_gateway(self):
        def respond(running, text, **more):
            reply = running.send("/v1/responses", {"model": "local", "input": text,
                                                   "max_output_tokens": 4, **more})
            return self.assert_ok(reply).json

        one = respond(self.first, text_of("one", 50))
        two = respond(self.second, text_of("two", 50), previous_response_id=one["id"])
        three = respond(self.first, "three", previous_response_id=two["id"])
        shown = self.second.get(f"/v1/responses/{three['id']}")
        self.assertEqual(shown.json["output"], three["output"])
        items = self.second.get(f"/v1/responses/{three['id']}/input_items?order=asc").json["data"]
        self.assertIn(text_of("one", 50), json.dumps(items))
        made = self.first.send("/v1/conversations", {"metadata": {"a": "b"}}).json
        respond(self.second, "in it", conversation=made["id"])
        found = self.first.get(f"/v1/conversations/{made['id']}/items").json["data"]
        self.assertIn("in it", json.dumps(found))

    def test_of_two_writers_at_once_one_wins_and_both_gateways_agree(self):
        statuses = []
        for round_index in range(ROUNDS):
            replies = [None, None]

            def write(index):
                replies[index] = self.say((self.first, self.second)[index], "k",
                                          f"round {round_index} of {index}")

            writers = [threading.Thread(target=write, args=(index,)) for index in range(2)]
            for writer in writers:
                writer.start()
            for writer in writers:
                writer.join()
            statuses.append(sorted(reply.status for reply in replies))
            self.assertIn(statuses[-1], ([200, 200], [200, 409]), [r.body for r in replies])
            for reply in replies:
                if reply.status == 409:
                    self.assertIn("another gateway", reply.json["error"]["message"])
        print(f"of {ROUNDS} rounds {statuses.count([200, 409])} had a conflict", flush=True)
        self.assertGreater(statuses.count([200, 409]), 0)
        kept = self.turns(self.first, "k")
        self.assertEqual(kept, self.turns(self.second, "k"))
        self.assertEqual(len(kept), sum(pair.count(200) for pair in statuses))
        # No head has two turns behind it: each prompt extends the one before.
        sessions = self.first.get("/kvgate/v1/sessions/k").json
        self.assertEqual(sessions["turns"], len(kept))

    def test_no_acknowledged_turn_is_lost_by_kills(self):
        rng = random.Random(os.urandom(4))
        said, number = [], 0
        gateways = [self.first, self.second]
        for _ in range(KILLS):
            for _ in range(5):
                number += 1
                gateway = rng.choice(gateways)
                reply = self.say(gateway, "k", f"turn number {number}.")
                self.assertIn(reply.status, (200, 409))
                if reply.status == 200:
                    said.append(f"turn number {number}.")
            victim = rng.choice(gateways)
            number += 1
            killer = threading.Timer(rng.uniform(0, 0.02), victim.kill)
            killer.start()
            try:
                if self.say(victim, "k", f"turn number {number}.").status == 200:
                    said.append(f"turn number {number}.")
            except (OSError, http.client.HTTPException):
                pass  # not acknowledged
            killer.join()
            victim.restart()
        kept = self.turns(self.first, "k")
        self.assertEqual(kept, self.turns(self.second, "k"))
        text = json.dumps(kept)
        self.assertEqual([turn for turn in said if turn not in text], [])

    def test_without_the_store_sessions_go_on_and_are_joined_when_it_is_back(self):
        self.assert_ok(self.say(self.first, "k", "before"))
        self.assertEqual(len(self.turns(self.second, "k")), 1)
        self.redis.kill()
        began = time.monotonic()
        self.assert_ok(self.say(self.first, "k", "at the first"))
        self.assert_ok(self.say(self.second, "k", "at the second"))
        self.assertLess(time.monotonic() - began, 20)
        # What was deleted here alone would come back.
        connection = self.first.connect()
        connection.request("DELETE", "/kvgate/v1/sessions/k")
        self.assertEqual(connection.getresponse().status, 503)
        connection.close()
        self.redis.start()  # with nothing in it
        # One of both is the head for both, and what comes next goes on from there at either.
        wait_until(lambda: self.turns(self.first, "k") == self.turns(self.second, "k"),
                   lambda: [self.turns(running, "k") for running in (self.first, self.second)])
        joined = self.turns(self.first, "k")
        self.assertEqual(len(joined), 2)
        for index, running in enumerate((self.second, self.first)):
            self.assert_ok(self.say(running, "k", "after"))
            for each in (self.first, self.second):
                self.assertEqual(self.turns(each, "k")[:2], joined)
                self.assertEqual(len(self.turns(each, "k")), 3 + index)


if __name__ == "__main__":
    unittest.main()
