#!/usr/bin/env python3
"""Hostile answers: whatever an upstream says, the client gets one readable answer, an error in its
dialect or a cut that it can see as one; and no other request's answer."""

import gzip
import json
import os
import threading
import time
import unittest

import server
from case import Case, slowness
from limits_test import rss_mib
from raw_http import NotHttp, RecordingUpstream, Wire, connect, reset, send

BODY = b'{"model":"gpt-5","prompt":"hi"}'
REQUEST = (b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
           b"Content-Length: %d\r\n\r\n%s" % (len(BODY), BODY))
OK = b"HTTP/1.1 200 OK\r\n"
GOOD = OK + b"Content-Length: 2\r\n\r\n{}"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
# (name, what the upstream writes, what comes of it); it closes behind it unless the name begins
# with "open". What comes: (status, body), 502, "cut" (an answer that breaks off), or a set of them.
ANSWERS = [
    ("open: good", GOOD, (200, b"{}")),
    ("open: good in chunks", CHUNKED + b"2\r\n{}\r\n0\r\n\r\n", (200, b"{}")),
    ("open: chunk extensions", CHUNKED + b"2;a=b\r\n{}\r\n0;c\r\n\r\n", (200, b"{}")),
    ("until the end", OK + b"\r\n{}", (200, b"{}")),
    ("HTTP/1.0 until the end", b"HTTP/1.0 200 OK\r\n\r\n{}", (200, b"{}")),
    ("HTTP/1.0 with a length", b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}", (200, b"{}")),
    # Framing (RFC 9112, 6.3).
    ("CL and TE", OK + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"
     b"\r\n", 502),
    ("TE and CL", OK + b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n2\r\n{}\r\n0\r\n"
     b"\r\n", 502),
    ("open: CL twice, equal", OK + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
     (200, b"{}")),
    ("open: CL as a list of equals", OK + b"Content-Length: 2, 2\r\n\r\n{}", (200, b"{}")),
    ("CL twice, different", OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{} ", 502),
    ("CL as a list of others", OK + b"Content-Length: 2, 3\r\n\r\n{} ", 502),
    ("TE twice", OK + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
     502),
    ("TE identity", OK + b"Transfer-Encoding: identity\r\n\r\n{}", 502),
    ("TE xchunked", OK + b"Transfer-Encoding: xchunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 502),
    ("TE gzip, chunked", OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 502),
    ("TE chunked, gzip", OK + b"Transfer-Encoding: chunked, gzip\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 502),
    *((f"CL {bad!r}", OK + b"Content-Length: " + bad + b"\r\n\r\n{}", 502)
      for bad in (b"-1", b"+2", b"0x2", b"2.0", b"", b"two", b"18446744073709551618", b"2 2")),
    ("body too short", OK + b"Content-Length: 9\r\n\r\n{}", "cut"),
    ("body of the largest length", OK + b"Content-Length: 18446744073709551614\r\n\r\n{}", "cut"),
    ("body too long", OK + b"Content-Length: 2\r\n\r\n{}}}}", (200, b"{}")),
    # Chunks: where the head is well and the body is not, either an error or a cut.
    *((f"chunk {bad!r}", CHUNKED + b"2\r\n{}\r\n" + bad, "cut")
      for bad in (b"-1\r\n{}\r\n0\r\n\r\n", b"g\r\n{}\r\n0\r\n\r\n", b"0x2\r\n{}\r\n0\r\n\r\n",
                  b"2\n{}\r\n0\r\n\r\n", b"2\r\n{}0\r\n\r\n", b"2\r\n{}\n0\r\n\r\n",
                  b"ffffffffffffffff1\r\n{}", b"10000000000000002\r\n{}", b"\r\n\r\n", b"",
                  b"0\r\nnonsense\r\n\r\n", b"0\r\nContent-Length: 2\r\n\r\n",
                  b"0\r\nTransfer-Encoding: chunked\r\n\r\n", b"0\r\nA: b\nC: d\r\n\r\n")),
    # Heads.
    ("no status", b"HTTP/1.1 \r\n\r\n", 502),
    ("status of two digits", b"HTTP/1.1 20 OK\r\n\r\n", 502),
    ("status of four digits", b"HTTP/1.1 2000 OK\r\n\r\n", 502),
    ("status 099", b"HTTP/1.1 099 OK\r\nContent-Length: 0\r\n\r\n", 502),
    ("status 999", b"HTTP/1.1 999 Odd\r\nContent-Length: 2\r\n\r\n{}", (999, b"{}")),
    ("status 600", b"HTTP/1.1 600 Odd\r\nContent-Length: 2\r\n\r\n{}", (600, b"{}")),
    ("HTTP/2.0", b"HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\n{}", 502),
    ("HTTP/0.9", b"{}", 502),
    ("a request", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 502),
    ("bytes of TLS", b"\x15\x03\x01\x00\x02\x02\x46" * 20, 502),
    ("reason with a bare LF", b"HTTP/1.1 200 O\nX-Evil: 1\r\nContent-Length: 2\r\n\r\n{}", 502),
    ("reason with a bare CR", b"HTTP/1.1 200 O\rX-Evil: 1\r\nContent-Length: 2\r\n\r\n{}", 502),
    ("reason with NUL", b"HTTP/1.1 200 O\0K\r\nContent-Length: 2\r\n\r\n{}", 502),
    ("value with a bare LF", OK + b"X: a\nX-Evil: 1\r\nContent-Length: 2\r\n\r\n{}", 502),
    ("value with a bare CR", OK + b"X: a\rX-Evil: 1\r\nContent-Length: 2\r\n\r\n{}", 502),
    ("value with NUL", OK + b"X: a\0b\r\nContent-Length: 2\r\n\r\n{}", 502),
    ("name with a space", OK + b"X : a\r\nContent-Length: 2\r\n\r\n{}", 502),
    ("name that is empty", OK + b": a\r\nContent-Length: 2\r\n\r\n{}", 502),
    ("line without a colon", OK + b"nonsense\r\nContent-Length: 2\r\n\r\n{}", 502),
    ("open: folded value", OK + b"X: a\r\n b\r\nContent-Length: 2\r\n\r\n{}", (200, b"{}")),
    ("open: forged headers of ours", OK + b"x-kvgate-request-id: evil\r\nContent-Length: 2\r\n"
     b"x-kvgate-upstream: evil\r\n\r\n{}", (200, b"{}")),
    ("head of 70 KB in one line", OK + b"X: " + b"y" * 70_000 + b"\r\n\r\n", 502),
    ("head without an end", OK + b"X: y\r\n" * 100_000, 502),
    ("head that is cut", OK + b"X: y\r\n", 502),
    # Answers that have no body (RFC 9112, 6.3): what follows belongs to nobody.
    ("204 with a body", b"HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\n{}", (204, b"")),
    ("204 in chunks", b"HTTP/1.1 204 No\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
     (204, b"")),
    ("304 with a body", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 2\r\n\r\n{}", (304, b"")),
    ("open: 205", b"HTTP/1.1 205 Reset\r\nContent-Length: 0\r\n\r\n", (205, b"")),
    # Interim answers.
    ("open: 100 and 103 first", b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n"
     b"\r\n" + GOOD, (200, b"{}")),
    ("interim ones without an end", b"HTTP/1.1 103 Early\r\nLink: x\r\n\r\n" * 100_000, 502),
    ("101, unasked", b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n"
     b"\x81\x02{}", 502),
    ("nothing", b"", 502),
]


class UpstreamCase(Case):
    LINES = ("connect_timeout_ms = 500\nfirst_byte_timeout_seconds = 2\nidle_timeout_seconds = 2\n"
             "breaker_failures = 0\nforward_unknown = true\n")

    def start(self, script):
        self.upstream = RecordingUpstream(script).__enter__()
        self.addCleanup(self.upstream.__exit__)
        config = self.folder / "kvgate.toml"
        config.write_text('[[upstream]]\nname = "u"\ndialect = "openai"\n' + self.LINES +
                          f'base_url = "http://127.0.0.1:{self.upstream.port}/v1"\n')
        self.running = server.Server(None, self.folder / "data", ["--config", str(config)])
        self.addCleanup(self.running.__exit__)
        self.running.start()

    def tearDown(self):
        self.assertIsNone(self.running.process.poll(), self.running.log()[-3000:])
        self.assertEqual(self.upstream.faults, [])

    def ask(self, request=REQUEST):
        """(status, headers, body), or "cut"."""
        with connect(self.running.address) as connection:
            send(connection, request)
            wire = Wire(connection)
            try:
                answer = wire.answer(head_only=request.startswith(b"HEAD"))
            except NotHttp as fault:
                self.assertIn("cut", str(fault))
                return "cut"
            self.assertIsNotNone(answer)
            self.assertEqual(wire.pending, b"", "bytes behind the answer")
            return answer


class AnswerTest(UpstreamCase):
    def test_each_answer_becomes_one_readable_answer_an_error_or_a_cut(self):
        wire = [b""]

        def script(connection, request):
            name, data = wire[0]
            try:
                connection.sendall(data)
            except OSError:
                return "close"
            return None if name.startswith("open") else "close"

        self.start(script)
        for name, data, outcome in ANSWERS:
            # A body that comes with its head, and one that comes later.
            with self.subTest(name):
                wire[0] = name, data
                num_requests = len(self.upstream.requests)
                num_closed = self.upstream.num_closed
                self.judge(self.ask(), outcome)
                # A request on a connection that is about to be closed would rightly fail.
                while not name.startswith("open") and self.upstream.num_closed == num_closed:
                    time.sleep(0.001)
                self.assertLessEqual(len(self.upstream.requests), num_requests + 1,
                                     "what was received was sent again")
                wire[0] = "open", GOOD
                self.judge(self.ask(), (200, b"{}"))
        self.assertLess(rss_mib(self.running), 100)

    def judge(self, answer, outcome):
        if outcome == "cut":
            # Before its head has gone out a broken answer may also become an error.
            if answer != "cut":
                outcome = 502
            else:
                return
        self.assertNotEqual(answer, "cut")
        status, fields, body = answer
        if outcome == 502:
            self.assertEqual(status, 502, body)
            self.assertIn("'u'", json.loads(body)["error"]["message"])
            return
        self.assertEqual((status, body), outcome)
        self.assertNotIn(b"x-evil", fields)
        self.assertNotIn(b"evil", b" ".join(fields.values()))
        self.assertTrue(fields[b"x-kvgate-request-id"])
        if status == 204:
            self.assertNotIn(b"content-length", fields)

    def test_answers_cut_at_every_byte_are_seen_as_cut(self):
        for whole in (GOOD.replace(b"2\r\n\r\n{}", b"20\r\n\r\n" + b"x" * 20),
                      CHUNKED + b"5\r\n{   }\r\n3;a=b\r\nxyz\r\n0\r\nT: u\r\n\r\n"):
            at = [0]

            def script(connection, request):
                connection.sendall(whole[:at[0]])
                return "close"

            if not hasattr(self, "upstream"):
                self.start(script)
            self.upstream.script = script
            for at[0] in range(len(whole)):
                answer = self.ask()
                self.assertTrue(answer == "cut" or answer[0] == 502, (at[0], answer))

    def test_trailers_never_become_headers(self):
        def script(connection, request):
            for piece in (CHUNKED + b"2\r\n{}\r\n0\r\nX-Evil: 1\r\nSet-Cookie: evil\r\n\r\n",):
                connection.sendall(piece)

        self.start(script)
        status, fields, body = self.ask()
        self.assertEqual((status, body), (200, b"{}"))
        self.assertNotIn(b"x-evil", fields)
        self.assertNotIn(b"set-cookie", fields)

    def test_a_head_request_has_no_body_whatever_the_upstream_sends(self):
        self.start(lambda connection, request: connection.sendall(GOOD))
        for _ in range(3):
            status, fields, _ = self.ask(b"HEAD /v1/thing HTTP/1.1\r\nHost: localhost\r\n\r\n")
            self.assertEqual((status, fields[b"content-length"]), (200, b"2"))
            self.assertEqual(self.ask()[::2], (200, b"{}"), "the body that nobody asked for")


class EchoTest(UpstreamCase):
    """An upstream that repeats the request's head tells nobody the operator's key."""

    KEY = b"provider-key-provider-key-0123"
    LINES = UpstreamCase.LINES + 'api_key_env = "KVGATE_TEST_UPSTREAM_KEY"\n'

    def start(self, script):
        os.environ["KVGATE_TEST_UPSTREAM_KEY"] = self.KEY.decode()
        self.addCleanup(os.environ.pop, "KVGATE_TEST_UPSTREAM_KEY")
        super().start(script)

    def test_the_key_is_starred_out_of_errors_and_heads_however_they_come(self):
        reply = [None]

        def script(connection, request):
            _, fields, _ = request
            seen = dict(fields)[b"authorization"]
            self.assertEqual(seen, b"Bearer " + self.KEY)
            reply[0](connection, b'{"error":{"message":"bad head: authorization: ' + seen +
                     b' (twice: ' + self.KEY + self.KEY + b')"}}')

        def whole(status, more=b"", encode=lambda body: body):
            def answer(connection, body):
                raw = encode(body)
                connection.sendall(b"HTTP/1.1 %s\r\nContent-Type: application/json\r\n%s"
                                   b"Content-Length: %d\r\n\r\n%s" % (status, more, len(raw), raw))
            return answer

        def dripped(connection, body):
            connection.sendall(b"HTTP/1.1 500 No\r\nContent-Type: application/json\r\n"
                               b"Transfer-Encoding: chunked\r\n\r\n")
            for at in range(0, len(body), 7):
                piece = body[at:at + 7]
                connection.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
                time.sleep(0.002)
            connection.sendall(b"0\r\n\r\n")

        self.start(script)
        stars = b"*" * len(self.KEY)
        cases = {
            "an error": (whole(b"401 No"), 401),
            "in chunks": (dripped, 500),
            "a redirect": (whole(b"302 Go", b"Location: http://x/?key=" + self.KEY + b"\r\n"), 302),
            "compressed": (whole(b"400 Bad", b"Content-Encoding: gzip\r\n", gzip.compress), 400),
            "a header of an answer": (whole(b"200 OK", b"X-Echo: " + self.KEY + b"\r\n",
                                            lambda _: b"{}"), 200),
            "the reason": (whole(b"418 " + self.KEY, b"", lambda _: b"{}"), 418),
        }
        for name, (answer, status) in cases.items():
            with self.subTest(name):
                reply[0] = answer
                with connect(self.running.address) as connection:
                    send(connection, REQUEST.replace(b"Host:", b"Connection: close\r\nHost:", 1))
                    raw = b""
                    while piece := connection.recv(1 << 16):
                        raw += piece
                self.assertTrue(raw.startswith(b"HTTP/1.1 %d" % status), raw[:200])
                self.assertNotIn(self.KEY, raw)
                self.assertIn(stars, raw.replace(b"\r\n7\r\n", b""), "the rest is there")
        # What has no key in it comes as it was, compressed too.
        plain = gzip.compress(b'{"error":{"message":"no"}}')
        reply[0] = whole(b"429 Slow", b"Content-Encoding: gzip\r\nRetry-After: 7\r\n",
                         lambda _: plain)
        status, fields, body = self.ask()
        self.assertEqual((status, body, fields[b"retry-after"]), (429, plain, b"7"))
        self.assertEqual(fields[b"content-encoding"], b"gzip")
        self.assertNotIn(self.KEY.decode(), self.running.log())


class PoisonTest(UpstreamCase):
    """An answer must never be taken for that of another request."""

    def test_bytes_behind_an_answer_are_never_the_next_answer(self):
        evil = OK + b"Content-Length: 4\r\n\r\nevil"
        for delay in (0, 0.05):
            for good in (GOOD, CHUNKED + b"2\r\n{}\r\n0\r\n\r\n",
                         b"HTTP/1.1 204 None\r\n\r\n", b"HTTP/1.1 304 Same\r\n\r\n"):
                def script(connection, request):
                    if delay:
                        connection.sendall(good)
                        time.sleep(delay)
                        connection.sendall(evil)
                    else:
                        connection.sendall(good + evil)

                if not hasattr(self, "upstream"):
                    self.start(script)
                self.upstream.script = script
                for _ in range(5):
                    answer = self.ask()
                    self.assertNotEqual(answer, "cut")
                    self.assertNotIn(b"evil", answer[2])
                    time.sleep(2 * delay)

    def test_a_kept_connection_that_was_closed_or_reset_is_not_used_again(self):
        def script(connection, request):
            connection.sendall(GOOD)
            if len(self.upstream.requests) % 2:
                reset(connection)
            return "close"

        self.start(script)
        for number in range(20):
            self.assertEqual(self.ask()[0], 200)
            time.sleep(0.02)
            self.assertEqual(len(self.upstream.requests), number + 1)

    def test_an_answer_before_the_request_was_read_reaches_the_client(self):
        """413 at once; the upstream drops the body, or closes with a reset on it."""
        drains = [True]

        def serve(connection):
            with connection:
                connection.recv(1000)
                connection.sendall(b"HTTP/1.1 413 Large\r\nContent-Length: 2\r\n"
                                   b"Connection: close\r\n\r\n{}")
                if not drains[0]:
                    time.sleep(0.2)
                    return
                while connection.recv(1 << 20):
                    pass

        self.start(None)
        self.upstream._serve = serve
        body = b'{"model":"m","pad":"' + b"x" * (8 << 20) + b'"}'
        for drains[0] in (True, False):
            answer = self.ask(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
                              b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
                              % (len(body), body))
            self.assertEqual(answer[::2], (413, b"{}"))

    def test_an_upstream_that_neither_reads_nor_answers_is_given_up(self):
        held = []
        self.start(None)
        self.upstream._serve = held.append
        body = b'{"model":"m","pad":"' + b"x" * (8 << 20) + b'"}'
        begin = time.monotonic()
        answer = self.ask(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                          b"application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        self.assertEqual(answer[0], 504)
        self.assertLess(time.monotonic() - begin, 5 * slowness(self.running))
        self.assertEqual(len(held), 1, "sent again")
        held[0].close()


class EndlessTest(UpstreamCase):
    """Answers without an end are bounded in memory and end with their time."""

    ENDLESS = {"headers": (OK, b"X-Filler: " + b"y" * 1000 + b"\r\n"),
               "interim answers": (b"", b"HTTP/1.1 103 Early\r\n\r\n"),
               "one header": (OK + b"X: ", b"y" * 1000),
               "a chunk's extension": (CHUNKED + b"2;", b"y" * 1000),
               "trailers": (CHUNKED + b"2\r\n{}\r\n0\r\n", b"X-Filler: " + b"y" * 1000 + b"\r\n"),
               "zeros of a chunk's size": (CHUNKED, b"0" * 1000),
               "a status line": (b"HTTP/1.1 200 ", b"y" * 1000)}

    def test_nothing_without_an_end_is_collected(self):
        endless = [None]

        def script(connection, request):
            first, more = self.ENDLESS[endless[0]]
            connection.sendall(first)
            for _ in range(200_000):
                connection.sendall(more * 10)
            return "close"

        self.start(script)
        for endless[0] in self.ENDLESS:
            with self.subTest(endless[0]):
                before = rss_mib(self.running)
                begin = time.monotonic()
                answer = self.ask()
                self.assertTrue(answer == "cut" or answer[0] in (502, 504), answer)
                self.assertLess(time.monotonic() - begin, 5 * slowness(self.running))
                self.assertLess(rss_mib(self.running) - before, 32)

    def test_slow_drips_of_a_head_end_with_the_first_bytes_timeout(self):
        def script(connection, request):
            connection.sendall(OK)
            for _ in range(100):
                time.sleep(0.1)
                connection.sendall(b"X: y\r\n")

        self.start(script)
        begin = time.monotonic()
        threads = [threading.Thread(target=lambda: replies.append(self.ask())) for _ in range(16)]
        replies = []
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual({reply[0] for reply in replies}, {504})
        self.assertLess(time.monotonic() - begin, 6 * slowness(self.running))


if __name__ == "__main__":
    unittest.main()
