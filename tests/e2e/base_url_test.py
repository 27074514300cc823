#!/usr/bin/env python3
"""What agents meet before their first answer: base URLs with and without /v1, a WebSocket that is
tried first, and what the local engine cannot take, which is said once a conversation."""

import hashlib
import json
import unittest

from case import Case, tenant

CHAT = {"model": "local", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 2}
MESSAGES = CHAT
RESPONSES = {"model": "local", "input": "hi", "max_output_tokens": 2}
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5E"
UPGRADE = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
           "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}


class BaseUrlTest(Case):
    def test_every_dialect_is_found_with_and_without_the_version(self):
        running = self.serve()
        for before in ("", "/v1", "/v1/v1"):
            for path, body in (("/chat/completions", CHAT), ("/messages", MESSAGES),
                               ("/messages?beta=true", MESSAGES), ("/responses", RESPONSES),
                               ("/completions", {"model": "local", "prompt": "x",
                                                 "max_tokens": 2})):
                with self.subTest(before + path):
                    self.assert_ok(running.send(before + path, body))
            self.assert_ok(running.get(before + "/models"))
        self.assertEqual(running.send("/messages", {**MESSAGES, "max_tokens": "x"}).json["type"],
                         "error", "an error in its dialect's form")
        for path in ("/api/v1/chat/completions", "//v1/chat/completions"):
            missing = running.send(path, CHAT)
            self.assertEqual(missing.status, 404)
            self.assertIn("/v1/chat/completions is what is meant", missing.json["error"]["message"])

    def test_another_spelling_asks_of_its_caller_what_the_route_asks(self):
        config = self.folder / "kvgate.toml"
        config.write_text('[[key]]\nname = "a"\nsha256 = "%s"\n'
                          % hashlib.sha256(b"key-a").hexdigest())
        running = self.serve(arguments=["--config", str(config)])
        self.assertEqual(running.get("/models").status, 401)
        self.assertEqual(running.get("/models", tenant("key-a")).status, 200)
        self.assertEqual(running.get("/v1/kvgate/v1/stats").status, 401)
        self.assertEqual(running.get("/v1/kvgate/v1/stats", tenant("key-a")).status, 200)
        verify = running.send("/v1/kvgate/v1/prefixes/verify", {}, tenant("key-a"))
        self.assertEqual(verify.status, 403)

    def test_a_websocket_gets_an_answer_that_ends_the_matter(self):
        running = self.serve()
        for path in ("/v1/responses", "/responses"):
            reply = running.get(path, UPGRADE)
            self.assertEqual(reply.status, 426, reply.body)
            self.assertIn("WebSocket", reply.json["error"]["message"])
        self.assertEqual(running.get("/v1/responses").status, 405)
        self.assert_ok(running.send("/v1/responses", RESPONSES))


class LeftOutTest(Case):
    def turns(self, path, image):
        """The same conversation over three turns, with an image in the first."""
        text = "text" if path != "/v1/responses" else "input_text"
        turns = [{"role": "user", "content": [{"type": text, "text": "look at " + path}, image]}]
        for turn in range(3):
            yield list(turns)
            turns += [{"role": "assistant", "content": f"answer {turn}"},
                      {"role": "user", "content": f"and {turn}?"}]

    def test_an_image_is_left_out_of_every_turn_and_said_once(self):
        running = self.serve()
        data = f"data:image/png;base64,{PIXEL}"
        for path, image, field in (
                ("/v1/chat/completions", {"type": "image_url", "image_url": {"url": data}},
                 "messages"),
                ("/v1/messages", {"type": "image", "source": {
                    "type": "base64", "media_type": "image/png", "data": PIXEL}}, "messages"),
                ("/v1/responses", {"type": "input_image", "image_url": data}, "input")):
            cached = []
            for turns in self.turns(path, image):
                limit = {"max_output_tokens" if field == "input" else "max_tokens": 4}
                body = {"model": "local", field: turns, **limit}
                reply = self.assert_ok(running.send(path, body))
                self.assertEqual(reply.headers.get("x-kvgate-left-out"), "image")
                request_id = reply.headers["x-kvgate-request-id"]
                running.wait_for("the record", lambda _: running.get(
                    f"/kvgate/v1/requests/{request_id}").status == 200, 10)
                record = running.get(f"/kvgate/v1/requests/{request_id}").json
                self.assertIn("left_out:image", json.dumps(record["edits"]))
                cached.append(reply.json["kvgate"]["cached_tokens"])
            self.assertEqual(cached, sorted(cached))
            self.assertGreater(cached[-1], 64, "the placeholder is the same in every turn")
        said = [line for line in running.log().splitlines() if "cannot take 'image'" in line]
        self.assertEqual(len(said), 3, said)

    def test_nothing_left_out_is_not_said(self):
        reply = self.assert_ok(self.serve().send("/v1/chat/completions", CHAT))
        self.assertNotIn("x-kvgate-left-out", reply.headers)


if __name__ == "__main__":
    unittest.main()
