#!/usr/bin/env python3
"""Modes through the real binary: what reaches the provider in observe, pin and stabilize, what the
record and the caller are told of it, and `kvgate explain`."""

import gzip
import http.client
import json
import os
import random
import subprocess
import sys
import time
import unittest
from pathlib import Path

import server
from case import Case, tenant, text_of

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

from provider_simulator import Simulator  # noqa: E402

ANTHROPIC = {"x-api-key": "sk-test", "anthropic-version": "2023-06-01",
             "Content-Type": "application/json"}
OPENAI = {"Authorization": "Bearer sk-test", "Content-Type": "application/json"}
OAUTH = {"Authorization": "Bearer sk-ant-oat01-secret", "anthropic-version": "2023-06-01",
         "Content-Type": "application/json"}


def tools(seed=None):
    """Ten tools; with a seed in another order, with other orders of their keys."""
    made = [{"name": f"tool_{n}", "description": text_of(n, 60),
             "input_schema": {"type": "object", "properties": {
                 "path": {"type": "string", "maxLength": 2 ** 40}, "n": {"type": "number"}},
                 "required": ["path"]}} for n in range(10)]
    if seed is None:
        return made
    shuffle = random.Random(seed)
    shuffle.shuffle(made)
    return [dict(sorted(tool.items(), key=lambda _: shuffle.random())) for tool in made]


def messages_turn(turn, seed=None, system=None):
    """Turn number `turn` of an agent, without cache markers of its own."""
    said = []
    for number in range(turn):
        said += [{"role": "user", "content": f"step {number}: {text_of(100 + number, 120)}"},
                 {"role": "assistant", "content": [
                     {"type": "text", "text": f"did {number}"},
                     {"type": "tool_use", "id": f"toolu_{number}", "name": "tool_1",
                      "input": {"path": f"/f{number}", "n": 1.0}}]},
                 {"role": "user", "content": [{"type": "tool_result",
                                               "tool_use_id": f"toolu_{number}",
                                               "content": text_of(200 + number, 150)}]}]
    said.append({"role": "user", "content": f"step {turn}: {text_of(100 + turn, 120)}"})
    return {"model": "claude-sonnet-5", "max_tokens": 50, "tools": tools(seed),
            "system": system or text_of(7, 1500), "messages": said}


def meaning(body):
    """A body without cache markers, its tools as a set, strings as lists of one text."""
    def bare(value):
        if isinstance(value, dict):
            return {k: bare(v) for k, v in value.items() if k != "cache_control"}
        return [bare(v) for v in value] if isinstance(value, list) else value

    body = bare(body)
    body["tools"] = sorted(body.get("tools", []), key=lambda tool: tool["name"])
    if isinstance(body.get("system"), list):
        body["system"] = "".join(block["text"] for block in body["system"])
    for message in body["messages"]:
        if isinstance(message["content"], str):
            message["content"] = [{"type": "text", "text": message["content"]}]
    body.pop("cache_control", None)
    return body


class ModesTest(Case):
    def start(self, mode="pin", more=""):
        self.provider = Simulator().__enter__()
        self.addCleanup(self.provider.__exit__)
        self.config = self.folder / "kvgate.toml"
        self.config.write_text(f"""
[[upstream]]
name = "anthropic"
dialect = "anthropic"
base_url = "{self.provider.url}"
mode = "{mode}"
{more}
[[upstream]]
name = "openai"
base_url = "{self.provider.url}/v1"
mode = "{mode}"
{more}
""")
        self.data = self.folder / f"data-{self.provider.port}"
        self.running = server.Server(None, self.data,
                                     ["--config", str(self.config)]).start()
        self.addCleanup(self.running.__exit__)

    def post(self, body, headers=ANTHROPIC, path="/v1/messages"):
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection = http.client.HTTPConnection(*self.running.address.split(":"), timeout=30)
        try:
            connection.request("POST", path, raw, headers)
            response = connection.getresponse()
            data = response.read()
            self.assertEqual(response.status, 200, data)
            return response, data
        finally:
            connection.close()

    def record(self, response):
        return self.record_of(self.running, response.getheader("x-kvgate-request-id"))

    def cached_share(self, mode, turns=8):
        self.start(mode)
        read = total = 0
        for turn in range(turns):
            response, data = self.post(messages_turn(turn, seed=turn))
            self.record(response)  # nobody goes on before the planner has learnt of the answer
            usage = json.loads(data)["usage"]
            read += usage["cache_read_input_tokens"]
            total += usage["input_tokens"] + usage["cache_read_input_tokens"] \
                + usage["cache_creation_input_tokens"]
        return read / total

    def test_an_agent_whose_tools_shuffle_hits_its_cache_in_pin_and_not_in_observe(self):
        self.assertLess(self.cached_share("observe"), 0.01)
        self.assertGreater(self.cached_share("pin"), 0.75)

    def test_after_kill_9_tools_and_system_go_out_as_before(self):
        self.start("pin")
        self.post(messages_turn(1, seed=1))
        _, data = self.post(messages_turn(2, seed=2))
        prefix = json.loads(data)["usage"]["cache_read_input_tokens"]
        self.assertGreater(prefix, 3000)
        before = json.loads(self.provider.requests[-1].body)["tools"]
        time.sleep(2.5)  # it is written a second later
        self.running.kill()
        self.running.start()
        _, data = self.post(messages_turn(3, seed=3))
        self.assertGreaterEqual(json.loads(data)["usage"]["cache_read_input_tokens"], prefix)
        sent = json.loads(self.provider.requests[-1].body)["tools"]
        self.assertEqual([tool["name"] for tool in sent], [tool["name"] for tool in before])
        self.assertEqual([list(tool) for tool in sent[:-1]], [list(tool) for tool in before[:-1]])
        self.running.kill()
        self.config.write_text(self.config.read_text() + "[store]\nprompts = false\n")
        self.running.start()
        self.post(messages_turn(3, seed=4))
        sent = json.loads(self.provider.requests[-1].body)["tools"]
        self.assertNotEqual([tool["name"] for tool in sent], [tool["name"] for tool in before])

    def test_what_reaches_the_provider_means_the_same(self):
        for mode in ("pin", "stabilize"):
            self.start(mode)
            for turn in range(6):
                body = messages_turn(turn, seed=turn)
                response, _ = self.post(body)
                sent = json.loads(self.provider.requests[-1].body)
                self.assertEqual(meaning(sent), meaning(body))
                record = self.record(response)
                self.assertEqual(record["mode"], mode)
                changed = record["sha256"]["sent"] != record["sha256"]["received"]
                self.assertEqual(bool(record["edits"]), changed)

    def test_observe_changes_nothing(self):
        self.start("observe")
        for turn in range(4):
            raw = json.dumps(messages_turn(turn, seed=turn)).encode()
            response, _ = self.post(raw)
            self.assertEqual(self.provider.requests[-1].body, raw)
            self.assertEqual(self.record(response)["mode"], "observe")

    def test_g2_g5_what_was_sent_stays_the_front_and_the_callers_fields_stay(self):
        """A clean client: each body goes on where the one before ended, key and bounds kept."""
        for mode in ("pin", "stabilize"):
            self.start(mode)
            sent = []
            for turn in range(8):
                body = {"model": "gpt-5.5", "max_completion_tokens": 77, "user": "u1",
                        "prompt_cache_key": "mine", "messages": [
                            {"role": "system", "content": text_of(1, 3000)}]}
                for number in range(turn):
                    body["messages"] += [{"role": "user", "content": text_of(number, 80)},
                                         {"role": "assistant", "content": f"did {number}"}]
                body["messages"].append({"role": "user", "content": text_of(turn, 80)})
                response, data = self.post(body, OPENAI, "/v1/chat/completions")
                sent.append(self.provider.requests[-1].body)
                self.assertEqual(sent[-1], json.dumps(body).encode())
                self.assertEqual(self.record(response)["edits"], [])
            for shorter, longer in zip(sent, sent[1:]):
                self.assertTrue(longer.startswith(shorter.rstrip(b"]}")))
            details = json.loads(data)["usage"]["prompt_tokens_details"]
            self.assertGreater(details["cached_tokens"], 3000)

    def test_subscription_credentials_get_no_changed_byte(self):
        self.start("stabilize")
        jwt = {**OPENAI, "Authorization": "Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiIxIn0.c2ln"}
        beta = {**ANTHROPIC, "anthropic-beta": "claude-code-20250219,oauth-2025-04-20"}
        billing = "x-anthropic-billing-header: cc_version=2.1.177.01c; cch=36ee5;\n"
        system = billing + text_of(7, 900)
        both = {**OAUTH, "x-api-key": "sk-test"}
        for headers in (OAUTH, beta, both):
            for turn in range(4):
                raw = json.dumps(messages_turn(turn, seed=turn, system=system)).encode()
                response, _ = self.post(raw, headers)
                self.assertEqual(self.provider.requests[-1].body, raw)
                self.assertEqual(self.record(response)["mode"], "observe")
        raw = json.dumps({"model": "gpt-5.6-sol", "messages": [
            {"role": "system", "content": text_of(1, 3000)},
            {"role": "user", "content": "hi"}]}).encode()
        for _ in range(3):
            self.post(raw, jwt, "/v1/chat/completions")
            self.assertEqual(self.provider.requests[-1].body, raw)

    def test_an_encoded_body_goes_out_as_it_came(self):
        self.start("stabilize")
        for turn in range(3):
            raw = gzip.compress(json.dumps(messages_turn(turn, seed=turn)).encode())
            self.post(raw, {**ANTHROPIC, "Content-Encoding": "gzip"})
            self.assertEqual(self.provider.requests[-1].body, raw)

    def test_rules_can_be_switched_off(self):
        rules = ["tools_order", "first_seen_bytes", "newlines", "cache_control",
                 "prompt_cache_key", "breakpoints"]
        self.start("pin", f"rules_off = {json.dumps(rules)}")
        for turn in range(3):
            raw = json.dumps(messages_turn(turn, seed=turn)).encode()
            self.post(raw)
            self.assertEqual(self.provider.requests[-1].body, raw)

    def test_the_record_names_what_broke_the_prefix(self):
        self.start("observe")
        marked = messages_turn(2)
        marked["tools"][-1]["cache_control"] = {"type": "ephemeral"}
        marked["system"] = [{"type": "text", "text": marked["system"],
                             "cache_control": {"type": "ephemeral"}}]
        first = self.record(self.post(marked)[0])
        self.assertEqual(first["break"]["cause"], "first_seen")
        # The turns are sent once more too, but no marker had asked for them.
        again = self.record(self.post(marked)[0])
        self.assertEqual(again["break"]["cause"], "not_marked")
        self.assertEqual(again["break"]["lost_tokens"], again["usage"]["uncached_tokens"])
        marked["system"][0]["text"] += " changed"
        changed = self.record(self.post(marked)[0])["break"]
        self.assertEqual((changed["cause"], changed["path"]),
                         ("system_changed", "system[0].text"))
        self.assertGreater(changed["lost_tokens"], 500)
        self.assertGreater(changed["lost_nanodollars"], 0)
        marked["tools"][3]["description"] = "another"
        changed = self.record(self.post(marked)[0])["break"]
        self.assertEqual((changed["cause"], changed["path"]),
                         ("tool_changed", "tools[3].description"))

    def test_what_a_clock_costs_is_counted_in_each_turn_also_once_nothing_is_written(self):
        self.start("pin")
        sent_before = 0
        for turn in range(8):
            system = f"The time is 2026-11-22T10:{turn:02}:07Z.\n{text_of(7, 1500)}"
            response, data = self.post(messages_turn(turn, system=system))
            usage, found = json.loads(data)["usage"], self.record(response)["break"]
            read = usage["cache_read_input_tokens"]
            if turn > 0:
                self.assertEqual((found["cause"], found["path"], found["volatile_kind"]),
                                 ("system_changed", "system", "time"), f"turn {turn}")
                self.assertAlmostEqual(found["lost_tokens"] + read, sent_before,
                                       delta=0.05 * sent_before)
                self.assertGreater(found["lost_nanodollars"], 0)
                self.assertIn("mode stabilize", found["verdict"])
            sent_before = read + usage["cache_creation_input_tokens"] + usage["input_tokens"]
        breaks = self.running.stats()["ledger"]["totals"]["breaks"]
        self.assertEqual(set(breaks), {"first_seen", "system_changed"})
        self.assertEqual(breaks["system_changed"]["breaks"], 7)

    def test_stats_say_what_stabilize_would_have_saved(self):
        for mode in ("pin", "observe"):
            self.start(mode)
            lost = 0
            for turn in range(5):
                system = f"The time is now 10:{turn:02}:07 here.\n{text_of(7, 1500)}"
                body = messages_turn(turn, system=[{"type": "text", "text": system,
                                                    "cache_control": {"type": "ephemeral"}}])
                body["messages"][-1]["content"] = [
                    {"type": "text", "text": body["messages"][-1]["content"],
                     "cache_control": {"type": "ephemeral"}}]
                found = self.record(self.post(body)[0])["break"]
                lost += found["lost_tokens"]
            saved = self.running.stats()["stabilize_would_save"]
            self.assertGreater(saved["tokens"], 0.9 * lost, mode)
            self.assertLessEqual(saved["tokens"], lost)
            self.assertGreater(saved["nanodollars"], 0)
            self.assertEqual(saved["requests"], 4)
            slot, = saved["slots"]
            self.assertEqual((slot["place"], slot["line"], slot["path"]),
                             ("system", "The time is now <*> here.", "system[0]"))
            self.assertEqual(slot["tokens"], saved["tokens"])
            shown = subprocess.run([server.binary_path(), "stats", "--data-dir", self.data],
                                   capture_output=True, text=True, timeout=30)
            self.assertIn("mode stabilize would have saved", shown.stdout, shown.stderr)
            self.assertIn("The time is now <*> here.", shown.stdout)
            self.assertNotIn("10:0", shown.stdout.split("would have saved")[1].split("since")[0])
            self.running.terminate()
            self.assertIn("mode stabilize would have saved", self.running.log())
        self.start("stabilize")
        for turn in range(4):
            system = f"The time is now 10:{turn:02}:07 here.\n{text_of(7, 1500)}"
            self.record(self.post(messages_turn(turn, system=system))[0])
        saved = self.running.stats()["stabilize_would_save"]
        self.assertEqual((saved["tokens"], saved["slots"]), (0, []))

    def test_what_another_conversation_could_have_read_is_counted(self):
        self.start("observe")
        marked = messages_turn(2, system=[{"type": "text", "text": text_of(7, 1500),
                                           "cache_control": {"type": "ephemeral"}}])
        self.record(self.post(marked)[0])
        marked["messages"] = [{"role": "user", "content": "Another task."}]
        again = self.record(self.post(marked)[0])
        self.assertEqual(again["break"]["cause"], "none")
        marked["messages"] = [{"role": "user", "content": "A third task."}]
        marked["system"][0]["text"] = "Project B.\n" + marked["system"][0]["text"]
        changed = self.record(self.post(marked)[0])["break"]
        self.assertEqual((changed["cause"], changed["path"]),
                         ("system_changed", "system[0].text"))
        self.assertGreater(changed["lost_tokens"], 1000)

    def test_attribution_sums_to_what_the_provider_said(self):
        self.start("pin")
        for turn in range(4):
            response, data = self.post(messages_turn(turn))
            usage, record = json.loads(data)["usage"], self.record(response)
            sums = {name: sum(part[name] for part in record["attribution"].values())
                    for name in ("cached", "written", "uncached")}
            self.assertEqual(sums, {"cached": usage["cache_read_input_tokens"],
                                    "written": usage["cache_creation_input_tokens"],
                                    "uncached": usage["input_tokens"]})
        self.assertTrue({"tools", "system", "tool_results", "user"} <= set(record["attribution"]))

    def test_stats_sum_sources_and_breaks(self):
        self.start("pin")
        for turn in range(3):
            self.record(self.post(messages_turn(turn))[0])
        shown = subprocess.run([server.binary_path(), "stats", "--data-dir", self.data],
                               capture_output=True, text=True, timeout=30)
        for name in ("SOURCE", "tool_results", "WHY A PREFIX ENDED", "first_seen"):
            self.assertIn(name, shown.stdout, shown.stderr)

    def test_a_caller_who_asks_is_told_in_the_answer_itself(self):
        self.start("observe")
        asks = {"x-kvgate-explain": "1"}
        chat = {"model": "gpt-5.5", "messages": [
            {"role": "user", "content": text_of(1, 900)}]}
        responses = {"model": "gpt-5.5", "input": text_of(2, 900)}
        for path, body, headers in (("/v1/messages", messages_turn(1), ANTHROPIC),
                                    ("/v1/chat/completions", chat, OPENAI),
                                    ("/v1/responses", responses, OPENAI)):
            for stream in (False, True):
                with self.subTest(path=path, stream=stream):
                    more = {**body, "stream": stream}
                    if stream and "messages" in body and headers is OPENAI:
                        more["stream_options"] = {"include_usage": True}
                    _, plain = self.post(more, headers, path)
                    response, data = self.post(more, {**headers, **asks}, path)
                    objects = [json.loads(data)] if not stream else [
                        json.loads(line[6:]) for line in data.decode().split("\n")
                        if line.startswith("data: {")]
                    told = objects[-1].pop("kvgate")
                    self.assertEqual(told["request_id"], response.getheader("x-kvgate-request-id"))
                    self.assertLessEqual({"cached_tokens", "tiers", "attribution", "break",
                                          "ttft_ms", "cost"}, set(told))
                    self.assertEqual(sum(event.get("kvgate") is not None for event in objects), 0)
                    self.assertGreater(sum(s["tokens"] for s in told["attribution"]), 500)
                    inserted = data.replace(b',"kvgate":' + json.dumps(
                        told, separators=(",", ":")).encode(), b"")
                    self.assertLess(abs(len(inserted) - len(plain)), 40)

    def explain(self, *arguments, code=0):
        made = subprocess.run([server.binary_path(), "explain", *arguments], capture_output=True,
                              text=True, timeout=30,
                              env={**os.environ, "SIMULATED_KEY": "sk-test"})
        self.assertEqual(made.returncode, code, made.stdout + made.stderr)
        return made.stdout

    def test_explain_says_what_would_be_done_and_does_nothing(self):
        self.start("pin")
        headers = {"anthropic-version": "2023-06-01", "Content-Type": "application/json"}
        file = self.folder / "request.json"
        file.write_text(json.dumps(messages_turn(2, seed=9)))
        here = [file, "--config", self.config, "--data-dir", self.data]
        asked = [*here, "--api-key-env", "SIMULATED_KEY", "--json"]
        # A client's own key tells whose conversations are meant, whichever header it comes in.
        told = json.loads(self.explain(*asked))
        self.assertNotIn("tools_order", [edit["rule"] for edit in told["edits"]])
        for turn in range(2):
            self.post(messages_turn(turn), {**headers, "x-api-key": "sk-test"})
        before = len(self.provider.requests)
        for arguments in ([], ["--key-header", "authorization"]):
            told = json.loads(self.explain(*asked, *arguments))
            self.assertIn("tools_order", [edit["rule"] for edit in told["edits"]])
        self.assertEqual(len(self.provider.requests), before)
        self.assertEqual(len(told["rules"]), 19)
        self.assertEqual({rule["name"] for rule in told["rules"] if not rule["on"]},
                         {"volatile_moved", "volatile_held", "reminder_kept", "system_slots",
                          "tool_slots", "user_slots", "system_turn"})
        self.assertGreater(told["sources"]["tools"], 0)
        shown = self.explain(*here)
        self.assertLessEqual(max(len(line) for line in shown.splitlines()
                                 if not line.startswith("  ")), 100, shown)
        self.assertIn("rules off    volatile_moved, volatile_held, reminder_kept, system_slots,\n"
                      "             tool_slots, user_slots, system_turn\n", shown)
        alone = self.explain(*here, "--mode", "observe")
        self.assertIn("no edits", alone)
        self.assertIn("rules off    all\n", alone)
        stabilized = self.explain(*here, "--mode", "stabilize", "--json")
        self.assertTrue(all(rule["on"] for rule in json.loads(stabilized)["rules"]))
        file.write_text("{")
        self.explain(*asked, code=2)

    def test_explain_knows_the_local_engine_with_a_server_and_without(self):
        file = self.folder / "request.json"
        body = {"model": "local", "tools": [{"type": "function", "function": {
                    "name": "look", "parameters": {"type": "object"}}}],
                "messages": [{"role": "system", "content": text_of(1, 300)},
                             {"role": "user", "content": "<document>a\nb</document>"},
                             {"role": "user", "content": "go on"}]}
        file.write_text(json.dumps(body))
        data = self.folder / "none"
        for where in ([], ["--url", f"http://{self.serve().address}"]):
            told = json.loads(self.explain(file, "--data-dir", data, "--json", *where))
            self.assertEqual((told["upstream"], told["mode"], told["edits"], told["plan"]),
                             ("local", "pin", [], None))
            self.assertLessEqual({"tools", "system", "retrieval", "user"}, set(told["sources"]))

    def test_the_local_engine_tells_tools_and_retrieval_from_what_stands_around_them(self):
        running = self.serve()
        body = {"model": "local", "max_tokens": 2, "temperature": 0, "tool_choice": "none",
                "tools": [{"type": "function", "function": {
                    "name": "look", "description": text_of(3, 200),
                    "parameters": {"type": "object"}}}],
                "messages": [{"role": "system", "content": text_of(1, 300)},
                             {"role": "user", "content": "<document>" + text_of(2, 100) +
                              "</document>"},
                             {"role": "assistant", "content": "answer"},
                             {"role": "user", "content": "question two"}]}
        told = self.assert_ok(running.send("/v1/chat/completions", body,
                                           {"x-kvgate-explain": "1"}))
        parts = told.explain["attribution"]
        self.assertEqual([part["source"] for part in parts],
                         ["tools", "system", "retrieval", "history", "user"])
        self.assertEqual(sum(part["tokens"] for part in parts), told.usage["prompt_tokens"])

    def test_the_local_engine_names_its_breaks_too(self):
        running = self.serve()
        body = {"model": "local", "max_tokens": 2, "temperature": 0, "tool_choice": "none",
                "tools": [{"type": "function", "function": {
                    "name": "look", "parameters": {"type": "object"}}}],
                "messages": [{"role": "system", "content": text_of(1, 300)},
                             {"role": "user", "content": "question one"},
                             {"role": "assistant", "content": "answer"},
                             {"role": "user", "content": "question two"}]}
        headers = {"x-kvgate-explain": "1", **tenant("breaks")}
        first = self.assert_ok(running.send("/v1/chat/completions", body, headers))
        self.assertEqual(first.explain["break"]["cause"], "first_seen")
        body["messages"][0]["content"] = "Changed. " + body["messages"][0]["content"]
        broken = self.assert_ok(running.send("/v1/chat/completions", body, headers))
        self.assertEqual(broken.explain["break"]["cause"], "system_changed")


if __name__ == "__main__":
    unittest.main()
