#!/usr/bin/env python3
"""Translation through the real binary: clients of each dialect, upstreams of another. Plain
answers, streams, loops of two turns with tools, errors in the client's dialect, cuts, counting."""

import gzip
import http.client
import json
import sys
import unittest
from pathlib import Path

import server
from case import Case

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

from provider_simulator import Simulator  # noqa: E402

PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}
# Who answers a model of that name, and where.
TARGETS = {"claude-opus-5-5": "messages", "gpt-chat": "chat", "gpt-responses": "responses"}
CHAT_TOOL = {"type": "function", "function": {
    "name": "look", "description": "Looks.",
    "parameters": {"type": "object", "properties": {"z": {"maximum": 2 ** 63 - 1}, "a": {}}}}}


def headers(dialect):
    if dialect == "messages":
        return {"x-api-key": "sk-test", "anthropic-version": "2023-06-01",
                "anthropic-beta": "x-2026", "Content-Type": "application/json"}
    return {"Authorization": "Bearer sk-test", "Content-Type": "application/json"}


def request(dialect, model, text, stream=False, tools=False, more=None):
    body = {"model": model}
    if dialect == "chat":
        body["messages"] = [{"role": "system", "content": "Sys"}, {"role": "user", "content": text}]
        body["tools"] = [CHAT_TOOL]
        if stream:
            body["stream_options"] = {"include_usage": True}
    elif dialect == "responses":
        body.update(instructions="Sys", input=[{"role": "user", "content": text}],
                    tools=[{"type": "function", **CHAT_TOOL["function"]}])
    else:
        function = CHAT_TOOL["function"]
        body.update(max_tokens=100, system="Sys", messages=[{"role": "user", "content": text}],
                    tools=[{"name": function["name"], "description": function["description"],
                            "input_schema": function["parameters"]}])
    if not tools:
        del body["tools"]
    return {**body, "stream": stream, **(more or {})}


def events_of(data):
    lines = [line[6:] for line in data.decode().split("\n") if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def told(dialect, reply):
    """(text, [(id, name, arguments)], end, (input, output)) of a whole reply."""
    if dialect == "chat":
        choice = reply["choices"][0]
        message = choice["message"]
        calls = [(call["id"], call["function"]["name"], call["function"]["arguments"])
                 for call in message.get("tool_calls") or []]
        usage = reply["usage"]
        return (message["content"] or "", calls, choice["finish_reason"],
                (usage["prompt_tokens"], usage["completion_tokens"]))
    if dialect == "responses":
        calls = [(item["call_id"], item["name"], item["arguments"])
                 for item in reply["output"] if item["type"] == "function_call"]
        text = "".join(part["text"] for item in reply["output"] if item["type"] == "message"
                       for part in item["content"])
        usage = reply["usage"]
        return text, calls, reply["status"], (usage["input_tokens"], usage["output_tokens"])
    calls = [(block["id"], block["name"], json.dumps(block["input"]))
             for block in reply["content"] if block["type"] == "tool_use"]
    text = "".join(block["text"] for block in reply["content"] if block["type"] == "text")
    usage = reply["usage"]
    total = sum(usage[name] for name in ("input_tokens", "cache_read_input_tokens",
                                         "cache_creation_input_tokens"))
    return text, calls, reply["stop_reason"], (total, usage["output_tokens"])


def collected(dialect, data):
    """The whole reply that a client makes of a stream."""
    events = events_of(data)
    if dialect == "responses":
        assert [event["sequence_number"] for event in events] == list(range(len(events)))
        assert events[-1]["type"] == "response.completed", events[-1]
        return events[-1]["response"]
    if dialect == "chat":
        assert data.endswith(b"data: [DONE]\n\n")
        message, finish, usage = {"content": "", "tool_calls": []}, None, None
        for event in events:
            usage = event.get("usage") or usage
            for choice in event["choices"]:
                message["content"] += choice["delta"].get("content") or ""
                for call in choice["delta"].get("tool_calls", []):
                    if call["index"] == len(message["tool_calls"]):
                        message["tool_calls"].append(call)
                    else:
                        function = message["tool_calls"][call["index"]]["function"]
                        function["arguments"] += call["function"]["arguments"]
                finish = choice["finish_reason"] or finish
        return {"choices": [{"message": message, "finish_reason": finish}], "usage": usage}
    assert events[0]["type"] == "message_start" and events[-1]["type"] == "message_stop"
    blocks, partial, reply = [], [], dict(events[0]["message"])
    for event in events:
        if event["type"] == "content_block_start":
            assert event["index"] == len(blocks)
            blocks.append(dict(event["content_block"]))
            partial.append("")
        elif event["type"] == "content_block_delta":
            delta = event["delta"]
            if delta["type"] == "text_delta":
                blocks[event["index"]]["text"] += delta["text"]
            elif delta["type"] == "input_json_delta":
                partial[event["index"]] += delta["partial_json"]
        elif event["type"] == "message_delta":
            reply.update(event["delta"], usage={**reply["usage"], **event["usage"]})
    for block, text in zip(blocks, partial):
        if block["type"] == "tool_use":
            block["input"] = json.loads(text or "{}")
    return {**reply, "content": blocks}


def next_turn(dialect, body, reply, call):
    """The conversation with the reply and the result of its call."""
    call_id, name, arguments = call
    if dialect == "chat":
        message = reply["choices"][0]["message"]
        turns = [{"role": "assistant", "content": message["content"] or None,
                  "tool_calls": [{"id": call_id, "type": "function",
                                  "function": {"name": name, "arguments": arguments}}]},
                 {"role": "tool", "tool_call_id": call_id, "content": "found it"}]
        return {**body, "messages": body["messages"] + turns}
    if dialect == "responses":
        result = {"type": "function_call_output", "call_id": call_id, "output": "found it"}
        return {**body, "input": body["input"] + reply["output"] + [result]}
    turns = [{"role": "assistant", "content": reply["content"]},
             {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call_id,
                                           "content": "found it"}]}]
    return {**body, "messages": body["messages"] + turns}


class TranslateTest(Case):
    def setUp(self):
        super().setUp()
        self.provider = Simulator().__enter__()
        self.addCleanup(self.provider.__exit__)
        arguments = self.upstreams(self.provider.url, {
            "claude": ("anthropic", "claude-*", 'provider = "anthropic"'),
            "chat": ("openai", "gpt-chat", 'provider = "openai"\nendpoints = ["chat"]'),
            "responses": ("openai", "gpt-responses",
                          'provider = "openai"\nendpoints = ["responses"]'),
            "both": ("openai", "gpt-both", 'provider = "openai"')})
        self.running = server.Server(None, self.folder / "data", arguments).start()
        self.addCleanup(self.running.__exit__)

    def post(self, dialect, body, more=None, path=None):
        connection = http.client.HTTPConnection(*self.running.address.split(":"), timeout=20)
        self.addCleanup(connection.close)
        data = body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode()
        connection.request("POST", path or PATHS[dialect], data,
                           {**headers(dialect), **(more or {})})
        response = connection.getresponse()
        return response, response.read()

    def answered(self, dialect, body, more=None):
        """(the reply as `told`, the reply) whether it streams or not."""
        response, data = self.post(dialect, body, more)
        self.assertEqual(response.status, 200, data)
        streams = response.getheader("content-type", "").startswith("text/event-stream")
        self.assertEqual(streams, body["stream"])
        reply = collected(dialect, data) if streams else json.loads(data)
        return told(dialect, reply), reply

    def pairs(self):
        for dialect in PATHS:
            for model, target in TARGETS.items():
                if target != dialect:
                    for stream in (False, True):
                        yield dialect, model, target, stream

    def test_every_dialect_is_answered_by_every_other(self):
        for dialect, model, target, stream in self.pairs():
            with self.subTest(client=dialect, upstream=target, stream=stream):
                body = request(dialect, model, "h\u00e9llo \U0001f600", stream)
                said, _ = self.answered(dialect, body)
                sent = self.provider.requests[-1]
                self.assertTrue(sent.target.endswith(PATHS[target]), sent.target)
                text, calls, end, usage = said
                expected = told(target, self.own_reply(target, sent))
                self.assertEqual(text.strip(), expected[0].strip())
                self.assertEqual(usage, expected[3])
                self.assertEqual(calls, [])
                self.assertIn(end, ("stop", "completed", "end_turn"))
                self.assertIn("h\u00e9llo \U0001f600".encode(), sent.body)

    def own_reply(self, target, sent):
        """What the provider said, as a client of its own dialect reads it."""
        if b"data: " in sent.response:
            return collected(target, sent.response)
        return json.loads(sent.response)

    def test_loops_of_two_turns_with_tools(self):
        for dialect, model, target, stream in self.pairs():
            with self.subTest(client=dialect, upstream=target, stream=stream):
                body = request(dialect, model, "Please call the tool", stream, tools=True)
                (_, calls, end, _), reply = self.answered(dialect, body)
                first = self.provider.requests[-1].body
                self.assertEqual(len(calls), 1)
                self.assertIn(end, ("tool_calls", "completed", "tool_use"))
                self.assertEqual(calls[0][1], "look")
                self.assertIn("na\u00efve", json.loads(calls[0][2])["q"])
                if dialect != "messages" and target != "messages":
                    self.assertIn("12345678901234567890", calls[0][2])
                longer = next_turn(dialect, body, reply, calls[0])
                (text, calls, _, _), _ = self.answered(dialect, longer)
                second = self.provider.requests[-1].body
                self.assertNotEqual(text, "")
                self.assertEqual(calls, [])
                # G3: what was sent first is the front of what is sent now.
                self.assertTrue(second.startswith(first.rstrip(b"]}")), (first, second))
                self.assertIn(b'"maximum": 9223372036854775807', second)

    def test_g12_a_messages_agent_on_a_responses_upstream_hits_as_its_own_clients_do(self):
        words = "".join(f"Rule {number} of the house is to be kept. " for number in range(900))
        said, shares = [], []
        for turn in range(12):
            said.append({"role": "user", "content": [
                {"type": "text", "text": f"<system-reminder>{turn}</system-reminder>"},
                {"type": "text", "text": f"Step {turn}: {words[:400]}",
                 "cache_control": {"type": "ephemeral"}}]})
            body = {"model": "gpt-responses", "max_tokens": 100, "stream": False, "messages": said,
                    "system": [{"type": "text", "text": "x-anthropic-billing-header: "
                                f"cc_version=2.1.177; cch={turn:05x};"},
                               {"type": "text", "text": words,
                                "cache_control": {"type": "ephemeral"}}]}
            _, reply = self.answered("messages", body)
            usage = reply["usage"]
            shares.append(usage["cache_read_input_tokens"] / (
                usage["cache_read_input_tokens"] + usage["cache_creation_input_tokens"]
                + usage["input_tokens"]))
            del said[-1]["content"][1]["cache_control"]  # it moves on, as with Claude Code
            said.append({"role": "assistant", "content": reply["content"]})
        self.assertGreater(sum(shares[1:]) / len(shares[1:]), 0.9, shares)

    def test_credentials_and_headers_are_those_of_the_upstreams_dialect(self):
        self.answered("messages", request("messages", "gpt-chat", "x"))
        sent = {name.lower(): value for name, value in self.provider.requests[-1].headers}
        self.assertEqual(sent["authorization"], "Bearer sk-test")
        self.assertNotIn("x-api-key", sent)
        self.assertFalse([name for name in sent if name.startswith("anthropic-")])
        self.answered("chat", request("chat", "claude-opus-5-5", "x"))
        sent = {name.lower(): value for name, value in self.provider.requests[-1].headers}
        self.assertEqual(sent["x-api-key"], "sk-test")
        self.assertIn("anthropic-version", sent)
        self.assertNotIn("authorization", sent)

    def test_an_upstream_with_both_is_asked_as_its_client_asks(self):
        for dialect in ("chat", "responses"):
            body = json.dumps(request(dialect, "gpt-both", "x")).encode()
            self.post(dialect, body)
            self.assertTrue(self.provider.requests[-1].target.endswith(PATHS[dialect]))

    def test_errors_are_in_the_clients_dialect(self):
        for dialect, model, target, stream in self.pairs():
            with self.subTest(client=dialect, upstream=target, stream=stream):
                body = request(dialect, model, "x", stream)
                self.provider.faults.append("status:429:7")
                response, data = self.post(dialect, body)
                self.assertEqual((response.status, response.getheader("retry-after")), (429, "7"))
                self.check_error(dialect, json.loads(data), "rate_limit_error")
                self.provider.faults.append("status:529" if target == "messages" else "status:503")
                response, data = self.post(dialect, body)
                status = 503 if dialect != "messages" or target != "messages" else 529
                self.assertEqual(response.status, status)
                self.check_error(dialect, json.loads(data), "server_error", "overloaded_error")

    def check_error(self, dialect, body, openai_type, anthropic_type=None):
        self.assertTrue(body["error"]["message"])
        if dialect == "messages":
            self.assertEqual(body["type"], "error")
            self.assertEqual(body["error"]["type"], anthropic_type or openai_type)
        else:
            self.assertEqual(body["error"]["type"], openai_type)

    def test_an_error_among_events_is_in_the_clients_dialect(self):
        for dialect, model, target, stream in self.pairs():
            if not stream:
                continue
            with self.subTest(client=dialect, upstream=target):
                self.provider.faults.append("error_event:4")
                response, data = self.post(dialect, request(dialect, model, "x", True))
                self.assertEqual(response.status, 200)
                events = events_of(data)
                self.assertNotIn(b"[DONE]", data)
                if dialect == "responses":
                    self.assertEqual([event["type"] for event in events[-2:]],
                                     ["error", "response.failed"])
                else:
                    self.assertIn("error", events[-1])
                self.assertEqual(events[-1].get("type") == "error", dialect == "messages")

    def test_a_cut_stays_a_cut(self):
        for dialect, model, target, stream in self.pairs():
            with self.subTest(client=dialect, upstream=target, stream=stream):
                self.provider.faults.append("rst:4")
                try:
                    response, data = self.post(dialect, request(dialect, model, "x", stream))
                except (http.client.IncompleteRead, ConnectionResetError):
                    self.assertTrue(stream)
                    continue
                self.assertFalse(stream, data)
                self.assertEqual(response.status, 502)

    def test_what_cannot_be_said_is_refused_and_not_sent(self):
        before = len(self.provider.requests)
        body = {**request("chat", "claude-opus-5-5", "x"), "logit_bias": {"1": 5}}
        response, data = self.post("chat", body)
        self.assertEqual(response.status, 400)
        self.assertEqual(json.loads(data)["error"]["param"], "logit_bias")
        body = {**request("messages", "gpt-chat", "x"), "thread": {"type": "create"}}
        response, data = self.post("messages", body)
        self.assertEqual(response.status, 400)
        self.assertEqual(json.loads(data)["error"]["details"]["error_code"],
                         "thread_unsupported_request")
        self.assertEqual(len(self.provider.requests), before)

    def test_tools_that_the_dialect_has_not_are_left_out_and_said_once_a_conversation(self):
        for turn in range(3):
            body = {"model": "claude-opus-5-5", "stream": turn == 1, "store": False,
                    "tools": [{"type": "web_search"}, {"type": "function", "name": "f"},
                              {"type": "tool_search", "execution": "client"}],
                    "input": [{"role": "user", "content": "look it up"},
                              *[{"type": "web_search_call", "id": "ws"}] * turn]}
            response, data = self.post("responses", body)
            self.assertEqual(response.status, 200, data)
            left_out = ["web_search", "tool_search", *["web_search_call"] * (turn > 0)]
            self.assertEqual(response.getheader("x-kvgate-left-out"), ", ".join(left_out))
            sent = self.provider.requests[-1].json()
            self.assertEqual([tool["name"] for tool in sent["tools"]], ["f"])
        record = self.record(response.getheader("x-kvgate-request-id"))
        self.assertIn("left_out:tool_search", json.dumps(record["edits"]))
        said = [line for line in self.running.log().splitlines() if "has no 'web_search'" in line]
        self.assertEqual(len(said), 1, said)
        body = request("messages", "gpt-chat", "x")
        response, data = self.post("messages", body)
        self.assertEqual(response.status, 200, data)
        self.assertIsNone(response.getheader("x-kvgate-left-out"))
        before = len(self.provider.requests)
        body = {"model": "claude-opus-5-5", "input": "x", "tools": [{"type": "web_search"}],
                "tool_choice": "required"}
        response, data = self.post("responses", body)
        self.assertEqual(response.status, 400)
        self.assertEqual(json.loads(data)["error"]["param"], "tool_choice")
        self.assertEqual(len(self.provider.requests), before)

    def test_tokens_are_estimated_where_the_upstream_does_not_count(self):
        body = request("messages", "gpt-chat", "word " * 800)
        response, data = self.post("messages", body, path="/v1/messages/count_tokens")
        self.assertEqual(response.status, 200, data)
        self.assertGreater(json.loads(data)["input_tokens"], 1100)
        self.assertLess(json.loads(data)["input_tokens"], 1500)
        body["model"] = "claude-opus-5-5"
        response, data = self.post("messages", body, path="/v1/messages/count_tokens")
        self.assertEqual(self.provider.requests[-1].target, "/v1/messages/count_tokens")

    def test_encoded_bodies_and_answers_are_translated(self):
        body = request("chat", "claude-opus-5-5", "x", True)
        zipped = gzip.compress(json.dumps(body).encode())
        response, data = self.post("chat", zipped, {"content-encoding": "gzip", "x-sim-gzip": "1",
                                                    "accept-encoding": "gzip"})
        self.assertEqual(response.status, 200)
        self.assertNotEqual(told("chat", collected("chat", data))[0], "")

    def test_the_record_says_so_and_counts_in_the_upstreams_convention(self):
        for dialect, model in (("chat", "claude-opus-5-5"), ("messages", "gpt-chat")):
            with self.subTest(client=dialect):
                body = request(dialect, model, "x" * 20000)
                response, data = self.post(dialect, body)
                record = self.record(response.getheader("x-kvgate-request-id"))
                self.assertIn("translated", json.dumps(record["edits"]))
                self.assertEqual((record["usage"]["input_tokens"],
                                  record["usage"]["output_tokens"]),
                                 told(dialect, json.loads(data))[3])

    def record(self, request_id):
        return self.record_of(self.running, request_id)


if __name__ == "__main__":
    unittest.main()
