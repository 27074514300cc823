#!/usr/bin/env python3
"""Gemini's explicit caches, made where its own cache misses: through the real binary."""

import json
import sys
import unittest
import urllib.request
from pathlib import Path

from case import Case, text_of, wait_until

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

from provider_simulator import Simulator  # noqa: E402

MODEL = "gemini-2.5-pro"
PATH = f"/v1beta/models/{MODEL}:generateContent"
STREAM = f"/v1beta/models/{MODEL}:streamGenerateContent?alt=sse"
KEY = {"x-goog-api-key": "key-of-the-caller"}
MISSES = {**KEY, "x-sim-implicit": "off"}
UPSTREAMS = {"google": ("gemini", "gemini-*", "")}
FUNCTION = {"name": "look", "description": "Looks.",
            "parametersJsonSchema": {"type": "object", "properties": {"q": {"type": "string"}}}}
SYSTEM = {"parts": [{"text": text_of("explicit", 12000)}]}


def body_of(question, **more):
    return {"systemInstruction": SYSTEM, "tools": [{"functionDeclarations": [FUNCTION]}],
            "contents": [{"role": "user", "parts": [{"text": question}]}], **more}


class GeminiExplicitCacheTest(Case):
    def start(self, row=""):
        self.provider = self.enterContext(Simulator())
        self.data = self.folder / "data"
        rows = {"google": ("gemini", "gemini-*", row)}
        self.arguments = self.upstreams(self.provider.url, rows)
        return self.serve(arguments=self.arguments, data_dir=self.data)

    def orders(self, method="POST"):
        return [request for request in self.provider.requests
                if request.method == method and "cachedContents" in request.path]

    def counted(self, running, event):
        line = f'kvgate_explicit_caches_total{{event="{event}"}} '
        return next(int(float(row[len(line):])) for row in
                    running.get("/metrics").body.decode().splitlines() if row.startswith(line))

    def ask(self, running, question, headers=MISSES, path=PATH, **more):
        return self.assert_ok(running.send(path, body_of(question, **more), headers))

    def ask_until_kept(self, running, headers=MISSES):
        for i in range(8):
            self.ask(running, f"Question {i}?", headers)
            if self.orders():
                break
        wait_until(lambda: self.counted(running, "made") == 1, "a cache is made")

    def test_a_prefix_that_is_missed_is_kept_under_a_name_and_read_from_then_on(self):
        running = self.start()
        self.ask_until_kept(running)
        order, = self.orders()
        made = order.json()
        self.assertEqual(made["model"], f"models/{MODEL}")
        self.assertEqual(made["systemInstruction"], SYSTEM)
        self.assertEqual(made["tools"][0]["functionDeclarations"][0]["name"], "look")
        self.assertEqual(order.header("x-goog-api-key"), KEY["x-goog-api-key"])
        for i in range(4):
            reply = self.ask(running, f"Another {i}?", generationConfig={"temperature": 0})
            sent = self.provider.requests[-1].json()
            self.assertTrue(sent["cachedContent"].startswith("cachedContents/"), sent)
            self.assertFalse({"systemInstruction", "tools", "toolConfig"} & set(sent))
            usage = reply.json["usageMetadata"]
            self.assertGreater(usage["cachedContentTokenCount"], 5000)
        record = self.record_of(running, reply.headers["x-kvgate-request-id"])
        self.assertIn("explicit_cache", [edit["rule"] for edit in record["edits"]])
        self.assertEqual(record["usage"]["cache_read_tokens"], usage["cachedContentTokenCount"])
        self.assertEqual(len(self.orders()), 1)
        records = running.get("/kvgate/v1/requests?limit=50").json["data"]
        order, = [one for one in records if one["path"] == "/v1beta/cachedContents"]
        self.assertGreater(order["usage"]["cache_write_tokens"], 5000)
        self.assertEqual(list(order["attribution"]), ["explicit_cache"])

    def test_streams_and_tool_loops_go_on_behind_a_name(self):
        running = self.start()
        self.ask_until_kept(running)
        stream = self.assert_ok(running.send(STREAM, body_of("Go on."), MISSES))
        self.assertTrue(self.provider.requests[-1].json()["cachedContent"])
        self.assertGreater(len(stream.events), 1)
        first = self.ask(running, "Please call the tool.").json["candidates"][0]["content"]
        call = next(part["functionCall"] for part in first["parts"] if "functionCall" in part)
        contents = [{"role": "user", "parts": [{"text": "Please call the tool."}]}, first,
                    {"role": "user", "parts": [{"functionResponse": {
                        "name": call["name"], "response": {"output": "found"}}}]}]
        self.ask(running, "", contents=contents)
        sent = self.provider.requests[-1].json()
        self.assertEqual(sent["contents"], contents)
        self.assertIn("cachedContent", sent)

    def test_nothing_is_kept_where_the_providers_own_cache_hits(self):
        running = self.start()
        for i in range(12):
            self.ask(running, f"Question {i}?", KEY)
        self.assertEqual(self.orders(), [])

    def test_a_lost_cache_costs_nobody_an_answer(self):
        running = self.start()
        self.ask_until_kept(running)
        name = self.ask(running, "Named?") and self.provider.requests[-1].json()["cachedContent"]
        gone = urllib.request.Request(f"{self.provider.url}/v1beta/{name}", headers=KEY,
                                      method="DELETE")
        urllib.request.urlopen(gone, timeout=10).close()
        reply = self.ask(running, "Still there?")
        self.assertEqual(reply.status, 200)
        self.assertNotIn("cachedContent", self.provider.requests[-1].json())
        self.assertEqual(self.counted(running, "lost"), 1)

    def test_it_is_switched_off_by_its_rule_and_by_observe(self):
        for row in ('rules_off = ["explicit_cache"]', 'mode = "observe"'):
            running = self.start(row)
            for i in range(8):
                self.ask(running, f"Question {i}?")
            self.assertEqual(self.orders(), [], row)
            running.terminate()

    def test_clients_of_chat_completions_have_it_too(self):
        running = self.start()
        headers = {"Authorization": "Bearer key-of-the-caller", "x-sim-implicit": "off"}
        messages = [{"role": "system", "content": SYSTEM["parts"][0]["text"]}]
        for i in range(9):
            reply = self.assert_ok(running.send("/v1/chat/completions", {
                "model": MODEL, "messages": messages + [{"role": "user", "content": f"No. {i}?"}],
            }, headers))
            if self.orders():
                wait_until(lambda: self.counted(running, "made") == 1, "a cache is made")
        self.assertEqual(self.orders()[0].header("x-goog-api-key"), "key-of-the-caller")
        details = reply.json["usage"]["prompt_tokens_details"]
        self.assertGreater(details["cached_tokens"], 5000)

    def test_a_restart_forgets_names_and_asks_for_no_other_ones_at_once(self):
        running = self.start()
        self.ask_until_kept(running)
        running.kill()
        again = self.serve(arguments=self.arguments, data_dir=self.data)
        self.ask(again, "And now?")
        self.assertEqual(json.loads(self.provider.requests[-1].body)["systemInstruction"], SYSTEM)
        self.assertEqual(len(self.orders()), 1)


if __name__ == "__main__":
    unittest.main()
