#!/usr/bin/env python3
"""Data directories of earlier versions, and of secrets that are lost, changed or shared: what was
kept is found again or said to be absent, whenever the start is killed; no text stands in clear."""

import json
import os
import random
import secrets
import subprocess
import sys
import tarfile
import time
import unittest
from pathlib import Path

import server
from case import FULL, Case, wait_until

FIXTURES = Path(__file__).resolve().parent / "fixtures"
sys.path.insert(0, str(FIXTURES))

from make_data_directory import ALICE, SHAPE  # noqa: E402

VARIABLE = "KVGATE_TEST_SECRET"


class MigrationTest(Case):
    def small(self):
        return self.model(SHAPE, "migration")

    def unpack(self, archive, name="data"):
        with tarfile.open(archive) as packed:
            packed.extractall(self.folder / name)
        return self.folder / name / "data"

    def start(self, data, *arguments):
        """With an upstream, so that prompts are loaded, too; it is never asked."""
        config = self.folder / "kvgate.toml"
        config.write_text('[[upstream]]\nname = "anthropic"\ndialect = "anthropic"\n'
                          'base_url = "http://127.0.0.1:9"\nmodels = ["claude-*"]\n')
        return self.serve(self.small(), data, ["--config", str(config), "--disk-cache", "16MiB",
                                               "--context", "4096", *arguments])

    def expected(self, archive):
        return json.loads(Path(str(archive).replace(".tar.gz", ".json")).read_text())

    def wait_for_log(self, running, text):
        wait_until(lambda: text in running.log(),
                   lambda: f"no '{text}' in\n{running.log()[-3000:]}")

    def check_responses(self, running, wanted, there=True):
        for owner, responses in wanted["responses"].items():
            for name, output in responses.items():
                reply = running.get(f"/v1/responses/{name}", wanted["headers"][owner])
                self.assertEqual(reply.status, 200 if there else 404, reply.body)
                if there:
                    self.assertEqual(reply.json["output"], output)
                other = {"Authorization": "Bearer somebody-else"}
                self.assertEqual(running.get(f"/v1/responses/{name}", other).status, 404)
        conversation = running.get("/v1/conversations/" + wanted["conversation"]["id"], ALICE)
        self.assertEqual(conversation.status, 200 if there else 404)
        if there:
            self.assertEqual(conversation.json["metadata"], wanted["conversation"]["metadata"])

    def check_sessions(self, running, wanted):
        """Chains of responses and conversations are sessions, which they were not before."""
        alice = list(wanted["responses"]["alice"])
        rows = running.get("/kvgate/v1/sessions", ALICE).json["data"]
        stored = [row for row in rows if row["dialect"] == "responses"]
        self.assertEqual([(row["key"], row["turns"]) for row in stored],
                         [(wanted["conversation"]["id"], 2), (alice[0], 2)])
        shown = running.get(f"/kvgate/v1/sessions/{alice[1]}", ALICE).json
        self.assertEqual([turn["id"] for turn in shown["data"]], alice[:2])
        self.assertEqual(shown["data"][1]["answer"], wanted["responses"]["alice"][alice[1]])

    def pins(self, running):
        rows = running.get("/kvgate/v1/prefixes").json["data"]
        return sorted((row["name"], row.get("version")) for row in rows if row["pinned"])

    def check_all(self, running, wanted):
        self.check_responses(running, wanted)
        self.assertEqual(self.pins(running),
                         sorted((pin["name"], pin["version"]) for pin in wanted["pins"]))

    def assert_no_text(self, data, wanted):
        for file in Path(data, "meta").iterdir():
            content = file.read_bytes()
            for text in wanted["texts"]:
                self.assertNotIn(text.encode(), content, f"{text!r} is in {file.name}")

    def test_a_directory_of_every_earlier_version_opens_with_all_that_was_kept(self):
        archives = sorted(FIXTURES.glob("data_directory_*.tar.gz"))
        self.assertTrue(archives)
        for archive in archives:
            wanted = self.expected(archive)
            data = self.unpack(archive, archive.name)
            running = self.start(data)
            self.check_all(running, wanted)
            self.check_sessions(running, wanted)
            version = int(archive.name.split("_")[2].split(".")[0])
            if version >= 4:
                self.assertIn(f"is migrated from format {version} to 7: all is kept\n",
                              running.log())
            else:
                self.assertIn("3 conversations of stored responses are sessions now",
                              running.log())
            if "data_directory_1." in archive.name:
                self.assertRegex(running.log(),
                                 r"is migrated from format 1 to 7: 6 turns of 3 conversations and "
                                 r"2 pins are kept, now sealed; 0 damaged turns are dropped; "
                                 r"[1-9]\d* records of KV are dropped")
                self.assertRegex(running.log(), r"[1-9]\d* parts of prompts of an older version")
                self.assertIn("1 records of an older version have their words sealed",
                              running.log())
            for name in wanted["prompts"]:
                self.wait_for_log(running, f"pinned prefix {name}")
                self.wait_for_log(running, "is in memory")
            records = {record["id"]: record
                       for record in running.get("/kvgate/v1/requests").json["data"]}
            self.assertTrue(set(wanted["records"]) <= set(records))
            breaks = [records[name]["break"] for name in wanted["records"]
                      if records[name].get("break")]
            self.assertEqual(breaks, wanted["breaks"])
            # What was kept is gone on with.
            first = next(iter(wanted["responses"]["alice"]))
            more = running.send("/v1/responses", {"model": "local", "input": "And?",
                                                  "previous_response_id": first,
                                                  "max_output_tokens": 4}, ALICE)
            self.assert_ok(more)
            self.assertEqual(running.terminate(), 0)
            self.assert_no_text(data, wanted)
            running.restart()
            self.assertNotIn("is migrated", running.log().split("stopped")[-1])
            self.check_all(running, wanted)
            hit = running.complete(wanted["prompts"]["agent"], max_tokens=2, headers=ALICE)
            self.assertGreater(hit.cached_tokens, 0)

    def test_a_migration_that_is_killed_at_any_moment_is_finished_by_the_next_start(self):
        archive = FIXTURES / "data_directory_1.tar.gz"
        wanted = self.expected(archive)
        begin = time.monotonic()
        whole = self.start(self.unpack(archive, "whole"))
        seconds = time.monotonic() - begin
        whole.kill()
        random.seed(3)
        killed = 0
        for number in range(60 if FULL else 8):
            data = self.unpack(archive, f"killed-{number}")
            for _ in range(random.randint(1, 3)):
                command = server.Server(whole.model, data, whole.arguments).command()
                process = subprocess.Popen(command, stdout=subprocess.DEVNULL,
                                           stderr=subprocess.DEVNULL)
                time.sleep(random.uniform(0, seconds))
                killed += process.poll() is None
                process.kill()
                process.wait()
            running = self.start(data)
            self.check_all(running, wanted)
            self.check_sessions(running, wanted)
            running.kill()
        self.assertGreater(killed, 0)

    def respond(self, running, text):
        return self.assert_ok(running.send("/v1/responses", {
            "model": "local", "input": text, "max_output_tokens": 4}, ALICE)).json["id"]

    def status(self, running, name):
        return running.get(f"/v1/responses/{name}", ALICE).status

    def pin(self, running, name):
        body = {"model": "local", "prompt": f"{name} " * 60, "kvgate": {"name": name, "pin": True}}
        self.assert_ok(running.send("/kvgate/v1/prefixes/warm", body, ALICE))

    def test_a_lost_secret_is_said_and_what_it_sealed_is_absent_until_it_is_back(self):
        data = self.folder / "data"
        running = self.start(data)
        kept = self.respond(running, "before")
        self.pin(running, "before")
        self.assertEqual(running.terminate(), 0)
        key = data / "secret.key"
        self.assertEqual(key.stat().st_mode & 0o777, 0o600)
        old = key.read_text()
        key.unlink()
        running.restart()
        self.assertIn("A SECRET IS MISSING: 2 turns, 1 pins and 0 parts of prompts", running.log())
        self.assertEqual(self.status(running, kept), 404)
        self.assertEqual(self.pins(running), [])
        young = self.respond(running, "after")
        self.assertEqual(running.terminate(), 0)
        said = running.log().count("A SECRET IS MISSING")
        key.write_text(key.read_text() + old)  # behind the new one
        running.restart()
        self.assertEqual(running.log().count("A SECRET IS MISSING"), said)
        for name in (kept, young):
            self.assertEqual(self.status(running, name), 200)
        self.assertEqual(len(self.pins(running)), 1)

    def test_a_new_secret_in_front_changes_no_key_and_the_oldest_may_go(self):
        data = self.folder / "data"
        os.environ[VARIABLE] = one = secrets.token_hex(32)
        self.addCleanup(os.environ.pop, VARIABLE)
        running = self.start(data, "--secret-env", VARIABLE)
        self.assertFalse((data / "secret.key").exists())
        prompt = "a prompt of one tenant " * 40
        self.assert_ok(running.complete(prompt, max_tokens=2, headers=ALICE))
        kept = self.respond(running, "before")
        running.wait_on_disk()
        self.assertEqual(running.terminate(), 0)
        two = secrets.token_urlsafe(48)
        os.environ[VARIABLE] = f"{two},{one}"
        running.restart()
        self.assertGreater(running.complete(prompt, max_tokens=2, headers=ALICE).tier("disk"), 0)
        young = self.respond(running, "after")
        self.assertEqual([self.status(running, name) for name in (kept, young)], [200, 200])
        self.assertEqual(running.terminate(), 0)
        os.environ[VARIABLE] = two
        running.restart()
        self.assertNotIn("A SECRET IS MISSING", running.log())
        self.assertIn("4 turns of 2 conversations and 0 pins are sealed and named", running.log())
        self.assertEqual([self.status(running, name) for name in (kept, young)], [200, 200])
        self.assertEqual(running.complete(prompt, max_tokens=2, headers=ALICE).cached_tokens, 0)

    def test_a_directory_goes_over_from_its_file_to_a_shared_secret(self):
        data = self.folder / "data"
        running = self.start(data)
        kept = self.respond(running, "before")
        self.assertEqual(running.terminate(), 0)
        os.environ[VARIABLE] = secrets.token_hex(32)
        self.addCleanup(os.environ.pop, VARIABLE)
        running = self.start(data, "--secret-env", VARIABLE)
        self.assertIn("2 turns of 1 conversations and 0 pins are sealed and named", running.log())
        self.assertEqual(self.status(running, kept), 200)
        self.assertEqual(running.terminate(), 0)

    def refused(self, data, *arguments, environment=None):
        made = subprocess.run([server.binary_path(), "serve", "--model", self.small(), "--listen",
                               "127.0.0.1:0", "--data-dir", data, *arguments], timeout=60,
                              capture_output=True, text=True, env=environment)
        self.assertNotEqual(made.returncode, 0)
        return made.stderr

    def test_a_wrong_secret_is_refused_with_a_sentence_that_does_not_repeat_it(self):
        data = self.folder / "data"
        for value, says in ((None, "which is not set"), ("sh?rt", "neither hex nor base64"),
                            ("ab" * 16, "too short"), ("ab" * 32, "not random")):
            environment = {**os.environ, **({VARIABLE: value} if value else {})}
            said = self.refused(data, "--secret-env", VARIABLE, environment=environment)
            self.assertIn(says, said)
            self.assertIn(VARIABLE, said)
            if value:
                self.assertNotIn(value, said)

    def test_a_secret_that_others_may_read_is_refused_and_doctor_says_so(self):
        data = self.folder / "data"
        running = self.start(data)
        self.assertEqual(running.terminate(), 0)
        (data / "secret.key").chmod(0o644)
        running.restart()
        self.assertIn("may be read by other users (mode 0644): chmod 600 it", running.log())
        self.assertIn("WITHOUT the disk tier", running.log())
        self.assertEqual(running.terminate(), 0)
        doctor = subprocess.run([server.binary_path(), "doctor", "--data-dir", data,
                                 "--model", self.small()], capture_output=True, text=True,
                                timeout=60)
        self.assertIn("may be read by other users", doctor.stdout + doctor.stderr)
        (data / "secret.key").chmod(0o600)
        doctor = subprocess.run([server.binary_path(), "doctor", "--data-dir", data,
                                 "--model", self.small()], capture_output=True, text=True,
                                timeout=60)
        self.assertIn("secret.key; keep a copy of it", doctor.stdout)


if __name__ == "__main__":
    unittest.main()
