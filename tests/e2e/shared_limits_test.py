#!/usr/bin/env python3
"""Gateways that share a store hold a key to its budgets and limits together. Whatever happens to
the store, no request fails or waits for it: then each holds the key to its own limits."""

import hashlib
import os
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

import server  # noqa: E402
from case import Case, slowness, wait_until  # noqa: E402
from provider_simulator import Simulator  # noqa: E402
from redis_server import RedisServer  # noqa: E402

KEYS = {name: f"gateway-key-of-{name}" for name in ("alice", "bob", "root")}
SECONDS = 10  # until all know; it takes half a second where a core is free


def keys_text(limits):
    return "".join(f"""
[[key]]
name = "{name}"
sha256 = "{hashlib.sha256(key.encode()).hexdigest()}"
role = "{"admin" if name == "root" else "user"}"
{limits.get(name, "")}
""" for name, key in KEYS.items())


def shown(name):
    return {"x-kvgate-key": KEYS[name], "Authorization": "Bearer sk-test"}


class SharedLimitsTest(Case):
    def setUp(self):
        super().setUp()
        self.redis = RedisServer(self.folder / "redis").start()
        self.addCleanup(self.redis.kill)
        self.provider = Simulator().__enter__()
        self.addCleanup(self.provider.__exit__)
        self.secret = self.share_a_secret()
        self.config = self.folder / "kvgate.toml"

    def write(self, limits, more=""):
        self.config.write_text(f"""
{more}
[[upstream]]
name = "main"
dialect = "anthropic"
base_url = "{self.provider.url}"
models = ["claude-*"]
{keys_text(limits)}
""")

    def gateway(self, name, *arguments):
        return self.serve(data_dir=self.folder / name, arguments=[
            *self.secret, "--set", f"store.shared=redis://127.0.0.1:{self.redis.port}",
            "--config", str(self.config), *arguments])

    def gateways(self, limits, more=""):
        self.write(limits, more)
        return self.gateway("first"), self.gateway("second")

    def ask(self, running, name="alice"):
        body = {"model": "claude-sonnet-4-5", "max_tokens": 20,
                "messages": [{"role": "user", "content": "the same words " * 20}]}
        return running.send("/v1/messages", body,
                            {"anthropic-version": "2023-06-01", **shown(name)})

    def budget(self, running, name="alice"):
        rows = self.assert_ok(running.get("/kvgate/v1/budgets", shown("root"))).json["data"]
        return next(row for row in rows if row["tenant"] == name)

    def tokens(self, running, name="alice"):
        return self.budget(running, name)["tokens_today"]

    def use(self, running, name="alice"):
        """Asks, waits until it is counted, and returns the tokens."""
        reply = self.assert_ok(self.ask(running, name))
        usage = self.record_of(running, reply.headers["x-kvgate-request-id"],
                               shown(name))["usage"]
        return usage["input_tokens"] + usage["output_tokens"]

    def metric(self, running, name):
        text = running.get("/metrics", shown("root")).body.decode()
        line = next(line for line in text.splitlines() if line.startswith(name + " "))
        return float(line.split()[-1])

    def wait_refused(self, running, name="alice"):
        def refused():
            reply = self.ask(running, name)
            return reply if reply.status == 429 else None

        return wait_until(refused, "the refusal", SECONDS)

    def test_a_budget_that_is_used_up_at_one_is_used_up_at_the_other(self):
        first, second = self.gateways({"alice": "tokens_per_day = 5\ndollars_per_month = 100"})
        used = self.use(first)
        self.assertGreater(used, 5)
        began = time.monotonic()
        wait_until(lambda: self.tokens(second) == used, "the other's tokens", SECONDS)
        print(f"known after {1000 * (time.monotonic() - began):.0f} ms", flush=True)
        here, there = self.ask(first), self.ask(second)
        self.assertEqual((here.status, there.status), (429, 429), (here.body, there.body))
        sentence = f"The key 'alice' has used {used} of its 5 tokens a day; the budget renews at "
        for reply in (here, there):
            self.assertIn(sentence, reply.error["message"])
            headers = {name.lower(): value for name, value in reply.headers.items()}
            self.assertTrue(1 <= int(headers["retry-after"]) <= 86400, headers)
            self.assertEqual(reply.error["type"], "rate_limit_error")
        # It says how much of it is of another gateway, and in the terminal the sum.
        for running, elsewhere in ((first, 0), (second, used)):
            rows = {row["budget"]: row for row in self.budget(running)["budgets"]}
            self.assertEqual(rows["tokens_per_day"]["used"], used)
            self.assertEqual(rows["tokens_per_day"]["used_elsewhere"], elsewhere)
            self.assertGreater(rows["dollars_per_month"]["used"], 0)
        made = subprocess.run(
            [server.binary_path(), "stats", "--budgets", "--url", f"http://{second.address}",
             "--key-env", "KVGATE_TEST_KEY"], capture_output=True, text=True, timeout=60,
            env={**os.environ, "KVGATE_TEST_KEY": KEYS["root"]})
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertRegex(made.stdout, r"(?m)^alice +tokens a day +\d+ +5 .*used up$")
        # Nobody else is held to it.
        self.assert_ok(self.ask(second, "bob"))
        self.assertEqual(self.metric(
            second, 'kvgate_shared_limit_exchanges_total{result="failed"}'), 0)
        self.assertLess(self.metric(second, "kvgate_shared_limit_age_seconds"), SECONDS)
        for key in self.redis.keys("kvg:n:*"):
            self.assertNotIn("alice", key + self.redis.cli("HGETALL", key))

    def test_requests_a_minute_are_those_of_both(self):
        first, second = self.gateways({"alice": "requests_per_minute = 30"})
        self.assert_ok(self.ask(second))  # now both look
        admitted = 1
        began = time.monotonic()
        while admitted < 90:
            reply = self.ask(first)
            if reply.status == 429:
                break
            admitted += 1
        self.assertEqual(reply.status, 429, f"{admitted} were admitted")
        late = self.wait_refused(second)
        self.assertIn("has made its 30 requests per minute", late.error["message"])
        self.assertGreaterEqual(int(late.headers["retry-after"]), 1)
        # The other one's bucket stays as full, though its own requests were few.
        of_second = sum(self.ask(second).status == 200 for _ in range(10))
        seconds = time.monotonic() - began
        self.assertLessEqual(of_second, 1 + seconds / 2, "what drains alone")
        self.assert_ok(self.ask(second, "bob"))

    def test_a_store_that_is_gone_refuses_and_delays_nobody(self):
        limits = {"alice": "requests_per_minute = 40\ntokens_per_day = 1000000"}
        first, second = self.gateways(limits)
        self.use(first)
        self.use(second)
        self.redis.hang()
        for what in (self.redis.go_on, self.redis.kill):
            times = []
            for running in (first, second) * 4:
                began = time.monotonic()
                self.assert_ok(self.ask(running))
                times.append(time.monotonic() - began)
            self.assertLess(max(times), 2 * slowness(first), times)
            what()
        # Long enough that the log says it.
        wait_until(lambda: "limits of keys are this gateway's alone" in first.log(), first.log)
        for running in (first, second):
            replies = [self.ask(running).status for _ in range(60)]
            self.assertEqual(set(replies), {200, 429}, "each has its own bucket")
        self.redis.start()
        wait_until(lambda: "hold over all gateways again" in first.log(), first.log)
        sums = []

        def agree():
            sums[:] = [self.tokens(first), self.tokens(second)]
            return sums[0] == sums[1]

        wait_until(agree, lambda: sums)
        self.assertEqual(first.log().count("limits of keys are this gateway's alone"), 1)
        # What was used meanwhile blocks nobody for longer than a bucket takes to drain.
        self.assertLessEqual(int(self.ask(first).headers.get("retry-after", 0)), 10)

    def test_a_restart_or_a_kill_counts_nothing_twice(self):
        first, second = self.gateways({"alice": "tokens_per_day = 1000000"})
        used = self.use(first) + self.use(second)
        wait_until(lambda: self.tokens(second) == used, "the sum", SECONDS)
        self.assertEqual(first.terminate(), 0)
        first.restart()
        wait_until(lambda: self.tokens(first) == used, "the sum after a restart", SECONDS)
        used += self.use(first)
        wait_until(lambda: self.tokens(second) == used, "the sum of the other", SECONDS)
        time.sleep(1.5)  # the ledger writes within a second
        first.kill()
        first.restart()
        wait_until(lambda: self.tokens(first) == used, "the sum after a kill", SECONDS)
        time.sleep(1)
        self.assertEqual((self.tokens(first), self.tokens(second)), (used, used))
        # What was used at one that is gone stays used.
        self.assertEqual(first.terminate(), 0)
        third = self.gateway("third")
        wait_until(lambda: self.tokens(third) == used, "the sum at a new one", SECONDS)
        self.redis.cli("FLUSHALL")
        time.sleep(1)
        self.assertEqual((self.tokens(third), self.tokens(second)), (used, used))

    def test_a_reload_gives_and_takes_shared_limits(self):
        first, second = self.gateways({})
        used = self.use(first)
        self.write({"alice": "tokens_per_day = 5"})
        for running in (first, second):
            running.process.send_signal(signal.SIGHUP)
            wait_until(lambda: "configuration read again" in running.log(), running.log)
        late = self.wait_refused(second)
        self.assertIn("The key 'alice' has used ", late.error["message"])
        self.assertGreaterEqual(self.tokens(second), used)
        self.write({})
        second.process.send_signal(signal.SIGHUP)
        wait_until(lambda: self.ask(second).status == 200, "no limit any more")

    def test_a_threshold_is_reported_by_one_of_them(self):
        first, second = self.gateways({"alice": "tokens_per_day = 5"})
        self.use(first)
        passed = 'kvgate_budget_thresholds_passed_total{budget="tokens_per_day"}'
        wait_until(lambda: self.metric(first, passed) == 3, "50, 80 and 100 %", SECONDS)
        wait_until(lambda: self.ask(second).status == 429, "the other knows", SECONDS)
        second.terminate()
        second.restart()
        wait_until(lambda: self.ask(second).status == 429, "it knows again", SECONDS)
        time.sleep(1)
        self.assertEqual((self.metric(first, passed), self.metric(second, passed)), (3, 0))


if __name__ == "__main__":
    unittest.main()
