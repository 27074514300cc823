#!/usr/bin/env python3
"""What requests cost at five providers, each beside a figure computed by hand from the provider's
price and the usage in the provider's own words, whole and streamed; with and without the cache."""

import json
import unittest

from case import Case
from raw_http import RecordingUpstream

# Built in: anthropic and openai. The base prices of the others are the user's, who knows them.
OWN_PRICES = {
    "deepseek": {"models": ["deepseek-*"], "input": 0.28, "output": 0.42,
                 "cache_read_factor": 0.1, "cache_write_factor": 1},
    "xai": {"models": ["grok-*"], "input": 3, "output": 15, "cache_read_factor": 0.25,
            "cache_write_factor": 1},
    "mistral": {"models": ["mistral-*"], "input": 2, "output": 6, "cache_read_factor": 0.1,
                "cache_write_factor": 1},
}
# provider, dialect, model, usage as it says it; then in billionths of a dollar (a price of 1 dollar
# a million tokens is 1,000 of them a token) what is paid, and what it would be without a cache.
CASES = [
    # Messages: input_tokens does not hold what was read or written. 5 dollars, output 25; read at a
    # tenth, written for five minutes at 1.25, for an hour at 2.
    ("anthropic", "messages", "claude-opus-5",
     {"input_tokens": 100, "cache_read_input_tokens": 9000, "cache_creation_input_tokens": 3000,
      "cache_creation": {"ephemeral_5m_input_tokens": 2000, "ephemeral_1h_input_tokens": 1000},
      "output_tokens": 200},
     100 * 5000 + 9000 * 500 + 2000 * 6250 + 1000 * 10_000 + 200 * 25_000,
     12_100 * 5000 + 200 * 25_000),
    # Chat Completions: prompt_tokens holds all. 2 dollars, output 10; a write at 1.25.
    ("openai", "chat", "gpt-6-sol",
     {"prompt_tokens": 10_000, "completion_tokens": 300, "total_tokens": 10_300,
      "prompt_tokens_details": {"cached_tokens": 8192, "cache_write_tokens": 1024}},
     784 * 2000 + 8192 * 200 + 1024 * 2500 + 300 * 10_000,
     10_000 * 2000 + 300 * 10_000),
    # Above 272,000 tokens the input of the whole request is twice as dear, the output 1.5 times.
    ("openai", "chat", "gpt-6-sol",
     {"prompt_tokens": 300_000, "completion_tokens": 1000, "total_tokens": 301_000,
      "prompt_tokens_details": {"cached_tokens": 200_000}},
     2 * (100_000 * 2000 + 200_000 * 200) + 1000 * 15_000,
     2 * 300_000 * 2000 + 1000 * 15_000),
    # Hits and misses beside the whole; reasoning is part of the output. 0.28 dollars, output 0.42.
    ("deepseek", "chat", "deepseek-chat",
     {"prompt_tokens": 5000, "completion_tokens": 700, "total_tokens": 5700,
      "prompt_cache_hit_tokens": 4864, "prompt_cache_miss_tokens": 136,
      "completion_tokens_details": {"reasoning_tokens": 600}},
     136 * 280 + 4864 * 28 + 700 * 420,
     5000 * 280 + 700 * 420),
    # Writes cost what input costs. 3 dollars, output 15; read at a quarter.
    ("xai", "chat", "grok-5",
     {"prompt_tokens": 4000, "completion_tokens": 50, "total_tokens": 4050,
      "prompt_tokens_details": {"cached_tokens": 3968}},
     32 * 3000 + 3968 * 750 + 50 * 15_000,
     4000 * 3000 + 50 * 15_000),
    # Nothing was cached: both are the same. 2 dollars, output 6.
    ("mistral", "chat", "mistral-large-3",
     {"prompt_tokens": 1234, "completion_tokens": 56, "total_tokens": 1290},
     1234 * 2000 + 56 * 6000,
     1234 * 2000 + 56 * 6000),
]


def http_answer(content_type, body):
    return (f"HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\n"
            f"content-length: {len(body)}\r\n\r\n").encode() + body


def whole_answer(dialect, model, usage):
    if dialect == "messages":
        body = {"id": "msg_1", "type": "message", "role": "assistant", "model": model,
                "content": [{"type": "text", "text": "Hi."}], "stop_reason": "end_turn",
                "usage": usage}
    else:
        body = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": model,
                "choices": [{"index": 0, "finish_reason": "stop",
                             "message": {"role": "assistant", "content": "Hi."}}], "usage": usage}
    return http_answer("application/json", json.dumps(body).encode())


def streamed_answer(dialect, model, usage):
    if dialect == "messages":
        # The first event has the input, the last one the whole output.
        first = {"type": "message", "id": "msg_1", "role": "assistant", "model": model,
                 "content": [], "usage": {**usage, "output_tokens": 1}}
        events = [{"type": "message_start", "message": first},
                  {"type": "content_block_start", "index": 0,
                   "content_block": {"type": "text", "text": ""}},
                  {"type": "content_block_delta", "index": 0,
                   "delta": {"type": "text_delta", "text": "Hi."}},
                  {"type": "content_block_stop", "index": 0},
                  {"type": "message_delta", "delta": {"stop_reason": "end_turn"},
                   "usage": {"output_tokens": usage["output_tokens"]}},
                  {"type": "message_stop"}]
        text = "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events)
    else:
        chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1,
                 "model": model}
        said = {"index": 0, "delta": {"role": "assistant", "content": "Hi."},
                "finish_reason": "stop"}
        chunks = [{**chunk, "choices": [said]}, {**chunk, "choices": [], "usage": usage}]
        text = "".join(f"data: {json.dumps(c)}\n\n" for c in chunks) + "data: [DONE]\n\n"
    return http_answer("text/event-stream", text.encode())


class CostTest(Case):
    def serve_with(self, provider):
        prices = self.folder / "prices.json"
        prices.write_text(json.dumps({"date": "2026-11-27", "providers": {
            name: [{**row, "source": "a contract", "date": "2026-11-27"}]
            for name, row in OWN_PRICES.items()}}))
        names = list(dict.fromkeys(case[:2] for case in CASES))
        config = f'[ledger]\nprices = "{prices}"\n'
        for name, dialect in names:
            models = list(dict.fromkeys(case[2] for case in CASES if case[0] == name))
            config += (f'\n[[upstream]]\nname = "{name}"\nprovider = "{name}"\n'
                       f'dialect = "{"anthropic" if dialect == "messages" else "openai"}"\n'
                       f'base_url = "http://127.0.0.1:{provider.port}"\n'
                       f'models = {json.dumps(models)}\n')
        path = self.folder / "kvgate.toml"
        path.write_text(config)
        return self.serve(arguments=["--config", str(path)])

    def ask(self, running, dialect, model, is_streamed):
        path = "/v1/messages" if dialect == "messages" else "/v1/chat/completions"
        body = {"model": model, "messages": [{"role": "user", "content": "Hello"}],
                "max_tokens": 1000, "stream": is_streamed}
        reply = self.assert_ok(running.send(path, json.dumps(body).encode(),
                                            {"x-api-key": "k", "authorization": "Bearer k",
                                             "anthropic-version": "2023-06-01",
                                             "content-type": "application/json"}))
        return self.record_of(running, reply.headers["x-kvgate-request-id"])

    def test_six_bills_of_five_providers_are_those_computed_by_hand(self):
        answers = []
        with RecordingUpstream(lambda connection, _: connection.sendall(answers[-1])) as provider:
            running = self.serve_with(provider)
            paid = direct = 0
            for name, dialect, model, usage, cost, uncached in CASES:
                for is_streamed in (False, True):
                    make = streamed_answer if is_streamed else whole_answer
                    answers.append(make(dialect, model, usage))
                    record = self.ask(running, dialect, model, is_streamed)
                    with self.subTest(provider=name, model=model, stream=is_streamed):
                        self.assertEqual(record["upstream"], name)
                        self.assertEqual(record["cost"]["nanodollars"], cost)
                        self.assertEqual(record["cost"]["uncached_nanodollars"], uncached)
                    paid += cost
                    direct += uncached
            totals = running.stats()["ledger"]["totals"]
            self.assertEqual(totals["nanodollars"], paid)
            self.assertEqual(totals["uncached_nanodollars"], direct)


if __name__ == "__main__":
    unittest.main()
