#!/usr/bin/env python3
"""Prompts by name and version, through the real binary: what providers and the engine get, who
shares a cached prefix, roll-outs, sessions, the API, and what is counted by version."""

import http.client
import json
import signal
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

import server  # noqa: E402
from case import Case, text_of, wait_until  # noqa: E402
from otlp_collector import Collector  # noqa: E402
from provider_simulator import Simulator  # noqa: E402

KEY = {"Authorization": "Bearer sk-test"}
LONG = text_of("a prompt", 2400)  # above the minimum of every provider
PATHS = {"chat": ("/v1/chat/completions", "gpt-5.5"), "responses": ("/v1/responses", "gpt-5.5"),
         "messages": ("/v1/messages", "claude-sonnet-4-5")}


def body_of(dialect, text="hi", **more):
    model = PATHS[dialect][1]
    if dialect == "responses":
        return {"model": model, "max_output_tokens": 20, "input": text, **more}
    return {"model": model, "max_tokens": 20, "messages": [{"role": "user", "content": text}],
            **more}


def named(name, values=None, **more):
    fields = {**KEY, "x-kvgate-prompt": name}
    if values is not None:
        fields["x-kvgate-prompt-variables"] = json.dumps(values)
    return {**fields, **more}


class PromptsCase(Case):
    def config(self, prompts, more=""):
        """A configuration of prompts: (name, version, share or None, text), in a file each."""
        lines = [more]
        for name, version, share, text in prompts:
            file = f"{name}-{version}.txt"
            (self.folder / file).write_text(text)
            lines.append(f'[[prompt]]\nname = "{name}"\nversion = "{version}"\nfile = "{file}"')
            if share is not None:
                lines.append(f"share = {share}")
        path = self.folder / "kvgate.toml"
        path.write_text("\n".join(lines) + "\n")
        return path

    def start(self, prompts, more="", arguments=()):
        path = self.config(prompts, more)
        return self.serve(arguments=["--config", str(path), *arguments])

    def reload(self, running, prompts, more="", says="configuration read again"):
        before = running.log().count(says)
        self.config(prompts, more)
        running.process.send_signal(signal.SIGHUP)
        wait_until(lambda: running.log().count(says) > before, running.log)

    def request(self, running, method, path, body=None):
        connection = http.client.HTTPConnection(*running.address.split(":"), timeout=30)
        try:
            fields = {"Content-Type": "application/json"} if body is not None else {}
            connection.request(method, path, json.dumps(body) if body is not None else None, fields)
            reply = connection.getresponse()
            return reply.status, json.loads(reply.read())
        finally:
            connection.close()

    def version_of(self, reply):
        self.assertEqual(reply.status, 200, reply.body)
        return reply.headers.get("x-kvgate-prompt")


class ProviderTest(PromptsCase):
    def setUp(self):
        super().setUp()
        self.provider = Simulator().__enter__()
        self.addCleanup(self.provider.__exit__)
        self.more = f"""
[[upstream]]
name = "main"
dialect = "anthropic"
base_url = "{self.provider.url}"
models = ["claude-*"]
[[upstream]]
name = "open"
base_url = "{self.provider.url}/v1"
models = ["gpt-*"]
"""

    def sent(self):
        return self.provider.requests[-1]

    def ask(self, running, dialect, headers, text="hi", **more):
        path = PATHS[dialect][0]
        return self.assert_ok(running.send(path, body_of(dialect, text, **more), headers))

    def test_callers_of_one_version_share_its_prefix_whatever_their_values_are(self):
        running = self.start([("support", "1", None, LONG + "\nServe {{customer}} of {{ firm }}.")],
                             self.more)
        for dialect in PATHS:
            with self.subTest(dialect):
                sent, cached = [], []
                for number in range(4):
                    values = {"firm": f"f{number}", "customer": f"customer number {number * 1111}"}
                    reply = self.ask(running, dialect, named("support", values), f"from {number}")
                    self.assertEqual(self.version_of(reply), "support@1")
                    sent.append(self.sent().body.decode())
                    record = self.record_of(running, reply.headers["x-kvgate-request-id"])
                    cached.append(record["usage"]["cache_read_tokens"])
                    self.assertEqual(record["named_prompt"], {"name": "support", "version": "1"})
                    self.assertNotIn(b"x-kvgate", self.sent().head.lower())
                self.assertIn("Serve {{customer}} of {{ firm }}.", sent[0])
                for one in sent:
                    self.assertLess(one.index("{{ firm }}"), one.index("customer number"))
                    self.assertEqual(one.count(LONG[:200]), 1)
                # All of the prompt and none of its values; Anthropic's is written from the second
                # request on, as a single one would pay for nothing.
                self.assertGreater(cached[-1], len(LONG) // 4 * 0.9, f"{dialect}: {cached}")

    def test_turns_extend_each_other(self):
        for mode in ("observe", "pin", "stabilize"):
            running = self.start([("support", "1", None, LONG + " {{customer}}")],
                                 self.more.replace("dialect", f'mode = "{mode}"\ndialect'))
            headers = named("support", {"customer": "Ada"})
            body = body_of("messages", "one", system="Be brief.")
            self.assert_ok(running.send("/v1/messages", body, headers))
            first = json.loads(self.sent().body)
            body["messages"] += [{"role": "assistant", "content": "yes"},
                                 {"role": "user", "content": "two"}]
            self.assert_ok(running.send("/v1/messages", body, headers))
            second = json.loads(self.sent().body)

            def bare(blocks):
                return [block["text"] for block in blocks]

            self.assertEqual(bare(first["system"]), bare(second["system"]), mode)
            self.assertEqual([LONG + " {{customer}}", "Be brief."], bare(first["system"])[:2])
            self.assertIn('customer: "Ada"', first["system"][2]["text"])
            running.terminate()

    def test_what_is_used_is_shown_by_version(self):
        with Collector() as collector:
            telemetry = f'[telemetry]\nendpoint = "{collector.url}"\ninterval_seconds = 1\n'
            running = self.start([("support", "1", None, LONG), ("support", "2", 0, LONG + "!")],
                                 telemetry + self.more)
            for version in ("support", "support@1", "support@2"):
                last = self.ask(running, "messages", named(version))
            self.ask(running, "messages", KEY)
            wanted = last.headers["x-kvgate-request-id"]
            self.record_of(running, wanted)
            sums = wait_until(lambda: running.stats()["ledger"]["totals"].get("by_prompt_version"),
                              "the sums")
            self.assertEqual({name: row["requests"] for name, row in sums.items()},
                             {"support@1": 2, "support@2": 1})
            self.assertGreater(sums["support@1"]["nanodollars"], 0)
            metrics = running.get("/metrics").body.decode()
            self.assertIn('kvgate_ledger_prompt_requests_total{prompt="support@1"} 2\n', metrics)
            self.assertIn('kvgate_ledger_prompt_tokens_total{prompt="support@2",kind="output"}',
                          metrics)
            found = running.get("/kvgate/v1/requests?prompt_name=support&prompt_version=2").json
            self.assertEqual([row["id"] for row in found["data"]], [wanted])
            rows = wait_until(
                lambda: running.get("/kvgate/v1/stats?step=all&by=prompt_version").json["data"],
                "the sums by time")
            self.assertEqual({row["name"]: row["requests"] for row in rows},
                             {"support@1": 2, "support@2": 1})
            for more, found in (((), "PROMPT "), (("--by", "prompt_version"), "support@2 ")):
                shown = subprocess.run(
                    [str(server.binary_path()), "stats", *more, "--data-dir",
                     str(self.folder / "data")], capture_output=True, text=True, timeout=60)
                self.assertIn(found, shown.stdout, shown.stderr)

            def span():
                return next((span["attributes"] for span in collector.spans()
                             if span["attributes"].get("kvgate.request_id") == wanted), None)

            attributes = wait_until(span, "the span")
            self.assertEqual(attributes["gen_ai.prompt.name"], "support")
            self.assertEqual(attributes["kvgate.prompt.version"], "2")

    def test_a_roll_out_moves_what_begins_and_nothing_that_has_begun(self):
        before = [("support", "1", None, "OLD"), ("support", "2", 0, "NEW")]
        running = self.start(before, self.more)
        opened = {}
        for number in range(12):
            reply = self.ask(running, "chat", named("support"), f"conversation {number}")
            opened[number] = self.version_of(reply)
        self.assertEqual(set(opened.values()), {"support@1"})
        in_session = {"x-kvgate-session": "k"}
        self.assertEqual(self.version_of(self.ask(running, "chat", named("support", **in_session))),
                         "support@1")
        self.reload(running, [("support", "1", None, "OLD"), ("support", "2", 0.5, "NEW")],
                    self.more)
        for number in opened:
            reply = self.ask(running, "chat", named("support"), messages=[
                {"role": "user", "content": f"conversation {number}"},
                {"role": "assistant", "content": "yes"}, {"role": "user", "content": "more"}])
            self.assertEqual(self.version_of(reply), "support@1")
        self.assertEqual(self.version_of(self.ask(running, "chat", named("support", **in_session))),
                         "support@1")
        begun = {number: self.version_of(
            self.ask(running, "chat", named("support"), f"new {number}")) for number in range(40)}
        self.assertEqual(set(begun.values()), {"support@1", "support@2"})
        self.assertTrue(10 <= sum(v == "support@2" for v in begun.values()) <= 30, begun)
        running.kill()
        running.restart()
        for number, version in begun.items():
            reply = self.ask(running, "chat", named("support"), f"new {number}")
            self.assertEqual(self.version_of(reply), version, "the same draw after a restart")
        # The session too, from its log; and another text under a version is refused whole.
        self.assertEqual(self.version_of(self.ask(running, "chat", named("support", **in_session))),
                         "support@1")
        refused = running.send("/v1/chat/completions", body_of("chat"),
                               named("support@2", **in_session))
        self.assertEqual(refused.status, 409, refused.body)
        self.reload(running, [("support", "1", None, "CHANGED")], self.more,
                    "prompt.file: support@1")
        self.assertEqual(self.version_of(self.ask(running, "chat", named("support@2"))),
                         "support@2")


class LocalTest(PromptsCase):
    def test_the_engine_computes_a_version_once_for_all_values(self):
        running = self.start([("support", "1", None, text_of("p", 400) + " {{who}}")])
        cached = []
        for who in ("Ada", "Grace Hopper", "Katherine"):
            reply = running.send("/v1/chat/completions",
                                 {"model": "local", "max_tokens": 2,
                                  "messages": [{"role": "user", "content": "hi " + who}]},
                                 named("support", {"who": who}, **{"x-kvgate-explain": "1"}))
            self.assertEqual(self.version_of(reply), "support@1")
            cached.append((reply.cached_tokens, reply.usage["prompt_tokens"]))
        for tokens, of in cached[1:]:
            self.assertGreater(tokens, of * 0.8, cached)

    def test_conversations_chains_and_copies_keep_their_version(self):
        running = self.start([("support", "1", None, "OLD"), ("support", "2", 0, "NEW {{who}}")])

        def respond(headers, **more):
            return running.send("/v1/responses", {"model": "local", "input": "hi",
                                                  "max_output_tokens": 3, **more}, headers)

        first = respond(named("support@2", {"who": "Ada"}))
        self.assertEqual(self.version_of(first), "support@2")
        chained = respond(named("support"), previous_response_id=first.json["id"])
        self.assertEqual(self.version_of(chained), "support@2")
        self.assertIn('who: "Ada"', chained.json["instructions"], "its values too")
        kept = running.send("/v1/conversations", {}, KEY).json["id"]
        for name, values in (("support@2", {"who": 1}), ("support", None)):
            said = respond(named(name, values), conversation=kept)
            self.assertEqual(self.version_of(said), "support@2")
        copied = running.send(f"/kvgate/v1/sessions/{first.json['id']}/fork", {"key": "copy"}, KEY)
        self.assertEqual(copied.status, 200, copied.body)
        in_session = {"x-kvgate-session": "copy"}
        self.assertEqual(self.version_of(respond({**KEY, **in_session})), "support@2")
        self.assertEqual(respond(named("support@1", **in_session)).status, 409)
        compacted = running.send("/v1/responses/compact", {"model": "local", "input": "one"},
                                 named("support"))
        self.assertEqual(self.version_of(compacted), "support@1")

    def test_the_api_keeps_versions_sealed_and_unchanged(self):
        running = self.start([("support", "1", None, "FROM THE FILE")])
        at = "/kvgate/v1/prompts/support/2"
        text = "plum-4711 is what {{customer}} may not read on the disk"
        status, made = self.request(running, "PUT", at, {"text": text, "share": 0.25})
        self.assertEqual(status, 200, made)
        self.assertEqual(made["variables"], ["customer"])
        self.assertEqual(self.request(running, "PUT", at, {"text": "another"})[0], 409)
        self.assertEqual(self.request(running, "PUT", at, {"text": text, "shares": 1})[0], 400)
        running.kill()
        running.restart()
        listed = self.request(running, "GET", "/kvgate/v1/prompts")[1]["data"]
        self.assertEqual([(row["version"], row["origin"], row["share"]) for row in listed],
                         [("1", "config", None), ("2", "api", 0.25)])
        self.assertEqual(self.request(running, "GET", at)[1]["text"], text)
        reply = running.send("/v1/messages",
                             {"model": "local", "max_tokens": 2,
                              "messages": [{"role": "user", "content": "hi"}]},
                             named("support@2", {"customer": "Ada"}))
        self.assertEqual(self.version_of(reply), "support@2")
        self.assertEqual(self.request(running, "DELETE", at), (200, {"removed": 1}))
        self.assertEqual(self.request(running, "GET", at)[0], 404)
        self.assertEqual(self.request(running, "DELETE", "/kvgate/v1/prompts/support")[0], 409)
        running.terminate()
        for path in (self.folder / "data" / "meta").iterdir():
            self.assertNotIn(b"plum-4711", path.read_bytes(), path)

    def test_errors_name_what_is_wrong(self):
        running = self.start([("support", "1", None, "For {{customer}}")])
        for name, values, status, word in (
                ("support", None, 400, "customer"),
                ("support", {"customer": 1, "z": 2}, 400, "'z'"),
                ("other", None, 404, "x-kvgate-prompt"), ("support@9", None, 404, "'9'"),
                ("sup port", None, 400, "x-kvgate-prompt"), ("support", [1], 400, "JSON object")):
            for path in ("/v1/chat/completions", "/v1/messages"):
                reply = running.send(path, {"model": "local", "max_tokens": 2,
                                            "messages": [{"role": "user", "content": "hi"}]},
                                     named(name, values))
                self.assertEqual(reply.status, status, (name, reply.body))
                self.assertIn(word, reply.error["message"])
        self.assertEqual(running.stats()["ledger"]["totals"]["requests"], 0)

    def check(self):
        done = subprocess.run([str(server.binary_path()), "config", "check",
                               str(self.folder / "kvgate.toml")], capture_output=True, text=True,
                              timeout=60)
        return done.returncode, done.stdout + done.stderr

    def test_config_check_explains_prompts_or_says_what_is_wrong(self):
        self.config([("support", "3", None, "a"), ("support", "4", 0.1, "b")])
        status, said = self.check()
        self.assertEqual(status, 0, said)
        self.assertIn("prompt support@3: ", said)
        self.assertIn("10 % of what begins", said)
        for prompts, wrong in (
                ([("a", "1", 0.7, "x"), ("a", "2", 0.7, "x")], "prompt.share"),
                ([("a", "1", 2, "x")], "prompt.share must be between"),
                ([("a", "1", None, "x"), ("a", "1", None, "x")], 'prompt of the name "a@1"'),
                ([("a", "1@2", None, "x")], "prompt.version must be"),
                ([("a", "1", None, " \n")], "prompt.file: a@1")):
            self.config(prompts)
            status, said = self.check()
            self.assertEqual(status, 1, said)
            self.assertIn(wrong, said)
        path = self.config([("a", "1", None, "x")])
        path.write_text(path.read_text() + 'shares = 1\n')
        self.assertIn("unknown key 'shares' in [[prompt]]; did you mean 'share'?", self.check()[1])
        path.write_text('[[prompt]]\nname = "a"\nversion = "1"\nfile = "absent.txt"\n')
        self.assertIn("prompt.file: a@1", self.check()[1])


if __name__ == "__main__":
    unittest.main()
