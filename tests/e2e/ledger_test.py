#!/usr/bin/env python3
"""The ledger over the real binary: one record a request, sums that outlive the process, no text."""

import hashlib
import json
import subprocess
import time
import unittest

import server
from case import Case, tenant, text_of


class LedgerTest(Case):
    def records(self, running, query=""):
        return self.assert_ok(running.get("/kvgate/v1/requests" + query)).json["data"]

    def model_name(self, running):
        return self.assert_ok(running.get("/v1/models")).json["data"][0]["id"]

    def totals(self, running):
        return running.stats()["ledger"]["totals"]

    def kvgate_stats(self, *arguments):
        made = subprocess.run([server.binary_path(), "stats", "--data-dir", self.folder / "data",
                               *arguments], capture_output=True, text=True, timeout=120)
        self.assertEqual(made.returncode, 0, made.stdout + made.stderr)
        return made.stdout

    def test_a_request_is_recorded_with_its_usage_timings_and_digest(self):
        running = self.serve()
        messages = [{"role": "user", "content": text_of("secret", 200)}]
        body = {"model": "local", "messages": messages, "max_tokens": 4, "ignore_eos": True,
                "temperature": 0}
        raw = json.dumps(body).encode()
        first = self.assert_ok(running.send("/v1/chat/completions", raw, tenant("t")))
        second = self.assert_ok(running.send("/v1/chat/completions", raw, tenant("t")))
        newest, oldest = self.records(running)
        for record, reply in ((oldest, first), (newest, second)):
            usage = reply.json["usage"]
            self.assertEqual(record["id"], reply.headers["x-kvgate-request-id"])
            self.assertEqual(record["usage"]["input_tokens"], usage["prompt_tokens"])
            self.assertEqual(record["usage"]["output_tokens"], 4)
            self.assertEqual(record["usage"]["cache_read_tokens"],
                             usage["prompt_tokens_details"]["cached_tokens"])
            self.assertEqual(record["sha256"]["received"], hashlib.sha256(raw).hexdigest())
            self.assertEqual((record["upstream"], record["model"], record["asked_model"],
                              record["status"]),
                             ("local", self.model_name(running), "local", 200))
            self.assertEqual(record["bytes"]["received"], len(raw))
            self.assertEqual(record["bytes"]["answer"], len(reply.body))
            self.assertLessEqual(record["timings"]["ttft_us"], record["timings"]["total_us"])
            self.assertLess(abs(record["time_us"] / 1e6 - time.time()), 60)
        self.assertGreater(newest["usage"]["cache_read_tokens"], 0)
        one = self.assert_ok(running.get("/kvgate/v1/requests/" + newest["id"])).json
        segments = one.pop("segments")
        self.assertEqual(one, newest)
        self.assertEqual(sum(segment["tokens"] for segment in segments),
                         newest["usage"]["input_tokens"])

    def test_lists_come_in_pages_and_bad_queries_are_named(self):
        running = self.serve()
        for index in range(5):
            self.assert_ok(running.complete(f"p{index}", max_tokens=1))
        whole = [record["id"] for record in self.records(running)]
        self.assertEqual(len(whole), 5)
        self.assertEqual(whole, sorted(whole, reverse=True))
        pages = [record["id"] for record in self.records(running, "?limit=2")]
        pages += [record["id"] for record in self.records(running, f"?limit=9&before={pages[-1]}")]
        self.assertEqual(pages, whole)
        for query in ("?limit=0", "?limit=many", "?limit=100000"):
            reply = running.get("/kvgate/v1/requests" + query)
            self.assertEqual(reply.status, 400, reply.body)
            self.assertIn(b"limit", reply.body)
        self.assertEqual(running.get("/kvgate/v1/requests/none").status, 404)

    def test_refused_and_abandoned_requests_are_recorded_too(self):
        running = self.serve(self.slow())
        self.assertEqual(running.complete("x", model="another").status, 404)
        self.assertEqual(running.send("/v1/completions", b"{").status, 400)
        connection = running.connect()
        body = {"model": "local", "prompt": "x", "max_tokens": 4000, "ignore_eos": True,
                "stream": True}
        connection.request("POST", "/v1/completions", json.dumps(body),
                           {"Content-Type": "application/json"})
        connection.getresponse().read(20)
        connection.close()
        running.wait_for("the client's leaving", lambda stats:
                         stats["ledger"]["totals"]["requests"] == 3, timeout=20)
        outcomes = [(r["outcome"], r["status"]) for r in self.records(running)]
        self.assertEqual(outcomes, [("client_left", 499), ("refused", 400), ("refused", 404)])
        self.assertEqual(self.totals(running)["failed"], 3)

    def test_kill_9_a_second_later_loses_nothing(self):
        running = self.serve()
        for index in range(20):
            self.assert_ok(running.complete(f"p{index}", max_tokens=2))
        time.sleep(1)
        running.kill()
        running.restart()
        self.assertEqual(len(self.records(running)), 20)
        totals = self.totals(running)
        self.assertEqual((totals["requests"], totals["output_tokens"]), (20, 40))
        self.assert_ok(running.complete("more", max_tokens=2))
        self.assertEqual(self.totals(running)["output_tokens"], 42)

    def test_kill_9_in_the_middle_leaves_sums_by_time_that_agree_with_the_records(self):
        running = self.serve()
        for round_ in range(4):
            for index in range(8):
                reply = self.assert_ok(running.complete(f"p{round_} {index}", max_tokens=2))
            # Listed, it is written; the sums of this second are not, or just being written.
            self.record_of(running, reply.headers["x-kvgate-request-id"])
            time.sleep(0.3 * round_)
            running.kill()
            running.restart()
            records = len(self.records(running))
            for step in ("minute", "day"):
                rows = running.get(f"/kvgate/v1/stats?step={step}").json["data"]
                self.assertEqual(sum(row["requests"] for row in rows), records, (round_, step))
            self.assertEqual(self.totals(running)["requests"], records)
        self.assertEqual(records, 32)

    def test_sums_are_by_tenant_and_model_in_stats_metrics_and_on_the_command_line(self):
        running = self.serve()
        self.assert_ok(running.complete("a", max_tokens=2, headers=tenant("one")))
        self.assert_ok(running.complete("a", max_tokens=2, headers=tenant("two")))
        totals = self.totals(running)
        name = self.model_name(running)
        self.assertEqual(totals["by_model"][name]["requests"], 2)
        self.assertEqual(sorted(t["requests"] for t in totals["by_tenant"].values()), [1, 1])
        metrics = running.get("/metrics").body.decode()
        self.assertIn('kvgate_ledger_upstream_requests_total{upstream="local"} 2\n', metrics)
        self.assertIn(
            f'kvgate_ledger_model_tokens_total{{model="{name}",kind="output"}} 4\n', metrics)
        live = self.kvgate_stats()
        self.assertIn("2 requests since", live)
        running.terminate()
        self.assertEqual(self.kvgate_stats().split("\n")[0], live.split("\n")[0])
        stored = json.loads(self.kvgate_stats("--json"))
        self.assertEqual(stored["totals"], totals)

    def test_nothing_of_a_request_s_text_or_credential_is_kept(self):
        running = self.serve()
        self.assert_ok(running.chat([{"role": "user", "content": "xyzzy-prompt"}], max_tokens=4,
                                    headers=tenant("xyzzy-credential")))
        running.complete("xyzzy-other", model="xyzzy")
        self.assertEqual(len(self.records(running)), 2)
        running.terminate()
        files = list((self.folder / "data" / "meta").iterdir())
        self.assertTrue(files)
        for path in files:
            data = path.read_bytes()
            for secret in (b"xyzzy-prompt", b"xyzzy-other", b"xyzzy-credential"):
                self.assertNotIn(secret, data, path)

    def test_only_as_many_records_are_kept_as_asked_for(self):
        running = self.serve(arguments=["--set", "ledger.records=3"])
        for index in range(8):
            self.assert_ok(running.complete(f"p{index}", max_tokens=1))
        self.assertEqual(len(self.records(running)), 3)
        self.assertEqual(self.totals(running)["requests"], 8)

    def test_the_turns_that_the_directory_keeps_are_counted(self):
        running = self.serve(arguments=["--set", "store.turns=false",
                                        "--set", "store.turns_bytes=5MiB"])
        turns = running.stats()["turns"]
        self.assertEqual((turns["enabled"], turns["turns"], turns["capacity_bytes"]),
                         (False, 0, 5 << 20))
        self.assertIn("\nkvgate_turns 0\n", running.get("/metrics").body.decode())
        running.terminate()
        without = self.serve(data_dir=self.folder / "other", arguments=["--no-disk"])
        self.assertNotIn("turns", without.stats())

    def test_a_price_file_that_cannot_be_read_stops_the_start(self):
        prices = self.folder / "prices.json"
        row = {"models": ["*"], "inptu": 1}
        prices.write_text(json.dumps({"date": "2027", "providers": {"local": [row]}}))
        made = subprocess.run([server.binary_path(), "serve", "--listen", "127.0.0.1:0",
                               "--data-dir", self.folder / "data", "--model", self.tiny(),
                               "--set", f"ledger.prices={prices}"],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(made.returncode, 2, made.stderr)
        self.assertIn("providers.local[0]", made.stderr)

    def test_the_user_s_prices_count(self):
        prices = self.folder / "prices.json"
        row = {"models": ["*"], "input": 1, "output": 10, "cache_read_factor": 0.5,
               "cache_write_factor": 1, "source": "electricity", "date": "2027-01-01"}
        prices.write_text(json.dumps({"date": "2027-01-01", "providers": {"local": [row]}}))
        running = self.serve(arguments=["--set", f"ledger.prices={prices}"])
        self.assert_ok(running.complete("hello", max_tokens=3))
        record = self.records(running)[0]
        usage = record["usage"]
        self.assertEqual(record["cost"]["nanodollars"],
                         1000 * usage["uncached_tokens"] + 500 * usage["cache_read_tokens"]
                         + 10_000 * 3)
        self.assertEqual(record["cost"]["price_date"], "2027-01-01")


if __name__ == "__main__":
    unittest.main()
