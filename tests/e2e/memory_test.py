#!/usr/bin/env python3
"""Memory and retrieval of sessions, through the real binary: what a provider gets of facts that are
kept and of turns that were left out, what it reads from its cache meanwhile, kill -9, the command
line with a server and without."""

import json
import os
import random
import subprocess
import sys
import unittest
from pathlib import Path

import server
from case import Case, text_of

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

from provider_simulator import Simulator  # noqa: E402

KEY = "KVGATE_TEST_MEMORY_KEY"
PEOPLE = ("Amara Bjorn Chiara Dmitri Esther Farid Greta Hiroshi Ingrid Jamal Katya Lorenzo "
          "Mireille Nadia Oskar Priya Quentin Rosa Stellan Tomoko").split()
THINGS = (("{} keeps the spare key in drawer {}.", "In which drawer is the spare key of {}?"),
          ("{}'s parking space is number {}.", "Where may {} park, which space?"),
          ("The locker of {} opens with code {}.", "What code opens the locker of {}?"))


def facts_of(seed):
    """Sixty sentences, and a question for each."""
    draw = random.Random(seed)
    facts = [(told.format(person, draw.randrange(1000, 9999)), asked.format(person))
             for person in PEOPLE for told, asked in THINGS]
    draw.shuffle(facts)
    return facts


def said_by(body):
    """The texts of a prompt's messages, whatever breakpoints and blocks they are written in."""
    return [message["content"] if isinstance(message["content"], str)
            else "".join(block["text"] for block in message["content"])
            for message in json.loads(body)["messages"]]


class MemoryTest(Case):
    HEADERS = {"anthropic-version": "2023-06-01", "x-kvgate-session": "k", "x-sim-words": "12"}

    def start(self, more=""):
        self.provider = Simulator().__enter__()
        self.addCleanup(self.provider.__exit__)
        os.environ[KEY] = "sk-operator"
        self.addCleanup(os.environ.pop, KEY, None)
        config = self.folder / "kvgate.toml"
        config.write_text(f'[[upstream]]\nname = "anthropic"\ndialect = "anthropic"\n'
                          f'base_url = "{self.provider.url}"\napi_key_env = "{KEY}"\n'
                          f'[sessions]\n{more}')
        self.running = server.Server(None, self.folder / "data", ["--config", str(config)])
        self.running.start()
        self.addCleanup(self.running.__exit__)

    def say(self, text, headers=None):
        """Returns what the provider got, if older turns were left out for it, and its usage."""
        reply = self.running.send("/v1/messages", {
            "model": "claude-opus-5-5", "max_tokens": 400, "system": "You help. " + text_of(1, 300),
            "messages": [{"role": "user", "content": text}]}, {**self.HEADERS, **(headers or {})})
        self.assertEqual(reply.status, 200, reply.body)
        dropped = reply.headers["x-kvgate-compaction"].startswith("done;")
        return self.provider.requests[-1].body.decode(), dropped, reply.json["usage"]

    def ask(self, method, path, body=None):
        connection = self.running.connect()
        try:
            connection.request(method, path, None if body is None else json.dumps(body),
                               {} if body is None else {"Content-Type": "application/json"})
            reply = connection.getresponse()
            return server.Reply(reply.status, dict(reply.getheaders()), reply.read())
        finally:
            connection.close()

    def memory(self, method, path, body=None):
        reply = self.ask(method, path, body)
        self.assertEqual(reply.status, 200, reply.body)
        return reply.json

    def test_facts_of_long_ago_are_there_when_they_are_asked_for(self):
        self.start("window_hard = 5000\nretrieval = true\nretrieval_tokens = 500\n")
        facts, there, before, num_dropped = facts_of(1), 0, [], 0
        read, prompt = 0, 0
        self.memory("PUT", "/kvgate/v1/sessions/k/memory", {"facts": {"language": "Portuguese"}})
        for number in range(160):
            asked = []
            if number < 10:
                text = " ".join(told for told, _ in facts[6 * number:6 * number + 6])
            elif number >= 130:
                asked = facts[2 * (number - 130):2 * (number - 130) + 2]
                text = " ".join(question for _, question in asked)
            else:
                text = f"turn {number}: {text_of(number, 60)}"
            if number == 70:
                self.memory("PATCH", "/kvgate/v1/sessions/k/memory", {"facts": {"tea": "oolong"}})
            if number == 100:
                self.running.kill()
                self.running.restart()
            sent, dropped, usage = self.say(text)
            there += sum(told in sent for told, _ in asked)
            self.assertEqual(sent.count("Portuguese"), 1)
            self.assertEqual(sent.count("oolong"), 1 if number >= 70 else 0)
            now = said_by(sent)
            if not dropped:  # the prompt has only grown
                self.assertEqual(now[:len(before)], before)
            before, num_dropped = now, num_dropped + dropped
            read += usage["cache_read_input_tokens"]
            prompt += usage["cache_creation_input_tokens"] + usage["input_tokens"]
        share = read / (read + prompt)
        print(f"recalled {there} of 60, {num_dropped} windows, {share:.3f} of the tokens read",
              file=sys.stderr)
        # Each of the windows is a beginning that nobody has sent before, and nothing is lost.
        self.assertGreater(share, 0.88)
        self.assertGreaterEqual(there, 54)
        self.assertGreater(num_dropped, 2)
        self.assertLess(num_dropped, 20)

    def test_without_retrieval_they_are_not_and_a_request_may_say_so(self):
        self.start("window_hard = 3000\n")
        self.say("My dog is called Biscuit.")
        for number in range(50):
            self.say(f"turn {number}: {text_of(number, 40)}")
        self.assertNotIn("Biscuit", self.say("What is my dog called?")[0])
        sent, _, _ = self.say("So what is my dog called?", {"x-kvgate-retrieval": "on"})
        self.assertIn("[turn 1]\\nUser: My dog is called Biscuit.", sent)
        shown = self.running.get("/kvgate/v1/sessions/k").json
        self.assertIn("Biscuit", shown["data"][-1]["recalled"])
        reply = self.running.send("/v1/messages", {
            "model": "claude-opus-5-5", "max_tokens": 4,
            "messages": [{"role": "user", "content": "x"}]},
            {**self.HEADERS, "x-kvgate-retrieval": "maybe"})
        self.assertEqual(reply.status, 400)
        self.assertIn("x-kvgate-retrieval", reply.json["error"]["message"])

    def test_what_is_removed_is_in_no_prompt(self):
        self.start()
        self.memory("PUT", "/kvgate/v1/memory", {"facts": {"name": "Ann", "city": "Lisbon"}})
        self.assertIn("- name: Ann\\n- city: Lisbon\\n</memory>", self.say("hello")[0])
        self.memory("PUT", "/kvgate/v1/sessions/k/memory", {"facts": {"city": "Porto"}})
        sent, _, _ = self.say("more")
        self.assertEqual((sent.count("Lisbon"), sent.count("Porto")), (1, 1))
        self.running.kill()
        self.running.restart()
        self.memory("DELETE", "/kvgate/v1/memory/name")
        sent, _, _ = self.say("and more")
        self.assertNotIn("Ann", sent)
        self.assertEqual((sent.count("Lisbon"), sent.count("Porto")), (0, 1))
        self.memory("DELETE", "/kvgate/v1/memory")
        self.memory("DELETE", "/kvgate/v1/sessions/k/memory")
        self.assertNotIn("memory", self.say("end")[0])

    def test_bad_input_names_its_field(self):
        self.start()
        for body, field in (({"facts": 1}, "facts"), ({"facts": {"": 1}}, "facts."),
                            ({"facts": {"a": "x" * 3000}}, "facts.a"),
                            ({"retrieval": "on"}, "retrieval"), ({"fact": {}}, "fact")):
            reply = self.ask("PUT", "/kvgate/v1/memory", body)
            self.assertEqual(reply.status, 400, reply.body)
            self.assertEqual(reply.json["error"]["param"], field, reply.body)
        reply = self.ask("PUT", "/kvgate/v1/sessions/resp_kv1/memory", {"facts": {}})
        self.assertEqual(reply.status, 400, reply.body)

    def command(self, *arguments):
        done = subprocess.run([server.binary_path(), "sessions", "memory", *arguments, "--data-dir",
                               str(self.folder / "data")], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_the_command_line_works_with_a_server_and_without(self):
        self.start()
        self.command("--set", "language=German", "--set", "ports=[80,443]")
        said = self.command("k", "--set", "name=Ann", "--retrieval", "on")
        for line in ("  name: Ann", "  language: German", "  ports: [80,443]", "retrieval: on"):
            self.assertIn(line, said.splitlines())
        self.running.terminate()
        self.assertIn("  name: Ann", self.command("k").splitlines())
        self.command("k", "--rm", "name", "--set", "pet=Biscuit")
        self.command("--clear")
        self.running.restart()
        shown = self.memory("GET", "/kvgate/v1/sessions/k/memory")
        self.assertEqual((shown["facts"], shown["tenant_facts"], shown["retrieval"]),
                         ({"pet": "Biscuit"}, {}, True))

    SCHEMA = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 20},
                                               "age": {"type": "integer"}}}

    def test_facts_are_asked_for_behind_the_conversation(self):
        self.start()
        self.say("My name is Ann.")
        last = json.loads(self.say("What should I read?")[0])["messages"]
        reply = self.ask("POST", "/kvgate/v1/sessions/k/memory/extract", {"schema": self.SCHEMA})
        # The simulated model writes words, and no object.
        self.assertEqual(reply.status, 503, reply.body)
        self.assertIn("no JSON object", reply.json["error"]["message"])
        asked = self.provider.requests[-1]
        self.assertEqual(said_by(asked.body)[:len(last)],
                         said_by(json.dumps({"messages": last})))
        self.assertEqual(len(said_by(asked.body)), len(last) + 2)  # an answer, and the question
        self.assertNotIn("output_config", json.loads(asked.body))
        shown = self.running.get("/kvgate/v1/sessions/k").json
        self.assertEqual(len(shown["data"]), 2)
        # What may be thought counts against the limit, and the last request's form is not the one.
        reply = self.running.send("/v1/messages", {
            "model": "claude-opus-5-5", "max_tokens": 9000, "stop_sequences": ["x"],
            "thinking": {"type": "enabled", "budget_tokens": 8000},
            "messages": [{"role": "user", "content": "And now?"}]}, self.HEADERS)
        self.assertEqual(reply.status, 200, reply.body)
        self.ask("POST", "/kvgate/v1/sessions/k/memory/extract", {"schema": self.SCHEMA})
        asked = json.loads(self.provider.requests[-1].body)
        self.assertGreater(asked["max_tokens"], 8000)
        self.assertEqual(asked["thinking"]["budget_tokens"], 8000)
        self.assertNotIn("stop_sequences", asked)
        reply = self.ask("POST", "/kvgate/v1/sessions/k/memory/extract", {"schema": {}})
        self.assertEqual((reply.status, reply.json["error"]["param"]), (400, "schema.properties"))


class ExtractionTest(Case):
    def test_the_local_engine_writes_facts_of_the_schema_in_every_dialect(self):
        with server.Server(None, self.folder / "data", []) as running:
            said = [{"role": "user", "content": "My name is Ann."}]
            for path, body in (
                    ("/v1/chat/completions", {"messages": said, "max_tokens": 8}),
                    ("/v1/messages", {"messages": said, "max_tokens": 8}),
                    ("/v1/responses", {"input": said, "max_output_tokens": 8})):
                key = path.rpartition("/")[2]
                reply = running.send(path, {"model": "kvgate-default", **body},
                                     {"x-kvgate-session": key})
                self.assertEqual(reply.status, 200, reply.body)
                reply = running.send(f"/kvgate/v1/sessions/{key}/memory/extract",
                                     {"schema": MemoryTest.SCHEMA}, {})
                self.assertEqual(reply.status, 200, reply.body)
                facts = reply.json["facts"]
                self.assertEqual(reply.json["refused"], [])
                self.assertEqual(sorted(facts), sorted(reply.json["changed"]))
                self.assertLessEqual(set(facts), {"name", "age"})
                self.assertIsInstance(facts.get("name", ""), str)
                self.assertIsInstance(facts.get("age", 0), int)


if __name__ == "__main__":
    unittest.main()
