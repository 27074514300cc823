#!/usr/bin/env python3
"""Prefixes that are warmed, pinned and moved: what is kept survives kill -9, a flood, new numerics
and the way into another data directory; and it is there before anyone asks. Who lists them sees how
often they were read, what that saved, and in which tier they are."""

import concurrent.futures
import hashlib
import json
import os
import subprocess
import time
import unittest

import server
from case import Case, tenant, text_of, wait_until

# 16 MiB of disk hold some 1000 blocks of the tiny model: 32000 tokens.
SMALL_DISK = ["--disk-cache", "16MiB"]


class PinTest(Case):
    def kvgate(self, *arguments, code=0):
        made = subprocess.run([server.binary_path(), *map(str, arguments)], capture_output=True,
                              text=True, timeout=120)
        self.assertEqual(made.returncode, code, made.stdout + made.stderr)
        return made.stdout if code == 0 else made.stderr

    def cache(self, *arguments, folder="data", code=0):
        return self.kvgate("cache", *arguments, "--data-dir", self.folder / folder, code=code)

    @staticmethod
    def system(seed):
        return {"role": "system", "content": text_of(seed, 400)}

    def ask(self, running, seed, question="Hello", headers=None):
        messages = [self.system(seed), {"role": "user", "content": question}]
        return self.assert_ok(running.chat(messages, max_tokens=4, headers=headers))

    def warm(self, running, seed, headers=None, **options):
        body = {"model": "local", "messages": [self.system(seed)], "kvgate": options}
        return self.assert_ok(running.send("/kvgate/v1/prefixes/warm", body, headers)).json

    def flood(self, running, name="flood"):
        """Twice as much KV as the disk cache holds."""
        for index in range(14):
            self.assert_ok(running.complete(text_of(f"{name} {index}", 1500), max_tokens=1))
        running.wait_for("write back", lambda stats:
                         stats["engine"]["write_back_bytes_queued"] == 0, timeout=30)
        self.assertGreater(running.stats()["store"]["evicted"], 0)

    def wait_for_log(self, running, text, timeout=30):
        wait_until(lambda: text in running.log(),
                   lambda: f"no '{text}' in\n{running.log()[-3000:]}", timeout)

    def prefixes(self, running):
        return {row["id"]: row for row in running.get("/kvgate/v1/prefixes").json["data"]}

    def test_a_pinned_prefix_outlives_a_flood_and_kill_9_and_is_warm_after_the_restart(self):
        running = self.serve(arguments=SMALL_DISK)
        warmed = self.warm(running, "kept", name="agent", version="1", priority=5)
        self.assertTrue(warmed["stored"] and warmed["pinned"], warmed)
        self.assertGreater(warmed["blocks"], 10)
        answer = self.ask(running, "kept").answer
        self.ask(running, "not kept")
        self.flood(running)
        row = self.prefixes(running)[warmed["id"]]
        self.assertEqual((row["pinned"], row["name"], row["version"], row["priority"]),
                         (True, "agent", "1", 5))
        self.assertEqual(row["blocks"], warmed["blocks"])
        running.kill()
        running.restart()
        self.wait_for_log(running, "pinned prefix agent 1 is in memory")
        kept = self.ask(running, "kept")
        self.assertGreaterEqual(kept.tier("device"), 32 * warmed["blocks"])
        self.assertEqual(kept.answer, answer)
        self.assertEqual(self.ask(running, "not kept").tier("disk"), 0, "evicted by the flood")

    def test_what_is_no_longer_pinned_is_evicted(self):
        running = self.serve(arguments=SMALL_DISK)
        warmed = self.warm(running, "kept", pin=True)
        again = self.warm(running, "kept")
        self.assertGreater(again["cached_tokens"], 0)
        self.assertEqual(again["id"], warmed["id"])
        self.assertEqual(self.cache("unpin", warmed["id"]), f"{warmed['id']} not pinned\n")
        self.flood(running)
        self.assertNotIn(warmed["id"], self.prefixes(running))

    def test_a_new_version_of_a_name_takes_the_older_ones_place(self):
        running = self.serve()
        one = self.warm(running, "one", name="agent", version="1")
        two = self.warm(running, "two", name="agent", version="2")
        rows = self.prefixes(running)
        self.assertFalse(rows[one["id"]]["pinned"])
        self.assertEqual(rows[two["id"]]["version"], "2")
        self.assertIn("agent, version 2", self.cache("ls"))

    def test_a_pinned_prefix_is_not_removed_unless_forced(self):
        running = self.serve()
        pinned = self.warm(running, "kept", ttl_seconds=3600)["id"]
        other = self.warm(running, "other")["id"]
        self.assertIn("pinned", self.cache("rm", pinned, code=1))
        self.assertIn("pinned", self.cache("rm", "--all", code=1))
        self.cache("rm", other)
        self.assertEqual(running.terminate(), 0)
        self.assertIn("pinned", self.cache("rm", pinned, code=2))
        self.assertIn("until", self.cache("ls"))
        self.assertIn("removed", self.cache("rm", pinned, "--force"))
        self.assertEqual(len(self.cache("ls").splitlines()), 1)

    def test_an_expired_pin_is_gone_after_a_restart(self):
        running = self.serve()
        pinned = self.warm(running, "short", ttl_seconds=1)
        running.kill()
        time.sleep(1.5)
        running.restart()
        self.assertFalse(self.prefixes(running)[pinned["id"]]["pinned"])
        self.assertEqual(running.stats()["store"]["pins"], 0)

    def test_an_exported_prefix_is_a_disk_hit_in_another_data_directory(self):
        shared = self.share_a_secret()
        running = self.serve(arguments=shared)
        warmed = self.warm(running, "moved")
        cold = self.ask(running, "moved")
        file = self.folder / "prefix.kvgate"
        self.assertIn("bytes in", self.cache("export", warmed["id"], file))
        other = self.serve(data_dir=self.folder / "other", arguments=shared)
        imported = self.cache("import", file, folder="other")
        self.assertRegex(imported, rf"^{warmed['blocks']} of {warmed['blocks']} blocks imported, 0")
        hit = self.ask(other, "moved")
        self.assertEqual(hit.tier("disk"), 32 * warmed["blocks"])
        self.assertEqual(hit.answer, cold.answer)
        self.assertNotIn(warmed["id"], imported, "ids are seeded per data directory")
        self.serve(data_dir=self.folder / "stranger")
        refused = self.cache("import", file, folder="stranger", code=1)
        self.assertIn("set the same store.secret_env on both sides", refused)

    def test_export_and_import_work_without_a_server_and_damage_is_dropped(self):
        shared = self.share_a_secret()
        running = self.serve(arguments=shared)
        warmed = self.warm(running, "moved")
        cold = self.ask(running, "moved")
        self.assertEqual(running.terminate(), 0)
        file = self.folder / "prefix.kvgate"
        self.cache("export", warmed["id"], file)
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        file.write_bytes(data)
        other = self.serve(data_dir=self.folder / "other", arguments=shared)
        self.assertEqual(other.terminate(), 0)
        report = self.cache("import", file, folder="other")
        blocks = int(report.split()[0])
        self.assertTrue(0 < blocks < warmed["blocks"], report)
        other.restart()
        hit = self.ask(other, "moved")
        self.assertEqual(hit.tier("disk"), 32 * blocks)
        self.assertEqual(hit.answer, cold.answer)
        file.write_bytes(b"not a prefix" * 100)
        self.assertIn("not an exported prefix", self.cache("import", file, folder="other", code=1))

    def test_another_models_kv_is_imported_only_when_asked_to(self):
        shared = self.share_a_secret()
        running = self.serve(arguments=shared)
        warmed = self.warm(running, "moved")
        file = self.folder / "prefix.kvgate"
        self.cache("export", warmed["id"], file)
        of_file = self.prefixes(running)[warmed["id"]]["fingerprint"]
        # The same model with KV of another type: none of it could be read.
        other = self.serve(data_dir=self.folder / "other",
                           arguments=shared + ["--set", "engine.kv_dtype=q8_0"])
        own = self.warm(other, "something else")["id"]
        here = self.prefixes(other)[own]["fingerprint"]
        self.assertNotEqual(of_file, here)
        for is_serving in (True, False):
            refused = self.cache("import", file, folder="other", code=1)
            for named in (of_file, here, "--any"):
                self.assertIn(named, refused)
            if is_serving:
                self.assertEqual(len(self.prefixes(other)), 1)
                self.assertEqual(other.terminate(), 0)
        self.assertIn("blocks imported", self.cache("import", file, "--any", folder="other"))

    def test_only_its_tenant_can_pin_and_export_a_prefix(self):
        running = self.serve()
        theirs = self.warm(running, "theirs", headers=tenant("alice"))["id"]
        path = f"/kvgate/v1/prefixes/{theirs}"
        self.assertEqual(running.get(f"{path}/export").status, 403)
        self.assertEqual(running.get(f"{path}/export", tenant("bob")).status, 403)
        self.assertEqual(running.send(f"{path}/pin", {}, tenant("bob")).status, 403)
        self.assertEqual(running.get(f"{path}/export", tenant("alice")).status, 200)
        pinned = self.assert_ok(running.send(f"{path}/pin", {"priority": 3}, tenant("alice"))).json
        self.assertEqual((pinned["id"], pinned["pinned"], pinned["priority"]), (theirs, True, 3))

    def test_other_numerics_recompute_a_pinned_prefix_and_the_pin_follows(self):
        running = self.serve()
        old = self.warm(running, "kept", name="agent")["id"]
        self.assertEqual(running.terminate(), 0)
        other = self.serve(arguments=["--kv-dtype", "f32"])
        self.wait_for_log(other, "pinned prefix agent is in memory")
        self.assertGreater(self.ask(other, "kept").tier("device"), 32 * 10)
        rows = self.prefixes(other)
        self.assertFalse(rows[old]["pinned"])
        self.assertEqual([row["name"] for row in rows.values() if row["pinned"]], ["agent"])

    def test_the_command_warms_through_a_server_and_without_one(self):
        request = self.folder / "request.json"
        request.write_text(json.dumps({"messages": [self.system("warmed")]}))
        here = ["--model", self.tiny(), "--kv-memory", "64MiB", "--data-dir", self.folder / "data"]
        self.assertIn("on disk, pinned", self.kvgate("warm", request, "--name", "agent", *here))
        running = self.serve()
        self.wait_for_log(running, "pinned prefix agent is in memory")
        self.assertGreater(self.ask(running, "warmed").tier("device"), 0)
        again = self.kvgate("warm", request, "--data-dir", self.folder / "data")
        self.assertIn("on disk\n", again)
        request.write_text("[]")
        self.assertIn("not a request", self.kvgate("warm", request, *here, code=2))

    def test_bad_requests_are_refused_by_their_field(self):
        running = self.serve()
        path = "/kvgate/v1/prefixes"

        def refused(where, body, status=400, headers=None):
            reply = running.send(f"{path}/{where}", body, headers)
            self.assertEqual(reply.status, status, reply.body)
            return reply.error

        chat = {"model": "local", "messages": [self.system("x")]}
        error = refused("warm", {**chat, "kvgate": {"priority": 0}})
        self.assertEqual(error["param"], "kvgate.priority")
        self.assertEqual(refused("warm", {"model": "local"})["param"], "messages")
        self.assertIn("block", refused("warm", {"model": "local", "prompt": "x"})["message"])
        refused("warm", {**chat, "model": "gpt-9"}, 404)
        refused("xyz/pin", {})
        refused("0" * 32 + "/pin", {}, 404)
        refused("import", {}, 415)
        self.assertEqual(running.get(f"{path}/{'0' * 32}/export").status, 404)
        error = refused("import", b"junk" * 100, headers={
            "Content-Type": "application/octet-stream"})
        self.assertIn("not an exported prefix", error["message"])

    def test_what_was_spent_of_the_write_budget_outlives_a_restart(self):
        running = self.serve(arguments=["--set", "store.write_budget=1GiB"])
        budget = running.stats()["write_budget"]
        self.assertEqual(budget["bytes_per_day"], 1 << 30)
        self.assertEqual(running.terminate(), 0)
        running.restart()
        self.assertGreaterEqual(running.stats()["write_budget"]["spent_bytes"],
                                budget["spent_bytes"])


KEYS = {"alice": "user", "bob": "user", "root": "admin"}


def of(name):
    return {"Authorization": f"Bearer key-of-{name}"}


class ListedPrefixesTest(Case):
    def gateway(self):
        """Memory for some 4000 tokens, and as much behind it in the host arena."""
        config = self.folder / "kvgate.toml"
        config.write_text("".join(
            f'[[key]]\nname = "{name}"\nrole = "{role}"\n'
            f'sha256 = "{hashlib.sha256(f"key-of-{name}".encode()).hexdigest()}"\n'
            for name, role in KEYS.items()))
        return self.serve(arguments=["--config", str(config), "--set", "engine.kv_memory=2MiB",
                                     "--set", "cache.host_memory=2MiB"])

    def listed(self, running, name):
        return self.assert_ok(running.get("/kvgate/v1/prefixes", of(name))).json

    def rows(self, running, name):
        return {row["id"]: row for row in self.listed(running, name)["data"]}

    def wait_on_disk(self, running):
        wait_until(lambda: server.kv_is_on_disk(running.get("/kvgate/v1/stats", of("root")).json),
                   "all KV is on disk")

    def ask(self, running, name="alice", text=None):
        return self.assert_ok(running.complete(text or text_of("listed", 300), max_tokens=1,
                                               headers=of(name)))

    def push_out(self, running, one, tier):
        """Bob's prompts, until Alice's prefix is no longer in a faster tier."""
        for index in range(60):
            if self.rows(running, "alice")[one]["tier"] == tier:
                return
            self.ask(running, "bob", text_of(f"{tier} {index}", 500))
        self.fail(f"it is never in the tier {tier}: {self.rows(running, 'alice')[one]}")

    def cache_ls(self, running, name, *more):
        made = subprocess.run(
            [server.binary_path(), "cache", "ls", "--url", f"http://{running.address}",
             "--key-env", "KVGATE_TEST_KEY", *more], capture_output=True, text=True, timeout=60,
            env={**os.environ, "KVGATE_TEST_KEY": f"key-of-{name}"})
        self.assertEqual(made.returncode, 0, made.stderr)
        return made.stdout

    def test_hits_of_memory_and_disk_and_what_they_saved_are_their_tenants_alone(self):
        begin_us = time.time() * 1e6
        running = self.gateway()
        self.assertEqual(self.ask(running).cached_tokens, 0)
        saved = sum(self.ask(running).cached_tokens for _ in range(2))
        self.assertGreater(saved, 200)
        # What is not yet on disk holds a quarter of the memory, and no more is written meanwhile.
        self.wait_on_disk(running)
        self.ask(running, "bob")
        self.wait_on_disk(running)
        (one, row), = self.rows(running, "alice").items()
        self.assertEqual((row["hits"], row["shared_hits"], row["saved_tokens"]), (2, 0, saved))
        self.assertGreater(row["saved_ms"], 0)
        self.assertEqual((row["tier"], row["tiers"]),
                         ("device", {"device": row["tokens"], "host": 0, "disk": 0}))
        self.assertTrue(begin_us - 1e6 < self.listed(running, "alice")["hits_since"]
                        < time.time() * 1e6)
        # The same words of another tenant are another prefix, which nobody has read.
        (other, theirs), = self.rows(running, "bob").items()
        self.assertNotEqual(other, one)
        self.assertEqual((theirs["hits"], theirs["saved_tokens"]), (0, 0))
        self.assertEqual({one, other}, set(self.rows(running, "root")))
        # A hit in memory alone is a use, too.
        time.sleep(1.1)
        saved += self.ask(running).cached_tokens
        self.assertGreater(self.rows(running, "alice")[one]["last_used"], row["last_used"])
        for tier in ("host", "disk"):
            self.push_out(running, one, tier)
        self.wait_on_disk(running)
        again = self.ask(running)
        self.assertGreater(again.tier("disk"), 0)
        saved += again.cached_tokens
        row = self.rows(running, "alice")[one]
        self.assertEqual((row["hits"], row["saved_tokens"], row["tier"]), (4, saved, "device"))

        printed = self.cache_ls(running, "alice").splitlines()
        self.assertEqual(printed[0].split(), ["ID", "TOKENS", "SIZE", "TIER", "HITS", "SAVED",
                                              "USED", "AGO"])
        self.assertRegex(printed[1], rf"^{one} +\S+ +\S+ KiB device +4 ")
        self.assertLessEqual(max(map(len, printed)), 80)
        data = json.loads(self.cache_ls(running, "alice", "--json"))
        self.assertEqual([entry["id"] for entry in data["data"]], [one])
        self.assertEqual({**data["data"][0], "last_used": 0}, {**row, "last_used": 0})
        self.assertNotIn(one, self.cache_ls(running, "bob", "--json"))

        running.kill()
        running.restart()
        row = self.rows(running, "alice")[one]
        self.assertEqual((row["hits"], row["saved_tokens"], row["saved_ms"], row["tier"]),
                         (0, 0, 0, "disk"))
        self.assertGreater(self.ask(running).tier("disk"), 0)
        row = self.rows(running, "alice")[one]
        self.assertEqual((row["hits"], row["tier"]), (1, "device"))

    def test_requests_that_wait_for_one_another_and_those_that_share_are_counted(self):
        running = self.gateway()
        system = text_of("system", 200)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: self.ask(running, "alice", system + text_of("one", 80)),
                          range(4)))
        self.wait_on_disk(running)
        (one, row), = self.rows(running, "alice").items()
        self.assertEqual(row["hits"], 3, "one of four computed it")
        self.ask(running, "alice", system + text_of("another question", 80))
        self.wait_on_disk(running)
        self.ask(running, "alice", system + text_of("a third question", 80))
        self.wait_on_disk(running)
        rows = self.rows(running, "alice")
        self.assertEqual(len(rows), 3)
        self.assertEqual(rows[one]["hits"], 3)
        self.assertEqual({entry["hits"] for key, entry in rows.items() if key != one}, {0})
        self.assertEqual({entry["shared_hits"] for entry in rows.values()}, {2})


if __name__ == "__main__":
    unittest.main()
