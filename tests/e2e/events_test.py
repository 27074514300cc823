#!/usr/bin/env python3
"""GET /kvgate/v1/events: records of every dialect as they end, numbers each second, own data only,
filters, a slow reader that is told what it has missed, and the end of the server."""

import hashlib
import json
import os
import socket
import sys
import threading
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

from case import Case, wait_until  # noqa: E402
from provider_simulator import Simulator  # noqa: E402

EVENTS = "/kvgate/v1/events"


class Follower:
    """A client that follows the events: a thread that reads them into a list."""

    def __init__(self, case, running, path=EVENTS, headers=None):
        self.events, self.comments, self.has_ended = [], 0, False
        self.connection = running.connect(120)
        self.connection.request("GET", path, headers=headers or {})
        self.response = self.connection.getresponse()
        self.status = self.response.status
        if self.status != 200:
            self.body = self.response.read()
            self.connection.close()
            return
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        case.addCleanup(self.close)

    def _read(self):
        name = None
        try:
            for line in self.response:
                text = line.decode().rstrip("\n")
                if text.startswith("event: "):
                    name = text[7:]
                elif text.startswith("data: "):
                    self.events.append((name, json.loads(text[6:])))
                elif text.startswith(":"):
                    self.comments += 1
            self.has_ended = True
        except (OSError, ValueError, AttributeError):
            pass

    def of(self, kind):
        return [data for name, data in list(self.events) if name == kind]

    def ids(self):
        return [record["id"] for record in self.of("request")]

    def close(self):
        if self.connection.sock is not None:
            self.connection.sock.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)
        self.connection.close()


def bearer(name):
    return {"Authorization": f"Bearer key-{name}"}


class EventsTest(Case):
    def setUp(self):
        super().setUp()
        self.provider = Simulator().__enter__()
        self.addCleanup(self.provider.__exit__)
        os.environ["KVGATE_TEST_PROVIDER_KEY"] = "provider-key"
        self.addCleanup(os.environ.pop, "KVGATE_TEST_PROVIDER_KEY")

    def gateway(self, keys=True):
        named = "".join(f'[[key]]\nname = "{name}"\nsha256 = '
                        f'"{hashlib.sha256(f"key-{name}".encode()).hexdigest()}"\n{role}'
                        for name, role in (("alice", ""), ("bob", ""),
                                           ("root", 'role = "admin"\n'))) if keys else ""
        path = self.folder / "kvgate.toml"
        path.write_text(f"""
[server]
drain_seconds = 60
[limits]
write_timeout_seconds = 600
{named}
[[upstream]]
name = "open"
base_url = "{self.provider.url}/v1"
models = ["gpt-*"]
api_key_env = "KVGATE_TEST_PROVIDER_KEY"
[[upstream]]
name = "main"
dialect = "anthropic"
base_url = "{self.provider.url}"
models = ["claude-*"]
api_key_env = "KVGATE_TEST_PROVIDER_KEY"
""")
        return self.serve(arguments=["--config", str(path)])

    def ask(self, running, who, path="/v1/chat/completions", model="gpt-5.5", **fields):
        said = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 8}
        body = {"model": model, **({} if "input" in fields else said), **fields}
        reply = self.assert_ok(running.send(path, body, bearer(who)))
        return reply.headers["x-kvgate-request-id"]

    def test_a_record_of_each_dialect_and_of_the_engine_arrives_as_it_is_kept(self):
        running = self.gateway()
        follower = Follower(self, running, headers=bearer("alice"))
        self.assertEqual(follower.status, 200)
        self.assertTrue(follower.response.getheader("content-type").startswith("text/event-stream"))
        wait_until(lambda: follower.of("stats"), "numbers at once")
        wanted = [self.ask(running, "alice"),
                  self.ask(running, "alice", stream=True),
                  self.ask(running, "alice", "/v1/responses", input="hi"),
                  self.ask(running, "alice", "/v1/messages", model="claude-sonnet-4-5"),
                  self.ask(running, "alice", model="local"),
                  self.ask(running, "alice", "/v1/messages", model="local")]
        wait_until(lambda: len(follower.ids()) == 6, lambda: f"{follower.ids()} of {wanted}")
        self.assertEqual(sorted(follower.ids()), sorted(wanted))
        for record in follower.of("request"):
            kept = self.record_of(running, record["id"], bearer("alice"))
            kept.pop("segments", None)
            self.assertEqual(record, kept)

    def test_a_page_that_shows_some_a_second_is_sent_those_and_told_of_the_others(self):
        running = self.gateway()
        follower = Follower(self, running, f"{EVENTS}?records_per_second=1", bearer("alice"))
        wanted = {self.ask(running, "alice") for _ in range(12)}
        wait_until(lambda: len(follower.ids()) + sum(row["count"] for row in follower.of("dropped"))
                   == len(wanted), lambda: f"{follower.events}")
        self.assertTrue(follower.ids() and set(follower.ids()) < wanted)
        for value in ("0", "-1", "many", ""):
            refused = Follower(self, running, f"{EVENTS}?records_per_second={value}",
                               bearer("alice"))
            self.assertEqual(refused.status, 400)
            self.assertEqual(json.loads(refused.body)["error"]["param"], "records_per_second")

    def test_numbers_of_the_last_minute_are_the_callers_own(self):
        running = self.gateway()
        followers = {who: Follower(self, running, headers=bearer(who))
                     for who in ("alice", "bob", "root")}
        for _ in range(3):
            self.ask(running, "alice")
        self.ask(running, "bob", model="local")

        def requests(who):
            seen = followers[who].of("stats")
            return seen[-1]["minute"]["requests"] if seen else None

        wait_until(lambda: [requests(who) for who in followers] == [3, 1, 4],
                   lambda: f"{[requests(who) for who in followers]}")
        minute = followers["root"].of("stats")[-1]["minute"]
        self.assertEqual(set(minute), {"requests", "failed", "cached_tokens", "written_tokens",
                                       "uncached_tokens", "output_tokens", "nanodollars",
                                       "uncached_nanodollars", "direct_nanodollars"})
        self.assertGreater(minute["uncached_tokens"], 0)
        self.assertGreater(minute["nanodollars"], 0)
        whole = followers["root"].of("stats")[-1]
        for name in ("requests_running", "requests_waiting", "requests_active", "connections"):
            self.assertGreaterEqual(whole[name], 0)
        tiers = {tier["tier"]: tier for tier in whole["tiers"]}
        self.assertEqual(set(tiers), {"device", "host", "disk"})
        self.assertGreater(tiers["device"]["capacity_bytes"], 0)
        # What others do shows in these.
        own = followers["bob"].of("stats")[-1]
        self.assertEqual(set(own), {"time_us", "minute"})

    def test_nobody_sees_anothers_records(self):
        running = self.gateway()
        alice, bob, root = (Follower(self, running, headers=bearer(who))
                            for who in ("alice", "bob", "root"))
        first, second = self.ask(running, "alice"), self.ask(running, "bob")
        wait_until(lambda: len(root.ids()) == 2, "both")
        wait_until(lambda: bob.ids(), "his own")
        last = self.ask(running, "alice")
        wait_until(lambda: len(alice.ids()) == 2, "hers")
        self.assertEqual(alice.ids(), [first, last])
        self.assertEqual(bob.ids(), [second])
        refused = Follower(self, running, EVENTS + "?tenant=alice", bearer("bob"))
        self.assertEqual(refused.status, 403)
        self.assertEqual(Follower(self, running).status, 401)

    def test_filters_choose_and_unknown_ones_are_named(self):
        running = self.gateway()
        main = Follower(self, running, EVENTS + "?upstream=main", bearer("root"))
        bobs = Follower(self, running, EVENTS + "?tenant=bob&endpoint=chat_completions",
                        bearer("root"))
        failed = Follower(self, running, EVENTS + "?status=failed", bearer("root"))
        everything = Follower(self, running, headers=bearer("root"))
        by_main = self.ask(running, "alice", "/v1/messages", model="claude-sonnet-4-5")
        by_bob = self.ask(running, "bob")
        self.provider.faults.append("status:500")
        broken = running.send("/v1/chat/completions",
                              {"model": "gpt-5.5", "messages": [{"role": "user", "content": "a"}]},
                              bearer("alice"))
        self.assertEqual(broken.status, 500)
        wait_until(lambda: len(everything.ids()) == 3, "all")
        wait_until(lambda: main.ids() and bobs.ids() and failed.ids(), "one each")
        self.assertEqual(main.ids(), [by_main])
        self.assertEqual(bobs.ids(), [by_bob])
        self.assertEqual(failed.ids(), [broken.headers["x-kvgate-request-id"]])
        for query, named in (("x=1", "x"), ("limit=5", "limit"), ("before=a", "before"),
                             ("status=high", "status")):
            refused = Follower(self, running, f"{EVENTS}?{query}", bearer("root"))
            self.assertEqual(refused.status, 400, query)
            self.assertIn(f"'{named}'", json.loads(refused.body)["error"]["message"])

    def test_a_slow_reader_is_told_how_much_it_has_missed_and_holds_up_nobody(self):
        running = self.gateway(keys=False)
        slow = socket.socket()
        self.addCleanup(slow.close)
        slow.settimeout(60)
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # before it is connected
        host, port = running.address.split(":")
        slow.connect((host, int(port)))
        slow.sendall(f"GET {EVENTS} HTTP/1.1\r\nHost: {running.address}\r\n\r\n".encode())
        # Another one, which asks for other records: what is dropped is the slow one's.
        quick = Follower(self, running, f"{EVENTS}?status=200")
        # Refusals are quick to make, and their records large: the sockets between hold a thousand.
        body = json.dumps({"model": "gpt-" + "x" * 500, "max_tokens": 1, "messages": []})
        headers = {"Content-Type": "application/json", "x-kvgate-upstream": "none"}
        connection = running.connect()
        self.addCleanup(connection.close)
        sent = 0
        while not self.num_dropped(running):
            self.assertLess(sent, 20_000)
            for _ in range(200):
                connection.request("POST", "/v1/chat/completions", body, headers)
                answer = connection.getresponse()
                answer.read()
                self.assertEqual(answer.status, 404)
                sent += 1
        seen = len(quick.of("stats"))
        wait_until(lambda: len(quick.of("stats")) > seen, "the quick reader goes on")
        self.assertEqual(quick.ids(), [])
        # With the small buffer the kernel would now hand on 2 KB in 0.2 s of the megabytes between.
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        lines = slow.makefile("rb")
        while line := lines.readline():
            if line == b"event: dropped\n":
                break
        count = json.loads(lines.readline().removeprefix(b"data: "))["count"]
        self.assertGreater(count, 0)
        self.assertLess(count, sent)

    def test_what_a_reader_did_not_get_it_is_told_to_the_record(self):
        running = self.gateway(keys=False)
        follower = Follower(self, running)
        wait_until(lambda: follower.of("stats"), "it follows")
        body = json.dumps({"model": "gpt", "max_tokens": 1, "messages": []})
        headers = {"Content-Type": "application/json", "x-kvgate-upstream": "none"}
        connection = running.connect()
        self.addCleanup(connection.close)
        sent = 1500
        for _ in range(sent):
            connection.request("POST", "/v1/chat/completions", body, headers)
            connection.getresponse().read()
        wait_until(lambda: len(follower.of("request")) +
                   sum(told["count"] for told in follower.of("dropped")) == sent, "all of them")

    def num_dropped(self, running):
        for line in running.get("/metrics").body.decode().splitlines():
            if line.startswith("kvgate_event_records_dropped_total "):
                return int(line.split()[-1])
        return None

    def test_there_are_64_readers_at_most(self):
        running = self.gateway(keys=False)
        followers = [Follower(self, running) for _ in range(64)]
        self.assertEqual({follower.status for follower in followers}, {200})
        self.assertEqual(Follower(self, running).status, 503)
        followers[0].close()
        wait_until(lambda: Follower(self, running).status == 200, "a place is free")

    def test_the_end_of_the_server_ends_the_stream_at_once(self):
        running = self.gateway(keys=False)
        follower = Follower(self, running)
        wait_until(lambda: follower.of("stats"), "it follows")
        begin = time.monotonic()
        self.assertEqual(running.terminate(timeout=50), 0)
        self.assertLess(time.monotonic() - begin, 40, "drain_seconds are 60")
        wait_until(lambda: follower.has_ended, "the stream is whole")


if __name__ == "__main__":
    unittest.main()
