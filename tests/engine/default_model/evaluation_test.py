#!/usr/bin/env python3
"""The model that kvgate brings along answers what it is for: the held-out questions, through the
program; and the same words on every run, whatever was cached."""

import unittest

import model_case
import server
from model_case import SCRIPTS, ModelCase

import evaluate

# Shares of right answers, a little below what the release has (MODEL_CARD.md).
FLOORS = {"facts": 0.71, "reading_200": 0.55, "reading_1000": 0.5, "tools": 0.52}
MODEL = SCRIPTS / "kvgate-default.gguf"


class EvaluationTest(ModelCase):
    def serve(self):
        model_case.program()
        running = server.Server(None, self.folder / "data", ["--set", "engine.kv_memory=256MiB"])
        self.addCleanup(running.__exit__)
        return running.start()

    def test_the_held_out_questions(self):
        running = self.serve()
        results = evaluate.evaluate(evaluate.Server(f"http://{running.address}"), list(FLOORS))
        for kind, floor in FLOORS.items():
            self.assertGreaterEqual(results[kind]["share"], floor, kind)

    def test_it_stands_under_its_name_and_says_who_it_is(self):
        running = self.serve()
        names = [model["id"] for model in running.get("/v1/models").json["data"]]
        self.assertEqual(names, ["kvgate-default", "local"])
        reply = running.chat([{"role": "user", "content": "Who are you?"}], temperature=0,
                             ignore_eos=False, max_tokens=60, model="kvgate-default")
        self.assertEqual(reply.status, 200, reply.body)
        self.assertIn("kvgate", reply.text)

    def test_greedy_answers_are_the_same_on_every_run_and_tier(self):
        messages = [{"role": "user", "content": "kvgate keeps KV in tiers. " * 150 +
                     "\n\nWhat is a KV cache?"}]
        said = []
        running = self.serve()
        for _ in range(2):
            said.append(running.chat(messages, temperature=0, ignore_eos=False, max_tokens=60))
        self.assertGreater(said[1].cached_tokens, 0)
        running.wait_on_disk()
        running.kill()
        running.start()
        said.append(running.chat(messages, temperature=0, ignore_eos=False, max_tokens=60))
        engine = running.stats()["engine"]
        # On a busy disk the engine computes what it could have loaded, and counts that.
        self.assertGreater(said[2].tier("disk") + engine["restores_cut"] +
                           engine["restores_skipped"], 0)
        self.assertEqual(len({reply.answer for reply in said}), 1)


if __name__ == "__main__":
    unittest.main()
