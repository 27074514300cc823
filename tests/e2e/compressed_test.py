#!/usr/bin/env python3
"""Compressed bodies, both ways: the bytes pass as they are, and what is in them is still accounted,
routed and kept to what a key may use."""

import gzip
import hashlib
import json
import sys
import time
import unittest
import zlib
from pathlib import Path

import server
from case import Case, slowness
from limits_test import rss_mib
from raw_http import RecordingUpstream, Wire, connect, send

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

from provider_simulator import Simulator  # noqa: E402

CHAT = {"model": "gpt-5.5", "messages": [{"role": "user", "content": "hello " * 400}]}
MESSAGES = {"model": "claude-sonnet-5", "max_tokens": 9,
            "messages": [{"role": "user", "content": "hello " * 400}]}
OPENAI = {"Authorization": "Bearer sk-test", "Content-Type": "application/json"}
ANTHROPIC = {"x-api-key": "sk-test", "anthropic-version": "2023-06-01",
             "Content-Type": "application/json"}


def upstream(name, port, dialect="openai", models="*"):
    base = f"http://127.0.0.1:{port}" + ("/v1" if dialect == "openai" else "")
    return (f'[[upstream]]\nname = "{name}"\ndialect = "{dialect}"\nbase_url = "{base}"\n'
            f'models = ["{models}"]\n')


class CompressedCase(Case):
    def gateway(self, config, model=None):
        path = self.folder / "kvgate.toml"
        path.write_text(config)
        self.running = server.Server(model, self.folder / "data", [
            "--config", str(path), "--set", "engine.kv_memory=64MiB"]).start()
        self.addCleanup(self.running.__exit__)

    def post(self, path, body, headers):
        """(status, headers, the body as it came)."""
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        with connect(self.running.address) as connection:
            send(connection, f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{head}"
                             f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
            return Wire(connection).answer()

    def record(self, fields):
        return self.record_of(self.running, fields[b"x-kvgate-request-id"].decode(),
                              getattr(self, "admin", {}))


class AnswerTest(CompressedCase):
    def test_usage_of_compressed_answers_is_that_of_plain_ones(self):
        with Simulator() as provider:
            port = provider.port
            self.gateway(upstream("o", port) + upstream("a", port, "anthropic"))
            for path, base, headers in (("/v1/chat/completions", CHAT, OPENAI),
                                        ("/v1/messages", MESSAGES, ANTHROPIC)):
                for stream in (False, True):
                    with self.subTest(path, stream=stream):
                        body = {**base, "stream": stream}
                        if stream and path.endswith("completions"):
                            body["stream_options"] = {"include_usage": True}
                        raw = json.dumps(body).encode()
                        usage = []
                        for more in ({}, {"x-sim-gzip": "1", "Accept-Encoding": "gzip"}):
                            status, fields, got = self.post(path, raw, {**headers, **more})
                            self.assertEqual(status, 200)
                            self.assertEqual(got, provider.requests[-1].response)
                            self.assertEqual(fields.get(b"content-encoding"),
                                             b"gzip" if more else None)
                            plain = gzip.decompress(got) if more else got
                            self.assertIn(b"usage", plain)
                            usage.append(self.record(fields)["usage"])
                        self.assertIsNotNone(usage[0])
                        self.assertGreater(usage[0]["output_tokens"], 0)
                        self.assertEqual(usage[0], usage[1])

    def test_compressed_events_come_when_they_are_sent(self):
        with Simulator() as provider:
            self.gateway(upstream("o", provider.port))
            body = json.dumps({**CHAT, "stream": True}).encode()
            unpacker = zlib.decompressobj(wbits=31)
            times, text = [], b""
            with connect(self.running.address) as connection:
                send(connection, b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
                                 b"Content-Type: application/json\r\nAuthorization: Bearer s\r\n"
                                 b"x-sim-gzip: 1\r\nx-sim-fault: drip:0.1\r\n"
                                 b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
                wire = Wire(connection)
                wire.until(b"\r\n\r\n")
                while (size := int(wire.until(b"\r\n"), 16)) > 0:
                    text += unpacker.decompress(wire.take(size))
                    wire.take(2)
                    times += [time.monotonic()] * (text.count(b"\n\n") - len(times))
            self.assertIn(b"[DONE]", text)
            gaps = [after - before for before, after in zip(times, times[1:])]
            self.assertGreater(len(gaps), 5)
            self.assertGreater(min(gaps[:-1]), 0.03, "events were held back and came together")

    def test_what_cannot_be_read_passes_and_the_record_says_why(self):
        good = gzip.compress(b'{"usage":{"prompt_tokens":8,"completion_tokens":1}}')
        bomb = gzip.compress(b'{"usage":{"prompt_tokens":8,"completion_tokens":1},"x":"' +
                             b"x" * (128 << 20) + b'"}')
        cases = [("gzip", good, None), ("gzip", good[:-9], "not reported"),
                 ("gzip", good + b"tail", "broken encoding"), ("gzip", b"{}", "broken encoding"),
                 ("gzip", bomb, "expands too much"), ("compress", good, "encoded"),
                 ("gzip, gzip", gzip.compress(good), "encoded")]
        answer = [b"", b""]

        def script(connection, request):
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                               b"Content-Encoding: %s\r\nContent-Length: %d\r\n\r\n%s" %
                               (answer[0], len(answer[1]), answer[1]))

        with RecordingUpstream(script) as provider:
            self.gateway(upstream("o", provider.port))
            before = rss_mib(self.running)
            for coding, body, why in cases:
                with self.subTest(coding, why=why):
                    answer[:] = [coding.encode(), body]
                    begin = time.monotonic()
                    status, fields, got = self.post("/v1/chat/completions", b'{"model":"m"}',
                                                    OPENAI)
                    self.assertLess(time.monotonic() - begin, 2 * slowness(self.running))
                    self.assertEqual((status, got), (200, body))
                    record = self.record(fields)
                    self.assertEqual(record["usage"] is None, why is not None, record)
                    self.assertEqual(record.get("usage_unknown"), why)
            self.assertLess(rss_mib(self.running) - before, 16)


class RequestTest(CompressedCase):
    ENCODED = {**OPENAI, "Content-Encoding": "gzip"}

    def test_compressed_requests_go_where_their_model_is(self):
        with RecordingUpstream() as one, RecordingUpstream() as two:
            self.gateway(upstream("one", one.port, models="gpt-*") +
                         upstream("two", two.port, models="o*"), self.tiny())
            for model, asked in (("gpt-5", one), ("o3", two)):
                for path in ("/v1/chat/completions", "/v1/completions", "/v1/embeddings"):
                    raw = gzip.compress(json.dumps({"pad": "x" * 9999, "model": model}).encode())
                    one.clear()
                    two.clear()
                    status, fields, _ = self.post(path, raw, self.ENCODED)
                    self.assertEqual(status, 200)
                    self.assertEqual([body for _, _, body in asked.requests], [raw])
                    self.assertEqual(len(one.requests) + len(two.requests), 1)
                    record = self.record(fields)
                    self.assertEqual(record["model"], model)
                    self.assertEqual(record["sha256"]["sent"], hashlib.sha256(raw).hexdigest())
            # The local model reads them too; what cannot be read is not its to judge.
            body = b'{"model":"local","prompt":"hi","max_tokens":2,"temperature":0}'
            plain = self.post("/v1/completions", body, OPENAI)
            packed = self.post("/v1/completions", gzip.compress(body), self.ENCODED)
            self.assertEqual(packed[0], 200, packed)
            self.assertEqual(json.loads(plain[2])["choices"], json.loads(packed[2])["choices"])
            after = self.post("/v1/completions", body, OPENAI)
            self.assertEqual(json.loads(after[2])["choices"], json.loads(plain[2])["choices"])

    def test_without_upstreams_an_unknown_coding_is_415(self):
        self.gateway("", self.tiny())
        body = b'{"model":"local","prompt":"hi","max_tokens":2}'
        self.assertEqual(self.post("/v1/completions", gzip.compress(body), self.ENCODED)[0], 200)
        for coding, sent in (("compress", body), ("gzip", body), ("deflate", zlib.compress(body)),
                             ("gzip", gzip.compress(body)[:-4]),
                             ("gzip", gzip.compress(body + b" " * (65 << 20)))):
            status, _, answer = self.post("/v1/completions", sent,
                                          {**OPENAI, "Content-Encoding": coding})
            self.assertEqual(status, 415, answer)
            self.assertIn(f"'{coding}'", json.loads(answer)["error"]["message"])

    def test_an_allow_list_is_not_passed_by_compressing(self):
        def body(model, more=""):
            return ('{"model":"%s"%s}' % (model, more)).encode()

        # An admin's, because one of the paths is not known.
        key = ('[[key]]\nname = "team"\nrole = "admin"\nsha256 = "%s"\nmodels = ["gpt-*"]\n' %
               hashlib.sha256(b"gate").hexdigest())
        good = gzip.compress(body("gpt-5"))
        evil = body("o3")
        bomb = gzip.compress(body("gpt-5")[:-1] + b',"x":"' + b"x" * (100 << 20) + b'"}')
        refused = {
            "another model": ("gzip", gzip.compress(evil)),
            "another one second": ("gzip", gzip.compress(b'{"model":"gpt-5","model":"o3"}')),
            "another one in a second member": ("gzip", gzip.compress(b'{"model":"gpt-5"') +
                                               gzip.compress(b',"model":"o3"}')),
            "a second body behind": ("gzip", good + gzip.compress(evil)),
            "bytes behind": ("gzip", good + evil),
            "cut": ("gzip", good[:-8]),
            "not compressed": ("gzip", evil),
            "deflate, which has two readings": ("deflate", zlib.compress(evil)),
            "an allowed one in deflate": ("deflate", zlib.compress(body("gpt-5"))),
            "an unknown coding": ("compress", evil),
            "plain under an unknown coding": ("x", body("gpt-5")),
            "two codings": ("gzip, gzip", gzip.compress(gzip.compress(evil))),
            "two headers": ("identity\r\nContent-Encoding: gzip", gzip.compress(evil)),
            "two headers, the first allowed": ("gzip\r\nContent-Encoding: identity", good),
            "not named at all": (None, gzip.compress(evil)),
            "a bomb": ("gzip", bomb),
        }
        with RecordingUpstream() as provider:
            self.gateway(upstream("u", provider.port) + "forward_unknown = true\n" + key)
            self.admin = {"Authorization": "Bearer gate"}
            headers = {**OPENAI, "Authorization": "Bearer gate"}
            for path in ("/v1/chat/completions", "/v1/embeddings", "/v1/unknown"):
                for name, (coding, raw) in refused.items():
                    with self.subTest(name, path=path):
                        more = {"Content-Encoding": coding} if coding else {}
                        begin = time.monotonic()
                        status, _, answer = self.post(path, raw, {**headers, **more})
                        self.assertEqual(status, 403, answer)
                        self.assertLess(time.monotonic() - begin, 2 * slowness(self.running))
                        self.assertEqual(provider.raw, b"")
                for coding in ("gzip", "GZIP", "x-gzip"):
                    provider.clear()
                    status, fields, _ = self.post(path, good,
                                                  {**headers, "Content-Encoding": coding})
                    self.assertEqual(status, 200)
                    self.assertEqual([seen for _, _, seen in provider.requests], [good])
                    self.assertEqual(self.record(fields)["model"], "gpt-5")
                provider.clear()


if __name__ == "__main__":
    unittest.main()
