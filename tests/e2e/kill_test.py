#!/usr/bin/env python3
"""kill -9, and loss of power, at a random moment under load: what comes back is what a never-killed
server says, and all that was acknowledged (expected_state.py)."""

import http.client
import json
import os
import random
import shutil
import subprocess
import threading
import time
import unittest
from pathlib import Path

import server
from case import FULL, Case, tenant, text_of
from expected_state import Client

ROUNDS = 100 if FULL else 10
# By the oracle: kills, and losses of power.
KILLS = int(os.environ.get("KVGATE_KILLS", 300 if FULL else 3))
POWER_LOSSES = int(os.environ.get("KVGATE_POWER_LOSSES", 200 if FULL else 2))
CLIENTS = 4


def make_prompts(seed):
    """Twelve prompts on three shared prefixes: some blocks are shared, some are their own."""
    prefixes = [text_of(f"{seed} prefix {i}", 250 + 150 * i) for i in range(3)]
    return [f"{prefixes[i % 3]} {text_of(f'{seed} tail {i}', 20 + 15 * i)}" for i in range(12)]


def drive(running, prompts, seed, stop):
    """One client: random prompts until stopped or until the server is gone."""
    rng = random.Random(seed)
    while not stop.is_set():
        try:
            running.complete(rng.choice(prompts), max_tokens=rng.choice((1, 8, 40)),
                             stream=rng.random() < 0.5)
        except (OSError, http.client.HTTPException, json.JSONDecodeError):
            return  # killed in the middle of an answer: what this test is about


def kill_under_load(test, running, prompts, expected, rng, label):
    """Kills and restarts `running` while clients drive it; then each prompt must have its expected
    answer. Returns how many tokens came from disk."""
    stop = threading.Event()
    clients = [threading.Thread(target=drive, args=(running, prompts, rng.random(), stop))
               for _ in range(CLIENTS)]
    for client in clients:
        client.start()
    time.sleep(rng.uniform(0.05, 2.5))
    running.kill()
    stop.set()
    for client in clients:
        client.join()
    running.restart()
    disk_tokens = 0
    for index, prompt in enumerate(prompts):
        reply = test.assert_ok(running.complete(prompt))
        disk_tokens += reply.tier("disk")
        test.assertEqual(reply.answer, expected[index],
                         f"{label}, prompt {index}, explain {reply.explain}")
    return disk_tokens


class KillTest(Case):
    def test_the_answers_after_kill_9_are_those_of_a_server_that_was_never_killed(self):
        seed = random.SystemRandom().randrange(1 << 30)
        rng = random.Random(seed)
        prompts = make_prompts(seed)
        with server.Server(self.tiny(), self.folder / "never-killed") as never_killed:
            expected = []
            for index, prompt in enumerate(prompts):
                cold = self.assert_ok(never_killed.complete(prompt, headers=tenant(str(index))))
                self.assertEqual(cold.cached_tokens, 0)
                expected.append(cold.answer)

        killed = self.serve(data_dir=self.folder / "killed")
        disk_tokens = 0
        for round_index in range(ROUNDS):
            disk_tokens += kill_under_load(self, killed, prompts, expected, rng,
                                           f"seed {seed}, round {round_index}")
            # Later rounds begin with some prefixes gone, so that not every block is there already.
            if round_index % 4 == 3:
                killed.kill()
                killed = self.serve(data_dir=self.folder / f"killed-{round_index}")
        self.assertGreater(disk_tokens, 0, "no round restored anything: the test showed nothing")


class PowerLoss:
    """A server whose files are cut back to what it had synced, when that is asked for."""

    def __init__(self, shim, log, data):
        self.shim, self.log, self.data = shim, log, data

    def preloaded(self):
        return ["env", f"LD_PRELOAD={self.shim}", f"KVGATE_SYNC_LOG={self.log}"]

    def synced_bytes(self):
        synced = {}
        for line in self.log.read_text(errors="replace").splitlines():
            if line.startswith("S "):
                _, size, path = line.split(" ", 2)
                synced[path] = int(size)
            elif line.startswith("R "):
                source, target = line[2:].split("\t")
                synced.pop(target, None)
                if source in synced:
                    synced[target] = synced.pop(source)
        return synced

    def strike(self, rng):
        """REQUIRES: the process is gone. Returns how many files lost something."""
        synced = self.synced_bytes()
        num_cut = 0
        for file in [path for path in self.data.rglob("*") if path.is_file()]:
            size = file.stat().st_size
            if file.name in ("lock", "LOCK", "server.json") or file.stat().st_nlink > 1:
                continue
            kept = synced.get(str(file))
            if kept is None and rng.random() < 0.5:
                file.unlink()
            elif (kept or 0) < size:
                more = size - (kept or 0)
                extra = rng.randrange(more + 1) if rng.random() < 0.5 else 0
                os.truncate(file, (kept or 0) + extra)
            else:
                continue
            num_cut += 1
        # From here on all that is there is on the disk.
        with open(self.log, "w", encoding="utf-8") as log:
            for path in self.data.rglob("*"):
                if path.is_file():
                    log.write(f"S {path.stat().st_size} {path}\n")
        return num_cut


class ExpectedStateTest(Case):
    """The oracle of what was acknowledged, over many ends of one directory."""

    def setUp(self):
        super().setUp()
        chosen = os.environ.get("KVGATE_KILL_SEED")
        self.seed = int(chosen) if chosen else random.SystemRandom().randrange(1 << 30)
        self.rng = random.Random(self.seed)
        self.prompts = [text_of(f"{self.seed} cold {i}", 60 + 40 * i) for i in range(6)]
        self.clients = [Client(f"client {i}", self.rng.random()) for i in range(3)]
        self.num_compared = self.num_cut = 0

    def cold_answers(self):
        with server.Server(self.tiny(), self.folder / "cold", ["--no-disk"]) as cold:
            replies = [cold.complete(prompt, max_tokens=4, headers=tenant(str(i)))
                       for i, prompt in enumerate(self.prompts)]
        return [self.assert_ok(reply).answer for reply in replies]

    def live(self, num_rounds, arguments, power=None):
        expected = self.cold_answers()
        data = self.folder / "data"
        running = server.Server(self.tiny(), data, [
            "--set", "engine.kv_memory=64MiB", "--set", "store.flush_interval_ms=100",
            "--context", "4096", *arguments])
        if power is not None:
            plain = running.command
            running.command = lambda: [*power.preloaded(), *plain()]
        self.addCleanup(running.__exit__)
        running.start()
        for number in range(num_rounds):
            label = f"seed {self.seed}, round {number}"
            self.end_under_load(running)
            if power is not None:
                self.num_cut += power.strike(self.rng)
            running.restart()
            for client in self.clients:
                self.num_compared += client.check(self, running, label)
            for index in self.rng.sample(range(len(self.prompts)), 3):
                reply = self.assert_ok(running.complete(self.prompts[index], max_tokens=4))
                self.assertEqual(reply.answer, expected[index], f"{label}: {reply.explain}")
                self.num_compared += 1
        self.assertNotIn("WAS DAMAGED", running.log(), "nothing was lost, and this says so")
        num_acknowledged = sum(client.num_acknowledged for client in self.clients)
        self.assertGreater(num_acknowledged, 2 * num_rounds, "the test showed nothing")
        print(f"{num_rounds} ends, {num_acknowledged} writes acknowledged, {self.num_cut} files "
              f"cut, {self.num_compared} answers compared: nothing lost, nothing returned")

    def end_under_load(self, running):
        stop = threading.Event()
        faults = []

        def drive(client):
            try:
                client.drive(running, stop)
            except AssertionError as fault:
                faults.append(fault)

        threads = [threading.Thread(target=drive, args=(client,)) for client in self.clients]
        for thread in threads:
            thread.start()
        time.sleep(self.rng.uniform(0.05, 1.5))
        running.kill()
        stop.set()
        for thread in threads:
            thread.join()
        self.assertEqual(faults, [], f"seed {self.seed}")

    def test_kills_lose_nothing_that_was_acknowledged(self):
        self.live(KILLS, [])

    def test_losses_of_power_lose_nothing_where_writes_are_synced(self):
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            self.skipTest("no C compiler to make the shim with")
        shim = self.folder / "power_loss_shim.so"
        made = subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", shim,
                               Path(__file__).with_name("power_loss_shim.c"), "-ldl"],
                              capture_output=True, text=True, check=False)
        self.assertEqual(made.returncode, 0, made.stderr)
        power = PowerLoss(shim, self.folder / "synced", self.folder / "data")
        self.live(POWER_LOSSES, ["--set", "store.sync=true"], power)


if __name__ == "__main__":
    unittest.main()
