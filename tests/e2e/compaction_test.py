#!/usr/bin/env python3
"""Compactions that agents ask for, through the real binary: at an upstream that has none of them,
at the local engine, and at the provider whose own they are; items after a restart, of other
callers, of other providers."""

import http.client
import json
import sys
import threading
import unittest
from pathlib import Path

import server
from case import Case, text_of, wait_until

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

import context_edits  # noqa: E402
from provider_simulator import Simulator  # noqa: E402

TRIGGER = {"type": "compaction_trigger"}
SUMMARIZE = {"type": "summarize"}
TOOL = {"type": "function", "name": "look", "description": "Looks.",
        "parameters": {"type": "object", "properties": {"q": {"type": "string"}}}}
ITEMS = [
    {"role": "developer", "content": "Work in this repository. " + text_of("rules", 40)},
    {"role": "user", "content": [{"type": "input_text", "text": "Mend the parser."}]},
    {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"q":"parser"}'},
    {"type": "function_call_output", "call_id": "c1", "output": "parser.cc has 3 errors"},
    {"type": "message", "role": "assistant",
     "content": [{"type": "output_text", "text": "It is mended."}]},
    {"role": "user", "content": "Now the tests."},
]
MESSAGES = [
    {"role": "user", "content": "Mend the parser. " + text_of("rules", 40)},
    {"role": "assistant", "content": [{"type": "text", "text": "It is mended."}]},
    {"role": "user", "content": "Now the tests."},
]


def events_of(data):
    """The events of a stream, as (name, data)."""
    events = []
    for block in data.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line)
        if "event" in fields:
            events.append((fields["event"], json.loads(fields["data"])))
    return events


class CompactionCase(Case):
    def setUp(self):
        super().setUp()
        self.provider = Simulator().__enter__()
        self.addCleanup(self.provider.__exit__)
        self.arguments = self.upstreams(self.provider.url, {
            "chat": ("openai", "chat-*", 'provider = "vllm"\nendpoints = ["chat"]'),
            "openai": ("openai", "gpt-*", 'provider = "openai"'),
            "claude": ("anthropic", "claude-*", 'provider = "anthropic"')})
        self.running = self.start("data")

    def start(self, data, model=None):
        running = server.Server(model, self.folder / data, self.arguments).start()
        self.addCleanup(running.__exit__)
        return running

    def post(self, path, body, more=None, running=None):
        connection = http.client.HTTPConnection(*(running or self.running).address.split(":"),
                                                timeout=30)
        self.addCleanup(connection.close)
        connection.request("POST", path, json.dumps(body).encode(),
                           {"content-type": "application/json", "authorization": "Bearer alice",
                            **(more or {})})
        response = connection.getresponse()
        data = response.read()
        return response, data

    def ok(self, path, body, more=None, running=None):
        response, data = self.post(path, body, more, running)
        self.assertEqual(response.status, 200, data)
        return json.loads(data), response

    def refused(self, path, body, status=400, more=None, running=None):
        response, data = self.post(path, body, more, running)
        self.assertEqual(response.status, status, data)
        return json.loads(data)["error"]

    def sent(self, number=-1):
        return json.loads(self.provider.requests[number].body)

    def responses(self, items=None, **more):
        return {"model": "chat-1", "input": ITEMS if items is None else items, "tools": [TOOL],
                "store": False, **more}

    def messages(self, messages=None, **more):
        return {"model": "chat-1", "max_tokens": 500, "messages": messages or MESSAGES, **more}


class ResponsesTest(CompactionCase):
    def test_the_path_keeps_the_users_words_and_the_next_request_goes_on(self):
        self.ok("/v1/responses", self.responses())
        before = self.sent()
        reply, response = self.ok("/v1/responses/compact", self.responses())
        self.assertEqual(reply["object"], "response.compaction")
        self.assertEqual([item["type"] for item in reply["output"]],
                         ["message", "message", "compaction"])
        self.assertEqual([item["content"][0]["text"] for item in reply["output"][:2]],
                         ["Mend the parser.", "Now the tests."])
        item = reply["output"][-1]
        self.assertTrue(item["encrypted_content"].startswith("kvg1."), item)
        self.assertRegex(item["id"], "^cmp_kv")
        self.assertGreater(reply["usage"]["input_tokens"], 0)
        self.assertRegex(response.getheader("x-kvgate-compaction"), r"^done;before=\d+;after=\d+$")
        # It is asked for by the same request and one message more, so that it reads the cache.
        asked = self.sent()
        self.assertEqual(asked["messages"][:-1], before["messages"])
        self.assertEqual(asked["tools"], before["tools"])
        self.assertIn("Summarise", asked["messages"][-1]["content"])
        summary = json.loads(self.provider.requests[-1].response)["choices"][0]["message"]
        # What the agent sends then.
        more = [ITEMS[0], *reply["output"], {"role": "user", "content": "Go on."}]
        self.ok("/v1/responses", self.responses(more))
        turns = self.sent()["messages"]
        self.assertEqual([turn["role"] for turn in turns if turn["role"] != "user"],
                         ["system" if turns[0]["role"] == "system" else "developer"])
        said = json.dumps(turns, ensure_ascii=False)
        self.assertIn(summary["content"].strip(), said)
        self.assertIn("Mend the parser.", said)
        self.assertNotIn("parser.cc has 3 errors", said)
        # And then it only grows at its end.
        first = self.provider.requests[-1].body
        longer = [*more, {"role": "assistant", "content": "Done."},
                  {"role": "user", "content": "?"}]
        self.ok("/v1/responses", self.responses(longer))
        second = self.provider.requests[-1].body
        self.assertTrue(second.startswith(first[:first.index(b"Go on.")]), (first, second))

    def test_a_trigger_is_answered_with_exactly_one_item(self):
        reply, _ = self.ok("/v1/responses", self.responses([*ITEMS, TRIGGER]))
        self.assertEqual([item["type"] for item in reply["output"]], ["compaction"])
        self.assertEqual((reply["status"], reply["object"]), ("completed", "response"))
        response, data = self.post("/v1/responses", self.responses([*ITEMS, TRIGGER], stream=True))
        self.assertEqual(response.getheader("content-type"), "text/event-stream")
        events = events_of(data)
        self.assertEqual([name for name, _ in events],
                         ["response.created", "response.in_progress", "response.output_item.added",
                          "response.output_item.done", "response.completed"])
        self.assertEqual([event["sequence_number"] for _, event in events], list(range(5)))
        done = events[-1][1]["response"]
        self.assertEqual([item["type"] for item in done["output"]], ["compaction"])
        self.assertEqual(events[3][1]["item"], done["output"][0])
        self.assertGreater(done["usage"]["input_tokens"], 0)
        # The newest of several stands for all before it.
        again = [*ITEMS[:2], *reply["output"], ITEMS[4], *done["output"], ITEMS[5]]
        self.ok("/v1/responses", self.responses(again))
        self.assertEqual(json.dumps(self.sent()).count("<summary>"), 1)
        self.assertNotIn("It is mended.", json.dumps(self.sent()))
        error = self.refused("/v1/responses", self.responses([TRIGGER, *ITEMS]))
        self.assertEqual(error["param"], "input[0]")

    def test_items_survive_a_restart_and_are_nobody_elses(self):
        reply, _ = self.ok("/v1/responses", self.responses([*ITEMS, TRIGGER]))
        items = [*reply["output"], {"role": "user", "content": "Go on."}]
        error = self.refused("/v1/responses", self.responses(items),
                             more={"authorization": "Bearer bob"})
        self.assertEqual(error["param"], "input[0].encrypted_content")
        self.assertIn("another caller", error["message"])
        self.running.kill()
        running = self.start("data")
        self.ok("/v1/responses", self.responses(items), running=running)
        self.assertIn("<summary>", json.dumps(self.sent()))
        other = self.start("other")
        error = self.refused("/v1/responses", self.responses(items), running=other)
        self.assertIn("store.secret_env", error["message"])
        damaged = [{**items[0], "encrypted_content": items[0]["encrypted_content"][:-8]}, items[1]]
        self.refused("/v1/responses", self.responses(damaged), running=running)

    def test_gateways_with_one_secret_open_each_others(self):
        self.arguments += self.share_a_secret()
        one, other = self.start("one"), self.start("two")
        reply, _ = self.ok("/v1/responses", self.responses([*ITEMS, TRIGGER]), running=one)
        one.kill()
        items = [*reply["output"], {"role": "user", "content": "Go on."}]
        self.ok("/v1/responses", self.responses(items), running=other)
        self.assertIn("<summary>", json.dumps(self.sent()))

    def test_a_kill_while_the_summary_is_written_costs_only_that(self):
        self.provider.faults.append("slow:20")
        body = self.responses([*ITEMS, TRIGGER])
        begun = len(self.provider.requests)
        lost = threading.Thread(target=self.lost, args=(body,))
        lost.start()
        wait_until(lambda: len(self.provider.requests) > begun, "the summary is asked for")
        self.running.kill()
        lost.join()
        self.running = self.start("data")
        reply, _ = self.ok("/v1/responses", body)
        self.assertEqual([item["type"] for item in reply["output"]], ["compaction"])

    def lost(self, body):
        with self.assertRaises((http.client.HTTPException, OSError)):
            self.post("/v1/responses", body)

    def test_what_is_wrong_is_said_with_its_place(self):
        item = {"type": "compaction", "encrypted_content": "kvg1.x"}
        for field, body in (
                ("input", {"model": "chat-1", "input": 7}),
                ("input", {"model": "chat-1", "input": []}),
                ("input", {"model": "chat-1", "input": [7]}),
                ("input[0].encrypted_content", self.responses([item])),
                ("context_management", self.responses(context_management={})),
                ("context_management.type", self.responses(context_management=[{"type": 7}])),
                ("context_management.compact_threshold", self.responses(context_management=[
                    {"type": "compaction", "compact_threshold": "much"}]))):
            for path in ("/v1/responses/compact", "/v1/responses"):
                if path == "/v1/responses" and field == "input":
                    continue  # as without compactions
                with self.subTest(path=path, body=body):
                    error = self.refused(path, body)
                    self.assertTrue(error["param"].startswith(field), error)
        response, data = self.post("/v1/responses/compact", [])
        self.assertEqual(response.status, 400, data)
        self.ok("/v1/responses", self.responses())

    def test_the_providers_own_go_to_it_and_nowhere_else(self):
        foreign = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAAB"}
        items = [foreign, {"role": "user", "content": "Go on."}]
        error = self.refused("/v1/responses", self.responses(items))
        self.assertEqual(error["param"], "input[0].encrypted_content")
        self.assertIn("only the provider that made it", error["message"])
        self.post("/v1/responses", self.responses(items, model="gpt-6-sol"))
        self.assertEqual(self.sent()["input"][0], foreign)
        body = self.responses([*ITEMS, TRIGGER], model="gpt-6-sol")
        self.post("/v1/responses", body)
        self.assertEqual(self.sent()["input"][-1], TRIGGER)
        self.post("/v1/responses/compact", self.responses(model="gpt-6-sol"))
        self.assertEqual(self.provider.requests[-1].target, "/v1/responses/compact")
        self.assertEqual(self.sent(), self.responses(model="gpt-6-sol"))
        # What this gateway made is opened for it.
        reply, _ = self.ok("/v1/responses", self.responses([*ITEMS, TRIGGER]))
        self.post("/v1/responses", self.responses([*reply["output"], items[1]], model="gpt-6-sol"))
        self.assertIn("<summary>", json.dumps(self.sent()["input"]))
        self.assertNotIn("kvg1.", json.dumps(self.sent()["input"]))


class MessagesTest(CompactionCase):
    PATH = "/v1/messages"

    def test_a_conversation_is_summarised_on_demand(self):
        reply, _ = self.ok(self.PATH, self.messages(compaction=SUMMARIZE))
        self.assertEqual(reply["stop_reason"], "compaction")
        block, = reply["content"]
        self.assertEqual((block["type"], bool(block["content"])), ("compaction", True))
        self.assertEqual((reply["usage"]["input_tokens"], reply["usage"]["output_tokens"]), (0, 0))
        call, = reply["usage"]["iterations"]
        self.assertEqual(call["type"], "compaction")
        self.assertGreater(call["input_tokens"] + call["cache_read_input_tokens"], 0)
        for body in ([{"role": "assistant", "content": [block]},
                      {"role": "user", "content": "Go on."}],
                     [{"role": "user", "content": [block, {"type": "text", "text": "Go on."}]}]):
            self.ok(self.PATH, self.messages(body))
            turns = self.sent()["messages"]
            self.assertEqual([turn["role"] for turn in turns], ["user"])
            self.assertIn(block["content"], json.dumps(turns[0]["content"], ensure_ascii=False))
            self.assertIn("Go on.", json.dumps(turns[0]["content"]))

    def test_it_streams_as_one_whole_block(self):
        response, data = self.post(self.PATH, self.messages(compaction=SUMMARIZE, stream=True))
        self.assertEqual(response.getheader("content-type"), "text/event-stream")
        events = events_of(data)
        self.assertEqual([name for name, _ in events],
                         ["message_start", "content_block_start", "content_block_stop",
                          "message_delta", "message_stop"])
        self.assertEqual(events[1][1]["content_block"]["type"], "compaction")
        self.assertEqual(events[3][1]["delta"]["stop_reason"], "compaction")

    def test_instructions_reach_the_model(self):
        self.ok(self.PATH, self.messages(compaction={**SUMMARIZE, "instructions": "Name {{all}}."}))
        self.assertEqual(self.sent()["messages"][-1]["content"], "Name {{all}}.")
        error = self.refused(self.PATH, self.messages(
            compaction={**SUMMARIZE, "instructions": "x" * 16385}))
        self.assertIn("compaction.instructions", error["message"])

    def test_errors_have_the_providers_names(self):
        reply, _ = self.ok(self.PATH, self.messages(compaction=SUMMARIZE))
        block = reply["content"][0]
        first = {"role": "assistant", "content": [block]}
        then = {"role": "user", "content": "Go on."}
        changed = {**block, "content": block["content"] + "."}
        forged = {**block, "signature": block["signature"][:-12] + "AAAAAAAAAAA="}
        for name, body in (
                ("misplaced", [then, first, then]),
                ("content_mismatch", [{**first, "content": [changed]}, then]),
                ("signature_invalid", [{**first, "content": [forged]}, then])):
            with self.subTest(name=name):
                error = self.refused(self.PATH, self.messages(body))
                self.assertTrue(error["message"].startswith(f"compaction_block_{name}: "), error)
        num_requests = len(self.provider.requests)
        for field, more in (("stop_sequences", {"stop_sequences": ["x"]}),
                            ("tool_choice", {"tool_choice": {"type": "any"}}),
                            ("output_config.format", {"output_config": {"format": {"type": "x"}}})):
            with self.subTest(field=field):
                error = self.refused(self.PATH, self.messages(compaction=SUMMARIZE, **more))
                self.assertIn(field, error["message"])
        self.assertEqual(len(self.provider.requests), num_requests, "nothing is asked for these")

    def test_a_provider_that_has_it_gets_it_as_it_came(self):
        body = self.messages(model="claude-opus-5-5", compaction=SUMMARIZE)
        self.post(self.PATH, body, {"anthropic-beta": "compact-2026-09-04"})
        self.assertEqual(self.sent()["compaction"], SUMMARIZE)
        self.assertEqual(len(self.sent()["messages"]), len(MESSAGES))

    def test_a_model_that_calls_a_tool_instead_is_asked_once_more(self):
        tools = [{"name": "look", "description": "Looks.", "input_schema": {"type": "object"}}]
        # The simulated model does so for these words, in the last message.
        asked = {"type": "summarize", "instructions": "Please call the tool."}
        reply, _ = self.ok(self.PATH, self.messages(compaction=asked, tools=tools))
        self.assertEqual(reply["content"][0]["type"], "compaction")
        self.assertIn("tools", self.sent(-2))
        self.assertNotIn("tools", self.sent())
        self.assertIn("User: Now the tests.", json.dumps(self.sent()["messages"]))

    def test_what_goes_wrong_upstream_is_said(self):
        self.provider.faults.append("status:429")
        response, data = self.post(self.PATH, self.messages(compaction=SUMMARIZE))
        self.assertEqual(response.status, 429, data)
        self.assertEqual(json.loads(data)["type"], "error")


def long_items(words=3000):
    return [ITEMS[0], {"role": "user", "content": "Mend the parser. " + text_of("long", words)},
            *ITEMS[2:]]


class ThresholdTest(CompactionCase):
    def management(self, tokens):
        return [{"type": "compaction", "compact_threshold": tokens}]

    def test_below_it_nothing_happens(self):
        reply, response = self.ok("/v1/responses", self.responses(
            context_management=self.management(100_000)))
        self.assertEqual([item["type"] for item in reply["output"]], ["message"])
        self.assertIsNone(response.getheader("x-kvgate-compaction"))
        self.assertNotIn("context_management", self.sent())

    def test_over_it_the_answer_begins_with_the_item(self):
        asked = self.responses(long_items(), context_management=self.management(1000))
        reply, response = self.ok("/v1/responses", asked)
        self.assertEqual([item["type"] for item in reply["output"]], ["compaction", "message"])
        self.assertRegex(response.getheader("x-kvgate-compaction"), "^done;before=")
        turns = self.sent()["messages"]
        self.assertEqual([turn["role"] for turn in turns][1:], ["user"])
        self.assertIn("Now the tests.", json.dumps(turns), "the newest message is word for word")
        self.assertNotIn("parser.cc has 3 errors", json.dumps(turns))
        # The next request, with all that came before or without, goes on from the same prompt.
        for front in (long_items(), [ITEMS[0]]):
            items = [*front, *reply["output"], {"role": "user", "content": "Go on."}]
            self.ok("/v1/responses", self.responses(items))
            self.assertEqual(self.sent()["messages"][:len(turns)], turns)

    def test_streams_are_numbered_as_if_it_had_always_been_there(self):
        asked = self.responses(long_items(), context_management=self.management(1000), stream=True)
        response, data = self.post("/v1/responses", asked)
        self.assertEqual(response.status, 200, data)
        events = events_of(data)
        self.assertEqual([event["sequence_number"] for _, event in events],
                         list(range(len(events))), events)
        added = [event for name, event in events if name == "response.output_item.added"]
        self.assertEqual([event["output_index"] for event in added], [0, 1])
        done = [event["item"] for name, event in events if name == "response.output_item.done"]
        final = events[-1][1]["response"]
        self.assertEqual([item["type"] for item in final["output"]], ["compaction", "message"])
        self.assertEqual(done[0], final["output"][0])

    def test_a_summary_that_does_not_come_leaves_the_prompt(self):
        self.provider.faults.append("status:500")
        reply, _ = self.ok("/v1/responses", self.responses(
            long_items(), context_management=self.management(1000)))
        self.assertEqual([item["type"] for item in reply["output"]], ["message"])
        self.assertIn("parser.cc has 3 errors", json.dumps(self.sent()))

    def test_messages_whole_streamed_and_paused(self):
        long = [{"role": "user", "content": text_of("long", 60_000)}, *MESSAGES[1:]]
        edit = {"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 50_000}}
        asked = self.messages(long, context_management={"edits": [edit]})
        reply, _ = self.ok("/v1/messages", asked)
        self.assertEqual([block["type"] for block in reply["content"]], ["compaction", "text"])
        self.assertEqual([call["type"] for call in reply["usage"]["iterations"]],
                         ["compaction", "message"])
        turns = self.sent()["messages"]
        self.assertEqual([turn["role"] for turn in turns], ["user"])
        self.assertIn("Now the tests.", json.dumps(turns))
        more = [*long, {"role": "assistant", "content": reply["content"]},
                {"role": "user", "content": "Go on."}]
        self.ok("/v1/messages", self.messages(more))
        self.assertEqual([turn["role"] for turn in self.sent()["messages"]],
                         ["user", "assistant", "user"])
        _, data = self.post("/v1/messages", {**asked, "stream": True})
        events = events_of(data)
        starts = [event for name, event in events if name == "content_block_start"]
        self.assertEqual([(event["index"], event["content_block"]["type"]) for event in starts],
                         [(0, "compaction"), (1, "text")])
        delta = next(event["delta"] for name, event in events if name == "content_block_delta")
        self.assertEqual(delta["type"], "compaction_delta")
        self.assertTrue(delta["content"] and delta["encrypted_content"].startswith("kvg1."))
        num_requests = len(self.provider.requests)
        paused, _ = self.ok("/v1/messages", self.messages(long, context_management={
            "edits": [{**edit, "pause_after_compaction": True}]}))
        self.assertEqual(paused["stop_reason"], "compaction")
        self.assertEqual([block["type"] for block in paused["content"]], ["compaction"])
        self.assertEqual(len(self.provider.requests), num_requests + 1)


def shape(value):
    """What an answer is made of, whatever its words, ids and sealed texts are."""
    if isinstance(value, dict):
        return {name: member if name in ("type", "role", "status") else shape(member)
                for name, member in value.items()}
    return [shape(member) for member in value] if isinstance(value, list) else type(value).__name__


class SameAsTheProviderTest(CompactionCase):
    """A compaction that is made here looks as the provider's own does, whole and streamed."""

    BETA = {"anthropic-beta": "compact-2026-09-04,compact-2026-01-12"}

    def told(self, parts):
        """Compactions and the user's words in full, of what was answered what it is."""
        return [shape(part) if part["type"] == "compaction" or part.get("role") == "user"
                else part["type"] for part in parts]

    def streamed(self, path, body):
        """The events, as which of them say what; a text comes in as many as it likes."""
        _, data = self.post(path, {**body, "stream": True}, self.BETA)
        said = []
        for name, event in events_of(data):
            part = event.get("item") or event.get("content_block") or event.get("delta") or {}
            part = part if isinstance(part, dict) else {}
            about = (name, event.get("output_index"), event.get("index"), part.get("type"),
                     part.get("stop_reason"))
            if part.get("type") in ("compaction", "compaction_delta"):
                about += (json.dumps(shape(part), sort_keys=True),)
            if name != "ping" and about not in said:
                said.append(about)
        return said

    def check(self, path, native, own, list_of):
        theirs, _ = self.ok(path, native, self.BETA)
        ours, _ = self.ok(path, own)
        self.assertIn("compaction", [part["type"] for part in theirs[list_of]])
        self.assertEqual(self.told(ours[list_of]), self.told(theirs[list_of]))
        return theirs, ours

    def test_responses(self):
        over = {"context_management": [{"type": "compaction", "compact_threshold": 1000}]}
        for items, more in (([*ITEMS, TRIGGER], {}), (long_items(), over)):
            with self.subTest(more=more):
                own = self.responses(items, **more)
                native = {**own, "model": "gpt-5.5"}
                self.check("/v1/responses", native, own, "output")
                wanted = self.streamed("/v1/responses", native)
                self.assertEqual(self.sent().get("context_management"),
                                 more.get("context_management"))
                self.assertEqual(self.streamed("/v1/responses", own), wanted)
        own = {"model": "chat-1", "input": ITEMS, "tools": [TOOL]}
        theirs, ours = self.check("/v1/responses/compact", {**own, "model": "gpt-5.5"}, own,
                                  "output")
        self.assertEqual(sorted(ours), sorted(theirs))
        self.assertEqual(ours["object"], theirs["object"])

    def test_messages(self):
        long = [{"role": "user", "content": text_of("long", 60_000)}, *MESSAGES[1:]]
        edit = {"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 50_000}}
        pause = {**edit, "pause_after_compaction": True}
        for messages, more in ((MESSAGES, {"compaction": SUMMARIZE}),
                               (long, {"context_management": {"edits": [edit]}}),
                               (long, {"context_management": {"edits": [pause]}})):
            with self.subTest(more=more):
                own = self.messages(messages, **more)
                native = {**own, "model": "claude-opus-5-5"}
                theirs, ours = self.check("/v1/messages", native, own, "content")
                self.assertEqual(ours["stop_reason"], theirs["stop_reason"])
                self.assertEqual([call["type"] for call in ours["usage"]["iterations"]],
                                 [call["type"] for call in theirs["usage"]["iterations"]])
                self.assertEqual(self.streamed("/v1/messages", own),
                                 self.streamed("/v1/messages", native))


def used(num_uses, name="t", size=400, thinks=False):
    """A conversation in which tools were used so many times."""
    turns = [{"role": "user", "content": f"Mend the parser of {name}."}]
    for index in range(num_uses):
        tool = "look" if index % 2 == 0 else "note"
        turns += [
            {"role": "assistant", "content": [
                *([{"type": "thinking", "thinking": f"thought {index}", "signature": "s"}]
                  if thinks else []),
                {"type": "text", "text": f"Step {index}."},
                {"type": "tool_use", "id": f"{name}-{index}", "name": tool,
                 "input": {"q": "x" * 50}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": f"{name}-{index}",
                 "content": f"result {index} " + "y" * size}]}]
        if thinks:
            turns[-1]["content"].append({"type": "text", "text": "Go on."})
    return turns


def clear_tools(uses, keep, **more):
    return {"type": "clear_tool_uses_20250919", "trigger": {"type": "tool_uses", "value": uses},
            "keep": {"type": "tool_uses", "value": keep}, **more}


class EditsTest(CompactionCase):
    """Old results and old thinking are cleared as their provider clears them."""

    NATIVE = "claude-opus-5-5"
    TOOLS = [{"name": name, "description": "Does.", "input_schema": {"type": "object"}}
             for name in ("look", "note")]
    BETA = {"anthropic-beta": "context-management-2025-06-27"}

    def edited(self, edits, messages, **more):
        return self.messages(messages, tools=self.TOOLS, context_management={"edits": edits},
                             **more)

    def applied(self, reply):
        """What an answer says of its edits, without tokens, which each model counts in its way."""
        edits = reply["context_management"]["applied_edits"]
        for edit in edits:
            self.assertGreater(edit["cleared_input_tokens"], 0, edits)
        return [{name: value for name, value in edit.items() if name != "cleared_input_tokens"}
                for edit in edits]

    def test_an_answer_says_the_same_with_and_without_the_provider(self):
        thinking = {"type": "clear_thinking_20251015",
                    "keep": {"type": "thinking_turns", "value": 2}}
        least = {"type": "input_tokens", "value": 1_000_000}
        cases = ([clear_tools(5, 2)], [clear_tools(12, 2)], [clear_tools(5, 0)],
                 [clear_tools(5, 2, exclude_tools=["note"], clear_tool_inputs=True)],
                 [clear_tools(5, 2, clear_at_least=least)], [thinking, clear_tools(5, 3)],
                 [{"type": "clear_thinking_20251015", "keep": "all"}], [])
        for number, (edits, size) in enumerate((edits, size) for edits in cases
                                               for size in (7, 12)):
            # Each is a conversation of its own, which nobody has cleared before.
            body = self.edited(edits, used(size, f"c{number}", thinks=True))
            with self.subTest(edits=edits, size=size):
                native, _ = self.ok("/v1/messages", {**body, "model": self.NATIVE}, self.BETA)
                self.assertEqual(self.sent()["context_management"], {"edits": edits})
                if not edits:
                    continue
                wanted = self.applied(native)
                reply, _ = self.ok("/v1/messages", body)
                self.assertEqual(self.applied(reply), wanted)
                self.assertNotIn("context_management", self.sent())
                cleared = json.dumps(self.sent()).count(context_edits.CLEARED)
                self.assertEqual(cleared, sum(edit.get("cleared_tool_uses", 0) for edit in wanted))
                _, data = self.post("/v1/messages", {**body, "stream": True})
                delta = next(event for name, event in events_of(data) if name == "message_delta")
                self.assertEqual(self.applied(delta), wanted)

    def test_a_count_says_what_it_was(self):
        body = self.edited([clear_tools(5, 2)], used(9))
        del body["max_tokens"]
        running = self.start("local", self.tiny())
        for model, running in (("chat-1", None), ("local", running), (self.NATIVE, None)):
            with self.subTest(model=model):
                path = "/v1/messages/count_tokens"
                whole, _ = self.ok(path, {"model": model, "messages": body["messages"],
                                          "tools": self.TOOLS}, running=running)
                count, _ = self.ok(path, {**body, "model": model}, self.BETA, running)
                original = count["context_management"]["original_input_tokens"]
                self.assertLess(count["input_tokens"], whole["input_tokens"])
                # The upstream that has no count of its own is estimated.
                off = 0 if model != "chat-1" else whole["input_tokens"] // 10
                self.assertAlmostEqual(original, whole["input_tokens"], delta=off)

    def test_a_conversation_is_cleared_seldom_and_its_cache_stays_warm(self):
        changes, before = 0, None
        edit = {"type": "clear_tool_uses_20250919",
                "trigger": {"type": "input_tokens", "value": 8000}}
        for size in range(1, 41):
            reply, _ = self.ok("/v1/messages", self.edited([edit], used(size, size=2000)))
            turns = self.sent()["messages"]
            if before and turns[:len(before)] != before:
                changes += 1
            before = turns
            self.assertLess(len(json.dumps(turns)), 8000 * 5)
            self.assertIn("context_management", reply)
        self.assertLessEqual(changes, 5)
        # After a kill it is cleared once to what is to be kept, and stays so again.
        self.running.kill()
        running = self.start("data")
        for size in (41, 42):
            reply, _ = self.ok("/v1/messages", self.edited([edit], used(size, size=2000)),
                               running=running)
            self.assertEqual(self.applied(reply)[0]["cleared_tool_uses"], 38)

    def test_wrong_edits_are_named(self):
        for field, edit in (
                ("trigger.type", clear_tools(5, 2, trigger={"type": "x", "value": 1})),
                ("keep.value", clear_tools(5, -1)),
                ("exclude_tools", clear_tools(5, 1, exclude_tools=7)),
                ("keep", {"type": "clear_thinking_20251015", "keep": 7})):
            error = self.refused("/v1/messages", self.edited([edit], used(2)))
            self.assertIn(f"context_management.edits.{field}", error["message"])
        order = [clear_tools(5, 2), {"type": "clear_thinking_20251015"}]
        self.refused("/v1/messages", self.edited(order, used(2)))

    def test_a_compaction_may_follow(self):
        edits = [clear_tools(5, 2), {"type": "compact_20260112",
                                     "trigger": {"type": "input_tokens", "value": 50_000}}]
        turns = [{"role": "user", "content": text_of("long", 60_000)}, *used(9)[1:]]
        reply, _ = self.ok("/v1/messages", self.edited(edits, turns))
        self.assertEqual(self.applied(reply)[0]["cleared_tool_uses"], 7)
        self.assertEqual(reply["content"][0]["type"], "compaction")
        paused = [edits[0], {**edits[1], "pause_after_compaction": True}]
        for stream in (False, True):
            _, data = self.post("/v1/messages", self.edited(paused, turns, stream=stream))
            self.assertIn(b"cleared_tool_uses", data)

    def test_the_local_engine_clears(self):
        running = self.start("local", self.tiny())
        body = self.edited([clear_tools(5, 2)], used(9), model="local", max_tokens=8)
        reply, _ = self.ok("/v1/messages", body, running=running)
        self.assertEqual(self.applied(reply)[0]["cleared_tool_uses"], 7)
        tokens = (reply["usage"]["input_tokens"] + reply["usage"]["cache_read_input_tokens"]
                  + reply["usage"]["cache_creation_input_tokens"])
        count, _ = self.ok("/v1/messages/count_tokens", body, running=running)
        self.assertEqual(count["input_tokens"], tokens)

    def test_one_that_speaks_messages_gets_what_is_not_cleared_as_it_came(self):
        arguments = self.upstreams(self.provider.url, {
            "other": ("anthropic", "claude-*", 'provider = "other"')})
        self.arguments = arguments
        running = self.start("other")
        body = self.edited([clear_tools(5, 2)], used(3), model=self.NATIVE)
        self.ok("/v1/messages", body, running=running)
        self.assertEqual(self.sent(), body)
        body = self.edited([clear_tools(5, 2)], used(9), model=self.NATIVE)
        reply, _ = self.ok("/v1/messages", body, running=running)
        self.assertNotIn("context_management", self.sent())
        self.assertEqual(self.applied(reply)[0]["cleared_tool_uses"], 7)


class LocalTest(CompactionCase):
    def test_the_local_engine_compacts_over_a_threshold(self):
        running = self.start("local", self.tiny())
        asked = self.responses(long_items(200), model="local", max_output_tokens=8,
                               context_management=[{"type": "compaction",
                                                    "compact_threshold": 300}])
        reply, _ = self.ok("/v1/responses", asked, running=running)
        self.assertEqual(reply["output"][0]["type"], "compaction")
        response, data = self.post("/v1/responses", {**asked, "stream": True}, running=running)
        self.assertEqual(response.status, 200, data)
        self.assertEqual([event["sequence_number"] for _, event in events_of(data)],
                         list(range(len(events_of(data)))))

    def test_the_local_engine_compacts(self):
        running = self.start("local", self.tiny())
        reply, _ = self.ok("/v1/responses", self.responses([*ITEMS, TRIGGER], model="local"),
                           running=running)
        self.assertEqual([item["type"] for item in reply["output"]], ["compaction"])
        items = [*reply["output"], {"role": "user", "content": "Go on."}]
        self.ok("/v1/responses", self.responses(items, model="local", max_output_tokens=4),
                running=running)
        counted, _ = self.ok("/v1/responses/input_tokens", self.responses(items, model="local"),
                             running=running)
        self.assertGreater(counted["input_tokens"], 50)

    def test_what_is_chained_is_compacted_with_what_came_before(self):
        running = self.start("local", self.tiny())
        first, _ = self.ok("/v1/responses", self.responses(ITEMS[:2], model="local", store=True,
                                                           max_output_tokens=4), running=running)
        body = {"model": "local", "previous_response_id": first["id"]}
        reply, _ = self.ok("/v1/responses/compact", body, running=running)
        self.assertEqual([item["type"] for item in reply["output"]], ["compaction"])
        self.assertGreater(reply["usage"]["input_tokens_details"]["cached_tokens"], 0)
        self.assertGreater(reply["usage"]["input_tokens"], first["usage"]["input_tokens"] + 100)
        error = self.refused("/v1/responses/compact", {"model": "local", "input": []},
                             running=running)
        self.assertEqual(error["param"], "input")
        conversation = {"model": "local", "conversation": "conv_kv1", "input": [TRIGGER]}
        self.assertEqual(self.refused("/v1/responses", conversation, running=running)["param"],
                         "conversation")


if __name__ == "__main__":
    unittest.main()
