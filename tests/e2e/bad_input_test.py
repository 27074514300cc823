#!/usr/bin/env python3
"""Bad input: the right status, a message that names the field, and a server that keeps serving."""

import json
import unittest

import raw_http
from case import Case, text_of

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
USER = [{"role": "user", "content": "hi"}]


def chat(**fields):
    return {"model": "local", "messages": USER, "max_tokens": 1, **fields}


def text(**fields):
    return {"model": "local", "prompt": "hi", "max_tokens": 1, **fields}


# (name, path, body, status, what param or message must name)
TABLE = [
    ("malformed JSON", TEXT, b'{"model": "local", "prompt": ', 400, "JSON"),
    ("text behind the object", TEXT, b'{"model":"local","prompt":"a"} x', 400, "JSON"),
    ("empty body", TEXT, b"", 400, ""),
    ("an array", CHAT, b"[]", 400, "object"),
    ("invalid UTF-8", TEXT, b'{"model":"local","prompt":"\xff\xfe"}', 400, "UTF-8"),
    ("deep nesting", CHAT, b'{"model":"local","messages":' + b"[" * 5000 + b"]" * 5000 + b"}",
     400, ""),
    ("no model", TEXT, {"prompt": "hi"}, 400, "model"),
    ("model is a number", TEXT, text(model=5), 400, "model"),
    ("unknown model", CHAT, chat(model="gpt-none"), 404, "gpt-none"),
    ("no prompt", TEXT, {"model": "local"}, 400, "prompt"),
    ("prompt is an object", TEXT, text(prompt={}), 400, "prompt"),
    ("prompt is empty", TEXT, text(prompt=[]), 400, "prompt"),
    ("a token id past the vocabulary", TEXT, text(prompt=[1, 2, 10**6]), 400, "prompt"),
    ("a negative token id", TEXT, text(prompt=[1, -2]), 400, "prompt"),
    ("mixed prompt", TEXT, text(prompt=[1, "a"]), 400, "prompt"),
    ("no messages", CHAT, {"model": "local"}, 400, "messages"),
    ("messages is a string", CHAT, chat(messages="hi"), 400, "messages"),
    ("messages is empty", CHAT, chat(messages=[]), 400, "messages"),
    ("a message is a number", CHAT, chat(messages=USER + [7]), 400, "messages[1]"),
    ("no role", CHAT, chat(messages=[{"content": "hi"}]), 400, "role"),
    ("unknown role", CHAT, chat(messages=[{"role": "king", "content": "hi"}]), 400, "role"),
    ("content is a number", CHAT, chat(messages=[{"role": "user", "content": 5}]), 400,
     "messages[0].content"),
    ("temperature is a string", CHAT, chat(temperature="hot"), 400, "temperature"),
    ("temperature below 0", TEXT, text(temperature=-1), 400, "temperature"),
    ("top_p above 1", TEXT, text(top_p=1.5), 400, "top_p"),
    ("top_k is a fraction", TEXT, text(top_k=1.5), 400, "top_k"),
    ("min_p below 0", TEXT, text(min_p=-0.1), 400, "min_p"),
    ("max_tokens below 0", TEXT, text(max_tokens=-1), 400, "max_tokens"),
    ("max_tokens is a string", CHAT, chat(max_tokens="many"), 400, "max_tokens"),
    ("logprobs above 20", TEXT, text(logprobs=21), 400, "logprobs"),
    ("top_logprobs above 20", CHAT, chat(logprobs=True, top_logprobs=21), 400, "top_logprobs"),
    ("stop is a number", TEXT, text(stop=3), 400, "stop"),
    ("too many stop strings", TEXT, text(stop=["s"] * 1000), 400, "stop"),
    ("stream is a string", CHAT, chat(stream="yes"), 400, "stream"),
    ("seed is a list", TEXT, text(seed=[]), 400, "seed"),
]


class BadInputTest(Case):
    def setUp(self):
        super().setUp()
        self.running = self.serve()
        self.good = self.assert_ok(self.running.complete("good", max_tokens=8))

    def tearDown(self):
        after = self.assert_ok(self.running.complete("good", max_tokens=8))
        self.assertEqual(after.answer, self.good.answer, "the server keeps serving")

    def check(self, reply, status, names):
        self.assertEqual(reply.status, status, reply.body[:500])
        error = reply.error
        self.assertEqual(set(error), {"message", "type", "param", "code"})
        named = f"{error['param']} {error['message']} {error['code']}"
        self.assertIn(names, named)
        self.assertTrue(reply.headers.get("x-kvgate-request-id"), reply.headers)

    def test_each_kind_of_bad_body_gets_its_status_and_names_its_field(self):
        for name, path, body, status, names in TABLE:
            with self.subTest(name):
                self.check(self.running.send(path, body), status, names)

    def test_a_prompt_longer_than_the_context_is_refused_by_name(self):
        for reply in (self.running.complete([5] * 9000, max_tokens=1),
                      self.running.chat([{"role": "user", "content": text_of(1, 9000)}], 1)):
            self.assertEqual(reply.status, 400, reply.body[:500])
            self.assertEqual(reply.error["code"], "context_length_exceeded")
            self.assertIn(reply.error["param"], ("prompt", "messages"))
            self.assertIn("8192", reply.error["message"])
        # By these words Claude Code compacts a conversation, and by no others.
        long = {"model": "local", "messages": [{"role": "user", "content": text_of(1, 9000)}]}
        reply = self.running.send("/v1/messages", {**long, "max_tokens": 9})
        self.assertEqual(reply.status, 400, reply.body[:500])
        self.assertRegex(json.loads(reply.body)["error"]["message"],
                         r"^prompt is too long: \d+ tokens > 8191 maximum$")
        reply = self.running.send("/v1/responses", {"model": "local", "input": text_of(1, 9000)})
        self.assertEqual(reply.error["code"], "context_length_exceeded")
        self.assertIn("exceeds the context window", reply.error["message"])

    def test_a_body_over_the_limit_is_413_even_while_it_is_still_being_sent(self):
        size = (64 << 20) + 1
        connection = self.running.connect(timeout=30)
        try:
            connection.putrequest("POST", TEXT)
            connection.putheader("Content-Type", "application/json")
            connection.putheader("Content-Length", str(size))
            connection.endheaders()
            chunk = b" " * (1 << 20)
            for _ in range(64):
                connection.send(chunk)
            connection.send(b" ")
            response = connection.getresponse()
            self.assertEqual(response.status, 413)
            self.assertIn("error", json.loads(response.read()))
        finally:
            connection.close()

    def test_unknown_paths_and_methods_are_json_errors(self):
        reply = self.running.send("/v1/nothing/here", {})
        self.assertEqual(reply.status, 404)
        self.assertIn("/v1/nothing/here", reply.error["message"])
        reply = self.running.get(TEXT)
        self.assertEqual(reply.status, 405)
        self.assertIn("error", reply.json)
        self.assertEqual(self.running.get("/v1/models/none").status, 404)

    def test_a_page_from_elsewhere_cannot_use_the_server(self):
        body = text()
        evil = {"Host": "evil.example"}
        self.assertIn(self.running.send(TEXT, body, evil).status, (403, 421))
        evil = {"Origin": "http://evil.example"}
        self.assertEqual(self.running.send(TEXT, body, evil).status, 403)
        plain = {"Content-Type": "text/plain"}
        self.assertEqual(self.running.send(TEXT, body, plain).status, 415)

    def test_bytes_that_are_no_http_end_their_connection_only(self):
        for garbage in (b"\0" * 100, b"GET\r\n\r\n",
                        b"POST / HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
                        b"GET / HTTP/1.1\r\nX: " + b"y" * (1 << 20) + b"\r\n\r\n"):
            with raw_http.connect(self.running.address, timeout=10) as connection:
                try:
                    connection.sendall(garbage)
                    answer = connection.recv(1 << 16)
                except ConnectionError:
                    answer = b""
                self.assertTrue(answer == b"" or answer.startswith(b"HTTP/1.1 4"), answer[:100])

    def test_a_wrong_field_in_a_stream_is_a_plain_error_not_a_stream(self):
        reply = self.running.send(CHAT, chat(stream=True, temperature="x"))
        self.check(reply, 400, "temperature")


if __name__ == "__main__":
    unittest.main()
