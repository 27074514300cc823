#!/usr/bin/env python3
"""The corpus: the same bytes for a seed, well-formed conversations, and nothing of the held-out."""

import json
import os
import re
import subprocess
import sys
import unittest

from model_case import ROOT, SCRIPTS, ModelCase

import chat  # noqa: E402
import deeds  # noqa: E402
import documents  # noqa: E402
import facts  # noqa: E402
import generate  # noqa: E402
import needles  # noqa: E402
import reading  # noqa: E402
import recall  # noqa: E402
import summaries  # noqa: E402
import toolbox  # noqa: E402
import tools  # noqa: E402
import wording  # noqa: E402
import world  # noqa: E402
from draw import Draw  # noqa: E402

HELDOUT = json.loads((SCRIPTS / "heldout.json").read_text())


class CorpusTest(ModelCase):
    @classmethod
    def setUpClass(cls):
        cls.conversations = list(generate.Corpus(5).conversations(3e6))

    def test_a_seed_gives_the_same_bytes_in_every_process(self):
        written = []
        for hash_seed in ("0", "4711"):
            path = self.folder / hash_seed
            subprocess.run([sys.executable, SCRIPTS / "corpus/generate.py", "--out", path,
                            "--megabytes", "0.3", "--seed", "9"], check=True,
                           env={**os.environ, "PYTHONHASHSEED": hash_seed})
            written.append(path.read_bytes())
        self.assertGreater(len(written[0]), 300_000)
        self.assertEqual(written[0], written[1])

    def test_another_seed_gives_another_corpus(self):
        first, second = (generate.Corpus(seed).make() for seed in (1, 2))
        self.assertNotEqual(first, second)

    def test_turns_are_of_known_roles_and_end_with_the_model(self):
        for made in self.conversations:
            roles = [message["role"] for message in made["messages"]]
            self.assertEqual(roles[-1], "assistant", made)
            self.assertLessEqual(set(roles), {"system", "user", "assistant", "tool"})
            self.assertNotIn("system", roles[1:])
            for index, role in enumerate(roles):
                if role == "tool":
                    self.assertTrue(made["messages"][index - 1].get("tool_calls"), made)

    def test_all_kinds_are_there_and_reading_is_a_large_share(self):
        size = {}
        for made in self.conversations:
            size[made["kind"]] = size.get(made["kind"], 0) + len(chat.render(made))
        self.assertEqual(set(size), {"knowledge", "reading", "recall", "tools", "summary"})
        share = (size["reading"] + size["recall"]) / sum(size.values())
        self.assertGreater(share, 0.4)
        self.assertGreater(size["knowledge"] / sum(size.values()), 0.2)
        self.assertGreater(size["tools"] / sum(size.values()), 0.15)

    def test_calls_fit_the_schema_of_the_tool_that_they_name(self):
        calls = 0
        for made in self.conversations:
            offered = {t["function"]["name"]: t["function"]["parameters"]
                       for t in made.get("tools", [])}
            self.assertEqual(len(offered), len(made.get("tools", [])), "tools of one name")
            for message in made["messages"]:
                for call in message.get("tool_calls", []):
                    calls += 1
                    self.check_call(offered[call["function"]["name"]],
                                    call["function"]["arguments"])
        self.assertGreater(calls, 500)

    def check_call(self, schema, given):
        self.assertLessEqual(set(given), set(schema["properties"]))
        self.assertLessEqual(set(schema.get("required", [])), set(given))
        self.assertEqual(list(given), [key for key in schema["properties"] if key in given])
        for key, value in given.items():
            wanted = schema["properties"][key]
            for item in value if wanted["type"] == "array" else [value]:
                kind = wanted["items"]["type"] if wanted["type"] == "array" else wanted["type"]
                self.assertIsInstance(item, {"string": str, "integer": int, "boolean": bool,
                                             "number": (int, float)}[kind])
                self.assertEqual(isinstance(item, bool), kind == "boolean")
            if "enum" in wanted:
                self.assertIn(value, wanted["enum"])

    def test_what_a_call_says_stands_in_its_request(self):
        asked = 0
        for made in self.conversations:
            for before, message in zip(made["messages"], made["messages"][1:]):
                for call in message.get("tool_calls", []):
                    for value in call["function"]["arguments"].values():
                        if isinstance(value, str):
                            asked += 1
                            self.assertIn(value.lower().replace("_", " "),
                                          before["content"].lower().replace("_", " "))
        self.assertGreater(asked, 500)

    def test_what_is_read_stands_in_the_text(self):
        asked = 0
        for seed, part in ((21, "train"), (22, "unseen")):
            rng = Draw.of(seed, part)
            for _ in range(400):
                text = reading.Text(rng, reading.length(rng, 16000))
                for question, answer, _ in text.questions:
                    asked += 1
                    # Rows that are tables lie in it by parts, sentences begin with a capital.
                    self.assertIn(answer.lower(), text.text.lower(), question)
        self.assertGreater(asked, 3000)

    def test_a_question_of_a_text_has_one_answer(self):
        rng = Draw.of(23)
        for _ in range(300):
            answers = {}
            for question, answer, _ in reading.Text(rng, reading.length(rng, 16000)).questions:
                self.assertEqual(answers.setdefault(question.lower(), answer), answer, question)

    def test_what_is_recalled_stands_before_it(self):
        rng = Draw.of(24)
        for _ in range(300):
            messages = recall.conversation(rng)["messages"]
            for message in messages[1::2]:
                for part in re.split(r"\n", message["content"]):
                    if ", " not in part and " " not in part:
                        self.assertIn(part, messages[0]["content"])

    def test_a_tenth_of_the_patterns_is_in_no_text_that_is_trained_on(self):
        for patterns in (documents.PROSE, documents.RECORDS, world.FORMS["questions"],
                         world.FORMS["statements"], tools.ARCHETYPES, toolbox.REQUESTS,
                         deeds.ORDERS, needles.NEEDLES, wording.KINDS["how"]):
            self.assertFalse([p for p in patterns.unseen if p in patterns.seen
                              and patterns.all.count(p) == 1])
            self.assertGreaterEqual(len(patterns.unseen), len(patterns) // 10)
            self.assertLess(len(patterns.unseen), len(patterns) / 4)
        held = {archetype[2] for archetype in tools.ARCHETYPES.unseen}
        for made in self.conversations:
            for tool in made.get("tools", []):
                said = tool["function"]["description"].lower()
                self.assertFalse([text for text in held if text.lower() in said])

    def test_facts_are_many_and_have_several_wordings(self):
        known = facts.load()
        self.assertGreaterEqual(len({fact.name.removesuffix(":reverse") for fact in known}), 400)
        rng = generate.Corpus(1).rng
        for fact in known:
            self.assertTrue(fact.answers, fact.name)
            self.assertGreaterEqual(len({facts.turns(rng, fact)[0]["content"]
                                         for _ in range(60)}), 10, fact.name)

    def test_no_gap_of_a_template_is_left_open(self):
        for made in self.conversations:
            for message in made["messages"]:
                if message["role"] != "tool" and made["kind"] in ("knowledge", "tools"):
                    self.assertNotRegex(message.get("content") or "",
                                        r"(?<!\{)\{[a-z]+\}(?!\})|\[[a-z ]+\|")

    def test_summaries_are_asked_for_in_the_words_of_sessions(self):
        source = (ROOT / "gateway/session/summary/summary_prompt.cc").read_text()
        self.assertIn("{{kept_from}}", summaries.ASK)
        self.assertTrue(summaries.ASK.startswith("The conversation grows beyond its window."))
        self.assertTrue(summaries.ASK.endswith("what is in them or became of them"))
        headings = re.findall(r"## [A-Z][a-z ]+", source)
        self.assertEqual(re.findall(r"## [A-Z][a-z ]+", summaries.ASK), headings)
        self.assertEqual(["## " + part for part in summaries.Plan(generate.Corpus(1).rng).parts],
                         headings)

    def test_the_held_out_is_in_no_corpus(self):
        text = "\n".join(path.read_text().lower() for path in (SCRIPTS / "corpus").rglob("*.*")
                         if path.suffix in (".txt", ".py"))
        for item in HELDOUT["facts"]:
            self.assertNotIn(item["question"].lower().rstrip("?."), text)
        for item in HELDOUT["reading"]:
            self.assertNotIn(item["text"].lower()[:40], text)
        names = {archetype[0] for archetype in tools.ARCHETYPES.all}
        names |= {tool["function"]["name"] for made in self.conversations
                  for tool in made.get("tools", [])}
        self.assertFalse(len(names & set(HELDOUT["toolbox"])))
        verbs = {word for each, _ in toolbox.VERBS.all for word in each}
        objects = {word for each, _ in toolbox.OBJECTS.all for word in each}
        for name in HELDOUT["toolbox"]:
            verb, *rest = name.split("_")
            self.assertFalse(verb in verbs and "_".join(rest) in objects, name)

    def test_the_held_out_is_complete(self):
        self.assertEqual([len(HELDOUT[kind]) for kind in ("facts", "reading", "tools")],
                         [60, 40, 50])
        for item in HELDOUT["reading"]:
            self.assertIn(item["keywords"][0][0], item["text"])
        for item in HELDOUT["tools"]:
            if item["call"]:
                self.assertIn(item["call"]["name"], item["tools"])
                schema = HELDOUT["toolbox"][item["call"]["name"]]["parameters"]
                self.assertLessEqual(set(schema["required"]), set(item["call"]["arguments"]))


if __name__ == "__main__":
    unittest.main()
