#!/usr/bin/env python3
"""What requests would have cost directly, as records say it by estimate, beside what the same
requests do cost when they go to the same provider unchanged."""

import http.client
import json
import sys
import unittest
from pathlib import Path

import server
from case import Case, text_of
from modes_test import messages_turn, tools

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

from provider_simulator import Simulator  # noqa: E402

TURNS = 10
# The provider and the gateway count tokens differently, and cut pieces at other places.
WITHIN = 0.06


def clock(turn):
    return f"The time is 2026-11-27T10:{turn:02}:17Z, call {turn}."


def system_of(turn, place):
    """A system text of about 2,500 tokens, with a line that changes."""
    lines = [text_of(n, 40) for n in range(40)]
    lines.insert({"front": 0, "middle": 20, "end": 40, "nowhere": 0}[place],
                 text_of(99, 40) if place == "nowhere" else clock(turn))
    return "\n".join(lines)


def marked(body):
    """With the breakpoints that a careful agent sets itself."""
    body["system"] = [{"type": "text", "text": body["system"],
                       "cache_control": {"type": "ephemeral"}}]
    last = body["messages"][-1]
    last["content"] = [{"type": "text", "text": last["content"],
                        "cache_control": {"type": "ephemeral"}}]
    return body


def chat_turn(turn, place, model):
    said = [{"role": "system", "content": system_of(turn, place)}]
    for number in range(turn):
        said += [{"role": "user", "content": f"step {number}: {text_of(100 + number, 120)}"},
                 {"role": "assistant", "content": f"did {number}: {text_of(300 + number, 60)}"}]
    said.append({"role": "user", "content": f"step {turn}: {text_of(100 + turn, 120)}"})
    made = [{"type": "function", "function": {"name": tool["name"],
                                              "description": tool["description"],
                                              "parameters": tool["input_schema"]}}
            for tool in tools()]
    return {"model": model, "max_tokens": 50, "tools": made, "messages": said}


class DirectCostTest(Case):
    def start(self, mode):
        provider = Simulator().__enter__()
        self.addCleanup(provider.__exit__)
        prices = self.folder / "prices.json"
        prices.write_text(json.dumps({"date": "2026-10", "unit": "dollars", "providers": {
            "openai": [{"models": ["gpt-old"], "input": 2, "output": 8, "cache_read_factor": 0.25,
                        "cache_write_factor": 1, "source": "a test", "date": "2026-10",
                        "rules": {"minimum_tokens": 2048, "increment_tokens": 128,
                                  "ttl_seconds": 300}}]}}))
        text = f'[ledger]\nprices = "{prices}"\n'
        for name, dialect, url in (("anthropic", "anthropic", provider.url),
                                   ("openai", "openai", provider.url + "/v1")):
            for kind, kind_mode in (("through", mode), ("direct", "observe")):
                text += (f'[[upstream]]\nname = "{name}-{kind}"\ndialect = "{dialect}"\n'
                         f'provider = "{name}"\nbase_url = "{url}"\nmode = "{kind_mode}"\n')
        config = self.folder / f"{mode}.toml"
        config.write_text(text)
        data = self.folder / f"data-{provider.port}"
        running = server.Server(None, data, ["--config", str(config)]).start()
        self.addCleanup(running.__exit__)
        return running

    def cost(self, running, path, body, upstream):
        kind = upstream.partition("-")[2]
        headers = {"Content-Type": "application/json", "x-kvgate-upstream": upstream,
                   "anthropic-version": "2023-06-01", "Authorization": f"Bearer sk-{kind}",
                   "x-api-key": f"sk-{kind}"}
        headers.pop("Authorization" if path == "/v1/messages" else "x-api-key")
        connection = http.client.HTTPConnection(*running.address.split(":"), timeout=30)
        try:
            connection.request("POST", path, json.dumps(body).encode(), headers)
            response = connection.getresponse()
            data = response.read()
        finally:
            connection.close()
        self.assertEqual(response.status, 200, data)
        record = self.record_of(running, response.getheader("x-kvgate-request-id"))
        self.assertIsNotNone(record["cost"], record)
        return record["cost"]

    def compare(self, mode, name, path, make):
        """Sums of a conversation: (paid through kvgate, its estimate of direct, paid directly)."""
        running = self.start(mode)
        paid = estimate = direct = 0
        for turn in range(TURNS):
            cost = self.cost(running, path, make(turn), f"{name}-through")
            paid += cost["nanodollars"]
            estimate += cost["direct_nanodollars"]
            cost = self.cost(running, path, make(turn), f"{name}-direct")
            self.assertEqual(cost["direct_nanodollars"], cost["nanodollars"], "nothing was changed")
            direct += cost["nanodollars"]
        totals = running.stats()["ledger"]["totals"]["by_upstream"][f"{name}-through"]
        self.assertEqual(totals["direct_nanodollars"], estimate)
        rows = running.get("/kvgate/v1/stats?step=day&by=upstream").json["data"]
        row = next(one for one in rows if one["name"] == f"{name}-through")
        self.assertEqual(row["direct_nanodollars"], estimate)
        print(f"{mode:10} {path:21} paid {paid / 1e9:.5f} $, directly {direct / 1e9:.5f} $, "
              f"estimated {estimate / 1e9:.5f} $ ({estimate / direct - 1:+.1%})", file=sys.stderr)
        return paid, estimate, direct

    def check(self, mode, name, path, make, saves):
        paid, estimate, direct = self.compare(mode, name, path, make)
        self.assertLess(abs(estimate / direct - 1), WITHIN)
        if saves:
            self.assertLess(paid, 0.9 * direct)

    def test_an_agent_without_breakpoints_has_them_set(self):
        self.check("pin", "anthropic", "/v1/messages", lambda turn: messages_turn(
            turn, system=system_of(turn, "nowhere")), saves=True)

    def test_an_agent_with_breakpoints_and_a_clock(self):
        for place in ("front", "end"):
            with self.subTest(place=place):
                self.check("stabilize", "anthropic", "/v1/messages", lambda turn: marked(
                    messages_turn(turn, system=system_of(turn, place))), saves=True)

    def test_an_agent_whose_tools_shuffle(self):
        self.check("pin", "anthropic", "/v1/messages", lambda turn: marked(
            messages_turn(turn, seed=turn, system=system_of(turn, "nowhere"))), saves=True)

    def test_a_cache_that_writes_at_the_newest_turn(self):
        for place in ("nowhere", "middle"):
            with self.subTest(place=place):
                self.check("stabilize", "openai", "/v1/chat/completions",
                           lambda turn: chat_turn(turn, place, "gpt-6-sol"),
                           saves=place != "nowhere")

    def test_a_cache_by_increments_reads_up_to_the_clock(self):
        for place in ("nowhere", "front", "end"):
            with self.subTest(place=place):
                self.check("stabilize", "openai", "/v1/chat/completions",
                           lambda turn: chat_turn(turn, place, "gpt-old"),
                           saves=place == "front")

    def test_what_goes_out_as_it_came_costs_what_it_costs(self):
        paid, estimate, _ = self.compare("observe", "anthropic", "/v1/messages",
                                         lambda turn: marked(messages_turn(turn)))
        self.assertEqual(paid, estimate)


if __name__ == "__main__":
    unittest.main()
