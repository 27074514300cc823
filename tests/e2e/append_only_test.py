#!/usr/bin/env python3
"""What kvgate sends extends what it has sent, through the real binary: kill -9 at random requests,
modes that change, a disk that hangs, and a provider that refuses thinking behind another prefix."""

import http.client
import json
import os
import random
import shutil
import subprocess
import sys
import time
import unittest
from pathlib import Path
from unittest import mock

import server
from case import FULL, Case, text_of

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

from preserved_thinking import bare, blocks_of  # noqa: E402
from provider_simulator import Simulator  # noqa: E402

HEADERS = {"x-api-key": "sk-test", "anthropic-version": "2023-06-01",
           "Content-Type": "application/json"}


class Agent:
    """Adds to its conversation, and writes it down anew for each request."""

    def __init__(self, seed, has_clock=False, shuffles=False):
        self.random = random.Random(seed)
        self.has_clock, self.shuffles = has_clock, shuffles
        self.system = f"You are agent {seed}. " + text_of(seed, 400)
        self.turns = [{"role": "user", "content": "Begin: " + text_of(seed, 40)}]
        self.minute = 0

    def shuffled(self, value):
        items = list(value.items())
        if self.shuffles:
            self.random.shuffle(items)
        return dict(items)

    def body(self, **more):
        tools = [self.shuffled({"name": f"tool_{n}", "description": text_of(n, 30),
                                "input_schema": {"type": "object"}}) for n in range(6)]
        if self.shuffles:
            self.random.shuffle(tools)
        self.minute += 1
        clock = f"\nCurrent time: 2026-11-25 15:{self.minute % 60:02}:00"
        return {"model": "claude-sonnet-5-5", "max_tokens": 60, "tools": tools,
                "system": self.system + (clock if self.has_clock else ""),
                "messages": self.turns, **more}

    def take(self, answer):
        self.turns = self.turns + [
            {"role": "assistant", "content": answer["content"]},
            {"role": "user", "content": "Go on: " + text_of(self.random.random(), 30)}]


def prompt_of(raw):
    """What a provider binds thinking to, in order."""
    body = json.loads(raw)
    return ([bare(body.get("tools", []))] + [blocks_of(body.get("system", []))] +
            [(turn["role"], blocks_of(turn["content"])) for turn in body["messages"]])


class AppendOnlyTest(Case):
    def start(self, mode, environment=None, data="data"):
        self.provider = Simulator().__enter__()
        self.addCleanup(self.provider.__exit__)
        self.provider.thinks = True
        self.config = self.folder / "kvgate.toml"
        self.write_config(mode)
        self.running = server.Server(None, self.folder / data, ["--config", str(self.config)])
        with mock.patch.dict(os.environ, environment or {}):
            self.running.start()
        self.addCleanup(self.running.__exit__)

    def write_config(self, mode, more=""):
        self.config.write_text(f'[[upstream]]\nname = "anthropic"\ndialect = "anthropic"\n'
                               f'base_url = "{self.provider.url}"\nmode = "{mode}"\n{more}')

    def kill(self):
        self.running.kill()
        self.running.start()

    def post(self, body, status=200):
        connection = http.client.HTTPConnection(*self.running.address.split(":"), timeout=30)
        try:
            connection.request("POST", "/v1/messages", json.dumps(body), HEADERS)
            response = connection.getresponse()
            data = response.read()
            self.assertEqual(response.status, status, data)
            self.request_id = response.getheader("x-kvgate-request-id")
            return json.loads(data)
        finally:
            connection.close()

    def sent(self):
        return prompt_of(self.provider.requests[-1].body)

    def metric(self, name):
        for line in self.running.get("/metrics").body.decode().splitlines():
            if line.startswith(name + " "):
                return float(line.split()[-1])
        self.fail(f"no {name} in /metrics")

    def converse(self, agent, requests, kills):
        before = None
        for number in range(requests):
            if before is not None and kills.random() < 0.4:
                self.kill()
            answer = self.post(agent.body())
            sent = self.sent()
            if before is not None:
                self.assertEqual(sent[:len(before)], before, f"request {number}")
            before = sent
            agent.take(answer)
            self.assertEqual(self.metric('kvgate_prefix_rewrites_total{cause="gateway"}'), 0)
            self.assertEqual(self.metric("kvgate_requests_with_lost_state_total"), 0)

    def test_each_request_extends_the_one_before_whenever_the_gateway_is_killed(self):
        all_habits = (("pin", {"shuffles": True}), ("stabilize", {"has_clock": True}),
                      ("stabilize", {"has_clock": True, "shuffles": True}))
        for number, (mode, habits) in enumerate(all_habits):
            self.start(mode, data=f"data-{number}")
            for seed in range(20 if FULL else 2):
                self.converse(Agent(seed, **habits), 10, random.Random(seed))
            self.running.terminate()

    def test_a_mode_that_changes_leaves_running_conversations_alone(self):
        self.start("stabilize")
        agent = Agent("changes", has_clock=True)
        agent.take(self.post(agent.body()))
        before = self.sent()
        for mode in ("pin", "observe"):
            self.write_config(mode)
            self.kill()
            agent.take(self.post(agent.body()))
            sent = self.sent()
            self.assertEqual(sent[:len(before)], before)
            before = sent
        other = Agent("new", has_clock=True)
        body = other.body()
        self.post(body)
        self.assertEqual(json.loads(self.provider.requests[-1].body), body)

    def test_without_stored_prompts_running_conversations_go_on_without_their_thinking(self):
        self.start("stabilize")
        agent = Agent("loses", has_clock=True)
        for _ in range(3):
            agent.take(self.post(agent.body()))
        self.running.terminate()
        self.write_config("stabilize", "[store]\nprompts = false\n")
        self.running.start()
        for lost in (1, 2):
            body = agent.body()
            agent.take(self.post(body))
            sent = json.loads(self.provider.requests[-1].body)
            self.assertNotIn('"thinking"', json.dumps(sent["messages"]))
            self.assertEqual(sent["system"], body["system"])
            self.assertEqual(self.metric("kvgate_requests_with_lost_state_total"), lost)
        new = Agent("new", has_clock=True).body()
        self.post(new)
        self.assertEqual(json.loads(self.provider.requests[-1].body), new)

    def test_what_a_conversation_taught_is_known_after_kill_9(self):
        self.start("stabilize")
        folder = "The agent works below /srv/builds/{} on this machine"
        listed = "The agent works below <*> on this machine"

        def talk(seed, builds):
            agent = Agent(seed)
            system, sent = agent.system, []
            for build in builds:
                agent.system = folder.format(build) + "\n" + system
                agent.take(self.post(agent.body()))
                sent.append(json.loads(self.provider.requests[-1].body))
            return sent

        def lines():
            found = self.running.get("/kvgate/v1/templates", HEADERS).json["data"]
            return [(it["line"], it["is_slot"], it["moves"]) for it in found]

        for sent in talk("teaches", ("north-1", "south-2")):
            self.assertIn(folder.format("north-1"), json.dumps(sent["system"]))
        self.assertEqual(lines(), [(listed, True, True)])
        time.sleep(8)  # it is written five seconds later at most
        self.kill()
        self.assertEqual(lines(), [(listed, True, True)])
        first = talk("begins", ("west-3",))[0]
        self.assertNotIn("The agent works below", json.dumps(first["system"]))
        self.assertIn(folder.format("west-3"), json.dumps(first["messages"]))
        for more in ("[store]\nprompts = false\n", ""):
            self.running.terminate()
            self.write_config("stabilize", more)
            self.running.start()
            self.assertEqual(lines(), [], "nothing is kept without stored prompts")

    def test_explain_reads_a_state_that_only_the_disk_has_and_changes_none(self):
        self.start("stabilize")
        agent = Agent("explained", has_clock=True, shuffles=True)
        for _ in range(3):
            agent.take(self.post(agent.body()))
        before = self.sent()
        body = agent.body()

        def explain():
            return self.running.send("/kvgate/v1/explain?endpoint=messages&upstream=anthropic",
                                     body, HEADERS).json

        def states():
            return {line.split()[0]: line.split()[1]
                    for line in self.running.get("/metrics").body.decode().splitlines()
                    if line.startswith(("kvgate_conversation_states", "kvgate_requests_with_lost",
                                        "kvgate_prefix_rewrites"))}

        in_memory = explain()
        self.kill()
        counted = states()
        told = explain()
        self.assertFalse(told["conversation"]["first"])
        self.assertEqual(told["conversation"], in_memory["conversation"])
        self.assertEqual([told["mode"], told["notes"]], ["stabilize", in_memory["notes"]])
        self.assertEqual(told, explain(), "nothing has changed by the first explanation")
        self.assertEqual(states(), counted)
        self.assertEqual(len(self.provider.requests), 3)
        raw = json.dumps(body).encode()
        self.post(body)
        sent = self.sent()
        self.assertEqual(sent[:len(before)], before)
        record = self.record_of(self.running, self.request_id)
        edits = {}
        for edit in told["edits"]:
            edits[edit["rule"]] = edits.get(edit["rule"], 0) + 1
        self.assertEqual(edits, {edit["rule"]: edit["count"] for edit in record["edits"]})
        grown = sum(edit["bytes_added"] - edit["bytes_removed"] for edit in told["edits"])
        self.assertEqual(len(raw) + grown, len(self.provider.requests[-1].body))

    def test_explain_says_that_a_state_is_lost(self):
        self.start("stabilize")
        agent = Agent("lost", has_clock=True)
        for _ in range(2):
            agent.take(self.post(agent.body()))
        self.running.terminate()
        self.write_config("stabilize", "[store]\nprompts = false\n")
        self.running.start()
        told = self.running.send("/kvgate/v1/explain?endpoint=messages&upstream=anthropic",
                                 agent.body(), HEADERS).json
        self.assertEqual(told["mode"], "observe")
        self.assertTrue(any("not known any more" in note for note in told["notes"]))

    def test_thinking_that_the_provider_drops_is_counted(self):
        self.start("observe")
        agent = Agent("dropped", has_clock=True)
        choice = {"thinking": {"type": "enabled", "block_binding": {
            "prefix_mismatch_behavior": "drop_block"}}}
        for _ in range(3):
            agent.take(self.post(agent.body(**choice)))
        self.post({**agent.body(), "system": "another"}, status=400)
        self.running.wait_for("the answers' records",
                              lambda _: self.metric("kvgate_thinking_dropped_total") == 3, 30)

    def test_a_disk_that_hangs_holds_no_request_up(self):
        compiler = shutil.which("cc") or shutil.which("gcc")
        linked = subprocess.run(["ldd", server.binary_path()], capture_output=True, text=True)
        if compiler is None or "libasan" in linked.stdout or "libtsan" in linked.stdout:
            self.skipTest("the shim cannot be made or loaded")
        shim, flag = self.folder / "hanging_disk_shim.so", self.folder / "flag"
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", shim,
                        Path(__file__).with_name("hanging_disk_shim.c"), "-ldl"], check=True)
        self.addCleanup(flag.unlink, missing_ok=True)
        self.start("stabilize", environment={"LD_PRELOAD": str(shim),
                                             "KVGATE_HANG_FLAG": str(flag),
                                             "KVGATE_HANG_DIR": str(self.folder / "data")})
        agent = Agent("hangs", has_clock=True)
        agent.take(self.post(agent.body()))
        before = self.sent()
        flag.write_text("W")
        for _ in range(3):
            begin = time.monotonic()
            agent.take(self.post(agent.body()))
            self.assertLess(time.monotonic() - begin, 5)
            sent = self.sent()
            self.assertEqual(sent[:len(before)], before, "memory still knows")
            before = sent
        self.assertGreaterEqual(self.metric("kvgate_conversation_states_lost_total"), 1)
        new = Agent("new", has_clock=True).body()
        self.post(new)
        self.assertEqual(json.loads(self.provider.requests[-1].body), new)
        flag.unlink()
        self.running.wait_for("the disk to be known to work again",
                              lambda _: self.kept_again(), 30)

    def kept_again(self):
        body = Agent(time.monotonic(), has_clock=True).body()
        self.post(body)
        return json.loads(self.provider.requests[-1].body)["system"] != body["system"]


if __name__ == "__main__":
    unittest.main()
