#!/usr/bin/env python3
"""/metrics after mixed traffic: prompt tokens by source, state and tier sum to those of the
records, times of local and forwarded requests, names of before and of vLLM."""

import re
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

from case import Case, text_of, wait_until  # noqa: E402
from provider_simulator import Simulator  # noqa: E402

OPENAI = {"Authorization": "Bearer sk-test"}
ANTHROPIC = {"x-api-key": "sk-test", "anthropic-version": "2023-06-01"}
SOURCES = {"tools", "system", "examples", "history", "summary", "retrieval", "tool_results",
           "media", "user"}
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}


class Metrics:
    """A scrape: (name, labels) -> value."""

    def __init__(self, text):
        self.samples = {}
        for line in text.splitlines():
            if line.startswith("#") or not line:
                continue
            name, labels, value = re.fullmatch(r"([\w:]+)(?:\{(.*)\})? (\S+)", line).groups()
            found = dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels or ""))
            self.samples[(name, frozenset(found.items()))] = float(value)

    def of(self, name):
        return [(dict(labels), value) for (at, labels), value in self.samples.items() if at == name]

    def value(self, name, **labels):
        return self.samples[(name, frozenset(labels.items()))]

    def sum(self, name, **wanted):
        return sum(value for labels, value in self.of(name) if wanted.items() <= labels.items())


class MetricsTest(Case):
    def setUp(self):
        super().setUp()
        self.provider = Simulator().__enter__()
        self.addCleanup(self.provider.__exit__)

    def gateway(self, more=()):
        path = self.folder / "kvgate.toml"
        path.write_text(f"""
[[upstream]]
name = "open"
base_url = "{self.provider.url}/v1"
models = ["gpt-*", "emb-*"]
[[upstream]]
name = "main"
dialect = "anthropic"
base_url = "{self.provider.url}"
models = ["claude-*"]
""")
        return self.serve(arguments=["--config", str(path), *more])

    def scrape(self, running):
        return Metrics(running.get("/metrics").body.decode())

    def mixed_traffic(self, running):
        text = text_of("mixed", 1500)
        system = [{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}]
        count = 0

        def send(path, body, headers):
            nonlocal count
            self.assert_ok(running.send(path, body, headers))
            count += 1

        for turn in range(3):
            said = [{"role": "user", "content": f"turn {turn}"}]
            for stream in (False, True):
                send("/v1/messages", {"model": "claude-sonnet-4-5", "max_tokens": 20,
                                      "system": system, "messages": said, "stream": stream},
                     {**ANTHROPIC, "x-sim-fault": "drip:0.005"})
                more = {"stream_options": {"include_usage": True}} if stream else {}
                send("/v1/chat/completions", {"model": "gpt-5.5", "stream": stream, **more,
                                              "tools": [TOOL],
                                              "messages": [{"role": "system", "content": text},
                                                           *said]},
                     {**OPENAI, "x-sim-fault": "drip:0.005"})
                send("/v1/chat/completions", {"model": "local", "max_tokens": 6, "stream": stream,
                                              "tools": [TOOL],
                                              "messages": [{"role": "system", "content": text},
                                                           *said]}, OPENAI)
            send("/v1/responses", {"model": "gpt-5.5", "instructions": text, "input": f"{turn}"},
                 OPENAI)
            send("/v1/messages", {"model": "local", "max_tokens": 6, "system": text,
                                  "messages": said}, ANTHROPIC)
            send("/v1/completions", {"model": "local", "prompt": text, "max_tokens": 6}, OPENAI)
            send("/v1/completions", {"model": "local", "prompt": [text[:600], text[:300]],
                                     "n": 2, "max_tokens": 6}, OPENAI)
            send("/v1/embeddings", {"model": "emb-1", "input": text}, OPENAI)
        refused = running.send("/v1/chat/completions", {"model": "nobodys", "messages":
                                                           [{"role": "user", "content": "a"}]},
                               OPENAI)
        self.assertEqual(refused.status, 404)
        self.provider.faults.append("status:500")
        running.send("/v1/chat/completions",
                     {"model": "gpt-5.5", "messages": [{"role": "user", "content": "a"}]}, OPENAI)
        return count + 2

    def records(self, running, count):
        def all_of_them():
            found = running.get("/kvgate/v1/requests?limit=1000").json["data"]
            return found if len(found) >= count else None

        return wait_until(all_of_them, f"{count} records")

    def test_mixed_traffic(self):
        running = self.gateway()
        records = self.records(running, self.mixed_traffic(running))
        found = self.scrape(running)
        with self.subTest("sums"):
            self.sums_over_sources_and_over_tiers_are_those_of_the_records(found, records)
        with self.subTest("times"):
            self.times_are_observed_for_the_engine_and_for_upstreams_alike(found)
        with self.subTest("state"):
            self.upstreams_and_tiers_show_how_they_are(running, found)
        with self.subTest("names"):
            self.names_of_before_stand_for_one_more_version(found)

    def sums_over_sources_and_over_tiers_are_those_of_the_records(self, found, records):
        usages = [record["usage"] for record in records if record["usage"]]
        self.assertEqual({record["upstream"] for record in records if record["usage"]},
                         {"local", "open", "main"})
        whole = sum(usage["input_tokens"] for usage in usages)
        self.assertGreater(whole, 10_000)
        self.assertEqual(found.sum("kvgate_prompt_tokens_total"), whole)
        self.assertEqual(found.sum("kvgate_prompt_tokens_by_tier_total"), whole)
        for state, names in (("cached", ["cache_read_tokens"]), ("uncached", ["uncached_tokens"]),
                             ("written", ["cache_write_tokens", "cache_write_1h_tokens"])):
            wanted = sum(usage[name] for usage in usages for name in names)
            self.assertGreater(wanted, 0)
            self.assertEqual(found.sum("kvgate_prompt_tokens_total", state=state), wanted)
        self.assertEqual(found.value("kvgate_generation_tokens_total"),
                         sum(usage["output_tokens"] for usage in usages))
        read = sum(record["usage"]["cache_read_tokens"] for record in records
                   if record["usage"] and record["upstream"] != "local")
        self.assertEqual(found.value("kvgate_prompt_tokens_by_tier_total", tier="upstream"), read)
        self.assertGreater(found.value("kvgate_prompt_tokens_by_tier_total", tier="gpu"), 1000)
        self.assertEqual({labels["source"] for labels, _ in found.of("kvgate_prompt_tokens_total")},
                         SOURCES)
        for source in ("system", "tools", "user"):
            self.assertGreater(found.sum("kvgate_prompt_tokens_total", source=source), 0)
        cost = sum(record["cost"]["nanodollars"] for record in records if record["cost"])
        self.assertAlmostEqual(found.value("kvgate_cost_usd_total", kind="actual"), cost / 1e9)
        self.assertGreater(found.value("kvgate_cost_usd_total", kind="counterfactual"), 0)

    def times_are_observed_for_the_engine_and_for_upstreams_alike(self, found):
        for name in ("ttft_seconds", "itl_seconds", "tpot_seconds", "queue_seconds",
                     "prefill_seconds", "decode_seconds", "completion_seconds",
                     "prompt_length_tokens"):
            for upstream in ("local", "open", "main"):
                with self.subTest(name=name, upstream=upstream):
                    self.assertGreater(found.value(f"kvgate_{name}_count", upstream=upstream), 0)
        named = {labels["upstream"] for labels, _ in found.of("kvgate_ttft_seconds_count")}
        self.assertEqual(named, {"local", "open", "main"})

    def upstreams_and_tiers_show_how_they_are(self, running, found):
        self.assertEqual(found.value("kvgate_upstream_requests_active", upstream="open"), 0)
        self.assertEqual(found.value("kvgate_upstream_failed_total", upstream="open"), 1)
        self.assertEqual(found.value("kvgate_upstream_breaker_open", upstream="main"), 0)
        for tier in ("gpu", "ram", "disk"):
            ratio = found.value("kvgate_kv_utilization_ratio", tier=tier)
            self.assertTrue(0 <= ratio <= 1, ratio)
        self.assertGreater(found.value("kvgate_kv_used_bytes", tier="gpu"), 0)
        wait_until(lambda: self.scrape(running).value("kvgate_write_back_bytes_total") > 0,
                   "KV is written")
        self.assertGreater(self.scrape(running).value("kvgate_write_back_seconds_total"), 0)
        stats = running.get("/kvgate/v1/stats").json["upstreams"]
        self.assertEqual([row["name"] for row in stats], ["open", "main"])
        self.assertEqual(stats[0]["breaker"], "closed")
        self.assertEqual(stats[0]["failed"], 1)
        self.assertEqual(stats[1]["requests"], 6)
        self.assertGreater(stats[1]["ttft_us"]["p50"], 0)
        self.assertGreaterEqual(stats[1]["ttft_us"]["p99"], stats[1]["ttft_us"]["p50"])

    def test_the_breaker_of_an_upstream_that_is_down_shows(self):
        running = self.gateway()
        for _ in range(5):
            self.provider.faults.append("close")
            running.send("/v1/chat/completions",
                         {"model": "gpt-5.5", "messages": [{"role": "user", "content": "a"}]},
                         OPENAI)
        row = running.get("/kvgate/v1/stats").json["upstreams"][0]
        self.assertIn(row["breaker"], ("open", "half_open"))
        self.assertGreater(row["retry_us"], 0)
        self.assertGreaterEqual(row["failed"], 5)

    def names_of_before_stand_for_one_more_version(self, found):
        names = {name for name, _ in found.samples}
        for name in ("kvgate_engine_prompt_tokens_total", "kvgate_output_tokens_total",
                     "kvgate_ttft_seconds_count", "kvgate_itl_seconds_count",
                     "kvgate_completion_seconds_count", "kvgate_ledger_source_tokens_total",
                     "kvgate_session_compactions_total"):
            self.assertIn(name, names)

    def test_vllm_names_are_there_on_demand(self):
        plain = self.gateway()
        self.assertFalse([name for name, _ in self.scrape(plain).samples if ":" in name])
        config = self.folder / "vllm.toml"
        config.write_text('[metrics]\ncompat = ["vllm"]\n')
        running = self.serve(data_dir=self.folder / "other", arguments=["--config", str(config)])
        messages = [{"role": "user", "content": text_of("x", 300)}]
        for _ in range(2):
            self.assert_ok(running.chat(messages, max_tokens=8))
        found = self.scrape(running)
        model = running.get("/v1/models").json["data"][0]["id"]
        labels = {"model_name": model, "engine": "0"}
        for name in ("vllm:num_requests_running", "vllm:num_requests_waiting"):
            self.assertEqual(found.value(name, **labels), 0)
        self.assertEqual(found.value("vllm:generation_tokens_total", **labels), 16)
        prompt = found.value("vllm:prompt_tokens_total", **labels)
        self.assertEqual(found.sum("vllm:prompt_tokens_by_source_total"), prompt)
        self.assertEqual(found.value("vllm:prefix_cache_queries_total", **labels), prompt)
        self.assertGreater(found.value("vllm:prefix_cache_hits_total", **labels), 100)
        self.assertEqual(found.value("vllm:time_to_first_token_seconds_count", **labels), 2)
        self.assertEqual(found.value("vllm:inter_token_latency_seconds_count", **labels), 14)
        self.assertEqual(found.value("vllm:e2e_request_latency_seconds_count", **labels), 2)
        (info, one), = found.of("vllm:cache_config_info")
        self.assertEqual(one, 1)
        self.assertEqual(info["block_size"], "32")
        self.assertGreater(int(info["num_gpu_blocks"]), 0)


if __name__ == "__main__":
    unittest.main()
