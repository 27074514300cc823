#!/usr/bin/env python3
"""Routes through the real binary: pools with prefix affinity, members that fail, fallbacks, renamed
models, the local engine for what is short or private, one flight for equal cold prefixes, and what
a key allows of prompts and answers."""

import gzip
import hashlib
import http.client
import json
import sys
import threading
import time
import unittest
from pathlib import Path

import server
from case import Case, slowness, text_of, wait_until

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

from provider_simulator import Simulator  # noqa: E402

HEADERS = {"Authorization": "Bearer sk-test", "Content-Type": "application/json"}


def chat(conversation, turns=1, words=1500, model="pool-model", **more):
    """The request of a turn of a conversation, whose system prompt tells it from the others."""
    messages = [{"role": "system", "content": text_of(conversation, words)}]
    for turn in range(turns):
        if turn:
            messages.append({"role": "assistant", "content": f"answer {turn}"})
        messages.append({"role": "user", "content": f"question {turn}"})
    return {"model": model, "messages": messages, **more}


class RouteTest(Case):
    def setUp(self):
        super().setUp()
        self.members = {}
        for name in ("a", "b", "c"):
            self.members[name] = Simulator().__enter__()
            self.addCleanup(self.members[name].__exit__)

    def start(self, routes, model=None, keys="", arguments=(), more=""):
        upstreams = "".join(f"""
[[upstream]]
name = "{name}"
dialect = "openai"
provider = "openai"
base_url = "{member.url}/v1"
models = ["none-*"]
breaker_failures = 2
breaker_seconds = 600
{more}
""" for name, member in self.members.items())
        config = self.folder / "kvgate.toml"
        config.write_text(upstreams + routes + keys)
        self.running = server.Server(model, self.folder / "data",
                                     ["--config", str(config), *arguments]).start()
        self.addCleanup(self.running.__exit__)

    def post(self, body, headers=None, path="/v1/chat/completions"):
        connection = http.client.HTTPConnection(*self.running.address.split(":"), timeout=30)
        data = body if isinstance(body, (bytes, str)) else json.dumps(body)
        try:
            connection.request("POST", path, data, {**HEADERS, **(headers or {})})
            response = connection.getresponse()
            return response, json.loads(response.read())
        finally:
            connection.close()

    def counts(self):
        return {name: len(member.requests) for name, member in self.members.items()}

    def asked(self, body, headers=None):
        """Which members a request reached, in the order of their names."""
        before = self.counts()
        response, answer = self.post(body, headers)
        self.assertEqual(response.status, 200, answer)
        return [name for name, count in self.counts().items() if count > before[name]]

    def test_a_conversation_stays_with_its_member_and_conversations_spread(self):
        self.start('[[route]]\nmodels = ["pool-*"]\ntargets = ["a", "b", "c"]\n')
        homes = {}
        for turns in (1, 2, 3):
            for conversation in range(12):
                where = self.asked(chat(conversation, turns))
                self.assertEqual(len(where), 1)
                self.assertEqual(homes.setdefault(conversation, where), where)
        self.assertGreaterEqual(len({where[0] for where in homes.values()}), 2, homes)

    def test_conversations_of_one_prefix_meet_at_one_member(self):
        self.start('[[route]]\ntargets = ["a", "b", "c"]\n')
        where = set()
        for number in range(6):
            body = chat(1)
            body["messages"][-1]["content"] = f"another question {number}"
            where.update(self.asked(body))
        self.assertEqual(len(where), 1)

    def test_a_member_that_fails_is_passed_over_and_its_conversations_move_for_good(self):
        self.start('[[route]]\ntargets = ["a", "b", "c"]\n')
        home = self.asked(chat(5))[0]
        for turns, fault in ((2, "status:503:1"), (3, "close"), (4, "status:429:1"), (5, "rst")):
            now = self.asked(chat(5, 1))[0] if turns == 2 else now
            self.members[now].faults.append(fault)
            response, _ = self.post(chat(5, turns))
            self.assertEqual(response.status, 200, fault)
            moved = self.asked(chat(5, turns))
            self.assertNotEqual(moved, [now], f"re-pinned after {fault}")
            now = moved[0]
        self.assertIn(home, self.members)

    def test_one_record_names_the_one_that_answered(self):
        self.start('[[route]]\ntargets = ["a"]\nfallback = ["b/gpt-5.5"]\nbalance = "order"\n')
        self.members["a"].faults.append("status:529")
        response, _ = self.post(chat(1))
        self.assertEqual(response.status, 200)
        sent = json.loads(self.members["b"].requests[-1].body)
        self.assertEqual(sent["model"], "gpt-5.5")
        self.assertEqual({**sent, "model": ""}.keys() - {"prompt_cache_key"},
                         {**chat(1), "model": ""}.keys())
        self.assertEqual(sent["messages"], chat(1)["messages"])
        records = wait_until(lambda: self.running.get("/kvgate/v1/requests").json["data"],
                             "the request has a record")
        self.assertEqual([(r["upstream"], r["model"], r["status"]) for r in records],
                         [("b", "gpt-5.5", 200)])

    def test_what_is_wrong_with_the_request_is_not_asked_twice(self):
        self.start('[[route]]\ntargets = ["a"]\nfallback = ["b"]\n')
        response, _ = self.post({**chat(1), "no_such_parameter": 1})
        self.assertEqual((response.status, self.counts()["b"]), (400, 0))

    def test_all_that_fail_is_the_last_ones_answer(self):
        self.start('[[route]]\ntargets = ["a", "b"]\nfallback = ["c"]\nbalance = "order"\n')
        self.members["a"].faults.append("close")
        self.members["b"].faults.append("status:500")
        self.members["c"].faults.append("status:529:7")
        response, answer = self.post(chat(1))
        self.assertEqual((response.status, response.getheader("retry-after")), (529, "7"), answer)
        self.assertEqual(self.counts(), {"a": 1, "b": 1, "c": 1})

    def test_bodies_of_every_size_and_coding_survive_a_fallback(self):
        import gzip
        self.start('[[route]]\ntargets = ["a"]\nfallback = ["b"]\nbalance = "order"\n')
        for words in (10, 60_000, 400_000):
            for coded in (False, True):
                with self.subTest(words=words, coded=coded):
                    raw = json.dumps(chat(words, words=words)).encode()
                    sent = gzip.compress(raw) if coded else raw
                    self.members["a"].faults.append("status:503:1")
                    connection = http.client.HTTPConnection(*self.running.address.split(":"),
                                                            timeout=30)
                    extra = {"Content-Encoding": "gzip"} if coded else {}
                    connection.request("POST", "/v1/chat/completions", sent, {**HEADERS, **extra})
                    response = connection.getresponse()
                    self.assertEqual(response.status, 200, response.read())
                    response.read()
                    connection.close()
                    got = self.members["b"].requests[-1]
                    if coded:
                        self.assertEqual(hashlib.sha256(got.body).hexdigest(),
                                         hashlib.sha256(sent).hexdigest())
                    self.assertEqual(got.json()["messages"], json.loads(raw)["messages"])

    def test_short_and_private_prompts_stay_on_this_machine(self):
        self.start('[[route]]\nmodels = ["pool-*"]\ntargets = ["a"]\nlocal_tokens_max = 200\n',
                   model=self.tiny(), arguments=["--set", "engine.kv_memory=64MiB"])
        short = chat(1, words=20, max_tokens=4)
        self.assertEqual(self.asked(short), [], "the engine answered")
        self.assertEqual(self.asked({**short, "reasoning_effort": "high"}), ["a"], "hard")
        self.assertEqual(self.asked(short, {"x-kvgate-intent": "hard"}), ["a"])
        long = chat(1, words=800, max_tokens=4)
        self.assertEqual(self.asked(long), ["a"])
        self.assertEqual(self.asked(long, {"x-kvgate-private": "1"}), [], "private")

    def test_private_without_an_engine_is_refused(self):
        self.start('[[route]]\nmodels = ["pool-*"]\ntargets = ["a"]\n')
        response, answer = self.post(chat(1), {"x-kvgate-private": "1"})
        self.assertEqual(response.status, 403, answer)
        response, answer = self.post(chat(1, model="none-1"), {"x-kvgate-private": "1"})
        self.assertEqual(response.status, 403, answer)
        self.assertEqual(sum(self.counts().values()), 0)

    def test_an_upstream_that_is_overloaded_leaves_it_to_the_engine(self):
        self.start('[[route]]\ntargets = ["a"]\nfallback = ["local"]\n', model=self.tiny(),
                   arguments=["--set", "engine.kv_memory=64MiB"])
        self.members["a"].faults.append("status:429:9")
        response, answer = self.post(chat(1, words=50, max_tokens=4))
        self.assertEqual(response.status, 200, answer)
        self.assertEqual(answer["usage"]["completion_tokens"], 4)

    def test_equal_cold_prefixes_fly_one_ahead(self):
        self.start('[[route]]\ntargets = ["a"]\nsingle_flight_ms = 5000\n')
        member = self.members["a"]
        member.faults.append("slow:2")
        arrived, threads = [], []

        def ask(number):
            body = chat(1, words=2500)
            body["messages"][-1]["content"] = f"question {number}"
            self.post(body)

        for number in range(5):
            threads.append(threading.Thread(target=ask, args=(number,)))
            threads[-1].start()
            time.sleep(0.05)
        deadline = time.monotonic() + 0.3
        while time.monotonic() < deadline:
            arrived.append(len(member.requests))
            time.sleep(0.01)
        self.assertEqual(max(arrived), 1, "the others wait for the first one's answer")
        for thread in threads:
            thread.join()
        self.assertEqual(len(member.requests), 5)
        began = time.monotonic()
        ask(9)
        self.assertLess(time.monotonic() - began, 0.3 * slowness(self.running),
                        "warm: nobody waits")

    def test_a_key_bounds_prompts_and_answers(self):
        keys = """
[[key]]
name = "small"
sha256 = "%s"
prompt_tokens_max = 500
default_max_tokens = 77
""" % hashlib.sha256(b"gate-key").hexdigest()
        self.start('[[route]]\ntargets = ["a"]\n', keys=keys)
        own = {"x-kvgate-key": "gate-key"}
        response, answer = self.post(chat(1, words=3000), own)
        self.assertEqual(response.status, 400)
        self.assertIn("500 tokens", answer["error"]["message"])
        self.assertEqual(self.counts()["a"], 0)
        for more, headers, expected in (
                ({}, {}, 77), ({"max_tokens": 5}, {}, None), ({"max_completion_tokens": 5}, {}, 5),
                ({"max_completion_tokens": 100_000}, {}, 77),
                ({}, {"x-kvgate-intent": "long-form"}, None)):
            self.post(chat(1, words=30, **more), {**own, **headers})
            sent = self.members["a"].requests[-1].json()
            self.assertEqual(sent.get("max_completion_tokens"), expected, more)

    capped = """
[[key]]
name = "team"
sha256 = "%s"
default_max_tokens = 77
output_tokens_max = 500
""" % hashlib.sha256(b"gate-key").hexdigest()
    own = {"x-kvgate-key": "gate-key"}
    texts = {"model": "pool-model", "prompt": "Once"}

    def refused(self, names, *request):
        """Nothing of it reaches an upstream."""
        before = self.counts()
        response, answer = self.post(*request)
        self.assertEqual(response.status, 400, answer)
        error = answer["error"]
        for name in names:
            self.assertIn(name, f"{error['message']} {error.get('param')}")
        self.assertEqual(self.counts(), before)
        return answer

    def test_a_keys_bound_holds_for_legacy_completions_and_encoded_bodies(self):
        self.start('[[route]]\ntargets = ["a"]\n', keys=self.capped)
        sent = self.members["a"].requests
        for named, expected in ((None, 77), (5, 5), (100_000, 500)):
            body = {**self.texts, **({} if named is None else {"max_tokens": named})}
            self.post(body, self.own, "/v1/completions")
            self.assertEqual((sent[-1].target, sent[-1].json()["max_tokens"]),
                             ("/v1/completions", expected))
            zipped = gzip.compress(json.dumps(body).encode())
            self.post(zipped, {**self.own, "Content-Encoding": "gzip"}, "/v1/completions")
            self.assertEqual(sent[-1].header("content-encoding"), "gzip" if named == 5 else "",
                             "changed only where it must be")
            self.assertEqual(sent[-1].json()["max_tokens"], expected)
        twice = '{"model":"pool-model","prompt":"x","max_tokens":5,"max_tokens":90000}'
        self.refused(["max_tokens", "twice"], twice, self.own, "/v1/completions")
        for encoding, data in (("gzip", b"no gzip"), ("deflate", b"x"), ("", b"{} {}")):
            headers = {**self.own, **({"Content-Encoding": encoding} if encoding else {}),
                       "x-kvgate-upstream": "a"}
            self.refused(["'team'", "500"], data, headers, "/v1/completions")

    def test_a_keys_bound_in_observe_refuses_what_it_would_have_to_change(self):
        self.start('[[route]]\ntargets = ["a"]\n', keys=self.capped, more='mode = "observe"')
        sent = self.members["a"].requests
        for path, body, name, default in (
                ("/v1/completions", self.texts, "max_tokens", "max_tokens"),
                ("/v1/chat/completions", chat(1, words=30), "max_tokens", "max_completion_tokens"),
                ("/v1/responses", {"model": "pool-model", "input": "Hi"}, "max_output_tokens",
                 "max_output_tokens")):
            self.refused([name, "501", "500", "'team'"], {**body, name: 501}, self.own, path)
            self.refused([default, "Missing", "500"], body, self.own, path)
            self.post({**body, name: 500}, self.own, path)
            self.assertEqual(sent[-1].body, json.dumps({**body, name: 500}).encode())

    def test_a_subscriptions_credential_does_not_pass_a_keys_bound(self):
        self.start('[[route]]\ntargets = ["a"]\n', keys=self.capped)
        for more in ({"Authorization": "Bearer eyJhbGciOiJub25lIn0.eyJ9.c2ln"},
                     {"ChatGPT-Account-Id": "anyone"}, {"anthropic-beta": "oauth-2025-04-20"}):
            self.refused(["subscription", "500"], chat(1, words=30), {**self.own, **more})
            self.refused(["max_tokens", "100000"], chat(1, words=30, max_tokens=100_000),
                         {**self.own, **more})
            self.assertEqual(self.asked(chat(1, words=30, max_tokens=9), {**self.own, **more}),
                             ["a"])

    def test_without_keys_nobody_bounds_a_callers_own_credential(self):
        self.start('[[route]]\ntargets = ["a"]\n')
        self.post({**self.texts, "max_tokens": 100_000}, path="/v1/completions")
        self.assertEqual(self.members["a"].requests[-1].json()["max_tokens"], 100_000)
        self.post(chat(1, words=30))
        self.assertNotIn("max_completion_tokens", self.members["a"].requests[-1].json())


if __name__ == "__main__":
    unittest.main()
