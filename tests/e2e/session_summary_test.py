#!/usr/bin/env python3
"""Rolling summaries of sessions, through the real binary: 200 turns with tool calls at the local
engine and at a provider's simulated cache, private keys, kill -9, the command line."""

import http.client
import json
import os
import random
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path

import server
from agent_loop_test import PLAIN, tool
from case import FULL, Case, text_of, wait_until

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

from provider_simulator import Simulator  # noqa: E402

TURNS = 200
KILLS = 100 if FULL else 10
WRITERS = 3
WARM = 0.3  # of the prompts that are sent first after a kill
KEY = "KVGATE_TEST_SUMMARY_KEY"
SYSTEM = "You work in a repository. " + text_of("system", 60)


def bare(part):
    """Without cache breakpoints, which are no part of a prompt."""
    if isinstance(part, dict):
        return {name: bare(value) for name, value in part.items() if name != "cache_control"}
    return [bare(value) for value in part] if isinstance(part, list) else part


def samples(running, name):
    """The values of a metric, by their labels."""
    text = running.get("/metrics").body.decode()
    return {line[len(name):].rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1])
            for line in text.splitlines() if line.startswith((name + " ", name + "{"))}


class SummaryCase(Case):
    def settle(self, running):
        """Waits until no summary is being made, as the time between two turns does."""
        wait_until(lambda: samples(running, "kvgate_session_folds_running") == {"": 0},
                   "no summary is being made")

    def folds(self, running, outcome):
        return samples(running, "kvgate_session_folds_total")[f'{{outcome="{outcome}"}}']

    def events(self, running, key="k", headers=None):
        """The events of a session's newest entries."""
        reply = running.get(f"/kvgate/v1/sessions/{key}", headers)
        self.assertEqual(reply.status, 200, reply.body)
        return [entry["compaction"] for entry in reply.json["data"] if entry["compaction"]]


class LocalSummaryTest(SummaryCase):
    TOOLS = [{"type": "function", "function": tool(i)} for i in range(2)]

    def start(self, window, more=()):
        template = self.folder / "plain.jinja"
        template.write_text(PLAIN)
        return self.serve(arguments=[
            "--chat-template", str(template), "--set", "sessions.mode=summary",
            "--set", f"sessions.window_hard={window}", *more])

    def turn(self, running, number, key="k"):
        """A call of a tool and its result take two turns; a third one only talks."""
        messages = [{"role": "user", "content": f"turn {number}: {text_of(number, 12)}"}]
        choice = "required" if number % 3 == 0 else "none"
        if number % 3 == 1:
            messages = [{"role": "tool", "tool_call_id": self.call, "content": text_of(number, 12)}]
        body = {"model": "local", "max_tokens": 300 if choice == "required" else 8,
                "temperature": 0, "tools": self.TOOLS, "tool_choice": choice,
                "parallel_tool_calls": False,
                "messages": [{"role": "system", "content": SYSTEM}, *messages]}
        reply = running.send("/v1/chat/completions", body, {"x-kvgate-session": key})
        self.assertEqual(reply.status, 200, reply.body)
        answer = reply.json["choices"][0]["message"]
        if choice == "required":
            self.call = answer["tool_calls"][0]["id"]
        return reply

    def test_two_hundred_turns_with_calls_stay_in_their_window_and_cached(self):
        for window in (3000, 6000, 8000) if FULL else (3000,):
            with self.subTest(window=window):
                running = self.start(window)
                prompt, cached, done = 0, 0, 0
                for number in range(TURNS):
                    reply = self.turn(running, number)
                    usage = reply.usage
                    self.assertLessEqual(usage["prompt_tokens"], window)
                    prompt += usage["prompt_tokens"]
                    cached += usage["prompt_tokens_details"]["cached_tokens"]
                    done += reply.headers["x-kvgate-compaction"].startswith("done;before=")
                    self.settle(running)
                print(f"window {window}: {prompt} tokens, {cached / prompt:.4f} cached, "
                      f"{done} summaries", file=sys.stderr)
                self.assertGreaterEqual(cached / prompt, 0.92, f"{cached} of {prompt}, {done}")
                self.assertGreaterEqual(self.folds(running, "stored"), 2)
                self.assertEqual(self.folds(running, "failed"), 0)
                # A summary's call reads all that was sent but its question, to a KV block.
                for event in self.events(running):
                    self.assertEqual(event["mode"], "summary")
                    tokens = event["summary"]["tokens"]
                    asked = len(event["summary"]["prompt"])
                    self.assertGreater(asked, 0)
                    self.assertGreater(tokens["cached"], event["tokens_before"] - 64)
                    self.assertLess(event["tokens_after"], event["tokens_before"])
                sums = running.get("/kvgate/v1/stats").json["ledger"]["totals"]["by_source"]
                self.assertGreater(sums["summary"]["cached_tokens"], 1000)
                self.assertEqual(self.turn(running, TURNS + 1).status, 200)
                running.kill()

    def test_a_prompt_beyond_the_window_waits_for_its_summary(self):
        running = self.start(3000, ["--set", "sessions.window_high=2500"])
        waited = 0
        for number in range(30):
            reply = self.turn(running, 3 * number + 2)  # nobody waits in between
            waited += reply.headers["x-kvgate-compaction"].startswith("done;")
            self.assertLessEqual(reply.usage["prompt_tokens"], 3000)
        self.settle(running)
        self.assertGreaterEqual(waited, 1)
        self.assertGreaterEqual(self.folds(running, "stored"), 1)

    def command(self, *arguments):
        done = subprocess.run([str(server.binary_path()), "sessions", *arguments, "--data-dir",
                               str(self.folder / "data")], capture_output=True, text=True,
                              timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        return done.stdout

    def test_the_command_line_makes_shows_and_takes_back(self):
        running = self.start(6000)
        for number in range(8):
            self.turn(running, 3 * number + 2)
        self.assertIn("summary:", self.command("compact", "k"))
        self.assertIn("builtin@1", self.command("show", "k"))
        with_summary = self.turn(running, 2)
        self.assertTrue(with_summary.headers["x-kvgate-compaction"].startswith("done;before="))
        self.assertIn("no longer counts", self.command("undo", "k"))
        without = self.turn(running, 2)
        self.assertGreater(without.usage["prompt_tokens"], with_summary.usage["prompt_tokens"])
        running.terminate()
        # Without a server it is still taken back, and nothing can be made.
        refused = subprocess.run([str(server.binary_path()), "sessions", "compact", "k",
                                  "--data-dir", str(self.folder / "data")], capture_output=True,
                                 text=True, timeout=60)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("kvgate serve", refused.stderr)
        self.assertIn("undoes", self.command("show", "k"))


class ProviderSummaryTest(SummaryCase):
    def start(self, window, api_key=True, more="", model=None):
        self.provider = Simulator().__enter__()
        self.addCleanup(self.provider.__exit__)
        config = self.folder / "kvgate.toml"
        config.write_text(
            f'[[upstream]]\nname = "anthropic"\ndialect = "anthropic"\n'
            f'base_url = "{self.provider.url}"\n' +
            (f'api_key_env = "{KEY}"\n' if api_key else "") +
            f'[sessions]\nmode = "summary"\nwindow_hard = {window}\n{more}')
        os.environ[KEY] = "sk-operator"
        self.addCleanup(os.environ.pop, KEY, None)
        self.running = server.Server(model, self.folder / "data", ["--config", str(config)])
        self.running.start()
        self.addCleanup(self.running.__exit__)

    HEADERS = {"anthropic-version": "2023-06-01", "x-kvgate-session": "k", "x-sim-words": "20"}
    TOOLS = [{"name": "look", "description": text_of("look", 40),
              "input_schema": {"type": "object", "properties": {"q": {"type": "string"}}}}]

    def turn(self, number, headers=None, **more):
        content = f"turn {number}: {text_of(number, 25)}"
        if number % 3 == 0:
            content += " call the tool"
        if number % 3 == 1:
            content = [{"type": "tool_result", "tool_use_id": self.call,
                        "content": text_of(number, 25)}]
        reply = self.running.send("/v1/messages", {
            "model": "claude-opus-5-5", "max_tokens": 400, "system": SYSTEM * 10,
            "tools": self.TOOLS, "messages": [{"role": "user", "content": content}], **more},
            {**self.HEADERS, **(headers or {})})
        self.assertEqual(reply.status, 200, reply.body)
        if number % 3 == 0:
            self.call = [block for block in reply.json["content"]
                         if block["type"] == "tool_use"][0]["id"]
        self.settle(self.running)
        return reply

    @staticmethod
    def tokens(usage):
        read, written = usage["cache_read_input_tokens"], usage["cache_creation_input_tokens"]
        return read, read + written + usage["input_tokens"]

    def test_two_hundred_turns_read_the_providers_cache(self):
        self.start(6000)
        read, prompt, done = 0, 0, 0
        for number in range(TURNS):
            reply = self.turn(number, {"x-kvgate-explain": "1"})
            now, all_now = self.tokens(reply.json["usage"])
            self.assertLessEqual(all_now, 6000)
            read, prompt = read + now, prompt + all_now
            if reply.headers["x-kvgate-compaction"].startswith("done;"):
                done += 1
                # What is stable is not written anew.
                for part in reply.json["kvgate"]["attribution"]:
                    if part["source"] in ("tools", "system"):
                        # Tokens by source are estimates.
                        self.assertGreater(part["cached_tokens"], 0.97 * part["tokens"], part)
            sent = json.loads(self.provider.requests[-1].body)
            self.assertEqual(sent["system"] if isinstance(sent["system"], str)
                             else sent["system"][0]["text"], SYSTEM * 10)
        print(f"provider: {prompt} tokens, {read / prompt:.4f} read, {done} summaries",
              file=sys.stderr)
        self.assertGreaterEqual(done, 2)
        self.assertGreaterEqual(read / prompt, 0.88, f"{read} of {prompt}, {done} summaries")
        for event in self.events(self.running):
            tokens = event["summary"]["tokens"]
            self.assertGreater(tokens["cached"] / tokens["input"], 0.8, event)
            self.assertGreater(event["summary"]["nanodollars"], 0)
        asked = [json.loads(request.body) for request in self.provider.requests
                 if b"## Open ends" in request.body]
        self.assertGreaterEqual(len(asked), done)
        sums = self.running.get("/kvgate/v1/stats").json["ledger"]["totals"]["by_source"]
        self.assertGreater(sums["summary"]["nanodollars"], 0)

    def test_a_callers_key_is_lent_only_within_its_requests_and_where_that_is_allowed(self):
        callers = {"x-api-key": "sk-callers"}
        self.start(1800, api_key=False)
        drops = 0
        for number in range(2, 62, 3):
            drops += self.turn(number, callers).headers["x-kvgate-compaction"].startswith("done;")
        self.assertGreaterEqual(drops, 1)
        self.assertEqual(len(self.provider.requests), 20)
        self.running.terminate()
        self.start(1800, api_key=False, more='summary_api_key = "caller"\n')
        for number in range(2, 62, 3):
            begun = len(self.provider.requests)
            self.turn(number, callers)
            # What is asked for the session is asked before its turn, never behind it.
            self.assertNotIn(b"## Open ends", self.provider.requests[-1].body)
            self.assertLessEqual(len(self.provider.requests), begun + 2)
        self.assertGreaterEqual(self.folds(self.running, "stored"), 1)

    def test_another_model_writes_and_is_told_the_folded_part_only(self):
        self.start(1800, api_key=False, more='summary_model = "local"\n', model=self.tiny())
        for number in range(2, 62, 3):
            self.turn(number, {"x-api-key": "sk-callers"})
        self.assertGreaterEqual(self.folds(self.running, "stored"), 1)
        event = self.events(self.running, headers={"x-api-key": "sk-callers"})[0]
        self.assertEqual(event["summary"]["model"], "llama-random-7")
        self.assertLess(event["summary"]["tokens"]["input"], 6000)
        self.assertEqual(len(self.provider.requests), 20)

    def test_what_is_private_is_not_told_to_the_model_that_writes_summaries(self):
        self.start(1800, more='summary_model = "claude-opus-5-5"\n', model=self.tiny())
        for private, asked in (("1", 0), ("0", 1)):
            key = f"private-{private}"
            for number in range(25):
                reply = self.running.send("/v1/chat/completions", {
                    "model": "local", "max_tokens": 4,
                    "messages": [{"role": "user", "content": text_of(number, 25)}]},
                    {"x-kvgate-session": key, "x-kvgate-private": private})
                self.assertEqual(reply.status, 200, reply.body)
                self.settle(self.running)
            model = self.events(self.running, key)[0]["summary"]["model"]
            self.assertEqual(model, "claude-opus-5-5" if asked else "llama-random-7")
            self.assertEqual(bool(self.provider.requests), bool(asked))

    def test_what_is_asked_for_after_a_restart_is_the_last_request_and_one_message(self):
        self.start(6000)
        how = {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"},
               "tool_choice": {"type": "auto"}, "metadata": {"user_id": "u"}}
        for number in range(2, 62, 3):
            self.turn(number, **how)
        last = json.loads(self.provider.requests[-1].body)
        self.running.kill()
        self.running.restart()
        reply = self.running.send("/kvgate/v1/sessions/k/compact", {},
                                  {"anthropic-version": "2023-06-01"})
        self.assertEqual(reply.status, 200, reply.body)
        asked = json.loads(self.provider.requests[-1].body)
        self.assertIn("## Open ends", json.dumps(asked["messages"][-1]))
        for name in set(last) | set(asked):
            if name not in ("messages", "max_tokens", "stream"):
                self.assertEqual(bare(asked.get(name)), bare(last.get(name)), name)
        num = len(last["messages"])
        self.assertEqual(bare(asked["messages"][:num]), bare(last["messages"]))
        self.assertEqual(len(asked["messages"]), num + 2)
        tokens = self.events(self.running)[-1]["summary"]["tokens"]
        self.assertGreater(tokens["cached"] / tokens["input"], 0.85, tokens)

    def test_a_summary_has_a_breakpoint_of_its_own(self):
        self.start(1800)
        for number in range(2, 92, 3):
            if self.turn(number).headers["x-kvgate-compaction"].startswith("done;"):
                break
        self.turn(95)
        sent = json.loads(self.provider.requests[-1].body)
        first = sent["messages"][0]["content"]
        self.assertIn("<summary>", first[0]["text"])
        self.assertIn("cache_control", first[0])
        marked = json.dumps(sent).count('"cache_control"')
        self.assertLessEqual(marked, 4)
        self.assertGreaterEqual(marked, 2)

    def test_a_provider_that_binds_thinking_takes_every_turn(self):
        self.start(2600)
        self.provider.thinks = True
        lost = 0
        for number in range(2, 92, 3):
            lost += len(self.turn(number).json.get("input_transformations", []))
        self.assertEqual(lost, 0, "thinking that the provider had to drop")
        self.assertGreaterEqual(self.folds(self.running, "stored"), 1)
        self.assertEqual(self.folds(self.running, "failed"), 0)

    def test_a_model_that_cannot_summarise_is_asked_less_and_less(self):
        prompt = self.folder / "prompt.txt"
        prompt.write_text("Please call the tool. {{part}} {{tokens}} {{kept_from}}")
        self.start(1800, more=f'summary_prompt = "{prompt}"\n')
        for number in range(2, 122, 3):
            reply = self.turn(number)
            self.assertLessEqual(self.tokens(reply.json["usage"])[1], 1800)
        failed, stored = self.folds(self.running, "failed"), self.folds(self.running, "stored")
        self.assertGreaterEqual(failed, 1)
        self.assertLessEqual(failed, 12)
        # The part alone is sent without tools, so that the next try succeeds.
        self.assertGreaterEqual(stored, 1)
        self.assertIn("calls a tool", self.running.log())


class SummaryKillTest(SummaryCase):
    def say(self, running, key, sent, stream=False):
        """One numbered turn; returns its number, and the reply where it was acknowledged."""
        number = sent[key]
        sent[key] += 1
        body = {"model": "local", "max_tokens": 4, "temperature": 0, "stream": stream,
                "messages": [{"role": "user",
                              "content": f"{key} {text_of(number, 8)} {number}"}]}
        said = running.send("/v1/chat/completions", body, {"x-kvgate-session": key})
        is_whole = said.status == 200 and (not said.events or said.done)
        return number, said if is_whole else None

    def write(self, running, key, acknowledged, sent, seed):
        rng = random.Random(seed)
        while True:
            try:
                number, said = self.say(running, key, sent, rng.random() < 0.5)
            except (OSError, http.client.HTTPException, json.JSONDecodeError):
                return
            if said is None:
                return
            acknowledged[key].append(number)

    def check(self, running, key, acknowledged):
        reply = running.get(f"/kvgate/v1/sessions/{key}")
        if not acknowledged and reply.status == 404:
            return 0
        self.assertEqual(reply.status, 200, reply.body)
        entries = reply.json["data"]
        turns = [entry for entry in entries if entry["input"]]
        for entry in entries:
            roles = [message["role"] for message in entry["input"] + entry["answer"]]
            if entry["input"]:
                self.assertEqual(roles, ["user", "assistant"], entry)
            else:
                self.assertEqual(roles, [])
                self.assertTrue(entry["compaction"]["summary"]["text"], entry)
        numbers = [int(turn["input"][0]["content"].split()[-1]) for turn in turns]
        self.assertEqual(numbers, sorted(set(numbers)), "doubled, or out of order")
        window = [number for number in acknowledged if not numbers or number >= numbers[0]]
        self.assertEqual([n for n in window if n not in numbers], [], "lost")
        return len(entries) - len(turns)

    def live(self, running, keys, acknowledged, sent, rng):
        """One life of the server, killed while turns are written; true if a summary was made."""
        writers = [threading.Thread(target=self.write, args=(
            running, key, acknowledged, sent, rng.random())) for key in keys]
        for writer in writers:
            writer.start()
        time.sleep(rng.uniform(0.1, 1.5))
        is_folding = samples(running, "kvgate_session_folds_running") != {"": 0}
        running.kill()
        for writer in writers:
            writer.join()
        running.restart()
        return is_folding

    def test_nothing_is_lost_while_summaries_are_under_way(self):
        rng = random.Random(815)
        running = self.serve(arguments=["--set", "sessions.window_hard=900",
                                        "--set", "sessions.mode=summary"])
        keys = [f"writer-{i}" for i in range(WRITERS)]
        acknowledged, sent = {key: [] for key in keys}, {key: 0 for key in keys}
        events, folding, prompt, cached = 0, 0, 0, 0
        for kill in range(KILLS * 4):  # more than KILLS only where no summary is made by then
            folding += self.live(running, keys, acknowledged, sent, rng)
            for key in keys:
                events += self.check(running, key, acknowledged[key])
                number, said = self.say(running, key, sent)
                self.assertIsNotNone(said)
                acknowledged[key].append(number)
                prompt += said.usage["prompt_tokens"]
                cached += said.cached_tokens
            if kill + 1 >= KILLS and events > 0 and folding > 0:
                break
        print(f"{kill + 1} kills, {folding} while a summary was made; {cached / prompt:.2f} of the "
              "next prompts were on the disk", file=sys.stderr)
        self.assertGreater(sum(len(found) for found in acknowledged.values()), KILLS)
        self.assertGreater(events, 0, "no summary was made")
        self.assertGreater(folding, 0, "none was under way")
        # What the last second computed is not on the disk yet.
        self.assertGreater(cached / prompt, WARM)


if __name__ == "__main__":
    unittest.main()
