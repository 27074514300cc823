#!/usr/bin/env python3
"""One tenant cannot take from others what they keep: stored responses, pins, room for bodies; and
bodies in memory have a bound over all connections."""

import hashlib
import json
import threading
import unittest
from pathlib import Path

from case import Case, text_of, wait_until
from raw_http import connect

MIB = 1 << 20


class CrowdingTest(Case):
    def start(self, *settings):
        config = self.folder / "kvgate.toml"
        lines = []
        for name, role in (("alice", "user"), ("bob", "user"), ("root", "admin")):
            digest = hashlib.sha256(name.encode()).hexdigest()
            lines.append(f'[[key]]\nname = "{name}"\nsha256 = "{digest}"\nrole = "{role}"\n')
        config.write_text("".join(lines))
        arguments = ["--config", str(config)]
        for setting in settings:
            arguments += ["--set", setting]
        return self.serve(arguments=arguments)

    @staticmethod
    def key(name):
        return {"Authorization": f"Bearer {name}"}

    def test_conversations_of_one_tenant_do_not_push_out_anothers_responses(self):
        running = self.start("store.turns_bytes=16MiB")
        kept = self.assert_ok(running.send(
            "/v1/responses", {"model": "local", "input": "remember me", "max_output_tokens": 4},
            self.key("bob"))).json["id"]
        item = {"type": "message", "role": "user", "content": "u" * (3 * MIB)}
        body = json.dumps({"items": [item]}).encode()
        last = None
        for _ in range(12):
            made = running.send("/v1/conversations", body, self.key("alice"))
            last = self.assert_ok(made).json["id"]
            found = running.get(f"/v1/responses/{kept}", self.key("bob"))
            self.assertEqual(found.status, 200, found.body[:300])
        # Her own oldest went; her newest is there, and the cap is kept.
        self.assert_ok(running.get(f"/v1/conversations/{last}", self.key("alice")))
        turns = self.stats(running)["turns"]
        self.assertLessEqual(turns["bytes"], 16 * MIB)
        self.assertGreater(turns["retired"], 0)

    def metrics(self, running):
        return running.get("/metrics", self.key("root")).body

    def stats(self, running):
        return json.loads(running.get("/kvgate/v1/stats", self.key("root")).body)

    def test_pins_of_one_tenant_leave_room_for_anothers(self):
        running = self.start("store.disk_cache=16MiB")
        refused = None
        for number in range(60):
            reply = running.send("/kvgate/v1/prefixes/warm",
                                 {"model": "local", "prompt": text_of(f"pin {number}", 900),
                                  "kvgate": {"name": f"n{number}"}}, self.key("alice"))
            if reply.status != 200:
                refused = reply
                break
        self.assertIsNotNone(refused, "60 prefixes were pinned: the test showed nothing")
        self.assertIn(b"store.tenant_share", refused.body)
        self.assert_ok(running.send("/kvgate/v1/prefixes/warm",
                                    {"model": "local", "prompt": text_of("bob's", 900),
                                     "kvgate": {"name": "bob's"}}, self.key("bob")))

    def test_large_bodies_at_once_take_no_more_memory_than_they_may(self):
        running = self.start("limits.body=16MiB", "limits.bodies=64MiB")
        body = (b'{"model":"local","max_tokens":1,"prompt":"x","user":"' + b"u" * (15 * MIB) +
                b'"}')
        before = self.rss_mib(running)
        peak = [before]
        replies = []
        done = threading.Event()

        def watch():
            while not done.wait(0.01):
                peak.append(self.rss_mib(running))

        def post(name):
            try:
                replies.append(running.send("/v1/completions", body, self.key(name)).status)
            except OSError:
                replies.append("reset")

        watcher = threading.Thread(target=watch)
        watcher.start()
        senders = [threading.Thread(target=post, args=("alice",)) for _ in range(16)]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join()
        done.set()
        watcher.join()
        print(f"16 x 15 MiB at once: {sorted(map(str, replies))}; RSS {before:.0f} -> "
              f"{max(peak):.0f} MiB", flush=True)
        self.assertEqual(set(replies) - {200, 503}, set())
        self.assertIn(200, replies)
        # Bodies, what decoding makes of the few that are decoded at once, and malloc's leavings.
        self.assertLess(max(peak) - before, 3 * 64)
        self.assertEqual(running.send("/v1/completions", body, self.key("alice")).status, 200)
        self.assertIn(b"\nkvgate_bodies_bytes 0\n", self.metrics(running))

    @staticmethod
    def rss_mib(running):
        status = Path(f"/proc/{running.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) / 1024

    def test_what_one_tenant_sends_slowly_leaves_room_for_anothers_body(self):
        running = self.start("limits.body=4MiB", "limits.bodies=16MiB")
        head = ("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
                "Authorization: Bearer alice\r\n"
                f"Content-Type: application/json\r\nContent-Length: {4 * MIB}\r\n\r\n").encode()
        held = [connect(running.address) for _ in range(8)]
        try:
            for connection in held:
                connection.sendall(head)
                threading.Thread(target=self.feed, args=(connection, 4 * MIB - 1),
                                 daemon=True).start()
            wait_until(lambda: b"\nkvgate_bodies_refused_total 0\n" not in self.metrics(running),
                       "a body is refused")
            body = b'{"model":"local","max_tokens":1,"prompt":"x","user":"' + b"u" * (3 * MIB)
            self.assert_ok(running.send("/v1/completions", body + b'"}', self.key("bob")))
        finally:
            for connection in held:
                connection.close()

    @staticmethod
    def feed(connection, size):
        try:
            connection.sendall(b" " * size)
        except OSError:
            pass

    def test_a_caller_without_a_key_is_refused_before_its_body_is_kept(self):
        running = self.start()
        head = ("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
                f"Content-Type: application/json\r\nContent-Length: {48 * MIB}\r\n\r\n").encode()
        before = self.rss_mib(running)
        for _ in range(6):
            with connect(running.address) as connection:
                connection.sendall(head)
                self.assertTrue(connection.recv(4096).startswith(b"HTTP/1.1 401"))
        self.assertLess(self.rss_mib(running) - before, 24)
        self.assertIn(b"\nkvgate_bodies_bytes 0\n", self.metrics(running))


if __name__ == "__main__":
    unittest.main()
