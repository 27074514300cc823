#!/usr/bin/env python3
"""Gemini's dialect through the real binary: its clients at the local engine, at servers of other
dialects and at Gemini's own; clients of other dialects at Gemini; keys, limits, records."""

import hashlib
import json
import sys
import unittest
import unittest.mock
from pathlib import Path

from case import Case, text_of

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

from provider_simulator import Simulator  # noqa: E402

KEY = {"x-goog-api-key": "key-of-the-caller"}
PLAIN = {**KEY, "x-kvgate-explain": "0"}
SCHEMA = {"type": "object", "properties": {"q": {"type": "string"}, "n": {"maximum": 2 ** 63 - 1}}}
FUNCTION = {"name": "look", "description": "Looks.", "parametersJsonSchema": SCHEMA}
UPSTREAMS = {"google": ("gemini", "gemini-*", ""),
             "chat": ("openai", "gpt-*", 'endpoints = ["chat"]'),
             "anthropic": ("anthropic", "claude-*", "")}


def path_of(model, kind="generateContent"):
    return f"/v1beta/models/{model}:{kind}"


def said(text, role="user"):
    return {"role": role, "parts": [{"text": text}]}


def body_of(*contents, **more):
    return {"contents": list(contents), **more}


def text_in(*chunks):
    return "".join(part.get("text", "") for chunk in chunks
                   for part in chunk["candidates"][0]["content"]["parts"]
                   if not part.get("thought"))


def chunks_of(reply):
    lines = reply.body.decode().split("\n") if reply.body else []
    return reply.events or [json.loads(line[6:]) for line in lines if line.startswith("data: ")]


class GeminiTest(Case):
    def start(self, extra="", **provider):
        self.provider = self.enterContext(Simulator())
        for name, value in provider.items():
            setattr(self.provider, name, value)
        arguments = self.upstreams(self.provider.url, UPSTREAMS)
        config = Path(arguments[1])
        config.write_text(config.read_text() + extra)
        return self.serve(arguments=arguments)

    def last(self):
        return self.provider.requests[-1]

    def refused(self, reply, status, name, *words):
        self.assertEqual(reply.status, status, reply.body)
        error = reply.json["error"]
        self.assertEqual((error["code"], error["status"]), (status, name))
        for word in words:
            self.assertIn(word, error["message"])

    # --- at Gemini itself -----------------------------------------------------------------------

    def test_a_request_for_gemini_arrives_byte_for_byte_and_is_accounted_for(self):
        running = self.start()
        system = {"parts": [{"text": text_of("system", 6000)}]}
        raw = json.dumps(body_of(said("One?"), systemInstruction=system), indent=1).encode()
        first = self.assert_ok(running.send(path_of("gemini-3-flash"), raw, PLAIN))
        self.assertEqual(self.last().body, raw)
        self.assertEqual(self.last().path, path_of("gemini-3-flash"))
        self.assertEqual(self.last().header("x-goog-api-key"), KEY["x-goog-api-key"])
        more = body_of(said("One?"), first.json["candidates"][0]["content"], said("Two?"),
                       systemInstruction=system)
        reply = self.assert_ok(running.send(path_of("gemini-3-flash"), more, PLAIN))
        usage = reply.json["usageMetadata"]
        self.assertGreater(usage["cachedContentTokenCount"], 1000)
        record = self.record_of(running, reply.headers["x-kvgate-request-id"])
        self.assertEqual((record["endpoint"], record["model"], record["upstream"]),
                         ("generate_content", "gemini-3-flash", "google"))
        counted = record["usage"]
        self.assertEqual(counted["input_tokens"], usage["promptTokenCount"])
        self.assertEqual(counted["cache_read_tokens"], usage["cachedContentTokenCount"])
        self.assertEqual(counted["output_tokens"], usage["candidatesTokenCount"] +
                         usage.get("thoughtsTokenCount", 0))

    def test_a_changed_prefix_is_named_as_the_cause_of_a_miss(self):
        running = self.start()
        system = {"parts": [{"text": text_of("system", 6000)}]}
        tool = [{"functionDeclarations": [FUNCTION]}]
        for tools in (tool, [{"functionDeclarations": [{**FUNCTION, "description": "Peeks."}]}]):
            reply = self.assert_ok(running.send(
                path_of("gemini-3-flash"),
                body_of(said("One?"), systemInstruction=system, tools=tools), PLAIN))
        record = self.record_of(running, reply.headers["x-kvgate-request-id"])
        self.assertIsNotNone(record["break"], record)
        self.assertIn("tools", json.dumps(record["break"]))

    def test_a_stream_of_gemini_passes_and_a_failure_keeps_its_form(self):
        running = self.start()
        path = path_of("gemini-3-flash", "streamGenerateContent?alt=sse")
        reply = self.assert_ok(running.send(path, body_of(said("Go.")), PLAIN))
        self.assertEqual(self.last().target, path)
        chunks = chunks_of(reply)
        self.assertGreater(len(chunks), 1)
        self.assertEqual(chunks[-1]["candidates"][0]["finishReason"], "STOP")
        self.provider.faults.append("status:429:2")
        limited = running.send(path_of("gemini-3-flash"), body_of(said("Go.")), PLAIN)
        self.refused(limited, 429, "RESOURCE_EXHAUSTED")
        self.assertEqual(limited.headers["retry-after"], "2")

    def test_a_key_in_the_query_is_a_credential_and_goes_no_further_as_text(self):
        running = self.start()
        path = path_of("gemini-3-flash", "generateContent?key=asked-by-query&prettyPrint=false")
        self.assert_ok(running.send(path, body_of(said("Go.")), {"x-kvgate-explain": "0"}))
        self.assertEqual(self.last().header("x-goog-api-key"), "asked-by-query")
        self.assertEqual(self.last().target,
                         path_of("gemini-3-flash", "generateContent?prettyPrint=false"))
        self.assertNotIn("asked-by-query", running.log())

    def test_a_key_of_the_gateway_is_replaced_by_the_operators_and_bounds_answers(self):
        digest = hashlib.sha256(b"gate").hexdigest()
        self.enterContext(unittest.mock.patch.dict("os.environ", {"KVGATE_TEST_KEY": "operators"}))
        UPSTREAMS["google"] = ("gemini", "gemini-*", 'api_key_env = "KVGATE_TEST_KEY"')
        self.addCleanup(UPSTREAMS.__setitem__, "google", ("gemini", "gemini-*", ""))
        running = self.start(f'[[key]]\nname = "team"\nsha256 = "{digest}"\n'
                             "output_tokens_max = 50\n")
        config = {"maxOutputTokens": 90, "temperature": 0.5}
        asked = {"x-goog-api-key": "gate", "x-kvgate-explain": "0"}
        for given, wanted in ((None, {"maxOutputTokens": 50}), ({}, {"maxOutputTokens": 50}),
                              (config, {**config, "maxOutputTokens": 50}),
                              ({"max_output_tokens": 7}, {"max_output_tokens": 7})):
            more = {} if given is None else {"generationConfig": given}
            self.assert_ok(running.send(path_of("gemini-3-flash"), body_of(said("Go."), **more),
                                        asked))
            self.assertEqual(self.last().json()["generationConfig"], wanted)
            self.assertEqual(self.last().header("x-goog-api-key"), "operators")
            self.assertNotIn("gate", str(self.last().headers))
        self.assert_ok(running.send(path_of("gemini-3-flash", "generateContent?key=gate"),
                                    body_of(said("Go.")), {"x-kvgate-explain": "0"}))
        self.assertEqual(self.last().header("x-goog-api-key"), "operators")
        wrong = running.send(path_of("gemini-3-flash"), body_of(said("Go.")),
                             {"x-goog-api-key": "nobodys"})
        self.refused(wrong, 401, "UNAUTHENTICATED")

    def test_a_route_gives_a_model_another_name(self):
        running = self.start('[[route]]\nmodels = ["fast"]\ntargets = ["google/gemini-3-flash"]\n'
                             '[[route]]\nmodels = ["good"]\ntargets = ["chat/gpt-5.5"]\n')
        self.assert_ok(running.send(path_of("fast"), body_of(said("Go.")), PLAIN))
        self.assertEqual(self.last().path, path_of("gemini-3-flash"))
        self.assert_ok(running.send(path_of("good"), body_of(said("Go.")), PLAIN))
        self.assertEqual(self.last().json()["model"], "gpt-5.5")

    # --- clients of other dialects at Gemini -----------------------------------------------------

    def chat(self, running, messages, stream=False, **more):
        body = {"model": "gemini-3-pro", "stream": stream, "messages": messages, **more}
        headers = {"Authorization": "Bearer key-of-the-caller", "x-kvgate-explain": "0"}
        return self.assert_ok(running.send("/v1/chat/completions", body, headers))

    def test_a_chat_clients_tool_loop_at_gemini_keeps_the_signatures_of_its_calls(self):
        running = self.start(thinks=True)
        tools = [{"type": "function", "function": {"name": "look", "description": "Looks.",
                                                   "parameters": SCHEMA}}]
        messages = [{"role": "system", "content": text_of("system", 6000)},
                    {"role": "user", "content": "Please call the tool."}]
        cached = []
        for round_number in range(3):
            reply = self.chat(running, messages, tools=tools)
            cached.append(reply.json["usage"]["prompt_tokens_details"]["cached_tokens"])
            message = reply.json["choices"][0]["message"]
            self.assertEqual(reply.json["choices"][0]["finish_reason"], "tool_calls")
            call = message["tool_calls"][0]
            self.assertEqual(json.loads(call["function"]["arguments"]),
                             {"q": "naïve", "n": 2 ** 53})
            messages += [{"role": "assistant", "content": message["content"],
                          "tool_calls": message["tool_calls"]},
                         {"role": "tool", "tool_call_id": call["id"],
                          "content": f"result {round_number}"},
                         {"role": "user", "content": "Again, call the tool."}]
        sent = self.last().json()
        self.assertEqual(self.last().header("x-goog-api-key"), "key-of-the-caller")
        self.assertEqual(sent["tools"][0]["functionDeclarations"][0]["parametersJsonSchema"],
                         SCHEMA)
        self.assertEqual(cached[0], 0)
        self.assertTrue(all(tokens > 1000 for tokens in cached[1:]), cached)

    def test_clients_of_messages_and_responses_at_gemini(self):
        running = self.start()
        headers = {"x-api-key": "key-of-the-caller", "anthropic-version": "2023-06-01",
                   "x-kvgate-explain": "0"}
        reply = self.assert_ok(running.send("/v1/messages", {
            "model": "gemini-3-flash", "max_tokens": 50, "system": "Sys",
            "messages": [{"role": "user", "content": "Go."}]}, headers))
        self.assertEqual(reply.json["stop_reason"], "end_turn")
        self.assertTrue(reply.json["content"][-1]["text"])
        self.assertEqual(self.last().json()["generationConfig"]["maxOutputTokens"], 50)
        answered = self.assert_ok(running.send("/v1/responses", {
            "model": "gemini-3-flash", "input": "Go.", "instructions": "Sys"}, PLAIN))
        self.assertEqual(answered.json["status"], "completed")
        self.assertEqual(self.last().json()["systemInstruction"], {"parts": [{"text": "Sys"}]})
        streamed = self.chat(running, [{"role": "user", "content": "Go."}], stream=True)
        self.assertIn("alt=sse", self.last().target)
        self.assertTrue(streamed.events[-1].get("usage") or streamed.events)

    def test_a_models_name_cannot_say_more_of_a_request(self):
        running = self.start()
        for name in ("gemini-x HTTP/1.1\r\nx-evil: 1\r\n\r\n", "gemini-/../../v1beta/files",
                     "gemini-3-flash:countTokens?x="):
            before = len(self.provider.requests)
            reply = running.send("/v1/chat/completions", {
                "model": name, "messages": [{"role": "user", "content": "Go."}]}, KEY)
            self.assertEqual(reply.status, 404, reply.body)
            sent = self.provider.requests[before:]
            self.assertEqual(len(sent), 1)
            self.assertTrue(sent[0].target.endswith(":generateContent"), sent[0].target)
            self.assertFalse(sent[0].header("x-evil"))

    def test_errors_of_gemini_are_errors_of_the_clients_dialect(self):
        running = self.start()
        headers = {"x-api-key": "key", "anthropic-version": "2023-06-01"}
        body = {"model": "gemini-3-flash", "max_tokens": 5,
                "messages": [{"role": "user", "content": "Go."}]}
        for fault, status, kind in (("status:429:2", 429, "rate_limit_error"),
                                    ("status:503:1", 503, "overloaded_error"),
                                    ("status:400", 400, "invalid_request_error")):
            self.provider.faults.append(fault)
            reply = running.send("/v1/messages", body, headers)
            self.assertEqual((reply.status, reply.json["error"]["type"]), (status, kind))
        unknown = running.send("/v1/chat/completions",
                               {"model": "gemini-0", "messages": body["messages"]}, headers)
        self.assertEqual(unknown.status, 404)

    # --- Gemini's clients elsewhere --------------------------------------------------------------

    def test_a_gemini_clients_tool_loop_at_anthropic_keeps_thinking(self):
        running = self.start(thinks=True)
        contents = [said("Please call the tool.")]
        more = {"tools": [{"functionDeclarations": [FUNCTION]}],
                "systemInstruction": {"parts": [{"text": text_of("system", 3000)}]}}
        for round_number in range(3):
            reply = self.assert_ok(running.send(path_of("claude-opus-5-5"),
                                                body_of(*contents, **more), PLAIN))
            content = reply.json["candidates"][0]["content"]
            call = next(part["functionCall"] for part in content["parts"]
                        if "functionCall" in part)
            self.assertEqual(call["name"], "look")
            contents += [content, {"role": "user", "parts": [{"functionResponse": {
                "id": call["id"], "name": "look", "response": {"output": f"{round_number}"}}}]},
                said("Again, call the tool.")]
        self.assertEqual(reply.json["candidates"][0]["finishReason"], "STOP")
        self.assertEqual(self.last().path, "/v1/messages")

    def test_wrong_bodies_are_named_in_googles_form_everywhere(self):
        running = self.start()
        for model in ("gpt-5.5", "claude-opus-5-5", "tiny"):
            for body, word in ((body_of(), "contents"), ({"contents": 7}, "contents"),
                               (body_of({"role": "system", "parts": []}), "contents[0].role"),
                               (body_of({"parts": [{"texts": "a"}]}), 'Unknown name "texts"'),
                               (body_of(said("a"), generationConfig={"temperature": "hot"}),
                                "generationConfig.temperature"),
                               (body_of(said("a"), cachedContent="cachedContents/1"),
                                "cachedContent")):
                with self.subTest(model=model, body=body):
                    reply = running.send(path_of(model), body, KEY)
                    self.refused(reply, 400, "INVALID_ARGUMENT", word)
            array = running.send(path_of(model, "streamGenerateContent"), body_of(said("a")), KEY)
            self.refused(array, 400, "INVALID_ARGUMENT", "alt=sse")
        self.refused(running.send(path_of("tiny"), b"{", KEY), 400, "INVALID_ARGUMENT")
        self.refused(running.send(path_of("nobody"), body_of(said("a")), KEY), 404, "NOT_FOUND")
        self.refused(running.get(path_of("tiny"), KEY), 405, "UNIMPLEMENTED")

    def test_the_local_engine_answers_counts_and_reads_the_cache_after_a_restart(self):
        running = self.serve()
        prompt = said(text_of("prompt", 400))
        config = {"maxOutputTokens": 8, "temperature": 0, "seed": 7, "topK": 5}
        first = self.assert_ok(running.send(path_of("tiny"),
                                            body_of(prompt, generationConfig=config)))
        self.assertEqual(first.json["kvgate"]["cached_tokens"], 0)
        path = path_of("tiny", "streamGenerateContent?alt=sse")
        streamed = self.assert_ok(running.send(path, body_of(prompt, generationConfig=config)))
        chunks = chunks_of(streamed)
        self.assertEqual(text_in(*chunks), text_in(first.json))
        counted = self.assert_ok(running.send(path_of("tiny", "countTokens"), body_of(prompt)))
        tokens = first.json["usageMetadata"]["promptTokenCount"]
        self.assertEqual(counted.json["totalTokens"], tokens)
        asked = {"generateContentRequest": {"model": "models/tiny", **body_of(prompt)}}
        again = self.assert_ok(running.send(path_of("tiny", "countTokens"), asked))
        self.assertEqual(again.json["totalTokens"], tokens)
        self.assertEqual(running.terminate(), 0)
        running.restart()
        after = self.assert_ok(running.send(path_of("tiny"),
                                            body_of(prompt, generationConfig=config)))
        self.assertEqual(text_in(after.json), text_in(first.json))
        self.assertGreater(after.json["usageMetadata"]["cachedContentTokenCount"], tokens - 64)
        record = self.record_of(running, after.headers["x-kvgate-request-id"])
        self.assertEqual(record["endpoint"], "generate_content")

    def test_models_in_googles_form(self):
        running = self.start()
        listed = self.assert_ok(running.get("/v1beta/models", KEY)).json["models"]
        names = [model["name"] for model in listed]
        self.assertIn("models/gemini-3-flash", " ".join(names))
        self.assertTrue(all(name.startswith("models/") for name in names), names)
        for name in ("gpt-5.5", "claude-opus-5-5"):
            one = self.assert_ok(running.get(f"/v1beta/models/{name}", KEY)).json
            self.assertEqual(one["name"], f"models/{name}")
        self.refused(running.get("/v1beta/models/nobody", KEY), 404, "NOT_FOUND")


if __name__ == "__main__":
    unittest.main()
