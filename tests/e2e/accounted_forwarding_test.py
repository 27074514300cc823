#!/usr/bin/env python3
"""Forwarded requests and their accounts together: the bytes that the simulated provider got are the
client's, and the record says what the provider's own usage said, and what it cost."""

import hashlib
import http.client
import json
import sys
import unittest
from pathlib import Path

import server
from case import Case, wait_until

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

from provider_simulator import Simulator  # noqa: E402

OPENAI = {"Authorization": "Bearer sk-test", "Content-Type": "application/json"}
ANTHROPIC = {"x-api-key": "sk-test", "anthropic-version": "2023-06-01",
             "Content-Type": "application/json"}


class AccountedForwardingTest(Case):
    def setUp(self):
        super().setUp()
        self.start()

    def start(self, more=""):
        self.provider = Simulator().__enter__()
        self.addCleanup(self.provider.__exit__)
        config = self.folder / f"kvgate-{self.provider.port}.toml"
        config.write_text(f"""
{more}
[[upstream]]
name = "open"
dialect = "openai"
provider = "openai"
base_url = "{self.provider.url}/v1"
models = ["gpt-*"]
mode = "observe"

[[upstream]]
name = "anthropic"
dialect = "anthropic"
provider = "anthropic"
base_url = "{self.provider.url}"
models = ["claude-*"]
mode = "observe"
""")
        self.running = server.Server(None, self.folder / f"data-{self.provider.port}",
                                     ["--config", str(config)]).start()
        self.addCleanup(self.running.__exit__)

    def post(self, path, body, headers):
        connection = http.client.HTTPConnection(*self.running.address.split(":"), timeout=20)
        self.addCleanup(connection.close)
        connection.request("POST", path, body, headers)
        response = connection.getresponse()
        data = response.read()
        self.assertEqual(response.status, 200, data)
        return response, data

    def record(self, request_id):
        return self.record_of(self.running, request_id)

    def test_chat_completions_pass_unchanged_and_are_accounted(self):
        for stream in (False, True):
            with self.subTest(stream=stream):
                body = json.dumps({"model": "gpt-5.5", "stream": stream, "n": 1e0,
                                   "stream_options": {"include_usage": True} if stream else None,
                                   "messages": [{"role": "system", "content": "x" * 16000},
                                                {"role": "user", "content": "\u00e9\ud83d\ude00"}]})
                response, data = self.post("/v1/chat/completions", body, OPENAI)
                self.assertEqual(self.provider.requests[-1].body, body.encode())
                if stream:
                    self.assertIn(b"data: [DONE]", data)
                record = self.record(response.getheader("x-kvgate-request-id"))
                self.assertEqual((record["upstream"], record["model"], record["status"]),
                                 ("open", "gpt-5.5", 200))
                self.assertGreater(record["usage"]["input_tokens"], 3900)
                self.assertEqual(record["sha256"]["received"],
                                 hashlib.sha256(body.encode()).hexdigest())
                self.assertEqual(record["sha256"]["sent"], record["sha256"]["received"])
        self.assertGreater(record["usage"]["cache_read_tokens"], 1000, "the second one was a hit")

    def test_messages_pass_unchanged_and_are_accounted(self):
        block = {"type": "text", "text": "y" * 20000, "cache_control": {"type": "ephemeral"}}
        body = json.dumps({"model": "claude-sonnet-5", "max_tokens": 9, "system": [block],
                           "messages": [{"role": "user", "content": "hello"}]})
        for cached in (False, True):
            response, _ = self.post("/v1/messages", body, ANTHROPIC)
            self.assertEqual(self.provider.requests[-1].body, body.encode())
            record = self.record(response.getheader("x-kvgate-request-id"))
            self.assertEqual(record["upstream"], "anthropic")
            usage = record["usage"]
            field = "cache_read_tokens" if cached else "cache_write_tokens"
            self.assertGreater(usage[field], 4000, usage)

    def test_a4_what_is_exported_counts_each_token_once(self):
        block = {"type": "text", "text": "z" * 20000, "cache_control": {"type": "ephemeral"}}
        body = json.dumps({"model": "claude-sonnet-5", "max_tokens": 9, "system": [block],
                           "messages": [{"role": "user", "content": "hello"}]})
        said = 0
        for _ in range(2):
            response, data = self.post("/v1/messages", body, ANTHROPIC)
            usage = json.loads(data)["usage"]
            said += (usage["input_tokens"] + usage["cache_read_input_tokens"]
                     + usage["cache_creation_input_tokens"])
            self.record(response.getheader("x-kvgate-request-id"))
        counted = 0
        for line in self.running.get("/metrics").body.decode().split("\n"):
            if line.startswith("kvgate_ledger_upstream_tokens_total{") and "output" not in line:
                counted += int(line.split()[-1])
        self.assertEqual(counted, said)

    def test_a5_a_budget_of_dollars_counts_what_the_cache_costs(self):
        digest = hashlib.sha256(b"gate").hexdigest()
        self.start(f'[[key]]\nname = "team"\nsha256 = "{digest}"\ndollars_per_day = 0.01\n')
        block = {"type": "text", "text": "b" * 20000, "cache_control": {"type": "ephemeral"}}
        body = json.dumps({"model": "claude-sonnet-5", "max_tokens": 9, "system": [block],
                           "messages": [{"role": "user", "content": "hello"}]})
        headers = {**ANTHROPIC, "x-kvgate-key": "gate"}
        _, data = self.post("/v1/messages", body, headers)
        # Without the tokens that were written into the cache it is a small part of the budget.
        usage = json.loads(data)["usage"]
        self.assertLess(usage["input_tokens"] + usage["output_tokens"], 100)
        refused = self.running.send("/v1/messages", body.encode(), headers)
        self.assertEqual(refused.status, 429, refused.body)
        self.assertIn("dollars", refused.body.decode())

    def test_one_list_of_models_and_one_total_for_all_upstreams(self):
        self.post("/v1/chat/completions", json.dumps(
            {"model": "gpt-5.5", "messages": [{"role": "user", "content": "hi"}]}), OPENAI)
        wait_until(lambda: self.running.stats()["ledger"]["totals"]["requests"] >= 1,
                   "the ledger counts the request")
        listed = self.running.get("/v1/models", OPENAI).json["data"]
        self.assertTrue(any(model["id"].startswith("gpt-") for model in listed), listed)


if __name__ == "__main__":
    unittest.main()
