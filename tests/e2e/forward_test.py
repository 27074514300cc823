#!/usr/bin/env python3
"""Forwarding: what the upstream gets and what the client gets, byte for byte; and every way in
which an upstream or a client can fail. The upstream is a socket that does what a test tells it."""

import hashlib
import json
import os
import random
import re
import select
import socket
import ssl
import struct
import subprocess
import threading
import time
import unittest
import unittest.mock
from pathlib import Path

import raw_http
import server
from case import Case, slowness, wait_until

JSON = b"Content-Type: application/json\r\n"


class Upstream:
    """Answers each request by script(connection, head, body); what it received is kept."""

    def __init__(self, script, tls=None):
        self.script = script
        self.tls = tls
        self.num_resumed = 0
        self.requests = []
        self.num_connections = 0
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if self.listener.fileno() >= 0:
            self.listener.shutdown(socket.SHUT_RDWR)
            self.listener.close()

    def _accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.num_connections += 1
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.tls is not None:
                try:
                    connection = self.tls.wrap_socket(connection, server_side=True)
                except OSError:
                    continue
                self.num_resumed += connection.session_reused
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with connection:
            pending = b""
            while True:
                try:
                    message, pending = read_message(connection, pending)
                    if message is None:
                        return
                    self.requests.append(message)
                    if self.script(connection, *message) == "close":
                        return
                except OSError:
                    return


def read_message(connection, pending=b""):
    """One message of a known length as ((head, body), rest); (None, b"") at the end."""
    while b"\r\n\r\n" not in pending:
        piece = connection.recv(65536)
        if not piece:
            return None, b""
        pending += piece
    head, pending = pending.split(b"\r\n\r\n", 1)
    found = re.search(rb"(?im)^content-length: *(\d+)", head)
    length = int(found.group(1)) if found else 0
    while len(pending) < length:
        piece = connection.recv(1 << 20)
        if not piece:
            return None, b""
        pending += piece
    return (head, pending[:length]), pending[length:]


def read_answer(connection, pending=b""):
    """(head, body, complete, rest) of an answer in any framing."""
    while b"\r\n\r\n" not in pending:
        piece = connection.recv(65536)
        if not piece:
            return pending, b"", False, b""
        pending += piece
    head, pending = pending.split(b"\r\n\r\n", 1)
    if re.search(rb"(?im)^transfer-encoding: chunked", head) is None:
        message, rest = read_message(Joined(head + b"\r\n\r\n" + pending, connection))
        if message is None:
            return head, b"", False, b""
        return message[0], message[1], True, rest
    body = b""
    try:
        while True:
            while b"\r\n" not in pending:
                pending += more(connection)
            line, pending = pending.split(b"\r\n", 1)
            size = int(line, 16)
            while len(pending) < size + 2:
                pending += more(connection)
            body += pending[:size]
            pending = pending[size + 2:]
            if size == 0:
                return head, body, True, pending
    except EOFError:
        return head, body, False, b""


class Joined:
    """A connection whose first bytes have been read already."""

    def __init__(self, first, connection):
        self.first, self.connection = first, connection

    def recv(self, size):
        if self.first:
            first, self.first = self.first, b""
            return first
        try:
            return self.connection.recv(size)
        except ConnectionResetError:
            return b""


def more(connection):
    try:
        piece = connection.recv(1 << 20)
    except ConnectionResetError:
        piece = b""
    if not piece:
        raise EOFError
    return piece


def answer(body=b'{"id":"x"}', status=b"200 OK", headers=b""):
    return (b"HTTP/1.1 " + status + b"\r\nContent-Length: " + str(len(body)).encode() + b"\r\n" +
            headers + b"\r\n" + body)


def chunked(pieces):
    return b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in pieces) + b"0\r\n\r\n"


def odd_value(rng, depth=0):
    """A JSON value as text, spelled as no serialiser would."""
    kind = rng.randrange(9 if depth < 3 else 7)
    if kind == 0:
        return str(rng.choice([2**63 - 1, -2**63, 2**64 - 1, 9007199254740993, 10**30]))
    if kind == 1:
        return rng.choice(["1.0", "1e5", "1E+05", "-0", "-0.0", "0.1000", "123456789.123456789"])
    if kind == 2:
        return rng.choice(['"\\u0041\\u00e9"', '"\\ud83d\\ude00"', '"\\ud800"', '"\\/"', '"\u00e9"',
                           '"\\u2028 \\b\\f"', '"\U0001f600"', '"\u202e"'])
    if kind == 3:
        return rng.choice(["true", "false", "null", '""', "[]", "{}", "[ ]", "{ }"])
    if kind < 7:
        text = "".join(rng.choice("abc \u00fc\n\t\"\\") for _ in range(rng.randrange(40)))
        return json.dumps(text, ensure_ascii=rng.random() < 0.5)
    space = rng.choice(["", " ", "\n  ", "\t"])
    if kind == 7:
        return "[" + ("," + space).join(odd_value(rng, depth + 1) for _ in range(3)) + "]"
    names = ["a", "b", "a", "\\u0061", "z"]
    rng.shuffle(names)
    return "{" + ",".join(f'{space}"{n}"{space}:{odd_value(rng, depth + 1)}' for n in names) + "}"


def odd_body(rng, bytes_min=0):
    fields = [f'"model" : "m{rng.randrange(5)}"'] * rng.choice([1, 1, 2])
    fields += [f'"f{rng.randrange(4)}":{odd_value(rng)}' for _ in range(rng.randrange(1, 6))]
    if bytes_min:
        fields.append(f'"pad":"{"x" * bytes_min}"')
    rng.shuffle(fields)
    return ("{" + rng.choice([",", ", ", ",\n"]).join(fields) + "}").encode()


class ForwardCase(Case):
    def gateway(self, upstreams, more="", arguments=()):
        """A kvgate without a model in front of (name, dialect, port[, lines]) upstreams."""
        text = more
        for name, dialect, port, *lines in upstreams:
            base = f"http://127.0.0.1:{port}" + ("/v1" if dialect == "openai" else "")
            text += (f'\n[[upstream]]\nname = "{name}"\ndialect = "{dialect}"\n'
                     f'base_url = "{base}"\n' + "\n".join(lines) + "\n")
        path = Path(self.folder, "kvgate.toml")
        path.write_text(text)
        running = server.Server(None, self.folder / "data", ["--config", str(path), *arguments])
        return running

    def connect(self, running, receive_bytes=None, timeout=20):
        connection = raw_http.connect(running.address, timeout, receive_bytes)
        self.addCleanup(connection.close)
        return connection

    def post(self, connection, body, path=b"/v1/chat/completions", headers=b""):
        connection.sendall(b"POST " + path + b" HTTP/1.1\r\nHost: localhost\r\n" + JSON + headers +
                           b"Content-Length: %d\r\n\r\n" % len(body) + body)
        return read_answer(connection)


class BytesTest(ForwardCase):
    def test_a_thousand_odd_requests_and_answers_pass_unchanged(self):
        rng = random.Random(4)
        lock = threading.Lock()
        replies = {}

        def script(connection, head, body):
            with lock:
                reply, pieces = replies[body]
            if pieces is None:
                connection.sendall(answer(reply))
                return None
            connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            for piece in pieces:
                connection.sendall(piece)
            return None

        with Upstream(script) as upstream, \
                self.gateway([("u", "openai", upstream.port,
                               "forward_unknown = true")]) as running:
            connection = self.connect(running)
            for index in range(1000):
                size = rng.choice([0, 0, 0, 0, 5_000, 70_000])
                if index % 50 == 0:
                    size = 1_000_000
                body = odd_body(rng, size) + b" " * rng.randrange(3) + b"\n" * (index % 2)
                reply = odd_body(rng, rng.choice([0, 0, 3_000, 100_000]))
                pieces = None
                if rng.random() < 0.6:
                    wire = chunked(split(reply, rng))
                    pieces = split(wire, rng)
                with lock:
                    replies[body] = (reply, pieces)
                path = rng.choice([b"/v1/chat/completions", b"/v1/embeddings?x=%20%2f",
                                   b"/v1/responses", b"/v1/unknown/thing"])
                head, got, complete, rest = self.send_in_pieces(connection, body, path, rng)
                self.assertTrue(complete, head)
                self.assertEqual(got, reply, index)
                self.assertEqual(rest, b"")
                seen_head, seen_body = upstream.requests[-1]
                self.assertEqual(seen_body, body, index)
                self.assertTrue(seen_head.startswith(b"POST " + path + b" HTTP/1.1\r\n"))
            self.assertEqual(len(upstream.requests), 1000)
            self.assertEqual(upstream.num_connections, 1)

    def send_in_pieces(self, connection, body, path, rng):
        head = b"POST " + path + b" HTTP/1.1\r\nHost: localhost\r\n" + JSON
        if rng.random() < 0.5:
            wire = head + b"Content-Length: %d\r\n\r\n" % len(body) + body
        else:
            wire = head + b"Transfer-Encoding: chunked\r\n\r\n" + chunked(split(body, rng))
        for piece in split(wire, rng):
            connection.sendall(piece)
        return read_answer(connection)

    def test_headers_pass_both_ways_in_their_order_and_spelling(self):
        def script(connection, head, body):
            connection.sendall(answer(b"{}", b"429 Slow Down", b"retry-after: 7\r\n"
                                      b"x-should-retry: true\r\nX-RateLimit-Remaining: 0\r\n"
                                      b"request-id: req_9\r\nConnection: x-hop\r\nx-hop: 1\r\n"))

        with Upstream(script) as upstream, \
                self.gateway([("u", "anthropic", upstream.port)]) as running:
            head, body, complete, _ = self.post(
                self.connect(running), b'{"model":"m"}', b"/v1/messages?beta=true",
                b"X-Stainless-Lang: js\r\nanthropic-beta: b,a\r\nx-api-key: k\r\n"
                b"Connection: keep-alive, X-Gone\r\nx-gone: 1\r\nAccept-Encoding: gzip, br\r\n")
            self.assertEqual((body, complete), (b"{}", True))
            lines = head.split(b"\r\n")
            self.assertEqual(lines[:5], [b"HTTP/1.1 429 Slow Down", b"Content-Length: 2",
                                         b"retry-after: 7", b"x-should-retry: true",
                                         b"X-RateLimit-Remaining: 0"])
            self.assertIn(b"request-id: req_9", lines)
            self.assertNotIn(b"x-hop: 1", lines)
            self.assertTrue(any(line.startswith(b"x-kvgate-request-id: ") for line in lines))
            self.assertEqual(upstream.requests[0][0].split(b"\r\n"), [
                b"POST /v1/messages?beta=true HTTP/1.1", b"Host: 127.0.0.1:%d" % upstream.port,
                b"Content-Type: application/json", b"X-Stainless-Lang: js", b"anthropic-beta: b,a",
                b"x-api-key: k", b"Accept-Encoding: gzip, br", b"Content-Length: 13"])

    def test_compressed_bodies_pass_as_they_are(self):
        packed = bytes(range(256)) * 40
        encoded = b"Content-Encoding: gzip\r\n"
        with Upstream(lambda c, h, b: c.sendall(answer(b[::-1], headers=encoded))) as upstream, \
                self.gateway([("u", "openai", upstream.port)]) as running:
            head, body, _, _ = self.post(self.connect(running), packed,
                                         headers=b"Content-Encoding: gzip\r\n")
            self.assertEqual(upstream.requests[0][1], packed)
            self.assertIn(b"Content-Encoding: gzip", upstream.requests[0][0])
            self.assertEqual(body, packed[::-1])
            self.assertIn(b"Content-Encoding: gzip", head)

    def test_events_arrive_one_by_one_without_a_constant_delay(self):
        events = [b"data: {\"i\":%d}\n\n" % i for i in range(20)]

        def script(connection, head, body):
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                               b"Transfer-Encoding: chunked\r\n\r\n")
            for event in events:
                time.sleep(0.01)
                stamps.append(time.monotonic())
                connection.sendall(b"%x\r\n%s\r\n" % (len(event), event))
            connection.sendall(b"0\r\n\r\n")

        stamps = []
        with Upstream(script) as upstream, \
                self.gateway([("u", "openai", upstream.port)]) as running:
            connection = self.connect(running)
            body = b'{"model":"m","stream":true}'
            connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n" + JSON +
                               b"Content-Length: %d\r\n\r\n" % len(body) + body)
            got, seen, delays = b"", 0, []
            while not got.endswith(b"0\r\n\r\n"):
                got += connection.recv(65536)
                count = got.count(b"data: ")
                delays += [time.monotonic() - stamps[i] for i in range(seen, count)]
                seen = count
            self.assertEqual(seen, 20)
            self.assertLess(sorted(delays)[10], 0.02, "the median event waits for something")


def split(data, rng):
    """Cuts at random places; small pieces only where there are few bytes."""
    if len(data) > 20_000:
        step = rng.randrange(len(data) // 8, len(data))
    else:
        step = rng.choice([7, 100, 4_000, len(data) or 1]) if len(data) < 2_000 else 4_000
    return [data[at:at + step] for at in range(0, len(data), step)]


class FaultTest(ForwardCase):
    FAST = ("connect_timeout_ms = 500", "first_byte_timeout_seconds = 1",
            "idle_timeout_seconds = 1", "breaker_failures = 0")

    def ask(self, script, dialect="openai", path=b"/v1/chat/completions", lines=FAST):
        """One request; (status, body or what came of it, complete, seconds, upstream).

        The seconds are those that it would have taken on an idle machine.
        """
        with Upstream(script) as upstream, \
                self.gateway([("u", dialect, upstream.port, *lines)]) as running:
            begin = time.monotonic()
            head, body, complete, _ = self.post(self.connect(running), b'{"model":"m"}', path)
            took = (time.monotonic() - begin) / slowness(running)
            self.assertEqual(running.get("/health").status, 200)
            return int(head.split()[1]), body, complete, took, upstream

    def test_an_upstream_that_is_down_is_an_error_in_the_callers_dialect(self):
        closed = socket.create_server(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        closed.close()
        with self.gateway([("o", "openai", port), ("a", "anthropic", port)]) as running:
            head, body, complete, _ = self.post(self.connect(running), b'{"model":"m"}')
            self.assertTrue(head.startswith(b"HTTP/1.1 502 "), head)
            self.assertIn("The upstream 'o' failed", json.loads(body)["error"]["message"])
            head, body, complete, _ = self.post(self.connect(running), b'{"model":"m"}',
                                                b"/v1/messages")
            error = json.loads(body)
            self.assertEqual((error["type"], error["error"]["type"]), ("error", "api_error"))
            self.assertIn(error["request_id"].encode(), head)
            for _ in range(5):
                head, body, _, _ = self.post(self.connect(running), b'{"model":"m"}')
            self.assertTrue(head.startswith(b"HTTP/1.1 503 "), "the breaker is open")
            self.assertIn(b"retry-after: ", head)

    def test_silence_and_endless_heads_end_in_time(self):
        status, body, complete, took, upstream = self.ask(lambda c, h, b: time.sleep(4))
        self.assertEqual((status, complete), (504, True))
        self.assertLess(took, 2.5)
        self.assertEqual(len(upstream.requests), 1)

        def endless(connection, head, body):
            connection.sendall(b"HTTP/1.1 200 OK\r\n")
            while True:
                connection.sendall(b"X: " + b"y" * 1000 + b"\r\n")

        def trickle(connection, head, body):
            for byte in b"HTTP/1.1 200 OK\r\nA: b\r\n" * 100:
                connection.sendall(bytes([byte]))
                time.sleep(0.1)

        self.assertEqual(self.ask(endless)[0], 502)
        status, _, _, took, _ = self.ask(trickle)
        self.assertEqual(status, 504)
        self.assertLess(took, 2.5)

    def test_what_is_no_answer_is_never_sent_twice(self):
        for wire in (b"nonsense\r\n\r\n", b"", b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n"
                     b"Transfer-Encoding: chunked\r\n\r\n", b"HTTP/1.1 200 OK\r\nA\x00: b\r\n\r\n"):
            def script(connection, head, body, wire=wire):
                connection.sendall(wire)
                return "close"
            status, body, complete, _, upstream = self.ask(script)
            self.assertEqual((status, complete), (502, True), wire)
            self.assertEqual(len(upstream.requests), 1, wire)

    def test_a_reset_is_an_error_before_the_head_and_a_cut_after_it(self):
        def reset(connection):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return "close"

        status, _, complete, _, upstream = self.ask(lambda c, h, b: reset(c))
        self.assertEqual((status, complete, len(upstream.requests)), (502, True, 1))
        for wire in (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
                     b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello"):
            def cut(connection, head, body, wire=wire):
                connection.sendall(wire)
                time.sleep(0.1)
                return "close"
            status, body, complete, _, _ = self.ask(cut)
            self.assertEqual((status, complete), (200, False), wire)

    def test_storms_pass_with_their_headers(self):
        for status in (b"429 Too Many Requests", b"529 Overloaded", b"500 Oops"):
            def script(connection, head, body, status=status):
                connection.sendall(answer(b'{"error":1}', status, b"retry-after-ms: 12\r\n"))
            got, body, _, _, upstream = self.ask(script)
            self.assertEqual((got, body), (int(status[:3]), b'{"error":1}'))
            self.assertEqual(len(upstream.requests), 1)

    def test_a_client_that_leaves_frees_the_upstream_within_a_second(self):
        gone = []

        def script(connection, head, body):
            if b"stream" in body:
                connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                                   b"5\r\nhello\r\n")
            connection.settimeout(5)
            try:
                connection.recv(1)
            except OSError:
                pass
            gone.append(time.monotonic())
            return "close"

        for body in (b'{"model":"m"}', b'{"model":"m","stream":true}'):
            with Upstream(script) as upstream, \
                    self.gateway([("u", "openai", upstream.port)]) as running:
                connection = self.connect(running)
                connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n" +
                                   JSON + b"Content-Length: %d\r\n\r\n" % len(body) + body)
                time.sleep(0.4)
                if b"stream" in body:
                    self.assertIn(b"hello", connection.recv(65536))
                gone.clear()
                left = time.monotonic()
                connection.close()
                wait_until(lambda: gone, "the upstream is let go")
                self.assertLess(gone[0] - left, slowness(running))

    def test_a_slow_reader_holds_no_memory_but_its_own_pieces(self):
        sent = []

        def script(connection, head, body):
            piece = b"x" * 65536
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (1 << 30))
            connection.settimeout(3)
            try:
                for _ in range((1 << 30) // len(piece)):
                    connection.sendall(piece)
                    sent.append(len(piece))
            except OSError:
                pass
            return "close"

        with Upstream(script) as upstream, \
                self.gateway([("u", "openai", upstream.port)]) as running:
            before = rss_bytes(running)
            connections = [self.connect(running, receive_bytes=4096) for _ in range(4)]
            for connection in connections:
                body = b'{"model":"m"}'
                connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n" +
                                   JSON + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            time.sleep(2)
            self.assertLess(rss_bytes(running) - before, 16 << 20)
            self.assertLess(sum(sent), 4 * (24 << 20), "the upstream was not slowed down")


def rss_bytes(running):
    status = Path(f"/proc/{running.process.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", status).group(1)) * 1024


class RoutingTest(ForwardCase):
    def test_models_go_to_their_upstreams_and_lists_are_joined(self):
        def named(name):
            listing = json.dumps({"data": [{"id": f"{name}-model", "x": 2**60}]}).encode()
            return lambda c, h, b: c.sendall(answer(
                listing if h.startswith(b"GET /v1/models ") else name.encode()))

        with Upstream(named("a")) as a, Upstream(named("b")) as b, Upstream(named("c")) as c, \
                self.gateway([("a", "openai", a.port, 'models = ["gpt-*"]'),
                              ("b", "openai", b.port, 'models = ["*"]'),
                              ("c", "anthropic", c.port, 'models = ["claude-*"]')]) as running:
            connection = self.connect(running)

            def ask(model, path=b"/v1/chat/completions", headers=b""):
                body = json.dumps({"model": model}).encode()
                head, body, _, _ = self.post(connection, body, path, headers)
                return int(head.split()[1]), body

            self.assertEqual(ask("gpt-5"), (200, b"a"))
            self.assertEqual(ask("other", b"/v1/embeddings"), (200, b"b"))
            self.assertEqual(ask("claude-5", b"/v1/messages/count_tokens"), (200, b"c"))
            self.assertEqual(ask("gpt-5", headers=b"x-kvgate-upstream: b\r\n"), (200, b"b"))
            self.assertNotIn(b"x-kvgate", b.requests[-1][0].lower())
            # Translated, a request needs what its own dialect asks for; others have no translation.
            status, body = ask("gpt-5", b"/v1/messages")
            self.assertEqual(status, 400)
            self.assertIn("max_tokens", json.loads(body)["error"]["message"])
            status, body = ask("gpt-5", b"/v1/messages/batches")
            self.assertEqual((status, json.loads(body)["error"]["type"]), (404, "not_found_error"))
            self.assertEqual(self.get_json(running, "/v1/responses/resp_1")[0], 400)
            reply = running.get("/v1/models", {"anthropic-version": "2023-06-01"})
            self.assertEqual([m["id"] for m in reply.json["data"]][0], "a-model")
            # A server of both dialects would answer in the other one.
            self.assertNotIn(b"anthropic-version", a.requests[-1][0].lower())
            self.assertIn(b"anthropic-version", c.requests[-1][0].lower())
            status, models = self.get_json(running, "/v1/models")
            self.assertEqual([m["id"] for m in models["data"]], ["a-model", "b-model", "c-model"])
            self.assertEqual(models["data"][0]["x"], 2**60)
            a.close()
            self.assertEqual(self.get_json(running, "/v1/models")[1], models, "kept some seconds")

    def get_json(self, running, path):
        reply = running.get(path)
        return reply.status, reply.json

    def test_without_a_model_the_server_is_ready_and_has_no_engine(self):
        with Upstream(lambda c, h, b: c.sendall(answer())) as upstream, \
                self.gateway([("u", "openai", upstream.port)]) as running:
            self.assertEqual(running.get("/ready").status, 200)
            self.assertLess(rss_bytes(running), 40 << 20)
            self.assertEqual(running.terminate(), 0)


class TlsTest(ForwardCase):
    def certificate(self, name):
        """A self-signed one for localhost: (its path, a server's context)."""
        path, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                        "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
                        "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", key,
                        "-out", path], check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path, key)
        return path, context

    def upstream(self, host, port, ca_file=None):
        lines = f'\n[[upstream]]\nname = "u"\nbase_url = "https://{host}:{port}/v1"\n'
        return lines + (f'ca_file = "{ca_file}"\n' if ca_file else "")

    def ask(self, text, body=b'{"model":"m"}'):
        """One request on each of two connections to a gateway: (statuses, the last body)."""
        with self.gateway([], text) as running:
            replies = [self.post(self.connect(running), body) for _ in range(2)]
            return [int(head.split()[1]) for head, _, _, _ in replies], replies[-1][1]

    def test_the_certificate_is_verified_and_sessions_are_resumed(self):
        path, context = self.certificate("good")
        other, _ = self.certificate("other")
        names = []
        context.sni_callback = lambda _socket, name, _context: names.append(name)

        def script(connection, head, body):
            connection.sendall(answer(body[::-1]))
            return "close"

        large = odd_body(random.Random(1), 300_000)
        with Upstream(script, context) as upstream:
            good = self.upstream("localhost", upstream.port, path)
            statuses, body = self.ask(good, large)
            self.assertEqual((statuses, body), ([200, 200], large[::-1]))
            self.assertEqual(names, ["localhost"] * 2)
            self.assertEqual(upstream.num_resumed, 1)
            upstream.requests.clear()
            for bad in (self.upstream("localhost", upstream.port),
                        self.upstream("localhost", upstream.port, other),
                        self.upstream("127.0.0.1", upstream.port, path)):
                statuses, body = self.ask(bad)
                self.assertEqual(statuses, [502, 502], bad)
                self.assertIn(b"TLS handshake failed", body)
            self.assertEqual(upstream.requests, [], "nothing is said to a stranger")

    def test_a_proxy_of_the_environment_is_tunnelled_through(self):
        path, context = self.certificate("good")
        asked = []

        def tunnel(connection, head, body):
            asked.append(head.split(b"\r\n")[0])
            with socket.create_connection(("127.0.0.1", upstream.port)) as onward:
                connection.sendall(b"HTTP/1.1 200 Tunnel\r\nA: b\r\n\r\n")
                pump(connection, onward)
            return "close"

        with Upstream(lambda c, h, b: c.sendall(answer(b"through")), context) as upstream, \
                Upstream(tunnel) as proxy:
            text = self.upstream("localhost", upstream.port, path)
            variables = {"HTTPS_PROXY": f"http://127.0.0.1:{proxy.port}", "NO_PROXY": ""}
            with unittest.mock.patch.dict(os.environ, variables):
                self.assertEqual(self.ask(text), ([200, 200], b"through"))
                # The second request may come before the first one's connection is kept.
                self.assertEqual(set(asked), {b"CONNECT localhost:%d HTTP/1.1" % upstream.port})
                tunnels = proxy.num_connections
                os.environ["NO_PROXY"] = "localhost"
                self.assertEqual(self.ask(text), ([200, 200], b"through"))
                self.assertEqual(proxy.num_connections, tunnels)


def pump(one, other):
    """Bytes both ways until either ends."""
    while True:
        ready, _, _ = select.select([one, other], [], [], 10)
        for source in ready:
            piece = source.recv(65536)
            if not piece:
                return
            (other if source is one else one).sendall(piece)


class KeyTest(ForwardCase):
    KEYS = ('[[key]]\nname = "team"\nsha256 = "{}"\nmodels = ["gpt-*"]\n'
            'requests_per_minute = 3\n')

    def test_a_key_is_asked_for_and_never_leaves(self):
        keys = self.KEYS.format(hashlib.sha256(b"gate").hexdigest())
        with Upstream(lambda c, h, b: c.sendall(answer())) as upstream, \
                self.gateway([("u", "openai", upstream.port)], keys) as running:
            connection = self.connect(running)
            good = b"Authorization: Bearer gate\r\n"

            def ask(headers, model=b"gpt-5"):
                head, body, _, _ = self.post(connection, b'{"model":"' + model + b'"}',
                                             headers=headers)
                return int(head.split()[1])

            self.assertEqual(ask(b""), 401)
            self.assertEqual(ask(b"Authorization: Bearer gates\r\n"), 401)
            self.assertEqual(ask(good, b"o3"), 403)
            self.assertEqual(len(upstream.requests), 0)
            self.assertEqual(ask(good), 200)
            self.assertNotIn(b"gate", upstream.requests[-1][0])
            self.assertEqual(ask(b"x-kvgate-key: gate\r\nAuthorization: Bearer mine\r\n"), 200)
            self.assertIn(b"Authorization: Bearer mine", upstream.requests[-1][0])
            self.assertNotIn(b"gate", upstream.requests[-1][0])
            self.assertEqual(ask(good), 200)
            self.assertEqual(ask(good), 429)
            self.assertEqual(running.get("/health").status, 200)
            self.assertEqual(running.get("/metrics").status, 401)
            self.assertNotIn("gate\n", running.log())


if __name__ == "__main__":
    unittest.main()
