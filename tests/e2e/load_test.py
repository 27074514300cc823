#!/usr/bin/env python3
"""64 clients at once for a minute (ten with KVGATE_TEST_FULL=1): no error, no leak, equal answers.

The clients are `kvgate bench serve`, so that no interpreter stands between the clocks. What it
measures is printed beside what the same server does alone; the machine is not this test's own, so
times are shown and not judged here (scripts/bench serve judges them).
"""

import json
import os
import statistics
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path

import server
from case import FULL, Case, wait_until
from health import HealthWatch

SECONDS = float(os.environ.get("KVGATE_LOAD_SECONDS", 600 if FULL else 60))
CLIENTS = 64
# Half of the prompts with a shared beginning; far more KV than the pool and the disk hold.
MIX = ["--prompt-tokens", "100:8000", "--output-tokens", "64", "--prompts", "96",
       "--shared-prefixes", "6", "--fresh", "0.3"]
SERVE = ["--kv-memory", "48MiB", "--disk-cache", "96MiB"]
# malloc's arenas, RocksDB's caches and the index settle within the first half.
RSS_GROWTH_MIB_MAX = 16
RSS_GROWTH_SHARE_MAX = 0.10


class Sampler(threading.Thread):
    """Memory, threads and open files of a process, twice a second."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.folder = Path(f"/proc/{pid}")
        self.rss_mib = []
        self.stopped = threading.Event()

    def field(self, name):
        text = (self.folder / "status").read_text()
        return int(text.split(name + ":")[1].split()[0])

    def open_files(self):
        return len(list((self.folder / "fd").iterdir()))

    def run(self):
        while not self.stopped.wait(0.5):
            self.rss_mib.append(self.field("VmRSS") / 1024)

    def end(self):
        self.stopped.set()
        self.join()


def idle(stats):
    engine = stats["engine"]
    return engine["running"] == 0 and engine["waiting"] == 0 and engine["blocks_used"] == 0


class LoadTest(Case):
    def load(self, running, *arguments):
        made = subprocess.run([server.binary_path(), "bench", "serve", "--json", "--url",
                               f"http://{running.address}", *map(str, arguments)],
                              capture_output=True, text=True, timeout=SECONDS + 300)
        self.assertIn(made.returncode, (0, 1), made.stderr)
        return json.loads(made.stdout)

    def check(self, report):
        self.assertEqual((report["errors"], report["different"], report["refused"]), (0, 0, 0),
                         report["first_error"])
        self.assertGreater(report["complete"], 0)

    def test_a_crowd_is_served_without_error_leak_or_difference(self):
        running = self.serve(arguments=SERVE)
        sampler = Sampler(running.process.pid)
        alone = self.load(running, "--clients", 1, "--seconds", 2, "--prompt-tokens", "20:40",
                          "--output-tokens", 64)
        decoding = self.load(running, "--clients", CLIENTS, "--seconds", 3, "--prompt-tokens",
                             "20:40", "--output-tokens", 64)
        chunk = self.load(running, "--clients", 1, "--seconds", 2, "--prompt-tokens", "256:256",
                          "--output-tokens", 1, "--fresh", 1, "--shared-prefixes", 0)
        running.wait_for("the warm-up to end", idle, timeout=60)
        files, threads = sampler.open_files(), sampler.field("Threads")
        sampler.start()
        with HealthWatch(self, running):
            report = self.load(running, "--clients", CLIENTS, "--seconds", SECONDS, "--cancel", 0.2,
                               *MIX)
        sampler.end()
        self.show(running, alone, decoding, chunk, report)

        for each in (alone, decoding, chunk, report):
            self.check(each)
        self.assertGreater(report["cancelled"], 0, "nobody left midway: the test showed less")
        self.assertGreater(report["cached_tokens"], 0)
        # Whoever left has left nothing: no work, no block, no socket, no thread.
        running.wait_for("no block in use", idle, timeout=60)
        time.sleep(0.5)
        # The store has further threads while it flushes or compacts, which it does for a while.
        wait_until(lambda: sampler.field("Threads") <= threads,
                   lambda: f"{sampler.field('Threads')} threads, before the load {threads}")
        self.assertLess(sampler.open_files(), files + 64, "beside sockets only RocksDB opens files")
        wait_until(lambda: self.metric(running, "kvgate_connections") == 1,
                   lambda: f"{self.metric(running, 'kvgate_connections')} connections")
        self.check_memory(sampler.rss_mib)
        self.assertEqual(running.terminate(), 0)

    def check_memory(self, samples):
        quarter = len(samples) // 4
        self.assertGreater(quarter, 3)
        early = statistics.median(samples[quarter:2 * quarter])
        late = statistics.median(samples[-quarter:])
        print(f"RSS {early:.1f} MiB in the second quarter, {late:.1f} MiB in the last",
              file=sys.stderr)
        self.assertLess(late - early, max(RSS_GROWTH_MIB_MAX, RSS_GROWTH_SHARE_MAX * early))

    def metric(self, running, name):
        for line in running.get("/metrics").body.decode().splitlines():
            if line.startswith(name + " "):
                return float(line.split()[1])
        self.fail(f"no metric {name}")

    def show(self, running, alone, decoding, chunk, report):
        def row(name, figures):
            print(f"{name:<34}" + "".join(f"{figures[p]:>10.1f}" for p in
                                          ("p50", "p95", "p99", "max")), file=sys.stderr)

        print(f"\n{SECONDS:.0f} s, {CLIENTS} clients: {report['complete']} answers, "
              f"{report['cancelled']} cancelled, {report['prompt_tokens']} prompt tokens "
              f"({report['cached_tokens']} cached), {report['output_tokens']} output tokens, "
              f"{running.stats()['engine']['preemptions']} preemptions", file=sys.stderr)
        print(f"{'ms':<34}{'p50':>10}{'p95':>10}{'p99':>10}{'max':>10}", file=sys.stderr)
        row("ITL of one client", alone["itl_ms"])
        row("ITL of 64 that only decode", decoding["itl_ms"])
        row("prefill of one 256-token chunk", chunk["ttft_ms"])
        row("ITL under load", report["itl_ms"])
        row("TTFT under load", report["ttft_ms"])


if __name__ == "__main__":
    unittest.main()
