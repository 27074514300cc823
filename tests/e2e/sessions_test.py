#!/usr/bin/env python3
"""Sessions by a key, through the real binary: what the model sees, windows, kill -9, the command
line."""

import gzip
import http.client
import json
import random
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path

import server
from case import FULL, Case, text_of

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

from preserved_thinking import KINDS, bare, blocks_of  # noqa: E402
from provider_simulator import Simulator  # noqa: E402

KILLS = 100 if FULL else 10
WRITERS = 4


class SessionsCase(Case):
    def say(self, running, key, text, stream=False, path="/v1/chat/completions", **more):
        """One new turn; returns the reply."""
        headers = {"x-kvgate-session": key, "x-kvgate-explain": "1", **more.pop("headers", {})}
        body = {"model": "local", "max_tokens": 4, "stream": stream, "temperature": 0,
                "messages": [{"role": "user", "content": text}], **more}
        return running.send(path, body, headers)

    def shown(self, running, key):
        reply = running.get(f"/kvgate/v1/sessions/{key}")
        self.assertEqual(reply.status, 200, reply.body)
        return reply.json

    def remove(self, running, place):
        """Removes one session, or all of them; returns what is said of it."""
        connection = running.connect()
        try:
            connection.request("DELETE", f"/kvgate/v1/sessions{place}")
            reply = connection.getresponse()
            body = json.loads(reply.read())
        finally:
            connection.close()
        self.assertEqual(reply.status, 200, body)
        return body

    def command(self, *arguments, **more):
        done = subprocess.run([str(server.binary_path()), *arguments, "--data-dir",
                               str(self.folder / "data")], capture_output=True, text=True,
                              timeout=60, **more)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        return done.stdout


class SessionTest(SessionsCase):
    def test_a_session_is_as_its_transcript_and_reads_its_cache(self):
        running = self.serve()
        transcript = []
        for turn in range(6):
            text = text_of(f"turn {turn}", 60)
            transcript.append({"role": "user", "content": text})
            whole = running.send("/v1/chat/completions", {
                "model": "local", "max_tokens": 4, "temperature": 0, "messages": transcript})
            said = self.say(running, "k", text, stream=turn % 2 == 1)
            self.assertEqual(said.status, 200, said.body)
            self.assertEqual(said.headers["x-kvgate-compaction"], "none")
            self.assertEqual(said.answer, whole.answer, f"turn {turn}")
            if turn > 0:
                self.assertGreater(said.cached_tokens, 60 * turn)
            transcript.append({"role": "assistant", "content": said.text})
        shown = self.shown(running, "k")
        self.assertEqual(shown["turns"], 6)
        running.kill()
        running.restart()
        self.assertEqual(self.shown(running, "k"), shown)
        text = text_of("last", 20)
        transcript.append({"role": "user", "content": text})
        again = self.say(running, "k", text)
        whole = running.send("/v1/chat/completions", {
            "model": "local", "max_tokens": 4, "temperature": 0, "messages": transcript})
        self.assertEqual(again.answer, whole.answer)

    def test_prompts_stay_in_their_window_and_cached_in_between(self):
        running = self.serve(arguments=["--set", "sessions.window_hard=1500"])
        prompt_tokens, cached_tokens, drops = 0, 0, 0
        for turn in range(40):
            said = self.say(running, "k", text_of(f"turn {turn}", 25))
            self.assertEqual(said.status, 200, said.body)
            usage = said.usage
            self.assertLessEqual(usage["prompt_tokens"], 1500)
            drops += said.headers["x-kvgate-compaction"].startswith("done;before=")
            prompt_tokens += usage["prompt_tokens"]
            cached_tokens += usage["prompt_tokens_details"]["cached_tokens"]
        self.assertGreaterEqual(drops, 1)
        self.assertLessEqual(drops, 8)
        self.assertGreater(cached_tokens / prompt_tokens, 0.7,
                           f"{cached_tokens} of {prompt_tokens}, {drops} drops")
        too_long = self.say(running, "k", text_of("long", 3000))
        self.assertEqual(too_long.status, 400)
        self.assertEqual(too_long.error["code"], "context_length_exceeded")
        self.assertEqual(self.shown(running, "k")["turns"], 40)

    def test_the_command_line_shows_copies_moves_and_removes(self):
        running = self.serve()
        self.say(running, "k", "first words")
        self.say(running, "k", "second words")
        self.assertIn("k ", self.command("sessions", "ls"))
        self.assertIn("> second words", self.command("sessions", "show", "k"))
        turn = json.loads(self.command("sessions", "show", "k", "--json"))["data"][0]["id"]
        self.command("sessions", "fork", "k", "forked", "--turn", turn)
        self.assertEqual(self.shown(running, "forked")["turns"], 1)
        file = self.folder / "k.jsonl"
        self.command("sessions", "export", "k", str(file))
        self.assertEqual(len(file.read_text().splitlines()), 3)
        self.command("sessions", "rm", "k")
        running.terminate()
        # Without a server it works on the directory.
        self.command("sessions", "import", str(file))
        self.assertIn("> first words", self.command("sessions", "show", "k"))
        running.restart()
        self.assertEqual(self.shown(running, "k")["turns"], 2)
        said = self.command("chat", "--session", "k", "--max-tokens", "2", input="third words")
        self.assertTrue(said)
        self.assertEqual(self.shown(running, "k")["turns"], 3)
        self.assertIn("2 sessions removed", self.command("sessions", "purge"))
        self.assertEqual(running.get("/kvgate/v1/sessions").json["data"], [])

    def test_the_kv_goes_that_nobody_shares(self):
        running = self.serve()
        system = {"role": "system", "content": text_of("the system", 60)}

        def first(key):
            return {"messages": [system, {"role": "user", "content": text_of(f"{key} first", 60)}]}

        for key in ("k", "other"):
            self.assert_ok(self.say(running, key, "", **first(key)))
            self.assert_ok(self.say(running, key, text_of(f"{key} second", 60), stream=True))
        fork = {"key": "fork", "turn": self.shown(running, "k")["data"][0]["id"]}
        self.assert_ok(running.send("/kvgate/v1/sessions/k/fork", fork))
        self.assert_ok(self.say(running, "fork", text_of("fork second", 60)))
        running.wait_on_disk()
        before = running.stats()["store"]["records"]
        removed = self.remove(running, "/k")
        self.assertTrue(removed["deleted"])
        self.assertGreater(removed["kv_records"], 1)
        self.assertEqual(running.stats()["store"]["records"], before - removed["kv_records"])
        running.terminate()
        running.restart()
        for key in ("other", "fork"):  # all that they said is there
            said = self.assert_ok(self.say(running, key, text_of("third", 60)))
            self.assertGreater(said.cached_tokens, 300, key)
        running.wait_on_disk()
        self.assertGreater(self.remove(running, "/fork")["kv_records"], 8)
        purged = self.remove(running, "")
        self.assertEqual(purged["deleted"], 1)
        self.assertEqual(running.stats()["store"]["records"], 0, purged)

    def test_without_stored_turns_it_is_refused(self):
        running = self.serve(arguments=["--set", "store.turns=false"])
        refused = self.say(running, "k", "hi")
        self.assertEqual(refused.status, 400)
        self.assertIn("store.turns", refused.error["message"])
        recognised = self.say(running, "k", "hi", headers={"x-kvgate-session-mode": "recognise"})
        self.assertEqual(recognised.status, 200, recognised.body)


class ManySessionsTest(SessionsCase):
    def resident_mib(self, running):
        status = Path(f"/proc/{running.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) // 1024

    def test_memory_does_not_grow_with_the_number_of_sessions(self):
        """KVGATE_TEST_FULL=1: a hundred thousand. What prompts are compared with has its own bound,
        which is small here, so that it is reached early."""
        number = 100_000 if FULL else 300
        running = self.serve(arguments=["--set", "engine.kv_memory=64MiB",
                                        "--set", "cache.prompt_memory=16MiB"])
        body = json.dumps({"model": "local", "max_tokens": 1,
                           "messages": [{"role": "user", "content": "hi"}]})
        connection = running.connect()
        times, memory = [], []
        for i in range(number):
            begin = time.perf_counter()
            connection.request("POST", "/v1/chat/completions", body, {
                "Content-Type": "application/json", "x-kvgate-session": f"many-{i}"})
            reply = connection.getresponse()
            self.assertEqual(reply.status, 200, reply.read())
            reply.read()
            times.append(time.perf_counter() - begin)
            if (i + 1) % (number // 10) == 0:
                memory.append(self.resident_mib(running))
        connection.close()
        times.sort()
        print(f"{number} sessions: {1e3 * times[number // 2]:.2f} ms a request, "
              f"{1e3 * times[number * 99 // 100]:.2f} at p99; MiB by tenths: {memory}",
              file=sys.stderr)
        if FULL:
            self.assertLess(memory[-1] - memory[1], 64)
        self.assertEqual(self.shown(running, "many-0")["turns"], 1)


class SessionUpstreamTest(SessionsCase):
    """A provider that binds thinking to its prefix: what is lost or changed of it is refused."""

    SYSTEM = "You are a careful agent. " + text_of("system", 600)

    def start(self, more=""):
        self.provider = Simulator().__enter__()
        self.addCleanup(self.provider.__exit__)
        self.provider.thinks = True
        config = self.folder / "kvgate.toml"
        config.write_text(f'[[upstream]]\nname = "anthropic"\ndialect = "anthropic"\n'
                          f'base_url = "{self.provider.url}"\n{more}')
        self.running = server.Server(None, self.folder / "data", ["--config", str(config)])
        self.running.start()
        self.addCleanup(self.running.__exit__)

    def turn(self, number, encoded=False):
        """Says one thing; returns the turns that the provider got, and the answer's headers."""
        body = json.dumps({
            "model": "claude-sonnet-5-5", "max_tokens": 60, "system": self.SYSTEM,
            "messages": [{"role": "user", "content": f"{number}: {text_of(number, 30)}"}]}).encode()
        headers = {"x-api-key": "sk-test", "anthropic-version": "2023-06-01",
                   "x-kvgate-session": "agent"}
        if encoded:
            body, headers["content-encoding"] = gzip.compress(body), "gzip"
        reply = self.running.send("/v1/messages", body, headers)
        self.assertEqual(reply.status, 200, reply.body)
        sent = json.loads(self.provider.requests[-1].body)
        self.assertNotIn(b"x-kvgate", self.provider.requests[-1].head)
        self.assertEqual(blocks_of(sent["system"]), blocks_of(self.SYSTEM))
        return sent["messages"], reply.headers

    def test_thinking_comes_back_whole_and_prompts_only_grow(self):
        self.start()
        before = []
        for number in range(12):
            turns, headers = self.turn(number, encoded=number % 3 == 2)
            self.assertEqual(headers["x-kvgate-compaction"], "none")
            self.assertEqual(len(turns), 2 * number + 1)
            now = [(turn["role"], blocks_of(turn["content"])) for turn in turns]
            self.assertEqual(now[:len(before)], before, f"turn {number}")
            for role, blocks in now:
                thinks = any(block["type"] in KINDS for block in blocks)
                self.assertEqual(thinks, role == "assistant", bare(blocks))
            before = now
            if number % 5 == 4:
                self.running.kill()
                self.running.restart()

    def test_a_window_is_no_change_that_the_provider_refuses(self):
        self.start("[sessions]\nwindow_hard = 1600\n")
        drops = 0
        for number in range(24):
            turns, headers = self.turn(number)
            drops += headers["x-kvgate-compaction"].startswith("done;")
            self.assertIn(f"{number}: ", turns[-1]["content"] if isinstance(
                turns[-1]["content"], str) else turns[-1]["content"][-1]["text"])
            self.assertLess(len(turns), 48)
        self.assertGreaterEqual(drops, 1)
        kept = self.running.get("/kvgate/v1/sessions/agent", {"x-api-key": "sk-test"})
        self.assertEqual(kept.json["turns"], 24)


class SessionKillTest(SessionsCase):
    def write(self, running, key, acknowledged, sent, stop, seed):
        """Says numbered turns until stopped or the server is gone; notes what was acknowledged."""
        rng = random.Random(seed)
        while not stop.is_set():
            number = sent[key]
            sent[key] += 1
            try:
                said = self.say(running, key, f"{key} says {number}", stream=rng.random() < 0.5)
            except (OSError, http.client.HTTPException, json.JSONDecodeError):
                return
            if said.status != 200 or said.events and not said.done:
                return
            acknowledged[key].append(number)

    def check(self, running, key, acknowledged, seen):
        """All that was acknowledged is there, once and whole, in its order."""
        turns = self.shown(running, key)["data"] if acknowledged else []
        for turn in turns:
            self.assertEqual([m["role"] for m in turn["input"] + turn["answer"]],
                             ["user", "assistant"], turn)
        numbers = [int(turn["input"][0]["content"].split()[-1]) for turn in turns]
        self.assertEqual(numbers, sorted(set(numbers)), "doubled, or out of order")
        window = [number for number in acknowledged if not numbers or number >= numbers[0]]
        self.assertEqual([n for n in window if n not in numbers], [], "lost")
        self.assertGreaterEqual(len(numbers), min(len(acknowledged), 100))
        seen[0] += len(numbers)

    def test_no_acknowledged_turn_is_lost_torn_or_doubled(self):
        rng = random.Random(4711)
        running = self.serve(arguments=["--set", "sessions.window_hard=600"])
        keys = [f"writer-{i}" for i in range(WRITERS)]
        acknowledged = {key: [] for key in keys}
        sent = {key: 0 for key in keys}
        seen = [0]
        for kill in range(KILLS):
            stop = threading.Event()
            writers = [threading.Thread(target=self.write, args=(
                running, key, acknowledged, sent, stop, rng.random())) for key in keys]
            for writer in writers:
                writer.start()
            time.sleep(rng.uniform(0.02, 0.5))
            running.kill()
            stop.set()
            for writer in writers:
                writer.join()
            running.restart()
            for key in keys:
                self.check(running, key, acknowledged[key], seen)
        self.assertGreater(sum(len(found) for found in acknowledged.values()), KILLS)
        self.assertGreater(seen[0], KILLS)


if __name__ == "__main__":
    unittest.main()
