#!/usr/bin/env python3
"""Every program of examples/, run as its README says: what it prints, and that it ends well."""

import http.client
import json
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

import sdk_build
import server
from case import Case

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/support"))

from provider_simulator import Simulator  # noqa: E402

SECONDS_MAX = 120
# Those that a client test runs, because they need npm: tests/clients/examples.test.mjs.
NODE = {"agent_framework.mjs", "remote_session.mjs"}
TESTED = {"agent_tools.cc", "chat_session.cc", "cost_report.cc", "fallback.cc", "serve.cc",
          "structured.cc", "warm_prefix.cc", "python_chat.py"}


class ExamplesTest(Case):
    def setUp(self):
        super().setUp()
        self.binaries = sdk_build.build_tree() / "examples"
        if not (self.binaries / "chat_session").exists():
            self.skip_unless_required(f"{self.binaries}/chat_session is not built")

    def skip_unless_required(self, why):
        if os.environ.get("KVGATE_E2E_REQUIRED") == "1":
            self.fail(why)
        self.skipTest(why)

    def command(self, name):
        if name.endswith(".py"):
            sdk_build.need_library(self)
            return [sys.executable, ROOT / "examples" / name]
        return [self.binaries / name]

    def run_example(self, name, *arguments, said="", code=0, **environment):
        """What it prints; it runs in a folder of its own."""
        made = subprocess.run([*self.command(name), *map(str, arguments)], input=said, text=True,
                              capture_output=True, cwd=self.folder, timeout=SECONDS_MAX,
                              env={**os.environ, **sdk_build.python_environment(), **environment})
        self.assertEqual(made.returncode, code, made.stdout + made.stderr)
        return made.stdout if code == 0 else made.stderr

    def on_tiny(self, name, **more):
        return self.run_example(name, self.tiny().resolve(), self.folder / "data", **more)

    def numbers(self, pattern, text):
        """The numbers of each line that has such a form."""
        found = [tuple(map(int, match)) if isinstance(match, tuple) else int(match)
                 for match in re.findall(pattern, text)]
        self.assertTrue(found, f"no {pattern} in:\n{text}")
        return found

    def test_each_example_is_run_and_is_short(self):
        names = {path.name for path in (ROOT / "examples").iterdir()
                 if path.suffix in (".cc", ".py", ".mjs")}
        self.assertEqual(names, TESTED | NODE)
        readme = (ROOT / "examples/README.md").read_text()
        for name in names:
            self.assertLessEqual(len((ROOT / "examples" / name).read_text().splitlines()), 100)
            self.assertIn(name, readme)

    def test_a_session_is_remembered_forked_and_goes_on_the_next_time(self):
        said = "I am Ada.\nWho am I?\n/fork second\nAnd now?\n/history\n"
        printed = self.on_tiny("chat_session", said=said)
        prompts = self.numbers(r"\[(\d+) tokens of prompt, (\d+) from the cache\]", printed)
        self.assertEqual(len(prompts), 3)
        for (before, _), (tokens, cached) in zip(prompts, prompts[1:]):
            self.assertGreater(tokens, before)  # the history is in it, although it was not sent
            self.assertGreater(cached, before // 2)
        self.assertIn("[second: 2 turns]", printed)
        self.assertIn("[second: 3 turns]", printed)
        again = self.on_tiny("chat_session", said="Still there?\n")
        self.assertIn("[tutor: 3 turns]", again)
        tokens, cached = self.numbers(r"\[(\d+) tokens of prompt, (\d+) from the cache\]", again)[0]
        self.assertGreater(tokens, prompts[1][0])

    def test_the_same_program_runs_against_a_server(self):
        running = self.serve()
        printed = self.run_example("chat_session", f"http://{running.address}", said="Hello\n")
        self.assertIn("[tutor: 1 turns]", printed)
        self.assertEqual(running.get("/kvgate/v1/sessions/tutor").json["turns"], 1)

    def test_python_runs_against_a_server(self):
        running = self.serve()
        printed = self.run_example("python_chat.py", f"http://{running.address}")
        self.assertIn("kept: 2 turns", printed)

    def test_an_agent_calls_its_tools_and_hears_what_they_say(self):
        printed = self.on_tiny("agent_tools")
        calls = re.findall(r"call \d+: (\w+) (\{.*\})", printed)
        self.assertTrue(calls, printed)
        self.assertEqual(len(calls), printed.count("told: "))
        for name, arguments in calls:
            self.assertIn(name, ("count_parts", "order_parts"))
            self.assertIn(json.loads(arguments)["part"], ("bolt", "nut", "washer"))
        self.assertIn("answer: ", printed)

    def test_a_pinned_prefix_is_found_by_the_next_process(self):
        form = r"warm: (\d+) tokens, (\d+) found, (\d+) computed"
        printed = self.on_tiny("warm_prefix")
        tokens, found, computed = self.numbers(form, printed)[0]
        self.assertEqual((found, computed), (0, tokens))
        asked, cached = self.numbers(r"question: (\d+) tokens, (\d+) from the cache", printed)[0]
        self.assertGreaterEqual(cached, tokens - 32)
        self.assertGreater(asked, tokens)
        self.assertRegex(printed, r"pinned: handbook, \d+ tokens")
        again = self.on_tiny("warm_prefix")
        tokens, found, computed = self.numbers(form, again)[0]
        self.assertGreaterEqual(found, tokens - 32)
        self.assertLess(computed, 64)

    def test_structured_output_is_of_its_schema(self):
        printed = self.on_tiny("structured")
        found = re.findall(r"severity (\w+), component ([a-z]{3,12}), (\d+) users, restart (\w+)",
                           printed)
        self.assertEqual(len(found), 2, printed)
        for severity, _, users, restart in found:
            self.assertIn(severity, ("low", "high", "critical"))
            self.assertLessEqual(int(users), 9999)
            self.assertIn(restart, ("yes", "no"))
        self.assertRegex(printed, "a wrong schema: INVALID_ARGUMENT: .*schema")

    def test_the_second_upstream_answers_for_the_first(self):
        with Simulator() as first, Simulator() as second:
            first.faults += ["status:503:1", "close", "status:529:1"]
            printed = self.run_example("fallback", f"{first.url}/v1", f"{second.url}/v1", "gpt-5.5",
                                       PROVIDER_KEY="sk-test")
            self.assertEqual(self.numbers(r"question (\d), answered by second", printed), [1, 2, 3])
            self.assertIn("answered by the second one so far: 3\n", printed)
            self.assertTrue(first.requests, "the first one was never asked")
            self.assertEqual(json.loads(second.requests[-1].body)["model"], "gpt-5.5")
        # Without either, the error says so.
        said = self.run_example("fallback", first.url, second.url, "gpt-5.5", code=1)
        self.assertRegex(said, "error: (UNAVAILABLE|INTERNAL): ")

    def test_costs_come_from_the_ledger(self):
        with Simulator() as provider:
            config = self.folder / "kvgate.toml"
            config.write_text(f'[[upstream]]\nname = "p"\ndialect = "openai"\n'
                              f'provider = "openai"\nbase_url = "{provider.url}/v1"\n'
                              f'models = ["gpt-*"]\n')
            running = server.Server(None, self.folder / "data", ["--config", str(config)]).start()
            self.addCleanup(running.__exit__)
            body = {"model": "gpt-5.5", "messages": [{"role": "user", "content": "word " * 3000}]}
            for _ in range(2):
                self.assert_ok(running.send("/v1/chat/completions", body,
                                            {"Authorization": "Bearer sk-test"}))
            running.terminate()
        printed = self.run_example("cost_report", config, self.folder / "data")
        rows = re.findall(r"^gpt-5.5 +(\d+) +(\d+) +(\d+) +([\d.]+) +([\d.]+)$", printed, re.M)
        self.assertEqual(len(rows), 2, printed)
        self.assertGreater(int(rows[0][1]), 1024)  # the newest stands first: it read the cache
        self.assertLess(float(rows[0][3]), float(rows[0][4]))
        self.assertGreater(float(rows[1][3]), 0)
        self.assertIn("2 requests in all: $0.", printed)

    def test_a_program_serves_what_it_embeds(self):
        program = subprocess.Popen([self.binaries / "serve", self.tiny(), self.folder / "data"],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL, text=True)
        with program:
            try:
                address = re.search("http://([^/]+)/v1", program.stdout.readline()).group(1)
                self.assertIn("asked from inside: ", program.stdout.readline())
                connection = http.client.HTTPConnection(address, timeout=SECONDS_MAX)
                connection.request("POST", "/v1/chat/completions", json.dumps(
                    {"model": "local", "max_tokens": 4,
                     "messages": [{"role": "user", "content": "Hi"}]}),
                    {"Content-Type": "application/json"})
                answer = json.loads(connection.getresponse().read())
                self.assertEqual(answer["object"], "chat.completion")
                connection.close()
                printed, _ = program.communicate(timeout=SECONDS_MAX)
            finally:
                program.kill()
        self.assertEqual(program.returncode, 0)
        self.assertIn("served 2 requests", printed)

    def test_python_chats_in_a_session_and_cancels(self):
        printed = self.on_tiny("python_chat.py")
        (first, _), (second, cached) = self.numbers(
            r"\[(\d+) tokens of prompt, (\d+) from the cache\]", printed)
        self.assertGreater(second, first)
        self.assertGreater(cached, first // 2)
        self.assertIn("kept: 2 turns", printed)
        self.assertIn("cancelled: CANCELLED", printed)
        self.assertIn("NOT_FOUND", self.run_example("python_chat.py", "none.gguf", code=1))

    def test_errors_are_said_and_end_the_program(self):
        for name in ("chat_session", "agent_tools", "warm_prefix", "structured", "serve"):
            said = self.run_example(name, self.folder / "none.gguf", code=1)
            self.assertIn("error: NOT_FOUND", said, name)
        self.assertIn("error: ", self.run_example("cost_report", "none.toml", code=1))
        self.assertIn("error: UNAVAILABLE",
                      self.run_example("chat_session", "http://127.0.0.1:9", said="Hi\n", code=1))

    @unittest.skipUnless(os.environ.get("KVGATE_TEST_FULL") == "1", "KVGATE_TEST_FULL=1")
    def test_without_arguments_they_bring_their_own_model(self):
        for name in sorted(TESTED):  # it is made once
            with self.subTest(name):
                self.assertTrue(self.run_example(name.removesuffix(".cc"), said="Hi\n"))

    @unittest.skipUnless(os.environ.get("KVGATE_TEST_FULL") == "1", "KVGATE_TEST_FULL=1")
    def test_they_are_built_outside_of_the_tree(self):
        sdk_build.need_library(self)
        built = sdk_build.build(ROOT / "examples", self.folder / "build", self.folder)
        self.binaries = built / "examples"
        self.assertIn("[tutor: 1 turns]", self.on_tiny("chat_session", said="Hi\n"))


if __name__ == "__main__":
    unittest.main()
