#!/usr/bin/env python3
"""Modes of the local engine through the real binary: a conversation whose system prompt changes
with each turn, tools in another order, stored responses, a restart, a reload and `explain`."""

import json
import random
import signal
import unittest

from case import Case, tenant, text_of, wait_until

PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses",
         "messages": "/v1/messages"}


def system_of(turn):
    """A system prompt with the commit and the time of this turn in front of what stays."""
    return (f"You are an agent.\nCurrent time: 2026-11-25 15:{turn:02}:00\n\n"
            f"gitStatus: This is the git status of the folder.\nCurrent branch: main\n\n"
            f"Recent commits:\n{0xabc1234 + turn * 7919:07x} Change number {turn}\n\n"
            f"# Rules\n{text_of(3, 200)}")


def tool(dialect, name):
    about = {"name": name, "description": text_of(name, 20)}
    if dialect == "messages":
        return {**about, "input_schema": {"type": "object", "properties": {}}}
    about["parameters"] = {"type": "object", "properties": {}}
    return {"type": "function", **about} if dialect == "responses" else {
        "type": "function", "function": about}


def prompt_and_cached(dialect, usage):
    if dialect == "chat":
        return usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]
    if dialect == "responses":
        return usage["input_tokens"], usage["input_tokens_details"]["cached_tokens"]
    cached = usage["cache_read_input_tokens"]
    return usage["input_tokens"] + usage["cache_creation_input_tokens"] + cached, cached


class Agent:
    """An agent that keeps its own history, in one dialect."""

    def __init__(self, dialect, tools=None, system=system_of):
        self.dialect, self.tools, self.system = dialect, tools, system
        self.turns = []
        self.turn = 0

    def body(self):
        self.turn += 1
        self.turns.append({"role": "user", "content": f"Step {self.turn}: {text_of(self.turn, 9)}"})
        system = self.system(self.turn)
        body = {"model": "local", "temperature": 0, "tool_choice": "none"}
        if self.dialect == "messages":
            body["tool_choice"] = {"type": "none"}
        if self.dialect == "responses":
            body |= {"instructions": system, "input": self.turns, "max_output_tokens": 16}
        elif self.dialect == "messages":
            body |= {"system": system, "messages": self.turns, "max_tokens": 8}
        else:
            body |= {"messages": [{"role": "system", "content": system}, *self.turns],
                     "max_tokens": 8}
        if self.tools:
            body["tools"] = self.tools(self.turn)
        else:
            del body["tool_choice"]
        return body

    def take(self, text):
        self.turns.append({"role": "assistant", "content": text or "Done."})


class LocalModesTest(Case):
    def start(self, mode, data="data", more=()):
        self.running = self.serve(data_dir=self.folder / data,
                                  arguments=["--set", f"engine.mode={mode}", *more])

    def ask(self, dialect, body, name):
        headers = tenant(name)
        if dialect == "messages":
            headers = {**headers, "anthropic-version": "2023-06-01"}
        return self.assert_ok(self.running.send(PATHS[dialect], body, headers))

    def shares(self, agent, name, turns, between=lambda: None):
        """For each turn behind the first, the cached tokens as a share of the prompt before."""
        shares, before = [], None
        for _ in range(turns):
            reply = self.ask(agent.dialect, agent.body(), name)
            prompt, cached = prompt_and_cached(agent.dialect, reply.usage)
            if before is not None:
                shares.append(cached / before)
            before = prompt
            agent.take(reply.text)
            between()
        return shares

    def test_a_commit_between_turns_costs_the_prefix_in_observe_and_not_in_stabilize(self):
        for mode, good in (("observe", False), ("stabilize", True)):
            self.start(mode, data=mode)
            for dialect in PATHS:
                with self.subTest(mode=mode, dialect=dialect):
                    shares = self.shares(Agent(dialect), f"{mode} {dialect}", 5)
                    if good:
                        self.assertGreaterEqual(min(shares), 0.9, shares)
                    else:
                        self.assertLess(max(shares), 0.2, shares)

    def test_after_kill_9_a_conversation_goes_on_from_what_was_rendered(self):
        self.start("stabilize")

        def kill():
            self.running.wait_on_disk()
            self.running.kill()
            self.running.start()

        shares = self.shares(Agent("chat"), "killed", 4, kill)
        self.assertGreaterEqual(min(shares), 0.85, shares)

    def test_reordered_tools_hit_in_pin_in_every_dialect(self):
        def shuffled(dialect):
            def tools(turn):
                made = [tool(dialect, f"tool_{n}") for n in range(6)]
                random.Random(turn).shuffle(made)
                return made
            return tools

        for mode, good in (("observe", False), ("pin", True)):
            self.start(mode, data=mode)
            for dialect in PATHS:
                with self.subTest(mode=mode, dialect=dialect):
                    agent = Agent(dialect, shuffled(dialect), lambda _: "Be brief.")
                    shares = self.shares(agent, f"{mode} {dialect}", 4)
                    if good:
                        self.assertGreaterEqual(min(shares), 0.9, shares)
                    else:
                        self.assertLess(max(shares), 0.5, shares)

    def test_a_stored_response_is_what_its_client_said_and_goes_on_from_what_was_rendered(self):
        self.start("stabilize")
        headers = tenant("stored")
        before, last = None, None
        for turn in range(1, 5):
            body = {"model": "local", "instructions": system_of(turn), "temperature": 0,
                    "input": f"Step {turn}: {text_of(turn, 9)}", "max_output_tokens": 16}
            if last is not None:
                body["previous_response_id"] = last
            reply = self.ask("responses", body, "stored")
            prompt, cached = prompt_and_cached("responses", reply.usage)
            if before is not None:
                self.assertGreaterEqual(cached, 0.9 * before, turn)
            before, last = prompt, reply.json["id"]
            kept = self.running.get(f"/v1/responses/{last}", headers).json
            self.assertEqual(kept["instructions"], body["instructions"])
            items = self.running.get(f"/v1/responses/{last}/input_items?order=asc&limit=100",
                                     headers).json["data"]
            self.assertEqual(items[-1]["content"][0]["text"], body["input"])
            self.assertNotIn("Change number", json.dumps(items))

    def test_records_explanations_and_templates_tell_what_was_done(self):
        self.start("stabilize")
        agent = Agent("chat")
        for _ in range(2):
            reply = self.ask("chat", agent.body(), "told")
            agent.take(reply.text)
        record = self.record_of(self.running, reply.explain["request_id"], tenant("told"))
        self.assertEqual((record["mode"], record.get("plan")), ("stabilize", None))
        self.assertIn("volatile_moved", [edit["rule"] for edit in record["edits"]])
        self.assertNotIn("let the mode", json.dumps(reply.explain["break"]))
        told = self.assert_ok(self.running.send(
            "/kvgate/v1/explain?endpoint=chat_completions", agent.body(), tenant("told"))).json
        self.assertEqual((told["upstream"], told["mode"], told["plan"]),
                         ("local", "stabilize", None))
        self.assertEqual(told["headers"], [])
        self.assertFalse({"cache_control", "breakpoints", "prompt_cache_key"}
                         & {edit["rule"] for edit in told["edits"]})

    def test_a_reload_reads_the_mode_of_the_engine(self):
        config = self.folder / "kvgate.toml"
        config.write_text('[engine]\nmode = "observe"\n')
        self.running = self.serve(arguments=["--config", str(config)])
        ask = {"model": "local", "messages": [{"role": "user", "content": "hi"}]}

        def mode():
            return self.assert_ok(self.running.send("/kvgate/v1/explain", ask)).json["mode"]

        self.assertEqual(mode(), "observe")
        config.write_text('[engine]\nmode = "stabilize"\n')
        self.running.process.send_signal(signal.SIGHUP)
        wait_until(lambda: mode() == "stabilize", self.running.log)


if __name__ == "__main__":
    unittest.main()
