#!/usr/bin/env python3
"""Gateways behind a balancer are restarted one after the other, or killed, while clients go on with
their sessions: no acknowledged turn is lost, torn or doubled, and what fails can be sent again."""

import collections
import http.client
import json
import os
import random
import re
import subprocess
import threading
import time
import unittest

from balancer import Balancer, is_ready
from case import FULL, Case, text_of, wait_until
from redis_server import RedisServer
from server import Server, binary_path

CLIENTS = 4
TURNS_OF_A_SESSION = 12
KILLS = 40 if FULL else 6
TRIES_MAX = 100
UNREADY_SECONDS = 2  # many times what the balancer needs to ask everybody
RETRY_SECONDS = 0.5  # as the providers' own clients wait


class Client(threading.Thread):
    """Says one thing after the other in its sessions, and again where that fails, as a client does.

    `acknowledged` has what was answered: the text of a turn and its answer, by session. A failure
    whose turn may be kept all the same is looked up before anything is said again, if
    `looks_up`: then `acknowledged` has None for an answer that was not read.
    """

    def __init__(self, name, address, stop, looks_up):
        super().__init__()
        self.client_name, self.stop, self.looks_up = name, stop, looks_up
        self.through = Server(None, "/nonexistent")  # to ask; it is never started
        self.through.address = address
        self.acknowledged = {}
        self.failures = []
        self.tries_most = 0
        self.error = None

    def run(self):
        try:
            number = 0
            while not self.stop.is_set():
                key = f"{self.client_name}-{number // TURNS_OF_A_SESSION}"
                self.say(key, f"turn {number} of {self.client_name}.", number % 2 == 1)
                number += 1
                time.sleep(0.02)
        except Exception as error:  # the test raises it
            self.error = error

    def say(self, key, text, stream):
        turns = self.acknowledged.setdefault(key, [])
        for tried in range(1, TRIES_MAX + 1):
            self.tries_most = max(self.tries_most, tried)
            said, failure = self.ask(key, text, stream)
            if failure is None:
                turns.append((text, said))
                return
            self.failures.append(f"{failure} at try {tried}")
            time.sleep(RETRY_SECONDS)
            if self.looks_up and self.is_kept(key, text):
                turns.append((text, None))
                return
        raise AssertionError(f"{text} failed {TRIES_MAX} times: {self.failures[-5:]}")

    def ask(self, key, text, stream):
        """(the answer, None) or (None, how it failed)."""
        body = {"model": "local", "max_tokens": 4, "temperature": 0, "stream": stream,
                "messages": [{"role": "user", "content": text}]}
        try:
            reply = self.through.send("/v1/chat/completions", body, {"x-kvgate-session": key})
        except (OSError, http.client.HTTPException, json.JSONDecodeError) as error:
            return None, f"{type(error).__name__}"
        if reply.status in (409, 503):
            return None, f"status {reply.status}"
        if reply.status != 200:
            raise AssertionError(f"{reply.status}: {reply.body[:500]!r}")
        if stream and any("error" in event for event in reply.events):
            return None, "a stream with an error"
        if stream and not reply.done:
            return None, "a stream that was cut off"
        return reply.text, None

    def is_kept(self, key, text):
        for _ in range(TRIES_MAX):
            try:
                return any(said == text for said, _ in turns_of(self.through, key))
            except (OSError, http.client.HTTPException, json.JSONDecodeError, Refused):
                time.sleep(0.05)
        raise AssertionError(f"nobody shows the session {key}")


class Refused(Exception):
    """The gateway answers, and cannot say."""


def turns_of(running, key):
    """The text and the answer of each turn that is kept, oldest first."""
    reply = running.get(f"/kvgate/v1/sessions/{key}")
    if reply.status == 404:
        return []
    if reply.status != 200 or reply.json["has_more"]:
        raise Refused(f"{reply.status}: {reply.body[:300]!r}")
    return [(turn["input"][0]["content"],
             "".join(part["content"] or "" for part in turn["answer"]))
            for turn in reply.json["data"]]


class RollingRestartTest(Case):
    def start(self, unready_seconds=0, tries_others=True):
        """Three gateways of one configuration, one store and one secret, behind the balancer."""
        self.redis = RedisServer(self.folder / "redis").start()
        self.addCleanup(self.redis.kill)
        self.share_a_secret()
        self.config = self.folder / "kvgate.toml"
        self.config.write_text(f"""
[server]
unready_seconds = {unready_seconds}
[engine]
model = "{self.tiny()}"
kv_memory = "32MiB"
[store]
secret_env = "KVGATE_TEST_SECRET"
shared = "redis://127.0.0.1:{self.redis.port}"
""")
        self.gateways = [Server(None, self.folder / str(index), ["--config", str(self.config)])
                         for index in range(3)]
        for gateway in self.gateways:
            self.addCleanup(gateway.__exit__)
            gateway.start()
        self.balancer = Balancer(lambda: [gateway.address for gateway in self.gateways],
                                 tries_others)
        self.addCleanup(self.balancer.close)
        self.wait_for_all()

    def wait_for_all(self):
        wait_until(lambda: self.balancer.ready == {g.address for g in self.gateways},
                   "all gateways to be ready")

    def begin(self, looks_up):
        stop = threading.Event()
        clients = [Client(f"client{index}", self.balancer.address, stop, looks_up)
                   for index in range(CLIENTS)]
        for client in clients:
            client.start()
            self.addCleanup(client.join)
        self.addCleanup(stop.set)
        return clients, stop

    def end(self, clients, stop):
        """Ends the clients; compares what each gateway has with what they were told."""
        stop.set()
        for client in clients:
            client.join()
        errors = [client.error for client in clients if client.error]
        self.assertEqual(errors, [])
        count = 0
        for client in clients:
            for key, told in client.acknowledged.items():
                count += len(told)
                kept = [turns_of(gateway, key) for gateway in self.gateways]
                self.assertEqual(kept[0], kept[1], key)
                self.assertEqual(kept[0], kept[2], key)
                # In order, each once, and with the answer that was read.
                self.assertEqual([text for text, _ in kept[0]], [text for text, _ in told], key)
                for (text, answer), (_, heard) in zip(kept[0], told):
                    if heard is not None:
                        self.assertEqual(answer, heard, f"{key}: {text}")
        failures = collections.Counter(failure for client in clients
                                       for failure in client.failures)
        most = max(client.tries_most for client in clients)
        print(f"{count} turns, each in at most {most} tries; failures: {dict(failures)}; "
              f"connections that nobody took: {self.balancer.unserved}", flush=True)
        self.assertGreater(count, 10 * CLIENTS)
        return most

    def test_restarts_one_after_the_other_lose_no_turn_and_one_retry_is_enough(self):
        self.start()
        clients, stop = self.begin(looks_up=False)
        for gateway in self.gateways:
            time.sleep(0.7)
            self.assertEqual(gateway.terminate(60), 0, gateway.log()[-2000:])
            time.sleep(0.3)  # as long as an image or a binary is replaced
            gateway.restart()
            self.wait_for_all()
        time.sleep(0.7)
        # Nobody looks a turn up before saying it again: what was cut off by a stop was not kept.
        self.assertLessEqual(self.end(clients, stop), 2)

    def versions(self):
        """The configurations that are in force, by what the gateways report."""
        reported = {gateway.stats()["config"]["version"] for gateway in self.gateways}
        for gateway in self.gateways:
            text = gateway.get("/metrics").body.decode()
            (version,) = re.findall(r'(?m)^kvgate_config_info{version="(\w+)"} 1$', text)
            self.assertEqual(version, gateway.stats()["config"]["version"])
        return reported

    def version_of_the_file(self):
        checked = subprocess.run([binary_path(), "config", "check", self.config], timeout=60,
                                 capture_output=True, text=True)
        return re.search(r"(?m)^  version (\w+),", checked.stdout)[1]

    def test_where_the_balancer_is_told_in_time_no_request_fails(self):
        # No connection is ever refused, so that nothing depends on a balancer that tries others.
        self.start(unready_seconds=UNREADY_SECONDS, tries_others=False)
        clients, stop = self.begin(looks_up=False)
        before = self.version_of_the_file()
        self.assertEqual(self.versions(), {before})
        # What changes goes from one to the next with the restarts.
        self.config.write_text(self.config.read_text() + "[limits]\nconnections = 500\n")
        after = self.version_of_the_file()
        self.assertNotEqual(before, after)
        expected = [{before, after}, {before, after}, {after}]
        for gateway, versions in zip(self.gateways, expected):
            self.assertEqual(gateway.terminate(60), 0, gateway.log()[-2000:])
            gateway.restart()
            self.wait_for_all()
            self.assertEqual(self.versions(), versions)
        time.sleep(0.5)
        self.assertEqual(self.end(clients, stop), 1)
        self.assertEqual([failure for client in clients for failure in client.failures], [])
        self.assertEqual(self.balancer.unserved, 0)

    def test_kills_at_random_lose_no_acknowledged_turn(self):
        self.start()
        seed = int.from_bytes(os.urandom(4), "little")
        print(f"seed {seed}", flush=True)
        rng = random.Random(seed)
        clients, stop = self.begin(looks_up=True)
        for _ in range(KILLS):
            time.sleep(rng.uniform(0.05, 0.6))
            victim = rng.choice(self.gateways)
            victim.kill()
            time.sleep(rng.uniform(0, 0.3))
            victim.restart()
        self.wait_for_all()
        time.sleep(0.3)
        self.end(clients, stop)

    def test_a_gateway_that_drains_is_not_ready_and_ends_its_stream_whole(self):
        draining = self.serve(model=self.slow(), data_dir=self.folder / "slow")
        self.assertTrue(is_ready(draining.address))
        replies = []
        reader = threading.Thread(target=lambda: replies.append(draining.complete(
            text_of("drain", 50), max_tokens=150, stream=True,
            stream_options={"include_usage": True})))
        reader.start()
        draining.wait_for("the stream to run", lambda s: s["engine"]["running"] == 1, timeout=20)
        ended = []
        stopping = threading.Thread(target=lambda: ended.append(draining.terminate(60)))
        stopping.start()
        wait_until(lambda: not is_ready(draining.address), "it to say that it is not ready")
        self.assertTrue(reader.is_alive(), "the stream ended before the drain was seen")
        for _ in range(10):
            self.assertFalse(is_ready(draining.address))
        reader.join()
        stopping.join()
        self.assertEqual(ended, [0], draining.log()[-2000:])
        self.assertTrue(replies and replies[0].done, "the stream was cut off")
        self.assertEqual(replies[0].usage["completion_tokens"], 150)
        self.assertEqual([e for e in replies[0].events if "error" in e], [])


if __name__ == "__main__":
    unittest.main()
