"""scripts/bench shared: what another gateway's prefix costs, restored from a store that both share.

One gateway computes a prefix; others, whose data directories are new, restore it from a real
redis-server on this machine. Beside that stand the cold prefill, the hit on one's own disk after
kill -9, and the time of reading the same values from the server with nothing behind it. Then
requests that hit memory are timed while the store works, hangs (SIGSTOP) and is gone.
"""

import argparse
import os
import random
import secrets
import shutil
import socket
import statistics
import sys
import threading
import time

import bench_prefix
from bench_prefix import OUTPUT_TOKENS, PREFIX_TOKENS, TAIL_TOKENS, expect, row, server
from redis_server import RedisServer  # of tests/e2e, which bench_prefix has put on the path

SECRET = "KVGATE_BENCH_SECRET"
SECONDS = 8  # of each phase of the second part
P99_FACTOR_MAX = 1.10


class Members:
    """Gateways that share one store; each has a data directory of its own."""

    def __init__(self, options):
        self.folder = bench_prefix.ROOT / "build" / "bench" / "shared"
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.redis = RedisServer(self.folder / "redis")
        os.environ[SECRET] = secrets.token_hex(32)
        self.model = server.make_model(self.folder.parent / "qwen2.5-0.5b-shape.gguf",
                                       **bench_prefix.MODEL)
        self.options = options
        self.rng = random.Random(11)

    def gateway(self, name):
        arguments = ["--secret-env", SECRET, "--set",
                     f"store.shared=redis://127.0.0.1:{self.redis.port}",
                     *self.options.serve_arguments]
        return server.Server(self.model, self.folder / name, arguments)

    def tokens(self, count):
        return [self.rng.randrange(300, 100000) for _ in range(count)]

    def ask(self, running, prompt, output=OUTPUT_TOKENS):
        reply = running.complete(prompt, output, stream=True,
                                 stream_options={"include_usage": True})
        if reply.status != 200 or not reply.done:
            raise server.ServerError(f"{reply.status}: {reply.body[:500]!r} {reply.events[-1:]}")
        return reply


def wait_shared(running, blocks):
    running.wait_for("the prefix in the shared store",
                     lambda stats: stats["shared"]["writes"] >= blocks
                     and stats["shared"]["write_bytes_queued"] == 0, 60)


def read_all(redis):
    """Seconds and bytes of reading all values of the store on four connections at once."""
    keys = redis.keys("kvg:b:*")
    sizes = [0] * 4

    def read(index):
        with socket.create_connection(("127.0.0.1", redis.port)) as connection:
            stream = connection.makefile("rb")
            for key in keys[index::4]:
                connection.sendall(f"*2\r\n$3\r\nGET\r\n${len(key)}\r\n{key}\r\n".encode())
                size = int(stream.readline()[1:])
                sizes[index] += len(stream.read(size + 2)) - 2

    readers = [threading.Thread(target=read, args=(index,)) for index in range(4)]
    began = time.monotonic()
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    return time.monotonic() - began, sum(sizes)


def restore(members):
    """Replies cold, from the shared store and from the own disk, and what reading alone takes."""
    prefix = members.tokens(PREFIX_TOKENS)
    cold, shared, disk, reads = [], [], [], []
    with members.gateway("first") as first:
        cold.append(members.ask(first, prefix))
        wait_shared(first, PREFIX_TOKENS // 32)
        cold += [members.ask(first, members.tokens(PREFIX_TOKENS + TAIL_TOKENS))
                 for _ in range(members.options.cold_runs)]
    for run in range(members.options.runs):
        with members.gateway(f"other-{run}") as other:
            shared.append(members.ask(other, prefix + members.tokens(TAIL_TOKENS)))
            expect(shared[-1].tier("shared") >= PREFIX_TOKENS, "a shared run missed", shared[-1])
            other.wait_on_disk(timeout=60)
            time.sleep(1.1)  # one flush interval
            other.kill()
            other.restart()
            disk.append(members.ask(other, prefix + members.tokens(TAIL_TOKENS)))
            expect(disk[-1].tier("disk") >= PREFIX_TOKENS, "a disk run missed", disk[-1])
        reads.append(read_all(members.redis))
    return cold, shared, disk, reads


def p99_ms(times):
    return 1000 * sorted(times)[int(0.99 * len(times))]


def memory_hits(members, running, prompts, seconds):
    """Seconds of requests that hit memory, one after the other, while a second client's prompts are
    new, so that the store is asked and written."""
    stop = threading.Event()

    def fresh():
        while not stop.is_set():
            members.ask(running, members.tokens(200), 1)
            time.sleep(0.2)

    other = threading.Thread(target=fresh)
    other.start()
    times = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.monotonic()
        members.ask(running, prompts[len(times) % len(prompts)], 1)
        times.append(time.monotonic() - began)
    stop.set()
    other.join()
    return times


def disturb(members):
    """Times of memory hits by what the store does meanwhile."""
    prompts = [members.tokens(320) for _ in range(4)]
    times = {}
    with members.gateway("disturbed") as running:
        for prompt in prompts:
            members.ask(running, prompt, 1)
        times["works"] = memory_hits(members, running, prompts, SECONDS)
        members.redis.hang()
        times["hangs"] = memory_hits(members, running, prompts, SECONDS)
        members.redis.go_on()
        members.redis.kill()
        times["is gone"] = memory_hits(members, running, prompts, SECONDS)
    return times


def report(cold, shared, disk, reads):
    client, ms = bench_prefix.client_ms, bench_prefix.server_ms
    c, s, d = (client(replies) for replies in (cold, shared, disk))
    transfer = 1000 * statistics.median(seconds for seconds, _ in reads)
    size = statistics.median(size for _, size in reads)
    print(f"\n{'':<34}{'client':>14}{'server':>14}   bound")
    ok = [
        row("TTFT cold", f"{c:.1f} ms", f"{ms(cold):.1f} ms"),
        row("TTFT hit on the own disk", f"{d:.1f} ms", f"{ms(disk):.1f} ms"),
        row("reading the values alone", f"{transfer:.1f} ms",
            f"{size / transfer / 1e6:.2f} GB/s"),
        row("TTFT hit in the shared store", f"{s:.1f} ms", f"{ms(shared):.1f} ms",
            f"<= disk + reading = {d + transfer:.1f} ms", s <= d + transfer),
        row("cold / shared", f"{c / s:.0f} x"),
    ]
    return all(ok)


def report_disturbed(times):
    print(f"\n{'p99 of memory hits while the store':<34}{'p99':>14}{'requests':>14}   bound")
    base = p99_ms(times["works"])
    ok = [row("works", f"{base:.1f} ms", str(len(times["works"])))]
    for name in ("hangs", "is gone"):
        p99 = p99_ms(times[name])
        ok.append(row(name, f"{p99:.1f} ms", str(len(times[name])),
                      f"<= {P99_FACTOR_MAX} x = {P99_FACTOR_MAX * base:.1f} ms",
                      p99 <= P99_FACTOR_MAX * base))
    return all(ok)


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench shared", description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="gateways that restore the prefix")
    parser.add_argument("--cold-runs", type=int, default=2)
    parser.add_argument("serve_arguments", nargs="*", help="passed to kvgate serve, after --")
    members = Members(parser.parse_args())
    members.redis.start()
    try:
        print(f"{PREFIX_TOKENS} prefix tokens, {OUTPUT_TOKENS} new ones, {members.model.name}",
              flush=True)
        is_quick = report(*restore(members))
        is_calm = report_disturbed(disturb(members))
    finally:
        members.redis.kill()
    return 0 if is_quick and is_calm else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except server.ServerError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
