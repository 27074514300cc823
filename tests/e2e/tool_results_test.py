#!/usr/bin/env python3
"""Long results of tools that are kept beside a session's prompt, through the real binary, in all
three dialects: the stub that a provider gets, the tool by which its model reads the rest and which
the gateway answers, the one answer that the client gets, prompts that only grow, kill -9."""

import hashlib
import http.client
import json
import os
import subprocess
import sys
import threading
import unittest
from pathlib import Path

import server
from case import Case, wait_until

SUPPORT = Path(__file__).resolve().parent.parent / "support"
sys.path.insert(0, str(SUPPORT))

from provider_simulator import Simulator  # noqa: E402

KEY = "KVGATE_TEST_RESULTS_KEY"
TOOL = "kvgate_read_result"
SCHEMA = {"type": "object", "properties": {}}
SYSTEM = "You help with logs. " * 200


def id_of(text):
    return "res_" + hashlib.sha256(text.encode()).hexdigest()[:16]


def log_of(seed, needle=""):
    """20,000 bytes, with something to be found in the middle."""
    lines = [f"{seed} line {number}: nothing happened" for number in range(600)]
    lines[300] = f"{seed} line 300: {needle}"
    return "\n".join(lines)


class Chat:
    path, model = "/v1/chat/completions", "gpt-5.5"
    own = {"type": "function", "function": {"name": "shell", "parameters": SCHEMA}}

    @staticmethod
    def body(messages):
        return {"model": Chat.model, "tools": [Chat.own],
                "messages": [{"role": "system", "content": SYSTEM}, *messages]}

    @staticmethod
    def user(text):
        return {"role": "user", "content": text}

    @staticmethod
    def result(call, text):
        return {"role": "tool", "tool_call_id": call, "content": text}

    @staticmethod
    def sent(body):
        return body["messages"], [tool["function"]["name"] for tool in body["tools"]]

    @staticmethod
    def call_of(answer):
        return answer["choices"][0]["message"]["tool_calls"][0]["id"]

    @staticmethod
    def end(answer):
        return answer["choices"][0]["finish_reason"], answer["usage"]["prompt_tokens"]

    @staticmethod
    def streamed(events):
        text = "".join(choice["delta"].get("content") or "" for event in events
                       for choice in event.get("choices", []))
        usage = [event["usage"] for event in events if event.get("usage")]
        return text, usage[-1]["prompt_tokens"] if usage else None


class Messages:
    path, model = "/v1/messages", "claude-opus-5-5"
    own = {"name": "shell", "input_schema": SCHEMA}

    @staticmethod
    def body(messages):
        return {"model": Messages.model, "max_tokens": 500, "tools": [Messages.own],
                "system": SYSTEM, "messages": messages}

    @staticmethod
    def user(text):
        return {"role": "user", "content": text}

    @staticmethod
    def result(call, text):
        return {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": call, "content": text}]}

    @staticmethod
    def sent(body):
        return body["messages"], [tool["name"] for tool in body["tools"]]

    @staticmethod
    def call_of(answer):
        return next(block["id"] for block in answer["content"] if block["type"] == "tool_use")

    @staticmethod
    def end(answer):
        usage = answer["usage"]
        return answer["stop_reason"], (usage["input_tokens"] + usage["cache_read_input_tokens"] +
                                       usage["cache_creation_input_tokens"])

    @staticmethod
    def streamed(events):
        text = "".join(event["delta"].get("text", "") for event in events
                       if event["type"] == "content_block_delta")
        usage = next(event["usage"] for event in events if event["type"] == "message_delta")
        return text, (usage.get("input_tokens", 0) + usage.get("cache_read_input_tokens", 0) +
                      usage.get("cache_creation_input_tokens", 0)) or None


class Responses:
    path, model = "/v1/responses", "gpt-5.5"
    own = {"type": "function", "name": "shell", "parameters": SCHEMA}

    @staticmethod
    def body(messages):
        return {"model": Responses.model, "tools": [Responses.own], "instructions": SYSTEM,
                "input": messages}

    @staticmethod
    def user(text):
        return {"role": "user", "content": text}

    @staticmethod
    def result(call, text):
        return {"type": "function_call_output", "call_id": call, "output": text}

    @staticmethod
    def sent(body):
        return body["input"], [tool["name"] for tool in body["tools"]]

    @staticmethod
    def call_of(answer):
        return next(item["call_id"] for item in answer["output"]
                    if item["type"] == "function_call")

    @staticmethod
    def end(answer):
        return answer["status"], answer["usage"]["input_tokens"]

    @staticmethod
    def streamed(events):
        text = "".join(event["delta"] for event in events
                       if event["type"] == "response.output_text.delta")
        return text, events[-1]["response"]["usage"]["input_tokens"]


def without_marks(value):
    """A prompt's part without the breakpoints that the gateway sets."""
    if isinstance(value, list):
        return [without_marks(element) for element in value]
    if not isinstance(value, dict):
        return value
    kept = {name: without_marks(member) for name, member in value.items()
            if name not in ("cache_control", "prompt_cache_breakpoint")}
    content = kept.get("content")
    is_text = (isinstance(content, list) and len(content) == 1 and
               set(content[0]) == {"type", "text"})
    return {**kept, "content": content[0]["text"]} if is_text else kept


class ToolResultsTest(Case):
    def start(self, more="", session="k"):
        self.provider = Simulator().__enter__()
        self.addCleanup(self.provider.__exit__)
        os.environ[KEY] = "sk-operator"
        self.addCleanup(os.environ.pop, KEY, None)
        config = self.folder / "kvgate.toml"
        config.write_text("".join(
            f'[[upstream]]\nname = "{dialect}"\ndialect = "{dialect}"\n'
            f'base_url = "{self.provider.url}{path}"\napi_key_env = "{KEY}"\n'
            for dialect, path in (("openai", "/v1"), ("anthropic", ""))) + f"[sessions]\n{more}")
        self.running = server.Server(None, self.folder / "data", ["--config", str(config)])
        self.running.start()
        self.addCleanup(self.running.__exit__)
        self.session = session

    def say(self, dialect, messages, headers=None, stream=False):
        """Returns the answer, or the events of its stream."""
        body = {**dialect.body(messages), "stream": stream}
        if stream and dialect is Chat:
            body["stream_options"] = {"include_usage": True}
        reply = self.running.send(dialect.path, body, {
            "anthropic-version": "2023-06-01", "x-kvgate-session": self.session,
            "x-sim-words": "12", **(headers or {})})
        self.assertEqual(reply.status, 200, reply.body)
        answer = reply.events if stream else reply.json
        self.assertFalse(TOOL in json.dumps(answer), str(answer)[:2000])
        return answer

    def prompts(self, dialect):
        return [without_marks(dialect.sent(json.loads(request.body))[0])
                for request in self.provider.requests]

    def keep(self, dialect, *logs):
        """The session gets these logs as results of calls of the caller's own tool."""
        for number, log in enumerate(logs):
            text = f"call the tool, {number}"
            headers = {"x-kvgate-tool-results": "stub"} if number == 0 else {}
            answer = self.say(dialect, [dialect.user(text)], headers)
            self.say(dialect, [dialect.result(dialect.call_of(answer), log)])

    def read(self, dialect, log, offset, **options):
        return self.say(dialect, [dialect.user(
            f"Look again: use the tool {TOOL} on {id_of(log)} from {offset}")], **options)

    def whole_life(self, dialect):
        self.start()
        log = log_of("first", "the needle")
        self.keep(dialect, log)
        messages, tools = dialect.sent(json.loads(self.provider.requests[-1].body))
        self.assertEqual(tools, ["shell", TOOL])
        sent = json.dumps(messages)
        self.assertLess(len(sent), 12_000)
        self.assertIn(id_of(log), sent)
        self.assertIn("first line 0", sent)
        self.assertIn("first line 599", sent)
        self.assertNotIn("needle", sent)

        self.running.kill()
        self.running.restart()
        begun = len(self.provider.requests)
        answer = self.read(dialect, log, 8000)
        asked = self.prompts(dialect)[begun:]
        self.assertEqual(len(asked), 2)
        self.assertEqual(asked[1][:len(asked[0])], asked[0])
        self.assertIn("the needle", json.dumps(asked[1][len(asked[0]):]))
        end, tokens = dialect.end(answer)
        self.assertIn(end, ("stop", "end_turn", "completed"))
        self.assertGreater(tokens, len(SYSTEM) // 4 * 2)  # of both rounds

        events = self.read(dialect, log, 0, stream=True)
        text, tokens = dialect.streamed(events)
        self.assertGreater(len(text), 20)
        self.assertGreater(tokens, len(SYSTEM) // 4 * 2)
        now = self.prompts(dialect)
        for before, after in zip(now[begun + 1:], now[begun + 2:]):
            self.assertEqual(after[:len(before)], before)  # prompts only grow
        self.assertEqual(len(now), begun + 4)
        self.say(dialect, [dialect.user("Thank you.")])
        self.assertEqual(self.prompts(dialect)[-1][:len(now[-1])], now[-1])
        by_source = self.running.get("/kvgate/v1/stats").json["ledger"]["totals"]["by_source"]
        self.assertIn("result_read", by_source)  # each further round is a request of its own

    def test_chat_completions(self):
        self.whole_life(Chat)

    def test_messages(self):
        self.whole_life(Messages)

    def test_responses(self):
        self.whole_life(Responses)

    def test_an_answer_takes_a_bounded_number_of_rounds(self):
        self.start('tool_results = "stub"\n')
        logs = [log_of("last")]
        for number in range(11):
            logs.append(log_of(f"log {number}", f"use the tool {TOOL} on {id_of(logs[-1])} "
                                                f"from 8000"))
        self.keep(Chat, *logs)
        begun = len(self.provider.requests)
        for stream in (False, True):
            answer = self.read(Chat, logs[-1], 8000, stream=stream)
            self.assertEqual(len(self.provider.requests) - begun, 8)
            begun += 8
            if not stream:
                self.assertEqual(Chat.end(answer)[0], "stop")
        self.say(Chat, [Chat.user("Thank you.")])

    def test_only_its_own_session_reads_a_result(self):
        self.start('tool_results = "stub"\n')
        log = log_of("secret", "the needle")
        self.keep(Chat, log)
        self.session = "another"
        self.say(Chat, [Chat.user("Hello.")])
        self.read(Chat, log, 8000)
        self.assertIn("No result 'res_", self.provider.requests[-1].body.decode())
        self.assertNotIn("needle", self.provider.requests[-1].body.decode())

    def test_results_stay_whole_unless_a_session_asks(self):
        self.start()
        log = log_of("whole", "the needle")
        answer = self.say(Chat, [Chat.user("call the tool")])
        self.say(Chat, [Chat.result(Chat.call_of(answer), log)])
        messages, tools = Chat.sent(json.loads(self.provider.requests[-1].body))
        self.assertEqual(tools, ["shell"])
        self.assertEqual(messages[-1]["content"], log)
        reply = self.running.send(Chat.path, Chat.body([Chat.user("Hi")]), {
            "x-kvgate-session": "k", "x-kvgate-tool-results": "short"})
        self.assertEqual(reply.status, 400)
        self.assertEqual(reply.json["error"]["param"], "x-kvgate-tool-results")

    def test_a_kill_between_two_rounds_keeps_nothing_of_the_answer(self):
        self.start('tool_results = "stub"\n')
        log = log_of("first", "the needle")
        self.keep(Chat, log)
        shown = self.running.get("/kvgate/v1/sessions/k").json["data"]
        begun = len(self.provider.requests)
        self.provider.faults += ["", "hang"]
        asking = threading.Thread(target=self.ask_in_vain, args=(log,))
        asking.start()
        wait_until(lambda: len(self.provider.requests) == begun + 2,
                   "the second round is asked for")
        self.running.kill()
        asking.join()
        self.running.restart()
        self.assertEqual(self.running.get("/kvgate/v1/sessions/k").json["data"], shown)
        self.read(Chat, log, 8000)

    def ask_in_vain(self, log):
        with self.assertRaises((OSError, http.client.HTTPException)):
            self.read(Chat, log, 8000)

    def test_a_round_that_fails_leaves_the_session_as_it_was(self):
        self.start('tool_results = "stub"\n')
        log = log_of("first", "the needle")
        self.keep(Chat, log)
        shown = len(self.running.get("/kvgate/v1/sessions/k").json["data"])
        self.provider.faults += ["", "status:400"]
        reply = self.running.send(Chat.path, Chat.body(
            [Chat.user(f"use the tool {TOOL} on {id_of(log)} from 8000")]),
            {"x-kvgate-session": "k"})
        self.assertEqual(reply.status, 503, reply.body)
        self.assertIn("status 400", reply.json["error"]["message"])
        after = self.running.get("/kvgate/v1/sessions/k").json["data"]
        self.assertEqual(len(after), shown)
        self.assertEqual(after[-1]["results"], [{"id": id_of(log), "bytes": len(log)}])
        self.read(Chat, log, 8000)


class LocalEngineTest(Case):
    PIECES = ("<tool_call>\n", f'{{"name": "{TOOL}", ', '"arguments": {"id": "res_1"}}',
              "\n</tool_call>")

    def model(self):
        """One that calls the tool behind every prompt."""
        base, out = self.folder / "base.gguf", self.folder / "model.gguf"
        subprocess.run([server.binary_path(), "make-model", "--arch", "qwen2", "--layers", "1",
                        "--hidden", "256", "--heads", "4", "--kv-heads", "1", "--ffn", "64",
                        "--vocab", "4096", "--context", "32768", "--type", "f16", "--seed", "7",
                        "--out", base], check=True, capture_output=True)
        subprocess.run([sys.executable, SUPPORT / "calling_model.py", base, out, *self.PIECES],
                       check=True)
        return str(out)

    def test_its_rounds_read_the_cache_in_every_dialect(self):
        said = [{"role": "user", "content": "What does it say?"}]
        with server.Server(self.model(), self.folder / "data",
                           ["--set", "engine.kv_memory=192MiB"]) as running:
            for number, (path, body) in enumerate((
                    ("/v1/chat/completions", {"messages": said, "max_tokens": 100}),
                    ("/v1/messages", {"messages": said, "max_tokens": 100}),
                    ("/v1/responses", {"input": said, "max_output_tokens": 100}))):
                for stream in (False, True):
                    key = f"{number}{stream}"
                    reply = running.send(path, {"model": "local", "stream": stream, **body}, {
                        "x-kvgate-session": key, "x-kvgate-tool-results": "stub"})
                    self.assertEqual(reply.status, 200, reply.body)
                    self.assertNotIn(TOOL, json.dumps(reply.events) + reply.body.decode())
                    turns = running.get(f"/kvgate/v1/sessions/{key}").json["data"]
                    self.assertEqual([len(turn["answer"]) for turn in turns], [16])
                    tokens = turns[0]["tokens"]  # of the last round
                    if number == 0 and stream:
                        continue  # such a stream says none unless it is asked
                    self.assertGreater(tokens["cached"], 0.9 * tokens["input"])


if __name__ == "__main__":
    unittest.main()
