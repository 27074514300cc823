#!/usr/bin/env python3
"""Hostile requests on raw sockets, to the local engine and through to an upstream that keeps every
byte it gets: smuggling is judged by what arrived there, not by what was answered here."""

import json
import random
import socket
import threading
import time
import unittest

import hostile_vectors
from case import FULL, Case, slowness, wait_until
from health import HealthWatch
from limits_test import rss_mib
from raw_http import DEADLINE_SECONDS, RecordingUpstream, Wire, connect, reset, send

PATH = b"/v1/completions"
HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
HEAD = b"POST " + PATH + b" HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
BODIES = {"local": b'{"model":"local","prompt":"hi","max_tokens":1}',
          "forwarded": b'{"model":"gpt-5","prompt":"hi","max_tokens":1}'}
# Where a vector says "ok" and the name is here, the header it sends must have arrived like this.
ARRIVES = {"header value with a tab": (b"x-a", b"a\tb"),
           "header value with obs-text": (b"x-a", b"\xc3\xa9\xff"),
           "header value that is empty": (b"x-a", b""),
           "header value that is folded": (b"x-a", b"a b c"),
           "header of a forged framing in percent":
               (b"x-a", b"%0d%0aTransfer-Encoding:%20chunked")}
# Headers that end here: no vector may bring one to the upstream.
NEVER = (b"connection", b"keep-alive", b"proxy-connection", b"proxy-authorization", b"te",
         b"trailer", b"transfer-encoding", b"upgrade", b"http2-settings", b"expect")


def spell(template, body):
    second = (HEAD + b"Content-Length: %d\r\n\r\n" % len(body)) + body
    rest = HEAD.split(b"\r\n", 1)[1] + b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
    for mark, text in ((b"@H@", HEAD), (b"@P@", PATH), (b"@N@", b"%d" % len(body)),
                       (b"@X@", b"%x" % len(body)), (b"@S@", second), (b"@G@", second),
                       (b"@R@", rest), (b"@C@", b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)),
                       (b"@B@", body)):
        template = template.replace(mark, text)
    return template


class HostileCase(Case):
    """A server with an engine and an upstream."""
    settings = ()

    def setUp(self):
        super().setUp()
        self.upstream = RecordingUpstream().__enter__()
        self.addCleanup(self.upstream.__exit__)
        config = self.folder / "kvgate.toml"
        config.write_text('[[upstream]]\nname = "u"\ndialect = "openai"\nmodels = ["gpt-*"]\n'
                          f'base_url = "http://127.0.0.1:{self.upstream.port}/v1"\n')
        arguments = ["--config", str(config)]
        for setting in self.settings:
            arguments += ["--set", setting]
        self.running = self.serve(arguments=arguments)

    def tearDown(self):
        self.assertIsNone(self.running.process.poll(), self.running.log()[-3000:])
        self.assert_ok(self.running.complete("still there", max_tokens=1))
        self.assertNotIn(" error ", self.running.log().lower().replace("[error]", " error "))

    def assert_error(self, answer):
        status, fields, body = answer
        self.assertGreaterEqual(status, 400)
        self.assertEqual(fields[b"content-type"], b"application/json")
        error = json.loads(body.decode("utf-8"))["error"]
        self.assertTrue(error["message"])
        self.assertIn(b"x-kvgate-request-id", fields)

    def assert_healthy(self, wire):
        """The same connection answers the next request, and nothing stood before it."""
        self.assertEqual(wire.pending, b"")
        self.assertTrue(send(wire.connection, HEALTH))
        answer = wire.answer()
        self.assertIsNotNone(answer, "the connection was closed")
        self.assertEqual((answer[0], answer[2]), (200, b'{"status":"ok"}'))

    def assert_alive(self):
        with connect(self.running.address) as connection:
            self.assert_healthy(Wire(connection))


class VectorTest(HostileCase):
    def test_each_vector_has_its_outcome_and_nothing_else_arrives_upstream(self):
        vectors = list(hostile_vectors.everything())
        self.assertGreater(len(vectors), 300)
        for where, body in BODIES.items():
            for name, template, outcome in vectors:
                with self.subTest(f"{where}: {name}"):
                    self.upstream.clear()
                    with connect(self.running.address) as connection:
                        wire = Wire(connection)
                        send(connection, spell(template, body))
                        num_served = self.judge(wire, outcome)
                    self.assert_alive()
                    self.judge_upstream(where, name, num_served, body)
        self.assertLess(rss_mib(self.running), 400)

    def judge(self, wire, outcome):
        """Checks the answers; returns how many requests were served."""
        answer = wire.answer()
        if outcome == "ok-or-refused":
            outcome = "ok" if answer and answer[0] == 200 else "refused"
        self.assertIsNotNone(answer, "closed without an answer")
        if outcome == "ok":
            self.assertEqual(answer[0], 200, answer)
            self.assert_healthy(wire)
            return 1
        if outcome == "three":
            answers = [answer, wire.answer(), wire.answer()]
            self.assertEqual([status for status, _, _ in answers], [200] * 3)
            self.assert_healthy(wire)
            return 3
        if outcome == "any":
            if answer[0] != 200:
                self.assert_error(answer)
            self.assert_healthy(wire)
            return None
        self.assert_error(answer)
        if outcome == "kept-then-second":
            self.assertEqual(wire.answer()[0], 200)
            self.assert_healthy(wire)
            return 1
        if outcome == "kept":
            # What follows is refused too, or the connection has been closed, or it goes on.
            while not self.may_go_on(wire):
                self.assert_error(wire.answer())
            return 0
        self.assertIn(answer[0], (400,) if outcome == "refused" else outcome, answer)
        self.assertTrue(wire.at_end(), f"something followed: {wire.pending[:300]!r}")
        return 0

    def may_go_on(self, wire):
        if wire.pending:
            return False
        if not send(wire.connection, HEALTH):
            return True
        if wire.at_end():
            return True
        answer = wire.answer()
        if answer[0] == 200:
            self.assertEqual(answer[2], b'{"status":"ok"}')
            return True
        self.assert_error(answer)
        return wire.at_end()

    def judge_upstream(self, where, name, num_served, body):
        upstream = self.upstream
        self.assertEqual(upstream.faults, [])
        if num_served is None:
            self.assertLessEqual(len(upstream.requests), 1)
            return
        wanted = num_served if where == "forwarded" else 0
        self.assertEqual([seen for _, _, seen in upstream.requests], [body] * wanted)
        if not wanted:
            self.assertEqual(upstream.raw, b"")
        for line, fields, _ in upstream.requests:
            self.assertTrue(line.startswith(b"POST " + PATH), line)
            names = [field for field, _ in fields]
            self.assertEqual([field for field in names if field in NEVER], [])
            self.assertFalse([field for field in names if field.startswith(b"x-kvgate-")])
            self.assertEqual(dict(fields)[b"host"], b"127.0.0.1:%d" % upstream.port)
            self.assertNotIn(b"evil", b" ".join(value for _, value in fields).lower())
            if name in ARRIVES:
                field, value = ARRIVES[name]
                self.assertEqual(dict(fields).get(field), value)


    def test_a_head_of_exactly_the_limit_passes_and_one_byte_more_does_not(self):
        limit = 64 << 10
        for body in BODIES.values():
            tail = b"Content-Length: %d\r\n\r\n" % len(body)
            for fill in (lambda n: b"X-A: " + b"y" * (n - 7) + b"\r\n",
                         lambda n: b"X-A: y\r\n" * (n // 8 - 1) + b"X: " +
                         b"y" * (n - 8 * (n // 8 - 1) - 5) + b"\r\n"):
                for more, status in ((0, 200), (1, 431)):
                    head = HEAD + fill(limit - len(HEAD) - len(tail) + more) + tail
                    self.assertEqual(len(head), limit + more)
                    for step in (len(head) + len(body), 1000):
                        with connect(self.running.address) as connection:
                            for at in range(0, len(head) + len(body), step):
                                send(connection, (head + body)[at:at + step])
                            self.assertEqual(Wire(connection).answer()[0], status)


class RandomTest(HostileCase):
    def test_thousands_of_random_and_mutated_requests_neither_hang_nor_smuggle(self):
        seed = random.randrange(1 << 32) if FULL else 2026
        rng = random.Random(seed)
        whole = [spell(template, body) for _, template, _ in hostile_vectors.everything()
                 for body in BODIES.values() if len(template) < 2000]
        with HealthWatch(self, self.running):
            self.throw(rng, whole, seed)
        self.assertEqual(self.upstream.faults, [])
        self.assertLess(rss_mib(self.running), 400)

    def throw(self, rng, whole, seed):
        for number in range(30_000 if FULL else 3000):
            data = rng.choice(whole)
            kind = rng.randrange(4)
            if kind == 0:
                data = rng.randbytes(rng.randrange(1, 300))
            for _ in range(rng.randrange(1, 4)):
                at = rng.randrange(len(data))
                if kind == 1:
                    data = data[:at] + rng.randbytes(1) + data[at + 1:]
                elif kind == 2:
                    data = data[:at] + rng.choice([b"\r\n", b"\n", b"\r", b" ", b"\t", b":", b"\0",
                                                   b"0", b",", b";"]) + data[at:]
                elif kind == 3:
                    data = data[:at] + data[at + rng.randrange(1, 4):] or b"x"
            with self.subTest(seed=seed, number=number, data=data[:400]):
                with connect(self.running.address) as connection:
                    send(connection, data)
                    connection.shutdown(socket.SHUT_WR)
                    wire = Wire(connection)
                    while (answer := wire.answer()) is not None:
                        if answer[0] >= 400:
                            self.assert_error(answer)

    def test_a_client_that_leaves_at_any_byte_leaves_nothing_behind(self):
        body = BODIES["forwarded"]
        whole = HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + spell(b"@C@", body)
        for how in ("close", "reset", "half"):
            for at in range(len(whole)):
                connection = connect(self.running.address)
                send(connection, whole[:at])
                if how == "reset":
                    reset(connection)
                    continue
                if how == "half":
                    connection.shutdown(socket.SHUT_WR)
                    answer = Wire(connection).answer()
                    self.assertTrue(answer is None or answer[0] == 400, answer)
                connection.close()
        self.assertEqual(self.upstream.raw, b"", "a request that was not whole was sent on")
        wait_until(lambda: b"kvgate_connections 0" in self.metrics()
                   or b"kvgate_connections 1\n" in self.metrics(), "the connections end")

    def metrics(self):
        return self.running.get("/metrics").body

    def test_half_closed_clients_get_their_whole_answer(self):
        for body in BODIES.values():
            with connect(self.running.address) as connection:
                send(connection, spell(b"@S@", body))
                connection.shutdown(socket.SHUT_WR)
                wire = Wire(connection)
                self.assertEqual(wire.answer()[0], 200)
                self.assertTrue(wire.at_end())

    def test_a_pipeline_is_answered_whole_though_its_client_stops_sending(self):
        def slow(connection, request):
            # Longer than the gateway waits before it looks at its client, before the head and
            # behind it: a client that only stopped sending is there all the same.
            body = request[2]
            time.sleep(0.3)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                               b"Content-Length: %d\r\n\r\n" % len(body))
            time.sleep(0.5)
            connection.sendall(body)

        self.upstream.script = slow
        kinds = ["forwarded", "local", "health", "forwarded", "health", "local", "forwarded"]
        data = b"".join(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n" if kind == "health"
                        else spell(b"@S@", BODIES[kind]) for kind in kinds)
        for pause in (0, 0.4, 0.9):
            with self.subTest(pause=pause), connect(self.running.address) as connection:
                send(connection, data)
                time.sleep(pause)
                connection.shutdown(socket.SHUT_WR)
                wire = Wire(connection)
                for number, kind in enumerate(kinds):
                    answer = wire.answer()
                    self.assertIsNotNone(answer, f"no answer to number {number}, {kind}")
                    self.assertEqual(answer[0], 200)
                    if kind == "forwarded":
                        self.assertEqual(answer[2], BODIES[kind])
                self.assertTrue(wire.at_end())

    def test_expect_continue_is_answered_once_and_only_where_it_is_due(self):
        for body in BODIES.values():
            with connect(self.running.address) as connection:
                head = HEAD + b"Content-Length: %d\r\nExpect: 100-continue\r\n\r\n" % len(body)
                send(connection, head)
                self.assertEqual(connection.recv(1000), b"HTTP/1.1 100 Continue\r\n\r\n")
                send(connection, body)
                wire = Wire(connection)
                self.assertEqual(wire.answer()[0], 200)
                self.assert_healthy(wire)
            with connect(self.running.address) as connection:
                send(connection, head.replace(b"HTTP/1.1", b"HTTP/1.0"))
                time.sleep(0.2)
                send(connection, body)
                self.assertTrue(connection.recv(1000).startswith(b"HTTP/1.0 200"))
            # Without a body there is nothing to wait for; refused, there is nothing to send.
            with connect(self.running.address) as connection:
                send(connection, b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
                                 b"Expect: 100-continue\r\n\r\n")
                self.assertTrue(connection.recv(1000).startswith(b"HTTP/1.1 200"))
            with connect(self.running.address) as connection:
                send(connection, head.replace(b"application/json", b"text/plain"))
                self.assertTrue(connection.recv(1000).startswith(b"HTTP/1.1 415"))


class SlowTest(HostileCase):
    settings = ("limits.header_timeout_seconds=2", "limits.body_timeout_seconds=2",
                "limits.idle_timeout_seconds=2", "limits.write_timeout_seconds=2")

    def test_slow_heads_and_bodies_are_cut_off_and_hold_up_nobody(self):
        body = BODIES["forwarded"]
        starts = {"nothing": b"", "a byte": b"P", "half a head": HEAD, "a head":
                  HEAD + b"Content-Length: 1000\r\n\r\n", "half a body":
                  HEAD + b"Content-Length: 1000\r\n\r\n" + body, "an open chunk":
                  HEAD + b"Transfer-Encoding: chunked\r\n\r\nff\r\n" + body, "a chunk's head":
                  HEAD + b"Transfer-Encoding: chunked\r\n\r\nff;", "open trailers":
                  HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\nX: y\r\n"}
        connections = {}
        begin = time.monotonic()
        for name, start in starts.items():
            for number in range(8):
                connections[name, number] = connect(self.running.address)
                send(connections[name, number], start)
        self.assert_alive()
        for name, connection in connections.items():
            with self.subTest(name), connection:
                answer = Wire(connection).answer()
                self.assertTrue(answer is None or answer[0] in (400, 408), answer)
        self.assertLess(time.monotonic() - begin, 8 * slowness(self.running))
        self.assertEqual(self.upstream.raw, b"")

    def test_a_head_that_comes_byte_by_byte_has_one_time_in_all(self):
        with connect(self.running.address) as connection:
            begin = time.monotonic()
            for byte in HEAD + b"X: " + b"y" * 1000:
                if not send(connection, bytes([byte])):
                    break
                time.sleep(0.05)
            self.assertLess(time.monotonic() - begin, 6 * slowness(self.running))
        self.assert_alive()

    def test_many_slow_ones_are_served_when_they_are_done(self):
        """Below the limits slowness is allowed: a body in pieces 0.7 s apart, three times 2 s."""
        failed = []

        def trickle():
            with connect(self.running.address) as connection:
                send(connection, HEAD + b"Content-Length: %d\r\n\r\n" % len(BODIES["forwarded"]))
                for at in range(0, len(BODIES["forwarded"]), 6):
                    time.sleep(0.7)
                    send(connection, BODIES["forwarded"][at:at + 6])
                answer = Wire(connection).answer()
                if answer is None or answer[0] != 200:
                    failed.append(answer)

        threads = [threading.Thread(target=trickle) for _ in range(32)]
        for thread in threads:
            thread.start()
        self.assert_alive()
        for thread in threads:
            thread.join(DEADLINE_SECONDS)
        self.assertEqual(failed, [])
        self.assertEqual(len(self.upstream.requests), 32)


if __name__ == "__main__":
    unittest.main()
