"""scripts/bench prefix: what a long shared prefix costs cold, from memory and from disk.

The prompt is PREFIX_TOKENS fixed token ids and a short tail; all requests are greedy streams of
OUTPUT_TOKENS. TTFT is taken at the client (request sent to first content) with the server's own
figure beside it. Each figure is the median of several runs.
"""

import argparse
import random
import shutil
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "e2e"))
import server  # noqa: E402

# The shape of Qwen2.5-0.5B; weights are random, which changes no timing.
MODEL = dict(arch="qwen2", layers=24, hidden=896, heads=14, kv_heads=2, ffn=4864, vocab=151936,
             context=8192, type="q8_0", seed=1)
PREFIX_TOKENS = 4096
STEP_TOKENS = 32
# New tokens behind the prefix in a hit: a short user turn.
TAIL_TOKENS = 16
OUTPUT_TOKENS = 32
# 24 layers x K and V x 2 heads x 64 x 2 bytes (f16).
KV_BYTES_PER_TOKEN = 24 * 2 * 2 * 64 * 2
BLOCK_TOKENS = 32
RESTORE_GB_PER_SECOND_MIN = 1.0


class Bench:
    def __init__(self, options):
        self.options = options
        self.folder = ROOT / "build" / "bench"
        self.rng = random.Random(11)
        self.model = server.make_model(self.folder / "qwen2.5-0.5b-shape.gguf", **MODEL)
        self.data = self.folder / "prefix-data"
        shutil.rmtree(self.data, ignore_errors=True)
        self.running = server.Server(self.model, self.data, options.serve_arguments)

    def tokens(self, count):
        """Ids of plain text: past the byte and control tokens, before the special ones."""
        return [self.rng.randrange(300, 100000) for _ in range(count)]

    def ask(self, prompt):
        reply = self.running.complete(prompt, OUTPUT_TOKENS, stream=True,
                                      stream_options={"include_usage": True})
        if reply.status != 200 or not reply.done:
            raise server.ServerError(f"{reply.status}: {reply.body[:500]!r} {reply.events[-1:]}")
        return reply

    def cold(self):
        """A prefix never seen before, each time."""
        return [self.ask(self.tokens(PREFIX_TOKENS + TAIL_TOKENS))
                for _ in range(self.options.cold_runs)]

    def memory(self, prefix):
        """The whole prefix resident: only the tail is new."""
        replies = [self.ask(prefix + self.tokens(TAIL_TOKENS)) for _ in range(self.options.runs)]
        for reply in replies:
            expect(reply.tier("device") >= PREFIX_TOKENS, "a memory run missed", reply)
        return replies

    def step(self, prefix):
        """A 32-token step over the resident prefix: what a perfect memory hit still has to do."""
        replies = [self.ask(prefix + self.tokens(STEP_TOKENS)) for _ in range(self.options.runs)]
        for reply in replies:
            expect(reply.cached_tokens >= PREFIX_TOKENS, "a step run missed", reply)
        return replies

    def disk(self, prefix):
        """The first request after kill -9 and a restart; each run restarts anew."""
        replies = []
        for _ in range(self.options.disk_runs):
            self.running.kill()
            self.running.restart()
            replies.append(self.ask(prefix + self.tokens(TAIL_TOKENS)))
            expect(replies[-1].tier("disk") >= PREFIX_TOKENS, "a disk run missed", replies[-1])
        return replies


def expect(condition, what, reply):
    if not condition:
        raise server.ServerError(f"{what}: {reply.explain}")


def client_ms(replies):
    return statistics.median(reply.ttft_ms for reply in replies)


def server_ms(replies):
    return statistics.median(reply.explain["ttft_ms"] for reply in replies)


def restore_ms(replies):
    """The server's own time for the load back."""
    return statistics.median(reply.explain["timings"]["restore_ms"] for reply in replies)


def folder_bytes(folder):
    """Bytes that the files take on disk, as du counts them."""
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())


def row(name, value, beside="", bound="", ok=None):
    verdict = "" if ok is None else "ok" if ok else "missed"
    print(f"{name:<34}{value:>14}{beside:>14}   {bound:<34}{verdict}")
    return ok is not False


def report(cold, memory, step, disk, stored, kv_bytes):
    c, m, s, d = (client_ms(replies) for replies in (cold, memory, step, disk))
    seconds = restore_ms(disk) / 1000
    gb_per_second = PREFIX_TOKENS * KV_BYTES_PER_TOKEN / seconds / 1e9
    print(f"\n{'':<34}{'client':>14}{'server':>14}   bound")
    ok = [
        row("TTFT cold", f"{c:.1f} ms", f"{server_ms(cold):.1f} ms"),
        row(f"{STEP_TOKENS}-token step, prefix resident", f"{s:.1f} ms",
            f"{server_ms(step):.1f} ms"),
        row("TTFT memory hit", f"{m:.1f} ms", f"{server_ms(memory):.1f} ms",
            f"<= 1.1 x step + 5 = {1.1 * s + 5:.1f} ms", m <= 1.1 * s + 5),
        row("TTFT disk hit after kill -9", f"{d:.1f} ms", f"{server_ms(disk):.1f} ms",
            f"<= memory + 50 = {m + 50:.1f} ms", d <= m + 50),
        row("restore from disk", f"{gb_per_second:.2f} GB/s", f"{seconds * 1000:.1f} ms",
            f">= {RESTORE_GB_PER_SECOND_MIN} GB/s (aim: 3)",
            gb_per_second >= RESTORE_GB_PER_SECOND_MIN),
        row("KV on disk after a flush", f"{stored / 2**20:.1f} MiB", f"{kv_bytes / 2**20:.1f} MiB",
            f"<= 1.05 x = {1.05 * kv_bytes / 2**20:.1f} MiB", stored <= 1.05 * kv_bytes),
        row("cold / memory", f"{c / m:.0f} x"),
        row("cold / disk", f"{c / d:.0f} x"),
    ]
    return all(ok)


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench prefix", description=__doc__)
    parser.add_argument("--runs", type=int, default=7, help="memory hits and steps")
    parser.add_argument("--cold-runs", type=int, default=3)
    parser.add_argument("--disk-runs", type=int, default=5)
    parser.add_argument("serve_arguments", nargs="*", help="passed to kvgate serve, after --")
    bench = Bench(parser.parse_args())
    prefix = bench.tokens(PREFIX_TOKENS)
    with bench.running:
        print(f"{PREFIX_TOKENS} prefix tokens, {OUTPUT_TOKENS} new ones, {bench.model.name}",
              flush=True)
        first = bench.ask(prefix)
        expect(first.cached_tokens == 0, "the first request was not cold", first)
        bench.running.wait_on_disk(timeout=60)
        time.sleep(1.1)  # one flush interval, so that no write races with du
        blocks = (PREFIX_TOKENS + OUTPUT_TOKENS - 1) // BLOCK_TOKENS
        kv_bytes = blocks * BLOCK_TOKENS * KV_BYTES_PER_TOKEN
        stored = folder_bytes(bench.data / "kv")
        memory = bench.memory(prefix)
        step = bench.step(prefix)
        cold = bench.cold()
        bench.running.wait_on_disk(timeout=60)
        disk = bench.disk(prefix)
    return 0 if report(cold, memory, step, disk, stored, kv_bytes) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except server.ServerError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
