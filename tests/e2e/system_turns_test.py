#!/usr/bin/env python3
"""Turns of the system's own behind tool results, through the real binary: what models take, the
beta header, kill -9, a provider that refuses them, and values that nothing can say."""

import http.client
import json
import sys
import unittest
from pathlib import Path

import server
from case import Case, text_of

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

from anthropic_dialect import CLEAR_AT_BETA  # noqa: E402
from provider_simulator import Simulator  # noqa: E402

ANTHROPIC = {"x-api-key": "sk-test", "anthropic-version": "2023-06-01",
             "Content-Type": "application/json"}
OPENAI = {"Authorization": "Bearer sk-test", "Content-Type": "application/json"}
IMAGE = {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}


def line(minute):
    return f"Current time: 2026-11-25 15:{minute:02}:00"


class Agent:
    """Calls a tool in each turn, and writes the time into its system prompt."""

    def __init__(self, model, seed):
        self.model, self.minute, self.calls = model, 0, 0
        self.system = f"You are agent {seed}. " + text_of(seed, 400)
        self.turns = [{"role": "user", "content": "Begin: " + text_of(seed, 40)}]

    def body(self):
        self.minute += 1
        return {"model": self.model, "max_tokens": 60, "tools": [
                    {"name": "look", "description": text_of(1, 30),
                     "input_schema": {"type": "object"}}],
                "system": self.system + "\n" + line(self.minute), "messages": self.turns}

    def take(self, answer, result=None):
        """Adds the answer with a call, and the call's result."""
        self.calls += 1
        call = {"type": "tool_use", "id": f"toolu_{self.calls}", "name": "look", "input": {}}
        self.turns = self.turns + [
            {"role": "assistant", "content": answer["content"] + [call]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call["id"],
                                          "content": result or text_of(self.calls, 30)}]}]


class SystemTurnsTest(Case):
    def start(self, takes, mode="stabilize"):
        self.provider = Simulator().__enter__()
        self.addCleanup(self.provider.__exit__)
        self.provider.system_turns = takes
        self.provider.thinks = True
        config = self.folder / "kvgate.toml"
        config.write_text(f"""
[[upstream]]
name = "anthropic"
dialect = "anthropic"
base_url = "{self.provider.url}"
mode = "{mode}"
[[upstream]]
name = "openai"
provider = "openai"
base_url = "{self.provider.url}/v1"
mode = "{mode}"
""")
        self.log = self.folder / "server.log"
        self.running = server.Server(None, self.folder / "data", ["--config", str(config)],
                                     log_path=self.log)
        self.running.start()
        self.addCleanup(self.running.__exit__)

    def post(self, body, path="/v1/messages", headers=ANTHROPIC):
        connection = http.client.HTTPConnection(*self.running.address.split(":"), timeout=30)
        try:
            connection.request("POST", path, json.dumps(body), headers)
            self.response = connection.getresponse()
            data = self.response.read()
            self.assertEqual(self.response.status, 200, data)
            return json.loads(data)
        finally:
            connection.close()

    def sent(self, back=1):
        return json.loads(self.provider.requests[-back].body)

    def beta(self, back=1):
        return self.provider.requests[-back].header("anthropic-beta")

    def record(self):
        return self.record_of(self.running, self.response.getheader("x-kvgate-request-id"))

    def test_each_kind_is_sent_again_where_it_stood_also_after_kill_9(self):
        for takes, model in (("clear_at", "claude-sonnet-5-5"), ("plain", "claude-opus-5")):
            with self.subTest(takes=takes):
                self.start(takes)
                agent = Agent(model, takes)
                agent.take(self.post(agent.body(), headers={
                    **ANTHROPIC, "anthropic-beta": "interleaved-thinking-2025-05-14"}))
                front = "interleaved-thinking-2025-05-14"
                self.assertEqual(self.beta(), f"{front},{CLEAR_AT_BETA}"
                                 if takes == "clear_at" else front)
                before = self.sent()["messages"]
                for number in range(5):
                    if number == 2:
                        self.running.kill()
                        self.running.start()
                    agent.take(self.post(agent.body()))
                    self.assertEqual(self.beta(), CLEAR_AT_BETA if takes == "clear_at" else "")
                    sent = self.sent()["messages"]
                    self.assertEqual(bare(sent[:len(before)]), bare(before))
                    own = {"role": "system", "content": line(agent.minute)}
                    if takes == "clear_at":
                        own["clear_at"] = "next_user_message"
                    self.assertEqual(sent[-1], own)
                    edits = {edit["rule"]: edit["count"] for edit in self.record()["edits"]}
                    self.assertEqual(edits["system_turn"], number + 1)
                    before = sent
                usage = self.record()["usage"]
                self.assertGreater(usage["cache_read_tokens"], 400)
                self.running.terminate()

    def test_openai_gets_a_developer_item(self):
        self.start(None)
        turns = [{"role": "user", "content": "Begin."}]
        for number in range(3):
            body = {"model": "gpt-5.5", "messages": [
                {"role": "system", "content": text_of(1, 600) + "\n" + line(number)}] + turns}
            self.post(body, "/v1/chat/completions", OPENAI)
            call = {"id": f"c{number}", "type": "function",
                    "function": {"name": "look", "arguments": "{}"}}
            turns += [{"role": "assistant", "content": None, "tool_calls": [call]},
                      {"role": "tool", "tool_call_id": call["id"], "content": "ok"}]
        sent = self.sent()["messages"]
        self.assertEqual([turn["role"] for turn in sent],
                         ["system", "user", "assistant", "tool", "developer",
                          "assistant", "tool", "developer"])
        self.assertEqual([sent[4]["content"], sent[7]["content"]], [line(1), line(2)])
        self.assertEqual(sent[6]["content"], "ok")

    def test_a_beta_that_is_refused_is_off_for_that_model_and_the_request_goes_out_without(self):
        self.start("plain")
        agent = Agent("claude-sonnet-5-5", "refused")
        agent.take(self.post(agent.body()))
        self.assertEqual([self.beta(2), self.beta()], [CLEAR_AT_BETA, ""])
        self.assertEqual(self.record()["status"], 200)
        for _ in range(2):
            agent.take(self.post(agent.body()))
            self.assertEqual(self.beta(), "")
        self.assertEqual(len(self.provider.requests), 4)
        other = Agent("claude-sonnet-5-5", "another")
        for _ in range(2):
            other.take(self.post(other.body()))
        self.assertEqual(len(self.provider.requests), 6, "nothing is refused any more")
        self.assertEqual(self.sent()["messages"][-1], {"role": "system", "content": line(2)})
        self.assertEqual(self.log.read_text().count("refused the beta header"), 1)

    def test_a_turn_that_is_refused_costs_no_request(self):
        self.start("")
        agent = Agent("claude-opus-5", "refused")
        for number in range(3):
            agent.take(self.post(agent.body()))
            self.assertIn(line(agent.minute), json.dumps(self.sent()["messages"]))
        self.assertEqual(len(self.provider.requests), 4)
        self.assertEqual(self.log.read_text().count("refused turns of the system's own"), 1)
        # What its caller got wrong is refused as ever, and turns nothing off.
        other = Agent("claude-opus-4-8", "another")
        other.take(self.post(other.body()))
        body = other.body()
        del body["max_tokens"]
        connection = http.client.HTTPConnection(*self.running.address.split(":"), timeout=30)
        connection.request("POST", "/v1/messages", json.dumps(body), ANTHROPIC)
        self.assertEqual(connection.getresponse().status, 400)
        connection.close()
        self.assertEqual(self.log.read_text().count("refused turns of the system's own"), 1)

    def test_a_value_that_nothing_can_say_is_held_and_said_to_be(self):
        self.start(None)
        agent = Agent("claude-sonnet-5", "held")
        answer = self.post(agent.body())
        self.assertNotIn("held_stale", self.record())
        for _ in range(2):
            agent.take(answer, result=[IMAGE])
            before = self.sent()["messages"]
            self.post(agent.body())
            sent = self.sent()["messages"]
            self.assertEqual(bare(sent[:len(before)]), bare(before))
            self.assertNotIn(line(agent.minute), json.dumps(self.sent()))
            held = self.record()["held_stale"]
            self.assertEqual(held["lines"], 1)
            self.assertGreaterEqual(held["seconds"], 0)
        told = self.running.send("/kvgate/v1/explain?endpoint=messages&upstream=anthropic",
                                 {**agent.body(), "messages": agent.turns}, ANTHROPIC).json
        self.assertEqual(told["held_stale"]["lines"], 1)
        self.assertTrue(any(note.startswith("held_stale") for note in told["notes"]), told["notes"])
        self.assertEqual(self.log.read_text().count("keeps the earlier ones"), 1, "it is said once")
        agent.turns = agent.turns + [{"role": "assistant", "content": "I see."},
                                     {"role": "user", "content": "Go on."}]
        self.post(agent.body())
        self.assertIn(line(agent.minute), json.dumps(self.sent()["messages"][-1]))
        self.assertNotIn("held_stale", self.record())


def bare(value):
    """Without cache markers, and strings as lists of one text."""
    if isinstance(value, list):
        return [bare(part) for part in value]
    if not isinstance(value, dict):
        return value
    made = {key: bare(part) for key, part in value.items() if key != "cache_control"}
    if isinstance(made.get("content"), str):
        made["content"] = [{"type": "text", "text": made["content"]}]
    return made


if __name__ == "__main__":
    unittest.main()
