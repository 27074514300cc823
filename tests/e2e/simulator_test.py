#!/usr/bin/env python3
"""The provider simulator itself: its caches against the documented rules, its faults, its recorder.

What other tests conclude from it rests on these.
"""

import gzip
import http.client
import json
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

from provider_simulator import Simulator  # noqa: E402

KEY = {"authorization": "Bearer k", "content-type": "application/json"}
ANTHROPIC = {**KEY, "anthropic-version": "2023-06-01"}


def text(tokens, seed="x"):
    return (seed * (4 * tokens))[:4 * tokens]


class SimulatorCase(unittest.TestCase):
    def setUp(self):
        self.provider = Simulator().__enter__()
        self.addCleanup(self.provider.__exit__)

    def send(self, path, body, headers=None, method="POST"):
        connection = http.client.HTTPConnection("127.0.0.1", self.provider.port, timeout=20)
        self.addCleanup(connection.close)
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request(method, path, raw, KEY if headers is None else headers)
        response = connection.getresponse()
        return response, response.read()

    def post(self, path, body, headers=None, status=200):
        response, data = self.send(path, body, headers)
        self.assertEqual(response.status, status, data)
        return json.loads(data)

    def message(self, blocks, headers=None, status=200, **fields):
        body = {"model": "claude-sonnet-5", "max_tokens": 9,
                "messages": [{"role": "user", "content": blocks}], **fields}
        return self.post("/v1/messages", body, {**ANTHROPIC, **(headers or {})}, status)

    def usage(self, blocks, **fields):
        found = self.message(blocks, **fields)["usage"]
        return (found["cache_read_input_tokens"],
                found["cache_creation"]["ephemeral_1h_input_tokens"],
                found["cache_creation"]["ephemeral_5m_input_tokens"], found["input_tokens"])


def block(tokens, seed="x", ttl=None):
    found = {"type": "text", "text": text(tokens, seed)}
    if ttl:
        found["cache_control"] = {"type": "ephemeral", "ttl": ttl}
    return found


class AnthropicCacheTest(SimulatorCase):
    def test_a_write_is_read_by_the_next_and_ends_with_its_lifetime(self):
        blocks = [block(2000, ttl="5m"), block(10, "q")]
        cold, warm = self.usage(blocks), self.usage(blocks)
        self.assertGreater(cold[2], 2000)
        self.assertEqual(cold[0], 0)
        self.assertEqual(warm, (cold[2], 0, 0, cold[3]))
        self.provider.clock_offset += 299
        self.assertEqual(self.usage(blocks)[0], cold[2], "and a read refreshes")
        self.provider.clock_offset += 299
        self.assertEqual(self.usage(blocks)[0], cold[2])
        self.provider.clock_offset += 301
        self.assertEqual(self.usage(blocks), cold)

    def test_below_the_minimum_nothing_is_said(self):
        blocks = [block(900, ttl="5m")]
        for _ in range(2):
            self.assertEqual(self.usage(blocks)[:3], (0, 0, 0))

    def test_a_breakpoint_looks_back_twenty_blocks_and_no_further(self):
        first = [block(2000)] + [block(5, chr(97 + i)) for i in range(13)] + [block(5, "o", "5m")]
        written = self.usage(first)[2]
        plain = [block(2000)] + [block(5, chr(97 + i)) for i in range(13)] + [block(5, "o")]
        near = plain + [block(5, "A")] * 18 + [block(5, "Z", "5m")]
        self.assertEqual(self.usage(near)[0], written)
        self.provider.clock_offset += 10_000
        self.assertEqual(self.usage(first)[2], written)
        far = plain + [block(5, "B")] * 19 + [block(5, "Z", "5m")]
        self.assertEqual(self.usage(far)[0], 0)

    def test_both_lifetimes_are_billed_apart(self):
        blocks = [block(2000, "a", "1h"), block(1000, "b", "5m"), block(10, "q")]
        cold = self.usage(blocks)
        self.assertGreater(cold[1], 2000)
        self.assertGreater(cold[2], 1000)
        self.provider.clock_offset += 400
        later = self.usage(blocks)
        self.assertEqual((later[0], later[1], later[2]), (cold[1], 0, cold[2]))

    def test_what_the_api_refuses_is_refused(self):
        five = [block(5, ttl="5m") for _ in range(5)]
        self.assertIn("Found 5", self.message(five, status=400)["error"]["message"])
        wrong = [block(5, ttl="5m"), block(5, ttl="1h")]
        self.assertIn("ttl", self.message(wrong, status=400)["error"]["message"])
        self.assertIn("nonsense", self.message("a", status=400, nonsense=1)["error"]["message"])
        thread = self.message("a", status=400, thread={"type": "create"})["error"]["details"]
        self.assertEqual(thread["error_code"], "thread_unsupported_request")

    def test_tenants_models_and_tool_choice_share_nothing(self):
        blocks = [block(2000, ttl="5m")]
        self.usage(blocks)
        self.assertEqual(self.usage(blocks, model="claude-opus-5-5")[0], 0)
        self.assertEqual(self.usage(blocks, tool_choice={"type": "none"})[0], 0)
        other = self.message(blocks, {"authorization": "Bearer other"})
        self.assertEqual(other["usage"]["cache_read_input_tokens"], 0)

    def test_events_carry_the_usage_in_two_places(self):
        body = {"model": "claude-sonnet-5", "max_tokens": 9, "stream": True,
                "messages": [{"role": "user", "content": [block(2000, ttl="5m")]}]}
        _, data = self.send("/v1/messages", body, ANTHROPIC)
        events = [json.loads(line[6:]) for line in data.split(b"\n") if line.startswith(b"data: ")]
        names = [line[7:].decode() for line in data.split(b"\n") if line.startswith(b"event: ")]
        self.assertEqual(names, [event["type"] for event in events])
        self.assertIn("ping", names)
        self.assertGreater(events[0]["message"]["usage"]["cache_creation_input_tokens"], 2000)
        self.assertGreater(events[-2]["usage"]["output_tokens"], 1)


class OpenAiCacheTest(SimulatorCase):
    def usage(self, content, **fields):
        body = {"model": "gpt-6-sol", "messages": content, **fields}
        found = self.post("/v1/chat/completions", body)["usage"]
        details = found["prompt_tokens_details"]
        return found["prompt_tokens"], details["cached_tokens"], details["cache_write_tokens"]

    def test_a_growing_conversation_reads_exactly_what_was_written(self):
        turns = [{"role": "user", "content": text(2000)}]
        prompt, cached, written = self.usage(turns)
        self.assertEqual((cached, written), (0, prompt))
        turns += [{"role": "assistant", "content": "a"}, {"role": "user", "content": text(100)}]
        grown, cached_next, written_next = self.usage(turns)
        self.assertEqual(cached_next, written)
        self.assertEqual(written_next, grown - written)
        self.assertEqual(self.usage(turns, prompt_cache_key="k")[1], 0, "another key")

    def test_older_models_count_in_increments_and_write_for_nothing(self):
        turns = [{"role": "user", "content": text(3000)}]
        self.assertEqual(self.usage(turns, model="gpt-5.5")[1:], (0, 0))
        prompt, cached, written = self.usage(turns, model="gpt-5.5")
        self.assertEqual((cached % 128, written), (0, 0))
        self.assertGreater(cached, prompt - 128 - 1)
        self.assertEqual(self.usage([{"role": "user", "content": text(1500)}] * 1,
                                    model="gpt-5.5")[1], 0, "below 2048")

    def test_markers_and_long_keys_are_refused_where_they_are(self):
        marked = [{"role": "user", "content": [
            {"type": "text", "text": "a", "prompt_cache_breakpoint": {"mode": "explicit"}}]}]
        body = {"model": "gpt-5.5", "messages": marked}
        self.post("/v1/chat/completions", body, status=400)
        self.post("/v1/chat/completions", {**body, "model": "gpt-6-sol"})
        self.post("/v1/chat/completions",
                  {"model": "gpt-6-sol", "messages": marked, "prompt_cache_key": "k" * 65},
                  status=400)

    def test_responses_and_chat_stream_their_usage(self):
        _, data = self.send("/v1/responses", {"model": "gpt-6-sol", "input": "hi", "stream": True})
        events = [json.loads(line[6:]) for line in data.split(b"\n") if line.startswith(b"data: ")]
        self.assertEqual([e["sequence_number"] for e in events], list(range(len(events))))
        self.assertEqual(events[-1]["type"], "response.completed")
        self.assertIn("usage", events[-1]["response"])
        _, data = self.send("/v1/chat/completions", {
            "model": "gpt-6-sol", "messages": [{"role": "user", "content": "hi"}], "stream": True,
            "stream_options": {"include_usage": True}})
        lines = [line for line in data.split(b"\n") if line.startswith(b"data: ")]
        self.assertEqual(lines[-1], b"data: [DONE]")
        self.assertIn("prompt_tokens", json.loads(lines[-2][6:])["usage"])


class FaultTest(SimulatorCase):
    CHAT = {"model": "gpt-6-sol", "messages": [{"role": "user", "content": "hi"}]}

    def test_a_status_has_its_headers_and_comes_once(self):
        self.provider.faults.append("status:529:2")
        response, data = self.send("/v1/messages", {}, ANTHROPIC)
        self.assertEqual((response.status, response.getheader("retry-after"),
                          response.getheader("x-should-retry")), (529, "2", "true"))
        self.assertEqual(json.loads(data)["error"]["type"], "overloaded_error")
        self.post("/v1/chat/completions", self.CHAT)

    def test_cuts_resets_and_bad_heads_break_the_client(self):
        for fault in ("cut:3", "rst:3", "rst", "close", "malformed:status", "malformed:chunk",
                      "malformed:header", "malformed:garbage", "endless_headers"):
            for stream in (False, True):
                with self.subTest(fault=fault, stream=stream):
                    with self.assertRaises((http.client.HTTPException, ConnectionError, ValueError,
                                            AssertionError)):
                        response, data = self.send("/v1/chat/completions",
                                                   {**self.CHAT, "stream": stream},
                                                   {**KEY, "x-sim-fault": fault})
                        self.assertIn(b"[DONE]" if stream else b"usage", data, "whole after all")

    def test_an_error_event_ends_a_stream(self):
        _, data = self.send("/v1/chat/completions", {**self.CHAT, "stream": True},
                            {**KEY, "x-sim-fault": "error_event:2"})
        self.assertIn(b"event: error\n", data)
        self.assertNotIn(b"[DONE]", data)


class RecorderTest(SimulatorCase):
    def test_bytes_are_kept_as_they_were_and_echoed(self):
        body = b'{"a": 1.0, "a": 12345678901234567890, "\\u00e9": "\xc3\xa9"}'
        response, data = self.send("/v1/other?x=1", body, {**KEY, "X-OdD": "Yes",
                                                           "x-sim-chunk": "5"})
        self.assertEqual((response.status, data), (200, body))
        request = self.provider.requests[-1]
        self.assertEqual((request.body, request.response), (body, body))
        self.assertIn(("X-OdD", "Yes"), request.headers)
        self.assertTrue(request.head.startswith(b"POST /v1/other?x=1 HTTP/1.1\r\n"))

    def test_compressed_bodies_are_understood_and_kept(self):
        raw = gzip.compress(json.dumps(FaultTest.CHAT).encode())
        response, data = self.send("/v1/chat/completions", raw,
                                   {**KEY, "content-encoding": "gzip", "x-sim-gzip": "1"})
        self.assertEqual(response.getheader("content-encoding"), "gzip")
        self.assertIn("usage", json.loads(gzip.decompress(data)))
        self.assertEqual(self.provider.requests[-1].body, raw)

    def test_it_is_controlled_from_outside_too(self):
        self.post("/v1/chat/completions", FaultTest.CHAT)
        _, data = self.send("/sim/requests", b"", method="GET")
        found = json.loads(data)
        self.assertEqual((len(found["data"]), found["data"][0]["status"]), (1, 200))
        self.send("/sim/faults", {"next": ["status:503"]})
        self.post("/v1/chat/completions", FaultTest.CHAT, status=503)
        self.send("/sim/requests", b"", method="DELETE")
        self.assertEqual(self.provider.requests, [])
        self.post("/v1/chat/completions", FaultTest.CHAT, headers={}, status=401)


class PreservedThinkingTest(SimulatorCase):
    def setUp(self):
        super().setUp()
        self.provider.thinks = True
        self.turns = [{"role": "user", "content": "one"}]
        for said in ("two", "three"):
            self.turns += [{"role": "assistant", "content": self.ask(self.turns)["content"]},
                           {"role": "user", "content": said}]

    def ask(self, turns, status=200, system="s", **fields):
        body = {"model": "claude-sonnet-5-5", "max_tokens": 60, "system": system,
                "messages": turns, **fields}
        return self.post("/v1/messages", body, ANTHROPIC, status)

    def without(self, *numbers):
        """The turns without the thinking of these answers."""
        answers = iter(range(99))
        return [{**turn, "content": [b for b in turn["content"] if b["type"] != "thinking"]}
                if turn["role"] == "assistant" and next(answers) in numbers else turn
                for turn in self.turns]

    def test_what_only_adds_or_marks_or_removes_from_an_end_is_taken(self):
        self.assertEqual(self.ask(self.turns)["content"][0]["type"], "thinking")
        marked = [{"role": "user", "content": [
            {"type": "text", "text": "one", "cache_control": {"type": "ephemeral"}}]}]
        self.ask(marked + self.turns[1:])
        for removed in ((0,), (1,), (0, 1)):
            self.ask(self.without(*removed))

    def test_any_other_prefix_is_refused_or_its_thinking_dropped_and_named(self):
        self.ask(self.turns, 400, system="t")
        self.ask([{"role": "user", "content": "One"}] + self.turns[1:], 400)
        self.turns += [{"role": "assistant", "content": self.ask(self.turns)["content"]},
                       {"role": "user", "content": "four"}]
        self.ask(self.without(1), 400)
        binding = {"block_binding": {"prefix_mismatch_behavior": "drop_block"}}
        answer = self.ask(self.turns, system="t", thinking={"type": "enabled", **binding})
        self.assertEqual([found["type"] for found in answer["input_transformations"]],
                         ["thinking_dropped"] * 3)


if __name__ == "__main__":
    unittest.main()
