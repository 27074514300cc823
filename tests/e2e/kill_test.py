#!/usr/bin/env python3
"""kill -9 at a random moment under load: what comes back is what a never-killed server says."""

import http.client
import json
import random
import threading
import time
import unittest

import server
from case import FULL, Case, tenant, text_of

ROUNDS = 100 if FULL else 10
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


if __name__ == "__main__":
    unittest.main()
