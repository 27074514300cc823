#!/usr/bin/env python3
"""Where the tokens of prompts go: varied requests in three dialects and locally, whose parts,
sources, sums by time and usage are equal to the token; filters, exports, advice."""

import csv
import http.client
import io
import json
import random
import subprocess
import sys
import unittest
from pathlib import Path

import server
from case import Case, text_of, wait_until

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

from provider_simulator import Simulator  # noqa: E402

OPENAI = {"Authorization": "Bearer sk-test", "Content-Type": "application/json"}
ANTHROPIC = {"x-api-key": "sk-test", "anthropic-version": "2023-06-01",
             "Content-Type": "application/json"}
TOOLS = ("get_weather", "mcp__github__get_issue", "files.read", "db__query")
SERVERS = {"mcp__github__get_issue": "github", "files.read": "files", "db__query": "db"}
STATES = ("cached", "written", "uncached")


def schema(rng):
    return {"type": "object", "properties": {name: {"type": "string", "description": text_of(i, 9)}
                                             for i, name in enumerate(rng.sample("abcdef", 3))}}


class Bodies:
    """Bodies of one seeded conversation in each dialect."""

    def __init__(self, seed):
        rng = random.Random(seed)
        self.system = text_of(seed, rng.randint(5, 400))
        self.tools = rng.sample(TOOLS, rng.randint(0, len(TOOLS)))
        self.schemas = {name: schema(rng) for name in self.tools}
        self.turns = [(text_of(seed * 100 + i, rng.randint(1, 60)),
                       rng.choice(self.tools) if self.tools and rng.random() < 0.6 else None)
                      for i in range(rng.randint(1, 4))]
        self.results = [text_of(seed * 77 + i, rng.randint(1, 120)) for i in range(4)]

    def chat(self, model):
        messages = [{"role": "system", "content": self.system}]
        for i, (said, tool) in enumerate(self.turns):
            messages.append({"role": "user", "content": said})
            last = i + 1 == len(self.turns)
            if tool:
                messages += [
                    {"role": "assistant", "content": None, "tool_calls": [
                        {"id": f"call_{i}", "type": "function",
                         "function": {"name": tool, "arguments": "{}"}}]},
                    {"role": "tool", "tool_call_id": f"call_{i}", "content": self.results[i]}]
            elif not last:
                messages.append({"role": "assistant", "content": "Done. " + said[:20]})
        body = {"model": model, "messages": messages, "max_tokens": 4}
        if self.tools:
            body["tools"] = [{"type": "function", "function": {
                "name": name, "description": name, "parameters": self.schemas[name]}}
                for name in self.tools]
        return body

    def messages(self, model):
        turns = []
        for i, (said, tool) in enumerate(self.turns):
            turns.append({"role": "user", "content": [{"type": "text", "text": said}]})
            last = i + 1 == len(self.turns)
            if tool:
                turns += [
                    {"role": "assistant", "content": [
                        {"type": "tool_use", "id": f"toolu_{i}", "name": tool, "input": {}}]},
                    {"role": "user", "content": [
                        {"type": "tool_result", "tool_use_id": f"toolu_{i}",
                         "content": self.results[i]}] + (
                        [] if last else [{"type": "text", "text": "Go on."}])}]
            if not last:
                turns.append({"role": "assistant", "content": "Done. " + said[:20]})
        body = {"model": model, "system": self.system, "messages": turns, "max_tokens": 4}
        if self.tools:
            body["tools"] = [{"name": name.replace(".", "-"), "description": name,
                              "input_schema": self.schemas[name]} for name in self.tools]
            for turn in turns:
                for block in turn["content"] if isinstance(turn["content"], list) else []:
                    if "name" in block:
                        block["name"] = block["name"].replace(".", "-")
        return body

    def responses(self, model):
        items = []
        for i, (said, tool) in enumerate(self.turns):
            items.append({"type": "message", "role": "user", "content": said})
            if tool:
                items += [{"type": "function_call", "call_id": f"call_{i}", "name": tool,
                           "arguments": "{}"},
                          {"type": "function_call_output", "call_id": f"call_{i}",
                           "output": self.results[i]}]
            elif i + 1 < len(self.turns):
                items.append({"type": "message", "role": "assistant", "content": [
                    {"type": "output_text", "text": "Done. " + said[:20]}]})
        body = {"model": model, "instructions": self.system, "input": items, "store": False,
                "max_output_tokens": 16}
        if self.tools:
            body["tools"] = [{"type": "function", "name": name, "parameters": self.schemas[name]}
                             for name in self.tools]
        return body


class AttributionTest(Case):
    def setUp(self):
        super().setUp()
        self.provider = Simulator().__enter__()
        self.addCleanup(self.provider.__exit__)
        config = self.folder / "kvgate.toml"
        config.write_text(f"""
[[upstream]]
name = "open"
dialect = "openai"
provider = "openai"
base_url = "{self.provider.url}/v1"
models = ["gpt-*"]

[[upstream]]
name = "anthropic"
dialect = "anthropic"
provider = "anthropic"
base_url = "{self.provider.url}"
models = ["claude-*"]
""")
        self.data = self.folder / "data"
        self.running = server.Server(self.tiny(), self.data, ["--config", str(config)]).start()
        self.addCleanup(self.running.__exit__)

    def post(self, path, body, headers):
        connection = http.client.HTTPConnection(*self.running.address.split(":"), timeout=60)
        self.addCleanup(connection.close)
        connection.request("POST", path, json.dumps(body), headers)
        response = connection.getresponse()
        data = response.read()
        self.assertEqual(response.status, 200, data)
        return response.getheader("x-kvgate-request-id")

    def get(self, path, status=200):
        reply = self.running.get(path)
        self.assertEqual(reply.status, status, reply.body)
        return reply.json

    def record(self, request_id):
        return self.record_of(self.running, request_id)

    def kvgate(self, *arguments, code=0):
        made = subprocess.run([server.binary_path(), *arguments, "--data-dir", self.data],
                              capture_output=True, text=True, timeout=120)
        self.assertEqual(made.returncode, code, made.stdout + made.stderr)
        return made.stdout

    def check_sums(self, record):
        usage = record["usage"]
        written = usage["cache_write_tokens"] + usage["cache_write_1h_tokens"]
        wanted = {"cached": usage["cache_read_tokens"], "written": written,
                  "uncached": usage["uncached_tokens"]}
        sums = {state: sum(part[state] for part in record["attribution"].values())
                for state in STATES}
        self.assertEqual(sums, wanted)
        by_source = {}
        for part in record["segments"]:
            self.assertEqual(part["tokens"], sum(part[state] for state in STATES))
            source = by_source.setdefault(part["source"], dict.fromkeys(STATES, 0))
            for state in STATES:
                source[state] += part[state]
        self.assertEqual({name: part for name, part in by_source.items() if any(part.values())},
                         {name: {state: part[state] for state in STATES}
                          for name, part in record["attribution"].items()})
        self.assertLessEqual(len(record["segments"]), 256)

    def check_tools(self, record, bodies):
        named = {part["name"]: part.get("server", "") for part in record["segments"]
                 if part["source"] == "tools"}
        wanted = {name: SERVERS.get(name, "") for name in bodies.tools}
        if record["endpoint"] == "messages":
            wanted = {name.replace(".", "-"): server for name, server in wanted.items()}
            wanted.update({name: "" for name in wanted if "-" in name})
        self.assertEqual(named, wanted)
        results = [part["name"] for part in record["segments"]
                   if part["source"] == "tool_results"]
        self.assertLessEqual(set(results), set(wanted))

    def test_sixty_varied_requests_sum_to_the_token(self):
        local = self.get("/v1/models")["data"][0]["id"]
        kinds = [("/v1/chat/completions", Bodies.chat, "gpt-5.5", OPENAI),
                 ("/v1/messages", Bodies.messages, "claude-sonnet-4-5", ANTHROPIC),
                 ("/v1/responses", Bodies.responses, "gpt-5.5", OPENAI),
                 ("/v1/chat/completions", Bodies.chat, "local", OPENAI),
                 ("/v1/messages", Bodies.messages, "local", ANTHROPIC),
                 ("/v1/responses", Bodies.responses, "local", OPENAI)]
        totals = {}
        for number in range(60):
            path, make, model, headers = kinds[number % len(kinds)]
            bodies = Bodies(number // len(kinds) if number % 4 else number)
            with self.subTest(number=number, path=path, model=model):
                record = self.record(self.post(path, make(bodies, model), headers))
                self.check_sums(record)
                self.check_tools(record, bodies)
                self.assertEqual(record["dialect"],
                                 "anthropic" if path == "/v1/messages" else "openai")
                is_local = model == "local"
                self.assertEqual(record["estimated"], not is_local)
                self.assertEqual("tiers" in record, is_local)
                if is_local:
                    self.assertEqual((record["model"], record["asked_model"]), (local, "local"))
                    self.assertEqual(sum(record["tiers"].values()),
                                     record["usage"]["input_tokens"])
                for source, part in record["attribution"].items():
                    total = totals.setdefault(source, dict.fromkeys(STATES, 0))
                    for state in STATES:
                        total[state] += part[state]
        rows = self.get("/kvgate/v1/stats?step=all&by=source&from_us=1")["data"]
        self.assertEqual({row["name"]: {state: row[state + "_tokens"] for state in STATES}
                          for row in rows}, totals)
        whole, = self.get("/kvgate/v1/stats?step=all&from_us=1")["data"]
        self.assertEqual(whole["requests"], 60)
        self.assertEqual(whole["cached_tokens"], sum(part["cached"] for part in totals.values()))
        tools = {row["name"] for row in
                 self.get("/kvgate/v1/stats?step=all&by=tool&from_us=1")["data"]}
        self.assertLessEqual({"get_weather", "db__query"}, tools)

    def count(self, messages, **more):
        body = {"model": "local", "messages": messages, **more}
        reply = self.running.send("/v1/messages/count_tokens", json.dumps(body).encode(),
                                  ANTHROPIC)
        self.assertEqual(reply.status, 200, reply.body)
        return reply.json["input_tokens"]

    def test_sections_of_a_local_prompt_are_what_an_independent_count_says(self):
        system = text_of(1, 60)
        first = {"role": "user", "content": text_of(2, 40)}
        answer = {"role": "assistant", "content": text_of(3, 30)}
        last = {"role": "user", "content": text_of(4, 20)}
        body = {"model": "local", "system": system, "messages": [first, answer, last],
                "max_tokens": 2}
        record = self.record(self.post("/v1/messages", body, ANTHROPIC))
        tokens = {name: sum(part[state] for state in STATES)
                  for name, part in record["attribution"].items()}
        whole = self.count([first, answer, last], system=system)
        self.assertEqual(record["usage"]["input_tokens"], whole)
        self.assertEqual(sum(tokens.values()), whole)
        # What a longer last turn adds is the user's, and what a longer system text adds is its.
        longer = {**body, "messages": [first, answer, {**last, "content": text_of(4, 50)}]}
        more = self.record(self.post("/v1/messages", longer, ANTHROPIC))["attribution"]
        grown = self.count(longer["messages"], system=system) - whole
        self.assertEqual(sum(more["user"][state] for state in STATES) - tokens["user"], grown)
        self.assertEqual(sum(more["history"][state] for state in STATES), tokens["history"])
        self.assertEqual(sum(more["system"][state] for state in STATES), tokens["system"])

    def test_filters_choose_records_and_unknown_ones_are_named(self):
        self.post("/v1/chat/completions", Bodies(1).chat("gpt-5.5"),
                  {**OPENAI, "x-kvgate-session": "one"})
        self.post("/v1/messages", Bodies(2).messages("claude-sonnet-4-5"), ANTHROPIC)
        self.post("/v1/chat/completions", Bodies(3).chat("local"), OPENAI)
        refused = self.running.send("/v1/completions", b"{", OPENAI)
        self.assertEqual(refused.status, 400)
        wait_until(lambda: len(self.get("/kvgate/v1/requests")["data"]) == 4, "four records")

        def count(query):
            return len(self.get("/kvgate/v1/requests?" + query)["data"])
        local = self.get("/v1/models")["data"][0]["id"]
        newest = self.get("/kvgate/v1/requests")["data"][0]
        for query, wanted in (("upstream=open", 1), ("upstream=local", 2), ("upstream=none", 0),
                              ("model=gpt-5.5", 1), ("model=local", 1), (f"model={local}", 1),
                              ("session=one", 1), ("session=two", 0), ("status=200", 3),
                              ("status=failed", 1), ("status=400", 1), ("endpoint=messages", 1),
                              ("break=first_seen", 3), ("break=any", 3), ("break=ttl_lapsed", 0),
                              ("tenant=" + newest["tenant"], 4), ("tenant=x", 0),
                              ("since_us=1", 4), ("until_us=1", 0), ("limit=2&upstream=local", 2),
                              ("upstream=open&status=failed", 0)):
            with self.subTest(query=query):
                self.assertEqual(count(query), wanted)
        for path in ("/kvgate/v1/requests?colour=red", "/kvgate/v1/stats?colour=red&step=day",
                     "/kvgate/v1/advice?colour=red"):
            with self.subTest(path=path):
                self.assertIn("unknown parameter 'colour'", json.dumps(self.get(path, 400)))
        for query in ("status=x", "since_us=-1", "until_us=1.5"):
            self.assertIn(query.split("=", maxsplit=1)[0],
                          json.dumps(self.get("/kvgate/v1/requests?" + query, 400)))
        for query in ("step=week", "step=day&by=colour", "by=model", "step=day&from_us=x",
                      "step=day&from_us=9&to_us=8"):
            self.get("/kvgate/v1/stats?" + query, 400)

    def test_clocks_speeds_sums_exports_and_the_command_line(self):
        for seed in range(3):
            system = [{"type": "text", "text": text_of(seed, 3000),
                       "cache_control": {"type": "ephemeral"}}]
            self.record(self.post("/v1/messages", {**Bodies(seed + 5).messages("claude-sonnet-4-5"),
                                                   "system": system}, ANTHROPIC))
        for seed in range(2):
            self.record(self.post("/v1/chat/completions", Bodies(seed).chat("local"), OPENAI))
        stats = self.get("/kvgate/v1/stats")
        clocks = stats["ledger"]["clocks"]
        self.assertEqual(len(clocks), 3)
        self.assertEqual(clocks, sorted(clocks, key=lambda clock: clock["expires_us"]))
        for clock in clocks:
            self.assertGreater(clock["tokens"], 1000)
            self.assertGreater(clock["cold_nanodollars"], 0)
            self.assertGreater(clock["expires_us"], clock["last_us"])
        models = {model["upstream"]: model for model in stats["models"]}
        self.assertEqual(models["local"]["requests"], 2)
        self.assertGreater(models["local"]["output_tokens_per_second"], 0)
        self.assertGreater(models["anthropic"]["ttft_us"]["p50"], 0)
        local = self.get("/kvgate/v1/requests?upstream=local")["data"][0]["timings"]
        self.assertLessEqual({"prefill_us", "decode_us", "tpot_us", "itl_us_max"}, set(local))
        self.assertLessEqual(local["tpot_us"], local["itl_us_max"] + 1)
        for when in ("running", "at rest"):
            by_model = json.loads(self.kvgate("stats", "--by", "model", "--json"))["data"]
            self.assertEqual(sum(row["requests"] for row in by_model), 5, when)
            self.assertIn("claude-sonnet-4-5", self.kvgate("stats", "--by", "model"))
            self.assertIn("tool_results", self.kvgate("stats", "--by", "source", "--since", "2h"))
            day, = json.loads(self.kvgate("stats", "--by", "day", "--json"))["data"]
            self.assertEqual(day["requests"], 5)
            lines = self.kvgate("stats", "export").splitlines()
            self.assertEqual(len(lines), 5)
            rows = list(csv.DictReader(io.StringIO(self.kvgate("stats", "export", "--csv"))))
            self.assertEqual([row["id"] for row in rows], [json.loads(x)["id"] for x in lines])
            self.assertEqual(rows[0]["input_tokens"],
                             str(json.loads(lines[0])["usage"]["input_tokens"]))
            self.kvgate("advise")
            self.kvgate("stats", "--by", "colour", code=2)
            self.kvgate("stats", "--by", "day", "--since", "soon", code=2)
            if when == "running":
                self.running.terminate()
        self.running.restart()
        after = self.get("/kvgate/v1/stats")["ledger"]["clocks"]
        self.assertEqual([clock["conversation"] for clock in after],
                         [clock["conversation"] for clock in clocks])
        whole, = self.get("/kvgate/v1/stats?step=all")["data"]
        self.assertEqual(whole["requests"], 5)

    def test_tools_that_nobody_calls_are_advised_against(self):
        tools = [{"name": f"tool_{i}", "description": text_of(i, 200),
                  "input_schema": {"type": "object"}} for i in range(6)]
        ids = [self.post("/v1/messages", {
            "model": "claude-sonnet-4-5", "max_tokens": 4, "tools": tools,
            "messages": [{"role": "user", "content": text_of(100 + i, 30)}]}, ANTHROPIC)
            for i in range(12)]
        self.record(ids[-1])
        item, = [item for item in self.get("/kvgate/v1/advice")["data"]
                 if item["id"] == "unused_tools"]
        self.assertEqual(item["requests"], 12)
        self.assertEqual(item["where"]["upstream"], "anthropic")
        self.assertLessEqual(set(item["evidence"]), set(ids))
        self.assertIn("tool_0", item["what"])
        self.assertGreater(item["nanodollars_per_day"], 0)
        self.assertIn("never called", self.kvgate("advise"))

    def test_a_refused_request_is_one_line_of_the_log_without_its_text(self):
        reply = self.running.send("/v1/chat/completions", json.dumps(
            {"model": "xyzzy-model", "messages": [{"role": "user", "content": "xyzzy-text"}],
             "max_tokens": -1}).encode(), OPENAI)
        self.assertGreaterEqual(reply.status, 400)
        request_id = reply.headers["x-kvgate-request-id"]
        line, = [line for line in self.running.log().splitlines()
                 if request_id in line and "refused" in line]
        self.assertIn(str(reply.status), line)
        self.assertIn("/v1/chat/completions", line)
        self.assertNotIn("xyzzy", self.running.log())


if __name__ == "__main__":
    unittest.main()
