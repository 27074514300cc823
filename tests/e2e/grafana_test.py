#!/usr/bin/env python3
"""Every query of the Grafana board and of the alert rules, run by a real Prometheus on the metrics
of a gateway under traffic: none is an error, and those that should have data have some."""

import json
import re
import shutil
import socket
import subprocess
import sys
import threading
import unittest
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

from case import ROOT, Case, text_of, wait_until  # noqa: E402
from provider_simulator import Simulator  # noqa: E402

BOARD = ROOT / "gateway/dashboard/grafana/kvgate.json"
RULES = ROOT / "gateway/dashboard/grafana/alerts.yml"
KEY = {"Authorization": "Bearer sk-test"}
# Panels that show nothing here, and why: 0 over 0 is no number.
EMPTY = {"Saved by caches": "nothing is paid twice", "Speed of the disk": "nothing may be loaded"}
NAME = re.compile(r"\bkvgate_[a-z_]+")


def queries_of_the_board():
    """(panel, expression) as Grafana would send it for all jobs and upstreams."""
    board = json.loads(BOARD.read_text())
    for panel in board["panels"]:
        for target in panel.get("targets", []):
            expression = (target["expr"].replace("$__rate_interval", "1m")
                          .replace("$job", ".*").replace("$upstream", ".*"))
            assert "$" not in expression, expression
            yield panel["title"], expression


class GrafanaTest(Case):
    def setUp(self):
        super().setUp()
        for program in ("prometheus", "promtool"):
            if shutil.which(program) is None:
                self.skipTest(f"{program} is not installed (Debian: prometheus)")

    def traffic(self, running, stop):
        """Local and forwarded requests, streams and not, one that fails, a prefix that breaks."""
        number = 0
        while not stop.is_set():
            number += 1
            text = text_of("shared", 1500)
            messages = [{"role": "system", "content": text},
                        {"role": "user", "content": f"question {number}"}]
            running.send("/v1/chat/completions",
                         {"model": "gpt-5.5", "stream": True, "messages": messages}, KEY)
            if number % 5 == 1:
                self.provider.faults.append("status:500")
                running.send("/v1/chat/completions", {"model": "gpt-5.5", "messages": messages},
                             KEY)
                messages[0]["content"] = text[1:]
                running.send("/v1/chat/completions", {"model": "gpt-5.5", "messages": messages},
                             KEY)
            running.chat(messages, max_tokens=8, stream=True)
            stop.wait(0.1)

    def prometheus(self, running):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        config = self.folder / "prometheus.yml"
        config.write_text(f"""
global: {{scrape_interval: 500ms, evaluation_interval: 500ms}}
rule_files: ["{RULES}"]
scrape_configs:
  - job_name: kvgate
    static_configs: [{{targets: ["{running.address}"]}}]
""")
        log = open(self.folder / "prometheus.log", "wb")
        process = subprocess.Popen(
            ["prometheus", f"--config.file={config}",
             f"--storage.tsdb.path={self.folder / 'tsdb'}",
             f"--web.listen-address=127.0.0.1:{self.port}"],
            stdout=log, stderr=log)
        log.close()
        self.addCleanup(process.wait, 60)
        self.addCleanup(process.terminate)
        wait_until(lambda: self.ask("query", query="up == 1"),
                   lambda: (self.folder / "prometheus.log").read_text()[-2000:])

    def ask(self, path, **parameters):
        """The result of one query; an error of Prometheus's fails the test."""
        url = (f"http://127.0.0.1:{self.port}/api/v1/{path}?"
               + urllib.parse.urlencode(parameters))
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                said = json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code == 503:
                return None  # it starts
            self.fail(f"{parameters}: {error.read().decode()}")
        except OSError:
            return None  # it does not listen yet
        self.assertEqual(said["status"], "success", said)
        data = said["data"]
        return data if path == "rules" else data["result"]

    def has_data(self, expression):
        found = self.ask("query", query=expression)
        return bool(found) and any(row["value"][1] != "NaN" for row in found)

    def test_every_query_of_the_board_and_of_the_rules_runs(self):
        self.provider = Simulator().__enter__()
        self.addCleanup(self.provider.__exit__)
        config = self.folder / "kvgate.toml"
        config.write_text(f"""
[[upstream]]
name = "open"
base_url = "{self.provider.url}/v1"
models = ["gpt-*"]
breaker_failures = 0
""")
        running = self.serve(arguments=["--config", str(config)])
        stop = threading.Event()
        worker = threading.Thread(target=self.traffic, args=(running, stop))
        worker.start()
        self.addCleanup(worker.join)
        self.addCleanup(stop.set)
        self.prometheus(running)
        queries = list(queries_of_the_board())
        self.assertGreater(len(queries), 40)
        for panel, expression in queries:
            with self.subTest(panel=panel, query=expression):
                if panel in EMPTY:
                    self.assertIsNotNone(self.ask("query", query=expression))
                else:
                    wait_until(lambda: self.has_data(expression), f"{panel}: {expression}")
        wait_until(lambda: all(rule["health"] == "ok" for rule in self.rules()),
                   lambda: f"{[rule for rule in self.rules() if rule['health'] != 'ok']}")
        for recorded in ("kvgate:hit_rate:ratio5m", "kvgate:ttft_seconds:p90_5m"):
            wait_until(lambda name=recorded: self.has_data(name), f"data of {recorded}")
        firing = {rule["name"] for rule in self.rules() if rule.get("state") == "firing"}
        self.assertEqual(firing, set(), "nothing is wrong with this gateway")
        self.every_name_is_a_metric(running)

    def rules(self):
        found = self.ask("rules")
        return [rule for group in found["groups"] for rule in group["rules"]]

    def every_name_is_a_metric(self, running):
        text = running.get("/metrics").body.decode()
        known = set(re.findall(r"^# TYPE (\S+) ", text, re.MULTILINE))
        used = set(NAME.findall(BOARD.read_text() + RULES.read_text()))
        used = {re.sub("_(bucket|sum|count)$", "", name) for name in used}
        self.assertGreater(len(used), 30)
        self.assertEqual(used - known, set(), "names of no metric")

    def test_the_metrics_are_what_promtool_expects(self):
        config = self.folder / "kvgate.toml"
        config.write_text('[metrics]\ncompat = ["vllm"]\n')
        running = self.serve(arguments=["--config", str(config)])
        self.assert_ok(running.chat([{"role": "user", "content": "hello"}], max_tokens=4))
        text = running.get("/metrics").body
        self.assertIn(b"\nvllm:num_requests_running{", text)
        checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True,
                                 timeout=60)
        # Its advice on names is not asked for here; what cannot be parsed is an error.
        self.assertNotIn(b"error while linting", checked.stderr + checked.stdout)
        rules = subprocess.run(["promtool", "check", "rules", str(RULES)], capture_output=True,
                               timeout=60)
        self.assertEqual(rules.returncode, 0, rules.stderr)


if __name__ == "__main__":
    unittest.main()
