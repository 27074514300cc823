#!/usr/bin/env python3
"""Older turns of sessions found by meaning, through the real binary: vectors of an upstream and of
the local engine, each made once, also after kill -9; a model that is slow or unknown."""

import json
import os
import re
import subprocess
import sys
import time
import unittest
from pathlib import Path

import server
from case import Case, text_of, wait_until
from embeddings_test import ENCODER

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

from provider_simulator import Simulator  # noqa: E402

KEY = "KVGATE_TEST_RECALL_KEY"
MODEL = "text-embedding-3-small"
SYNONYMS = [{"dog", "puppy", "hound"}, {"called", "name", "named"}, {"car", "vehicle"},
            {"garage", "workshop"}, {"parked", "stands"}]
FACTS = ("My dog is called Biscuit.", "The car is parked behind Zanzibar.")


class RecallTest(Case):
    HEADERS = {"anthropic-version": "2023-06-01", "x-kvgate-session": "k", "x-sim-words": "4",
               "authorization": "Bearer sk-of-a-caller"}

    def start(self, model=MODEL, more="", arguments=()):
        self.provider = Simulator().__enter__()
        self.provider.synonyms = SYNONYMS
        self.addCleanup(self.provider.__exit__)
        os.environ[KEY] = "sk-operator"
        self.addCleanup(os.environ.pop, KEY, None)
        config = self.folder / "kvgate.toml"
        config.write_text(f"""
[[upstream]]
name = "chat"
dialect = "anthropic"
base_url = "{self.provider.url}"
api_key_env = "{KEY}"
models = ["claude-*"]
[[upstream]]
name = "vectors"
dialect = "openai"
base_url = "{self.provider.url}/v1"
api_key_env = "{KEY}"
models = ["text-embedding-*"]
breaker_failures = 0
[sessions]
window_hard = 1200
retrieval_tokens = 300
retrieval = true
retrieval_model = "{model}"
{more}""")
        self.running = server.Server(None, self.folder / "data",
                                     ["--config", str(config), *arguments])
        self.running.start()
        self.addCleanup(self.running.__exit__)

    def say(self, text, headers=None):
        """Returns what the provider got."""
        reply = self.running.send("/v1/messages", {
            "model": "claude-opus-5-5", "max_tokens": 100,
            "messages": [{"role": "user", "content": text}]}, {**self.HEADERS, **(headers or {})})
        self.assertEqual(reply.status, 200, reply.body)
        chats = [one for one in self.provider.requests if one.path == "/v1/messages"]
        return chats[-1].body.decode()

    def say_much(self, count=12):
        for number in range(count):
            self.say(f"turn{number}x: {text_of(number, 110)}")

    def metric(self, name, **labels):
        total = 0
        for line in self.running.get("/metrics").body.decode().splitlines():
            found = re.fullmatch(name + r"\{(.*)\} (\d+)", line)
            if found and all(f'{key}="{value}"' in found[1] for key, value in labels.items()):
                total += int(found[2])
        return total

    def embedded(self):
        """The texts that were sent to be embedded: passages of what the user said, questions."""
        texts = [text for request in self.provider.requests if request.path == "/v1/embeddings"
                 for text in json.loads(request.body)["input"]]
        return ([text for text in texts if text.startswith("User: ")],
                [text for text in texts if not re.match("(User|Assistant): ", text)])

    def assert_in_the_ledger(self):
        sums = self.running.get("/kvgate/v1/stats").json["ledger"]["totals"]["by_source"]
        self.assertGreater(sums["retrieval"]["uncached_tokens"], 0, sums)

    def wait_for_vectors(self):
        """Until all passages of all turns have theirs."""
        shown = self.running.get(
            "/kvgate/v1/sessions/k", {"authorization": self.HEADERS["authorization"]}).json["data"]

        def are_made():
            said = " ".join(self.embedded()[0])
            is_counted = self.metric("kvgate_session_vectors_total", of="passage")
            return all(turn["input"][0]["content"][:12] in said for turn in shown) and is_counted
        wait_until(are_made, "vectors of all turns")
        # The rows are written a moment after that.
        time.sleep(0.1)

    def test_a_fact_is_found_in_other_words_and_each_passage_is_embedded_once(self):
        self.start()
        for fact in FACTS:
            self.say(fact)
        self.say_much()
        self.wait_for_vectors()
        self.assertIn("Biscuit", self.say("Which name did our puppy get?"))
        self.assertGreater(self.metric("kvgate_session_retrieval_total", by="meaning",
                                       outcome="found"), 0)
        self.assertNotIn("Zanzibar", self.say("Does anybody know about the weather?"))
        self.wait_for_vectors()
        before, questions = self.embedded()
        self.assertEqual(len(before), len(set(before)))
        self.assertIn("Which name did our puppy get?", questions)
        for request in self.provider.requests:
            if request.path == "/v1/embeddings":  # never with the caller's key
                self.assertEqual(request.header("authorization"), "Bearer sk-operator")
                self.assertEqual(request.header("x-sim-words"), "")
        self.running.kill()
        self.running.restart()
        self.assertIn("Zanzibar", self.say("Our vehicle stands at which workshop?"))
        self.wait_for_vectors()
        passages, _ = self.embedded()
        self.assertEqual(len(passages), len(set(passages)))
        self.assertLessEqual(len(passages) - len(before), 2)
        self.assert_in_the_ledger()

    def test_without_a_model_it_is_not_found(self):
        self.start(model="")
        self.say(FACTS[0])
        self.say_much()
        self.assertNotIn("Biscuit", self.say("Which name did our puppy get?"))
        self.assertIn("Biscuit", self.say("Which dog?"))
        self.assertEqual(self.embedded(), ([], []))
        self.assertEqual(self.metric("kvgate_session_retrieval_total", by="meaning"), 0)

    def test_a_model_that_is_slow_or_down_costs_a_turn_little(self):
        self.start()
        self.say(FACTS[0])
        self.say_much(8)
        self.wait_for_vectors()
        self.provider.faults.append("hang:20")  # the question's request comes first
        begin = time.monotonic()
        self.assertIn("Biscuit", self.say("Which dog?"))
        self.assertGreaterEqual(time.monotonic() - begin, 1.5)
        self.assertEqual(self.metric("kvgate_session_vector_failures_total", of="question"), 1)
        # Meanwhile it is not waited for.
        num_questions = len(self.embedded()[1])
        self.say("Which name did our puppy get?")
        self.assertEqual(len(self.embedded()[1]), num_questions)
        self.assertGreater(self.metric("kvgate_session_retrieval_total", by="words",
                                       outcome="found"), 0)

    def test_the_local_engines_model_makes_them_too(self):
        self.start(model="tiny-bert",
                   arguments=["--embedding-model", str(self.model(ENCODER, "tiny-bert"))])
        self.say_much(8)
        wait_until(lambda: self.metric("kvgate_session_vectors_total", of="passage") > 0,
                   lambda: self.running.log()[-1500:], 8)
        time.sleep(0.1)
        self.say("Which puppy?")
        self.assertEqual(self.metric("kvgate_session_vectors_total", of="question"), 1)
        self.assertEqual(self.embedded(), ([], []))
        self.assert_in_the_ledger()

    def test_a_model_that_nobody_serves_is_said_once(self):
        self.start(model="nobodys-model")
        self.say(FACTS[0])
        self.say_much(8)
        self.assertIn("Biscuit", self.say("Which dog?"))
        self.assertEqual(self.running.log().count("nobody serves the model 'nobodys-model'"), 1)
        self.assertEqual(self.metric("kvgate_session_vector_failures_total"), 0)
        done = subprocess.run([server.binary_path(), "doctor", "--config",
                               str(self.folder / "kvgate.toml"), "--data-dir",
                               str(self.folder / "other")], capture_output=True, text=True)
        self.assertIn("nobody serves the model 'nobodys-model'", done.stdout, done.stderr)


if __name__ == "__main__":
    unittest.main()
