#!/usr/bin/env python3
"""Budgets of keys and tenants: the refusal in three dialects, what is left, reports to the log and
to a webhook once for each threshold, also over a restart; a webhook that hangs delays nobody."""

import datetime
import hashlib
import hmac
import http.server
import json
import os
import signal
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

import server  # noqa: E402
from case import Case, slowness, tenant, wait_until  # noqa: E402
from provider_simulator import Simulator  # noqa: E402

SECRET = "a secret that nobody may log"
HOOK = "/hook/whose-path-is-secret-too"
KEYS = {name: f"gateway-key-of-{name}" for name in ("alice", "bob", "root")}


class Receiver:
    """A webhook's receiver, which keeps what it gets, or hangs."""

    def __init__(self):
        self.requests = []  # (path, headers in lower case, body as bytes)
        self.hangs = False
        self.released = threading.Event()

    def __enter__(self):
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                receiver.requests.append((self.path, headers, body))
                if receiver.hangs:
                    receiver.released.wait()
                    return
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.released.set()
        self.server.shutdown()
        self.server.server_close()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_address[1]}{HOOK}"

    def reports(self):
        return [json.loads(body) for _, _, body in self.requests]


def keys_text(limits=None):
    roles = {"root": "admin"}
    return "".join(f"""
[[key]]
name = "{name}"
sha256 = "{hashlib.sha256(key.encode()).hexdigest()}"
role = "{roles.get(name, "user")}"
{(limits or {}).get(name, "")}
""" for name, key in KEYS.items())


def shown(name):
    return {"x-kvgate-key": KEYS[name], "Authorization": "Bearer sk-test"}


def day_begins(plus_days=0):
    now = datetime.datetime.now(datetime.timezone.utc)
    begin = now.replace(hour=0, minute=0, second=0, microsecond=0)
    return (begin + datetime.timedelta(days=plus_days)).strftime("%Y-%m-%dT%H:%M:%SZ")


class BudgetsTest(Case):
    def setUp(self):
        super().setUp()
        self.provider = Simulator().__enter__()
        self.addCleanup(self.provider.__exit__)
        self.receiver = Receiver().__enter__()
        self.addCleanup(self.receiver.__exit__)
        self.config = self.folder / "kvgate.toml"
        os.environ["KVGATE_TEST_HOOK"] = SECRET
        self.addCleanup(os.environ.pop, "KVGATE_TEST_HOOK")

    def write(self, budgets="", keys=""):
        self.config.write_text(f"""
[budgets]
{budgets}
[[upstream]]
name = "main"
dialect = "anthropic"
base_url = "{self.provider.url}"
models = ["claude-*"]
[[upstream]]
name = "open"
base_url = "{self.provider.url}/v1"
models = ["gpt-*"]
{keys}
""")

    def gateway(self, budgets="", keys=""):
        self.write(budgets, keys)
        return self.serve(arguments=["--config", str(self.config)])

    def hook(self):
        return f'webhook = "{self.receiver.url}"\nwebhook_secret_env = "KVGATE_TEST_HOOK"'

    def ask(self, running, headers, model="claude-sonnet-4-5"):
        body = {"model": model, "max_tokens": 20,
                "messages": [{"role": "user", "content": "the same words " * 20}]}
        return running.send("/v1/messages", body, {"anthropic-version": "2023-06-01", **headers})

    def use(self, running, headers):
        """Asks, and waits until it is counted, which is a moment after the answer has ended."""
        reply = self.assert_ok(self.ask(running, headers))
        self.record_of(running, reply.headers["x-kvgate-request-id"], headers)
        return reply

    def tokens_of(self, running, reply, headers):
        usage = self.record_of(running, reply.headers["x-kvgate-request-id"], headers)["usage"]
        return usage["input_tokens"] + usage["output_tokens"]

    def budgets(self, running, headers):
        return {row["tenant"]: row
                for row in self.assert_ok(running.get("/kvgate/v1/budgets", headers)).json["data"]}

    def reload(self, running):
        before = running.log().count("configuration read again")
        running.process.send_signal(signal.SIGHUP)
        wait_until(lambda: running.log().count("configuration read again") > before, running.log)

    def test_the_refusal_says_what_is_used_and_when_it_renews_in_each_dialect(self):
        running = self.gateway(keys=keys_text({"alice": "tokens_per_day = 5"}))
        tokens = self.tokens_of(running, self.assert_ok(self.ask(running, shown("alice"))),
                                shown("alice"))
        days = [day_begins(1)]
        refused = [self.ask(running, shown("alice")),
                   running.send("/v1/chat/completions",
                                {"model": "gpt-5.5",
                                 "messages": [{"role": "user", "content": "hi"}]},
                                shown("alice")),
                   running.send("/v1/responses", {"model": "gpt-5.5", "input": "hi"},
                                shown("alice"))]
        days.append(day_begins(1))
        for reply in refused:
            self.assertEqual(reply.status, 429, reply.body)
            self.assertIn(f"The key 'alice' has used {tokens} of its 5 tokens a day; the budget "
                          "renews at ", reply.error["message"])
            self.assertTrue(any(f"renews at {day} (in " in reply.error["message"] for day in days),
                            reply.error["message"])
            headers = {name.lower(): value for name, value in reply.headers.items()}
            pause = int(headers["retry-after"])
            self.assertTrue(1 <= pause <= 86400, headers)
            # An SDK would sleep until then, and its caller with it.
            self.assertEqual(headers.get("x-should-retry"), "false" if pause > 60 else None)
        self.assertEqual(refused[0].json["type"], "error")
        self.assertEqual(refused[0].error["type"], "rate_limit_error")
        self.assertIn("code", refused[1].error)
        self.assert_ok(self.ask(running, shown("bob")))
        self.assert_ok(self.ask(running, shown("root")))

    def test_dollars_are_those_of_the_ledger_and_each_sees_its_own(self):
        running = self.gateway(
            budgets="tokens_per_month = 1000000",
            keys=keys_text({"alice": "dollars_per_month = 0.5\ntokens_per_day = 500000"}))
        spent = 0
        for _ in range(2):
            reply = self.assert_ok(self.ask(running, shown("alice")))
            record = self.record_of(running, reply.headers["x-kvgate-request-id"], shown("alice"))
            spent += record["cost"]["nanodollars"]
        self.assertGreater(spent, 0)
        self.assert_ok(self.ask(running, shown("bob")))
        rows = self.budgets(running, shown("root"))
        self.assertEqual(set(rows), set(KEYS))
        alice = {budget["budget"]: budget for budget in rows["alice"]["budgets"]}
        self.assertEqual(set(alice), {"dollars_per_month", "tokens_per_day", "tokens_per_month"})
        dollars = alice["dollars_per_month"]
        self.assertAlmostEqual(dollars["used"], spent / 1e9)
        self.assertAlmostEqual(dollars["left"], 0.5 - spent / 1e9)
        self.assertAlmostEqual(dollars["share"], spent / 1e9 / 0.5)
        self.assertRegex(dollars["renews_at"], r"^\d{4}-\d\d-01T00:00:00Z$")
        self.assertIn(alice["tokens_per_day"]["period_start"], (day_begins(), day_begins(-1)))
        self.assertEqual([budget["budget"] for budget in rows["bob"]["budgets"]],
                         ["tokens_per_month"], "what holds for every tenant")
        self.assertEqual(rows["root"]["tokens_this_month"], 0)
        self.assertEqual(set(self.budgets(running, shown("alice"))), {"alice"})
        answer = running.get("/kvgate/v1/budgets", shown("root")).json
        self.assertEqual(answer["thresholds"], [0.5, 0.8, 1.0])
        self.assert_printed(running, answer)
        self.assertEqual(running.get("/kvgate/v1/budgets").status, 401)
        self.assertEqual(running.get("/kvgate/v1/budgets?tenant=bob", shown("alice")).status, 400)

    def assert_printed(self, running, answer):
        made = self.stats(running, "root")
        self.assertEqual(made.returncode, 0, made.stderr)
        lines = made.stdout.splitlines()
        self.assertEqual(lines[0].split(), ["TENANT", "BUDGET", "USED", "LIMIT", "SHARE", "RENEWS"])
        self.assertEqual(len(lines), 1 + sum(len(row["budgets"]) for row in answer["data"]))
        self.assertRegex(made.stdout, r"(?m)^alice +dollars a month +\$0\.\d+ +\$0\.50* .* % +in ")
        self.assertLessEqual(max(map(len, lines)), 80, made.stdout)
        as_json = json.loads(self.stats(running, "root", "--json").stdout)
        self.assertEqual(as_json["data"], answer["data"])
        own = self.stats(running, "alice").stdout
        self.assertIn("alice", own)
        self.assertNotIn("bob", own)
        self.assertEqual(self.stats(running, "root", "--by", "key").returncode, 2)

    def stats(self, running, name, *more):
        return subprocess.run(
            [server.binary_path(), "stats", "--budgets", "--url", f"http://{running.address}",
             "--key-env", "KVGATE_TEST_KEY", *more], capture_output=True, text=True, timeout=60,
            env={**os.environ, "KVGATE_TEST_KEY": KEYS[name]})

    def test_each_threshold_is_reported_once_also_over_a_restart(self):
        running = self.gateway(self.hook(), keys_text())
        tokens = self.tokens_of(running, self.assert_ok(self.ask(running, shown("bob"))),
                                shown("bob"))
        limit = int(3.5 * tokens)
        self.write(self.hook(), keys_text({"alice": f"tokens_per_day = {limit}"}))
        self.reload(running)
        for expected in ([], [0.5]):  # 29 % and 57 %
            self.use(running, shown("alice"))
            wait_until(lambda: len(self.receiver.requests) >= len(expected), "the reports")
        self.assertEqual(running.terminate(), 0)
        running.restart()
        self.use(running, shown("alice"))  # 86 %
        self.use(running, shown("alice"))  # 114 %
        self.assertEqual(self.ask(running, shown("alice")).status, 429)
        self.assert_ok(self.ask(running, shown("bob")))
        wait_until(lambda: len(self.receiver.requests) >= 3, "the reports")
        self.assertEqual(running.terminate(), 0)
        logs = running.log()  # of both processes
        reports = self.receiver.reports()
        self.assertEqual([report["threshold"] for report in reports], [0.5, 0.8, 1.0])
        for report in reports:
            self.assertEqual((report["type"], report["key"], report["tenant"], report["budget"]),
                             ("budget", "alice", "alice", "tokens_per_day"))
            self.assertEqual(report["limit"], limit)
            self.assertGreaterEqual(report["share"], report["threshold"])
            self.assertAlmostEqual(report["share"], report["used"] / limit)
            self.assertRegex(report["renews_at"], r"T00:00:00Z$")
        for path, headers, body in self.receiver.requests:
            self.assertEqual(path, HOOK)
            expected = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
            self.assertEqual(headers["x-kvgate-signature"], "sha256=" + expected)
        for report in reports:
            self.assertEqual(logs.count(f"key 'alice' has used {100 * report['share']:.1f} % of "
                                        "its tokens_per_day"), 1)
        for secret in (SECRET, HOOK, *KEYS.values()):
            self.assertNotIn(secret, logs)

    def test_a_webhook_that_hangs_delays_nobody_and_is_given_up_at_the_end(self):
        self.receiver.hangs = True
        running = self.gateway(self.hook(), keys_text({"alice": "tokens_per_day = 1"}))
        self.assert_ok(self.ask(running, shown("alice")))
        wait_until(lambda: self.receiver.requests, "the report")
        begin = time.monotonic()
        for _ in range(5):
            self.assert_ok(self.ask(running, shown("bob")))
        self.assertLess(time.monotonic() - begin, 3 * slowness(running))
        self.assertEqual(running.terminate(timeout=60), 0)
        self.assertIn("a report is given up", running.log())
        self.assertNotIn(HOOK, running.log())

    def test_a_webhook_that_is_not_there_is_counted(self):
        dead = Receiver().__enter__()
        dead.__exit__()
        running = self.gateway(f'webhook = "{dead.url}"\nthresholds = [1.0]',
                               keys_text({"alice": "tokens_per_day = 1"}))
        self.assert_ok(self.ask(running, shown("alice")))

        def failed():
            text = running.get("/metrics", shown("root")).body.decode()
            return 'kvgate_budget_webhooks_total{result="failed"} 1' in text

        wait_until(failed, "the report that failed")

    def test_a_kill_keeps_what_was_used_a_second_before(self):
        running = self.gateway(keys=keys_text({"alice": "tokens_per_day = 5"}))
        self.use(running, shown("alice"))
        used = self.budgets(running, shown("alice"))["alice"]["tokens_today"]
        self.assertGreater(used, 5)
        time.sleep(1.5)  # the ledger writes within a second
        running.kill()
        running.restart()
        self.assertEqual(self.budgets(running, shown("alice"))["alice"]["tokens_today"], used)
        self.assertEqual(self.ask(running, shown("alice")).status, 429)

    def test_a_reload_gives_and_takes_budgets(self):
        running = self.gateway(keys=keys_text())
        self.use(running, shown("alice"))
        self.write(keys=keys_text({"alice": "tokens_per_day = 5"}))
        self.reload(running)
        self.assertEqual(self.ask(running, shown("alice")).status, 429)
        self.write(budgets="tokens_per_day = 5", keys=keys_text({"bob": "tokens_per_day = 100000"}))
        self.reload(running)
        self.assertEqual(self.ask(running, shown("alice")).status, 429)
        self.use(running, shown("bob"))
        self.assert_ok(self.ask(running, shown("bob")))
        self.write(keys=keys_text())
        self.reload(running)
        self.assert_ok(self.ask(running, shown("alice")))

    def test_without_keys_a_budget_holds_for_each_credential_and_for_the_local_model(self):
        running = self.gateway(budgets="tokens_per_day = 5")
        first = self.assert_ok(running.chat([{"role": "user", "content": "hello"}], max_tokens=8,
                                            headers=tenant("carol")))
        self.record_of(running, first.headers["x-kvgate-request-id"], tenant("carol"))
        reply = running.chat([{"role": "user", "content": "hello"}], max_tokens=8,
                             headers=tenant("carol"))
        self.assertEqual(reply.status, 429, reply.body)
        self.assertIn("This caller has used", reply.error["message"])
        self.assert_ok(running.chat([{"role": "user", "content": "hello"}], max_tokens=8,
                                    headers=tenant("dave")))


if __name__ == "__main__":
    unittest.main()
