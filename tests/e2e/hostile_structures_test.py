#!/usr/bin/env python3
"""Another tenant's stream beside hostile schemas, grammars, prompts and templates from seeds: none
stops it, none keeps memory, none ends the process (40 of them; 10,000 with KVGATE_TEST_FULL=1)."""

import json
import re
import resource
import subprocess
import threading
import time
import unittest

import hostile_structures
from case import FULL, Case
from server import binary_path

NUM_STRUCTURES = 10_000 if FULL else 40
NUM_TEMPLATES = 1_000 if FULL else 12
GAP_SECONDS_MAX = 0.2  # more than beside ordinary requests
HELD_MIB_MAX = 256  # for one request, while it runs and behind it
CACHES_MIB_MAX = 512  # more than before all of them: what is remembered of many
# What stalls a stream does so every time; what the machine's other work does, does not.
ATTEMPTS = 4


class Stream:
    """A stream of another tenant that never ends; what passed between two of its tokens at most."""

    def __init__(self, server):
        self.server = server
        self.stopped = False
        self.longest = 0.0
        self.num_tokens = 0
        self.last = time.monotonic()
        self.failure = None
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        body = json.dumps({"model": "local", "prompt": "hello", "max_tokens": 6000, "stream": True,
                           "ignore_eos": True})
        headers = {"Content-Type": "application/json", "Authorization": "Bearer other"}
        while not self.stopped:
            connection = self.server.connect()
            try:
                connection.request("POST", "/v1/completions", body, headers)
                for line in connection.getresponse():
                    if self.stopped:
                        return
                    if line.startswith(b"data: {"):
                        now = time.monotonic()
                        self.longest = max(self.longest, now - self.last)
                        self.last = now
                        self.num_tokens += 1
            except OSError as error:
                self.failure = error
                return
            finally:
                connection.close()

    def longest_while(self, act):
        """The longest gap from before act() until two more tokens have come behind it."""
        self.longest = 0.0
        result = act()
        seen = self.num_tokens
        deadline = time.monotonic() + 60
        while self.num_tokens < seen + 2 and time.monotonic() < deadline:
            if self.failure is not None:
                raise AssertionError(f"the other stream failed: {self.failure}")
            time.sleep(0.002)
        return max(self.longest, time.monotonic() - self.last), result


def memory_mib(pid, what):
    with open(f"/proc/{pid}/status") as status:
        return int(re.search(what + r":\s+(\d+)", status.read()).group(1)) / 1024


def forget_peak(pid):
    with open(f"/proc/{pid}/clear_refs", "w") as refs:
        refs.write("5")


class HostileStructuresTest(Case):
    def setUp(self):
        super().setUp()
        self.server = self.serve(arguments=["--no-disk", "--threads", "1", "--log-level", "error"])
        self.stream = Stream(self.server)
        self.addCleanup(setattr, self.stream, "stopped", True)

    def ordinary(self, i):
        return {"model": "local", "messages": [{"role": "user", "content": f"hello {i}"}],
                "max_tokens": 8, "response_format": {"type": "json_schema", "json_schema": {
                    "name": "s", "schema": {"type": "object", "properties": {
                        f"p{i}": {"type": "integer"}}}}}}

    def test_no_structure_stalls_another_stream_or_keeps_memory(self):
        pid = self.server.process.pid
        post = lambda fields: self.server.send("/v1/chat/completions", {"model": "local", **fields})
        usual = 0.0
        for i in range(10):
            gap, reply = self.stream.longest_while(lambda: post(self.ordinary(i)))
            self.assert_ok(reply)
            usual = max(usual, gap)
        first_mib = memory_mib(pid, "VmRSS")
        slowest, largest = (0.0, ""), (0.0, "")
        for seed in range(NUM_STRUCTURES):
            name, fields = hostile_structures.structure(seed)
            forget_peak(pid)
            before_mib = memory_mib(pid, "VmRSS")
            gaps = []
            alone = 0.0
            for _ in range(ATTEMPTS):
                began = time.monotonic()
                gap, reply = self.stream.longest_while(lambda: post(fields))
                took = time.monotonic() - began
                self.assertIn(reply.status, (200, 400, 413), f"{name}: {reply.body[:300]}")
                if reply.status != 200:
                    self.assertTrue(reply.error["message"], name)
                gaps.append(gap)
                if gap <= usual + GAP_SECONDS_MAX:
                    break
                # What the machine's other work does to it in as much time.
                alone = max(alone, self.stream.longest_while(lambda: time.sleep(took))[0])
            self.assertIsNone(self.server.process.poll(), name)
            self.assertLessEqual(min(gaps), max(usual, alone) + GAP_SECONDS_MAX,
                                 f"{name}: the other stream stood still {gaps}; usual {usual:.3f}, "
                                 f"alone meanwhile {alone:.3f}")
            peak_mib = memory_mib(pid, "VmHWM") - before_mib
            slowest = max(slowest, (min(gaps), name))
            largest = max(largest, (peak_mib, name))
            self.assertLessEqual(peak_mib, HELD_MIB_MAX, name)
            self.assertLessEqual(memory_mib(pid, "VmRSS") - first_mib, CACHES_MIB_MAX, name)
        print(f"longest gap {slowest[0] * 1e3:.0f} ms ({slowest[1]}; usual {usual * 1e3:.0f} ms), "
              f"most memory {largest[0]:.0f} MiB ({largest[1]})")

    def test_templates_end_within_their_steps(self):
        data = self.folder / "in.json"
        data.write_text(json.dumps({"messages": [{"role": "user", "content": "hello"}]}))

        def cpu_seconds(source):
            path = self.folder / "t.jinja"
            path.write_text(source)
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            done = subprocess.run([binary_path(), "render", "--template", path, data],
                                  capture_output=True, timeout=600)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            self.assertIn(done.returncode, (0, 1, 2), f"{source}: {done.stderr[-300:]}")
            return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

        # All the steps that a template may take.
        usual = max(cpu_seconds("{% for a in range(99999) %}{% for b in range(999) %}{{ a }}"
                                "{% endfor %}{% endfor %}") for _ in range(2))
        for seed in range(NUM_TEMPLATES):
            source = hostile_structures.template(seed)
            taken = min(cpu_seconds(source) for _ in range(2))
            self.assertLessEqual(taken, 10 * usual, f"{seed}: {source[:200]}; usual {usual:.2f} s")


if __name__ == "__main__":
    unittest.main()
