#!/usr/bin/env python3
"""`kvgate replay` and `kvgate record`: simulated caches against their other implementation, bounds
of the modes on agents' sessions with each documented jitter, what was sent against what came."""

import copy
import json
import os
import random
import stat
import sys
import unittest
from pathlib import Path

import server
from case import FULL, Case

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

import prompt_cache  # noqa: E402
import replay_runner  # noqa: E402
from agent_sessions import GENUINE, JITTERS, Options  # noqa: E402
from provider_simulator import Simulator  # noqa: E402

SHAPES = ("messages", "chat", "responses")
TURNS = 40 if FULL else 12
# What a mode must keep of the oracle's cached tokens.
ORACLE_SHARE = 0.97
ONE_SHOT_COST = 1.02
BILLING = "x-anthropic-billing-header:"
FRAME = {"<system-reminder>", "</system-reminder>"}  # around what stands among results


class ReplayCase(Case):
    def run_replay(self, trace, *arguments):
        return replay_runner.run(server.binary_path(), str(trace), *arguments)

    def replay(self, modes=("pin", "stabilize"), arguments=(), **options):
        return replay_runner.replayed(server.binary_path(), Options(**options), modes, arguments)

    def sent(self, modes=("pin", "stabilize"), arguments=(), **options):
        return replay_runner.sent_bodies(server.binary_path(), Options(**options), modes, arguments)


class SimulatedCachesTest(ReplayCase):
    """The caches in C++ against those of the provider simulator, on the same random requests."""

    def random_messages(self, rng):
        ttls = rng.choice(([{}], [{"ttl": "5m"}], [{"ttl": "1h"}], [{}, {"ttl": "1h"}]))

        def block():
            kind = rng.choice(("text", "text", "text", "image", "thinking", "empty"))
            made = {"text": {"type": "text", "text": rng.choice("abé\n") * rng.choice((9, 4000))},
                    "image": {"type": "image", "source": {"type": "url", "url": "u"}},
                    "thinking": {"type": "thinking", "thinking": "t", "signature": "s"},
                    "empty": {"type": "text", "text": ""}}[kind]
            if rng.random() < 0.15 and kind in ("text", "image") or rng.random() < 0.02:
                made["cache_control"] = {"type": "ephemeral", **rng.choice(ttls)}
            return made

        body = {"model": rng.choice(("claude-sonnet-5", "claude-haiku-4-5")), "max_tokens": 9,
                "system": rng.choice(("s" * 5000, [block()])),
                "tools": [{"name": f"t{at}", "input_schema": {"b": 1, "a": [1.5, None]}}
                          for at in range(rng.randrange(3))],
                "messages": [{"role": ("user", "assistant")[at % 2],
                              "content": rng.choice(("x" * 2000, [block() for _ in range(3)]))}
                             for at in range(rng.randrange(1, 5))]}
        if rng.random() < 0.2:
            body["tools"].append({"type": "web_search_20260209", "name": "web_search"})
        for name, value in (("speed", "fast"), ("tool_choice", {"type": "any"}),
                            ("thinking", {"type": "enabled"}),
                            ("output_config", {"effort": "high"}),
                            ("cache_control", {"type": "ephemeral"})):
            if rng.random() < 0.06:
                body[name] = value
        return body

    def random_chat(self, rng):
        def part():
            made = {"type": "text", "text": rng.choice("ab\n") * rng.choice((9, 6000))}
            if rng.random() < 0.1:
                made["prompt_cache_breakpoint"] = {"mode": "explicit"}
            return made

        roles = ("system", "user", "assistant", "tool")
        body = {"model": rng.choice(("gpt-6-sol", "gpt-5.6-luna", "gpt-5.5", "gpt-4.1")),
                "messages": [{"role": roles[min(at, 3)],
                              "content": rng.choice(("x" * 3000, [part() for _ in range(2)], None))}
                             for at in range(rng.randrange(1, 6))]}
        for name, value in (("prompt_cache_key", "k"), ("prompt_cache_key", "k" * 65),
                            ("reasoning_effort", "low"),
                            ("prompt_cache_options", {"mode": "explicit"})):
            if rng.random() < 0.08:
                body[name] = value
        return body

    def variations(self, rng, make):
        """Bodies that share prefixes: some are new, most go on from one before."""
        made, asked = [], []
        for _ in range(150):
            body = copy.deepcopy(rng.choice(made[-5:])) if made and rng.random() < 0.85 \
                else make(rng)
            if rng.random() < 0.6:
                part = {"type": "text", "text": "more " * rng.choice((1, 800))}
                if "max_tokens" in body:  # the marker that an agent sets anew each time
                    part["cache_control"] = {"type": "ephemeral"}
                    for message in body["messages"]:
                        for block in message["content"] if rng.random() < 0.9 else ():
                            if isinstance(block, dict):
                                block.pop("cache_control", None)
                body["messages"].append({"role": "user", "content": [part]})
            made.append(body)
            asked.append(body)
            if rng.random() < 0.05:  # too many markers, in either dialect
                marks = {"cache_control": {"type": "ephemeral"}, "prompt_cache_breakpoint": {}}
                block = {"type": "text", "text": "m", **marks}
                asked.append({**body, "messages": [{"role": "user", "content": [block] * 5}]})
        return asked

    def expected(self, provider, body, store):
        """The usage as a trace has it, or None where it is refused."""
        try:
            if provider == "anthropic":
                found, keep = prompt_cache.anthropic_usage(store, body, "t")
                usage = (found["input_tokens"], found["cache_read_input_tokens"],
                         found["cache_creation"]["ephemeral_5m_input_tokens"],
                         found["cache_creation"]["ephemeral_1h_input_tokens"])
            else:
                prompt_cache.check_openai(body)
                total, cached, written, keep = prompt_cache.openai_usage(store, body, "t")
                usage = (total - cached - written, cached, written, 0)
        except prompt_cache.BadRequest:
            return None
        for key, ttl in keep:
            store.put(key, ttl)
        return usage

    def check(self, provider, endpoint, make):
        wanted = []
        for seed in range(4):
            with self.subTest(seed=seed):
                wanted += self.check_seed(seed, provider, endpoint, make)
        self.assertGreater(sum(usage is not None and usage[1] > 0 for usage in wanted), 40)
        self.assertGreater(sum(usage is None for usage in wanted), 3)

    def check_seed(self, seed, provider, endpoint, make):
        rng = random.Random(f"caches of {provider} {seed}")
        now, wanted = [0.0], []
        store = prompt_cache.Store(lambda: now[0])
        trace = self.folder / "trace.jsonl"
        with open(trace, "w", encoding="utf-8") as out:
            for body in self.variations(rng, make):
                now[0] += rng.choice((1, 20, 200, 400))
                wanted.append(self.expected(provider, body, store))
                out.write(json.dumps({"time": now[0], "tenant": "t", "endpoint": endpoint,
                                      "provider": provider, "body": json.dumps(body)}) + "\n")
        kept = self.folder / "sent.jsonl"
        status, _, problem = self.run_replay(trace, "--modes", "observe", "--sent", str(kept))
        self.assertEqual(status, 0, problem)
        got = replay_runner.json_lines(kept)
        got = [(line["uncached_tokens"], line["cache_read_tokens"], line["cache_write_tokens"],
                line["cache_write_1h_tokens"]) if not line["refusal"] else None
               for line in got if line["column"] == "direct"]
        self.assertEqual(got, wanted)
        return wanted

    def test_messages(self):
        self.check("anthropic", "messages", self.random_messages)

    def test_chat(self):
        self.check("openai", "chat_completions", self.random_chat)


class BoundsTest(ReplayCase):
    def assert_bounds(self, found, oracle_share=ORACLE_SHARE):
        direct, oracle = found["direct"], found["oracle"]
        for name in ("pin", "stabilize"):
            self.assertEqual(found[name]["refused"], 0, found[name].get("refusal"))
            self.assertLessEqual(found[name]["cost_ratio"], 1.0001, f"{name}: bill")
            self.assertGreaterEqual(found[name]["cached_tokens"], direct["cached_tokens"], name)
        self.assertGreaterEqual(found["stabilize"]["cached_tokens"],
                                oracle_share * oracle["cached_tokens"], "stabilize")

    def test_agents_with_each_jitter(self):
        for shape in SHAPES:
            for jitter in ([], *([name] for name in JITTERS)):
                with self.subTest(shape=shape, jitter=jitter):
                    self.assert_bounds(self.replay(shape=shape, jitter=jitter, turns=TURNS))

    def test_agents_with_many_jitters_at_once(self):
        jitter = ["tools_order", "key_order", "timestamps", "reminders", "git_status", "billing"]
        for shape in SHAPES:
            with self.subTest(shape=shape):
                self.assert_bounds(self.replay(shape=shape, jitter=jitter, turns=TURNS))

    def test_agents_without_markers_of_their_own(self):
        for markers in ("none", "automatic"):
            with self.subTest(markers=markers):
                found = self.replay(markers=markers, turns=TURNS)
                self.assert_bounds(found)
                self.assertGreater(found["pin"]["hit_rate"], 0.5)

    def test_what_no_gateway_can_undo_costs_no_more_than_direct(self):
        for shape in SHAPES:
            for jitter in GENUINE:
                with self.subTest(shape=shape, jitter=jitter):
                    self.assert_bounds(self.replay(shape=shape, jitter=[jitter], turns=30), 0)

    def test_other_providers(self):
        for provider in ("deepseek", "xai", "moonshot", "raw"):
            for jitter in ([], ["date_cwd"], ["tools_order", "key_order"]):
                with self.subTest(provider=provider, jitter=jitter):
                    found = self.replay(shape="chat", jitter=jitter, turns=TURNS, provider=provider)
                    self.assertGreaterEqual(found["pin"]["cached_tokens"],
                                            found["direct"]["cached_tokens"])

    def test_other_traffic_costs_no_more_than_two_percent_above_direct(self):
        for shape in ("messages", "chat"):
            for kind in ("one_shots", "one_shots_rare", "unique", "under_minimum", "bursts",
                         "gaps"):
                with self.subTest(shape=shape, kind=kind):
                    found = self.replay(shape=shape, kind=kind, turns=40, markers="none",
                                        arguments=("--warmup", "20"))
                    for name in ("pin", "stabilize"):
                        self.assertLessEqual(found[name]["cost_ratio"], ONE_SHOT_COST, name)
                        self.assertEqual(found[name]["refused"], 0)


class SentTest(ReplayCase):
    """What reached the upstream means what the caller asked for."""

    def check_edits(self, lines, sent):
        for line in sent:
            came = lines[line["request"]]["body"]
            self.assertEqual(replay_runner.with_edits(came, line["edits"]), line["body"])

    def test_pin_changes_bytes_and_no_meaning(self):
        for shape in SHAPES:
            for jitter in (["tools_order", "key_order"], ["crlf"], ["reminders", "git_status"]):
                with self.subTest(shape=shape, jitter=jitter):
                    lines, sent = self.sent(("pin",), shape=shape, jitter=jitter, turns=10)
                    self.check_edits(lines, sent)
                    for line in sent:
                        came = lines[line["request"]]["body"]
                        self.assertEqual(replay_runner.meaning_of_body(line["body"]),
                                         replay_runner.meaning_of_body(came))

    def test_stabilize_invents_no_line_and_loses_none_but_volatile_ones(self):
        for shape in SHAPES:
            for jitter in JITTERS:
                with self.subTest(shape=shape, jitter=jitter):
                    self.check_lines(*self.sent(("stabilize",), shape=shape, jitter=[jitter],
                                                turns=10))

    def check_lines(self, lines, sent):
        self.check_edits(lines, sent)
        told = {}  # by conversation: every line that its client has sent until now
        system_told = {}  # and those of its system prompt, which alone the gateway's own turns hold
        for line in sent:
            if line["column"] == "direct":
                continue
            came = lines[line["request"]]
            asked = replay_runner.meaning_of_body(came["body"])
            got = replay_runner.meaning_of_body(line["body"])
            for name in set(asked) | set(got):
                if name not in ("system", "instructions", "messages", "input"):
                    self.assertEqual(asked.get(name), got.get(name))
            wanted, found = replay_runner.prompt_lines(asked), replay_runner.prompt_lines(got)
            known = told.setdefault(came["conversation"], set())
            known.update(wanted)
            self.assertEqual(
                [text for text in found if text not in known | FRAME | {"developer"}], [])
            front = system_told.setdefault(came["conversation"], set())
            front.update(replay_runner.prompt_lines(replay_runner.system_of(asked)))
            for turn in got.get("messages", got.get("input")):
                if turn.get("role") == "developer":
                    self.assertLessEqual(set(replay_runner.prompt_lines(turn["content"])), front)
            missing = [text for text in wanted if text not in found]
            cut = "".join(came["body"].encode()[edit["begin"]:edit["end"]].decode()
                          for edit in line["edits"] if edit["rule"].startswith("volatile_"))
            self.assertEqual([text for text in missing if json.dumps(text)[1:-1] not in cut], [])
            # What nobody reads keeps its first value; all else is said, among results as well.
            self.assertEqual([text for text in missing if not text.startswith(BILLING)], [])

    def test_a_clean_client_is_changed_by_the_planner_only(self):
        planner = {"cache_control", "ttl_dropped", "prompt_cache_key", "breakpoints",
                   "conversation_id"}
        for shape in SHAPES:
            with self.subTest(shape=shape):
                _, sent = self.sent(("pin",), shape=shape, turns=10)
                self.assertLessEqual({edit["rule"] for line in sent for edit in line["edits"]},
                                     planner)

    def test_subscriptions_are_sent_byte_for_byte(self):  # V2
        options = Options(jitter=["tools_order", "timestamps", "billing", "crlf"], turns=8,
                          markers="none")
        with replay_runner.Trace(options) as path:
            trace = self.folder / "oauth.jsonl"
            lines = replay_runner.json_lines(path)
            trace.write_text("".join(json.dumps({**line, "credential": "oauth"}) + "\n"
                                     for line in lines))
        kept = self.folder / "sent.jsonl"
        status, _, problem = self.run_replay(trace, "--sent", str(kept))
        self.assertEqual(status, 0, problem)
        sent = replay_runner.json_lines(kept)
        self.assertEqual({line["column"] for line in sent},
                         {"direct", "observe", "pin", "stabilize"})
        for line in sent:
            self.assertEqual(line["body"], lines[line["request"]]["body"])
            self.assertEqual(line["edits"], [])
        self.assertEqual(stat.S_IMODE(os.stat(kept).st_mode), 0o600)


class CommandTest(ReplayCase):
    def test_exit_status_by_threshold(self):
        with replay_runner.Trace(Options(turns=6)) as path:
            met = self.run_replay(path, "--modes", "pin", "--min-hit-rate", "0.5")
            self.assertEqual(met[0], 0, met[2])
            status, out, problem = self.run_replay(path, "--min-hit-rate", "0.999")
            self.assertEqual(status, 1)
            self.assertIn("stabilize at anthropic: hit rate", problem)
            self.assertIn("oracle", out)
            self.assertEqual(self.run_replay(path, "--max-cost-ratio", "0.01")[0], 1)
            self.assertEqual(self.run_replay(path, "--min-oracle-ratio", "0.2")[0], 0)
            for wrong in (("--modes", "guess"), ("--rules-off", "none"), ("--provider", "openai"),
                          ("--prices", str(self.folder / "none.json"))):
                self.assertEqual(self.run_replay(path, *wrong)[0], 2, wrong)
        self.assertEqual(self.run_replay(self.folder / "none.jsonl")[0], 2)

    def test_record_writes_what_replay_reads(self):
        trace = self.folder / "trace.jsonl"
        with Simulator() as provider:
            config = self.folder / "kvgate.toml"
            config.write_text(f'[[upstream]]\nname = "main"\ndialect = "anthropic"\n'
                              f'provider = "anthropic"\nbase_url = "{provider.url}"\n'
                              'models = ["claude-*"]\n')
            running = Recorder(trace, self.folder / "data", ["--config", str(config)])
            self.addCleanup(running.__exit__)
            running.start()
            bodies = [line["body"] for line in self.lines(Options(turns=3))]
            for body in bodies:
                reply = running.send("/v1/messages", body.encode(), {
                    "x-api-key": "sk-secret-1", "anthropic-version": "2023-06-01"})
                self.assertEqual(reply.status, 200, reply.body)
            self.assertEqual(running.terminate(), 0)
        text = trace.read_text()
        self.assertNotIn("sk-secret-1", text)
        self.assertEqual(stat.S_IMODE(os.stat(trace).st_mode), 0o600)
        lines = [json.loads(line) for line in text.splitlines()]
        self.assertEqual([line["body"] for line in lines], bodies)
        self.assertGreater(lines[1]["usage"]["cache_read_tokens"], 5000)
        self.assertIn("prompt", running.log())
        status, out, problem = self.run_replay(trace, "--json", "--modes", "observe")
        self.assertEqual(status, 0, problem)
        direct = json.loads(out)["providers"]["anthropic"]["direct"]
        self.assertEqual(direct["cached_tokens"],
                         sum(line["usage"]["cache_read_tokens"] for line in lines))

    def lines(self, options):
        with replay_runner.Trace(options) as path:
            return replay_runner.json_lines(path)


class Recorder(server.Server):
    def __init__(self, trace, data_dir, arguments):
        super().__init__(None, data_dir, arguments)
        self.trace = trace

    def command(self):
        program, _, *rest = super().command()
        return [program, "record", "--out", str(self.trace), *rest]


if __name__ == "__main__":
    unittest.main()
