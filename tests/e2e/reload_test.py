#!/usr/bin/env python3
"""SIGHUP: upstreams, routes, keys and the certificate as the configuration has them now; requests
under way, other settings and a configuration that is wrong leave everything as it is."""

import hashlib
import http.client
import json
import shutil
import signal
import ssl
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path

import server
from case import Case, wait_until
from tls_listener_test import make_certificate, text_of_config

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

from provider_simulator import Simulator  # noqa: E402

KEY = "gateway-key-of-the-test"


def upstream(name, simulator, models='["*"]', more=""):
    return f"""
[[upstream]]
name = "{name}"
dialect = "openai"
provider = "openai"
base_url = "{simulator.url}/v1"
models = {models}
{more}
"""


class ReloadTest(Case):
    def setUp(self):
        super().setUp()
        self.a, self.b = (self.simulator() for _ in range(2))
        self.config = self.folder / "kvgate.toml"

    def simulator(self):
        made = Simulator().__enter__()
        self.addCleanup(made.__exit__)
        return made

    def start(self, text, arguments=()):
        self.config.write_text(text)
        self.running = server.Server(None, self.folder / "data",
                                     ["--config", str(self.config), *arguments]).start()
        self.addCleanup(self.running.__exit__)

    def wait_until(self, what, condition):
        wait_until(condition, lambda: f"{what}: {self.running.log()}")

    def reload(self, text, says="configuration read again"):
        """Writes the file, signals, and waits until the log says what came of it."""
        before = self.running.log().count(says)
        self.config.write_text(text)
        self.running.process.send_signal(signal.SIGHUP)
        self.wait_until(says, lambda: self.running.log().count(says) > before)

    def post(self, headers=None, connection=None, model="gpt-5.4"):
        own = connection or http.client.HTTPConnection(*self.running.address.split(":"), timeout=30)
        own.request("POST", "/v1/chat/completions",
                    json.dumps({"model": model, "messages": [{"role": "user", "content": "hi"}]}),
                    {"Authorization": "Bearer sk-test", "Content-Type": "application/json",
                     **(headers or {})})
        response = own.getresponse()
        response.body = response.read()
        if connection is None:
            own.close()
        return response

    def test_requests_go_to_the_upstreams_of_the_file_also_on_a_kept_connection(self):
        self.start(upstream("first", self.a))
        kept = http.client.HTTPConnection(*self.running.address.split(":"), timeout=30)
        self.addCleanup(kept.close)
        self.assertEqual(self.post(connection=kept).status, 200)
        self.reload(upstream("second", self.b))
        self.assertEqual(self.post(connection=kept).status, 200)
        self.assertEqual((len(self.a.requests), len(self.b.requests)), (1, 1))
        self.reload(upstream("second", self.b, models='["other-*"]'))
        self.assertEqual(self.post(connection=kept).status, 404)

    def test_a_request_under_way_ends_where_it_began(self):
        self.start(upstream("first", self.a))
        answers = []
        asking = threading.Thread(
            target=lambda: answers.append(self.post({"x-sim-fault": "slow:2"})))
        asking.start()
        self.wait_until("the request to arrive", lambda: self.a.requests)
        for _ in range(3):
            self.reload(upstream("second", self.b))
        self.assertEqual(self.post().status, 200)
        asking.join()
        self.assertEqual(answers[0].status, 200, answers[0].body)
        self.assertEqual((len(self.a.requests), len(self.b.requests)), (1, 1))

    def test_what_is_wrong_in_the_file_is_said_and_changes_nothing(self):
        good = upstream("first", self.a)
        self.start(good)
        says = "the configuration stays as it was"
        wrong = {"a key that is none": good + "\nno_such_key = 1\n",
                 "no TOML": "[[upstream",
                 "a secret that is not set": upstream("first", self.a,
                                                      more='api_key_env = "KVGATE_NOT_SET_1"'),
                 "a route to nobody": good + '[[route]]\ntargets = ["nobody"]\n',
                 "no upstream left": "[limits]\nconnections = 10\n"}
        for what, text in wrong.items():
            with self.subTest(what):
                self.reload(text, says)
                self.assertEqual(self.post().status, 200)
        self.assertEqual(len(self.a.requests), len(wrong))
        self.assertIn("no_such_key", self.running.log())
        self.assertIn("KVGATE_NOT_SET_1", self.running.log())

    def test_the_version_in_force_is_reported(self):
        def status():
            return self.running.stats()["config"]

        self.start(upstream("first", self.a))
        first = status()
        self.assertEqual((first["reloads"], first["failed_reloads"], first["error"]), (0, 0, None))
        self.reload("# the same\n" + upstream("first", self.a))
        self.assertEqual(status()["version"], first["version"])
        self.reload("[[upstream", "the configuration stays as it was")
        failed = status()
        self.assertEqual((failed["version"], failed["reloads"], failed["failed_reloads"]),
                         (first["version"], 1, 1))
        self.assertIn("kvgate.toml:", failed["error"])
        shown = subprocess.run([server.binary_path(), "cache", "stats", "--data-dir",
                                self.folder / "data"], capture_output=True, text=True, timeout=60)
        self.assertIn(f"version {first['version']} since", shown.stdout, shown.stderr)
        self.assertIn("the last reload failed", shown.stdout)
        # What waits for a start is not in force, and said.
        self.reload("[limits]\nconnections = 5\n" + upstream("first", self.a))
        waiting = status()
        self.assertEqual((waiting["version"], waiting["needs_start"], waiting["error"]),
                         (first["version"], "[limits]", None))
        self.reload(upstream("second", self.b))
        self.assertNotEqual(status()["version"], first["version"])

    def test_keys_come_and_go_and_what_one_has_used_stays_used(self):
        digest = hashlib.sha256(KEY.encode()).hexdigest()
        key = f'\n[[key]]\nname = "agent"\nsha256 = "{digest}"\nrequests_per_minute = 3\n'
        self.start(upstream("first", self.a))
        self.assertEqual(self.post().status, 200)
        self.reload(upstream("first", self.a) + key)
        self.assertEqual(self.post().status, 401)
        own = {"x-kvgate-key": KEY}
        for _ in range(3):
            self.assertEqual(self.post(own).status, 200)
        self.reload(upstream("first", self.a, more="retries = 2") + key)
        self.assertEqual(self.post(own).status, 429)
        self.reload(upstream("first", self.a))
        self.assertEqual(self.post().status, 200)

    def test_what_needs_a_start_is_named(self):
        self.start(upstream("first", self.a))
        says = "what changed in [server], [limits] is read at the next start"
        self.reload('[server]\ndrain_seconds = 7\n[limits]\nconnections = 5\n' +
                    upstream("second", self.b), says)
        self.post()
        self.assertEqual(len(self.b.requests), 1)
        self.reload('[server]\nlog_level = "debug"\n' + upstream("second", self.b))
        self.assertNotIn("[server]", self.running.log().splitlines()[-1])

    @unittest.skipUnless(shutil.which("openssl"), "the openssl command is not installed")
    def test_a_renewed_certificate_is_shown_to_new_connections(self):
        def shown():
            host, port = self.running.address.split(":")
            return ssl.get_server_certificate((host, int(port)))

        files = make_certificate(self.folder, "own")
        text = text_of_config(*files, upstream("first", self.a))
        self.start(text)
        before = shown()
        for renewed, file in zip(make_certificate(self.folder, "renewed"), files):
            shutil.copy(renewed, file)
        self.assertEqual(shown(), before)
        self.reload(text)
        self.assertNotEqual(shown(), before)
        self.assertEqual(shown().strip(), files[0].read_text().strip())
        files[1].write_text("no key")
        self.reload(text, "the configuration stays as it was")
        self.assertEqual(shown().strip(), files[0].read_text().strip())

    def test_under_load_no_request_fails(self):
        self.start(upstream("first", self.a))
        until = time.monotonic() + 4
        statuses = []

        def ask():
            kept = http.client.HTTPConnection(*self.running.address.split(":"), timeout=30)
            while time.monotonic() < until:
                statuses.append(self.post(connection=kept).status)
            kept.close()

        asking = [threading.Thread(target=ask) for _ in range(4)]
        for thread in asking:
            thread.start()
        turn = 0
        while time.monotonic() < until:
            turn += 1
            self.reload(upstream(f"turn-{turn}", self.b if turn % 2 else self.a))
        for thread in asking:
            thread.join()
        self.assertEqual(set(statuses), {200})
        self.assertGreater(len(self.b.requests), 0)
        self.assertGreater(turn, 3)


if __name__ == "__main__":
    unittest.main()
