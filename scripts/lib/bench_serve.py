"""scripts/bench serve: what a loaded server does, on the shape of SmolLM2-135M with random weights.

  decodes  tok/s of 1, 8 and 16 streams at once, as a ratio to one stream
  lanes    TTFT of a short prompt that comes while a 20K-token prompt is prefilled, in chunks
  agents   eight agents with one 4K prefix in the KV memory of four, with and without the cache
  gaps     ITL p99 of 64 mixed clients beside that of the same clients without prefill
"""

import argparse
import json
import random
import shutil
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "e2e"))
import server  # noqa: E402

SHAPE = dict(arch="llama", layers=30, hidden=576, heads=9, kv_heads=3, ffn=1536, vocab=49152,
             context=32768, seed=1)
# A model small enough that 64 clients with long prompts get somewhere.
SMALL = dict(arch="llama", layers=2, hidden=128, heads=4, kv_heads=2, ffn=256, vocab=512,
             context=8192, type="f32", seed=7)
KV_BYTES_PER_TOKEN = 30 * 2 * 3 * 64 * 2
LONG_TOKENS = 20000
CHUNK_TOKENS = 256  # engine.mixed_step_tokens: what a decoding client waits for
PREFIX_TOKENS = 4096
AGENTS, SLOTS, TURNS = 8, 4, 4
USER_TOKENS, ANSWER_TOKENS = 48, 16
SLOT_TOKENS = PREFIX_TOKENS + TURNS * (USER_TOKENS + ANSWER_TOKENS)


def row(name, value, bound="", ok=None):
    verdict = "" if ok is None else "ok" if ok else "missed"
    print(f"{name:<46}{value:>16}   {bound:<30}{verdict}", flush=True)
    return ok is not False


class Bench:
    def __init__(self, options):
        self.options = options
        self.folder = ROOT / "build" / "bench"
        self.rng = random.Random(3)

    def serve(self, model, *arguments):
        shutil.rmtree(self.folder / "serve-data", ignore_errors=True)
        return server.Server(model, self.folder / "serve-data",
                             ["--no-disk", *arguments, *self.options.serve_arguments])

    def model(self, kind):
        return server.make_model(self.folder / f"smollm2-135m-shape-{kind}.gguf", **SHAPE,
                                 type=kind)

    def tokens(self, count):
        return [self.rng.randrange(300, 40000) for _ in range(count)]

    def load(self, running, *arguments):
        made = subprocess.run([server.binary_path(), "bench", "serve", "--json", "--url",
                               f"http://{running.address}", *map(str, arguments)],
                              capture_output=True, text=True, check=False)
        if made.returncode != 0:
            raise server.ServerError(made.stderr + made.stdout)
        return json.loads(made.stdout)

    # --- decodes ---------------------------------------------------------------------------------

    def decodes(self):
        ok = True
        for kind in self.options.types:
            with self.serve(self.model(kind), "--kv-memory", "256MiB") as running:
                speed = {}
                for clients in (1, 8, 16):
                    report = self.load(running, "--clients", clients, "--seconds",
                                       self.options.seconds, "--prompt-tokens", "16:16",
                                       "--output-tokens", 64, "--token-ids", "300:40000")
                    speed[clients] = report["output_tokens"] / report["seconds"]
                row(f"{kind}: one stream", f"{speed[1]:.1f} tok/s")
                for clients in (8, 16):
                    ratio = speed[clients] / speed[1]
                    ok &= row(f"{kind}: {clients} streams", f"{speed[clients]:.1f} tok/s",
                              f"{ratio:.2f} x one, >= 3", ratio >= 3)
        return ok

    # --- lanes -----------------------------------------------------------------------------------

    def lanes(self):
        with self.serve(self.model(self.options.types[0]), "--kv-memory", "640MiB") as running:
            long = self.hold(running, self.tokens(LONG_TOKENS))
            running.wait_for("the long prefill", lambda s: s["engine"]["steps"] > 2, 60)
            chunks, ttfts = [], []
            for _ in range(self.options.runs):
                chunks.append(self.chunk_ms(running))
                ttfts.append(running.complete(self.tokens(24), 2, stream=True).ttft_ms)
                if running.stats()["engine"]["running"] == 0:
                    raise server.ServerError("the long prompt ended before the short ones did")
            long.close()
        chunk, typical = statistics.median(chunks), statistics.median(ttfts)
        row(f"one chunk of a prompt of {LONG_TOKENS}", f"{chunk:.0f} ms")
        return row(f"TTFT of 24 tokens behind {LONG_TOKENS}", f"{typical:.0f} ms",
                   f"{typical / chunk:.2f} chunks, <= 2", typical <= 2 * chunk)

    @staticmethod
    def chunk_ms(running):
        """How long a step of the long prefill takes while it is alone, at the depth it is at."""
        def steps():
            return running.stats()["engine"]["steps"]

        marks, last = [], steps()
        while len(marks) < 3:
            count = steps()
            if count != last:
                marks.append(time.monotonic())
                last = count
            time.sleep(0.002)
        return (marks[-1] - marks[0]) * 1000 / (len(marks) - 1)

    @staticmethod
    def hold(running, prompt):
        connection = running.connect()
        connection.request("POST", "/v1/completions", json.dumps(
            {"model": "local", "prompt": prompt, "max_tokens": 1}),
            {"Content-Type": "application/json"})
        return connection

    # --- agents ----------------------------------------------------------------------------------

    def agents(self):
        memory = f"{SLOTS * SLOT_TOKENS * KV_BYTES_PER_TOKEN >> 20}MiB"
        with self.serve(self.model(self.options.types[0]), "--kv-memory", memory) as running:
            prefix = self.tokens(PREFIX_TOKENS)
            turns = [self.turn(running, prompts, None)
                     for prompts in self.conversations(prefix)]
            before = running.stats()["engine"]["preemptions"]
        with self.serve(self.model(self.options.types[0]), "--kv-memory", memory) as running:
            cold = self.turn(running, next(self.conversations(prefix)), "nobody else's")
        _, computed, _ = turns[0]
        wanted = PREFIX_TOKENS + AGENTS * (USER_TOKENS + 32)
        row(f"{AGENTS} agents, no sharing: one turn", f"{cold[0]:.1f} s",
            f"{cold[1]} tokens prefilled")
        ok = row(f"{AGENTS} agents, one prefix: first turn", f"{turns[0][0]:.1f} s",
                 f"{computed} prefilled, <= {wanted}", computed <= wanted)
        for index, (seconds, computed, rate) in enumerate(turns[1:], 2):
            ok &= row(f"{AGENTS} agents, one prefix: turn {index}", f"{seconds:.1f} s",
                      f"{rate:.1%} of tokens hit, >= 95 %", rate >= 0.95)
        row("preemptions", str(before))
        return ok

    def conversations(self, prefix):
        """The prompts of all agents, turn by turn; each grows by what its agent says."""
        prompts = [list(prefix) for _ in range(AGENTS)]
        for _ in range(TURNS):
            for prompt in prompts:
                prompt += self.tokens(USER_TOKENS)
            yield prompts

    def turn(self, running, prompts, tenant):
        """All agents at once: seconds, prompt tokens computed, and the share that was hit."""
        replies = [None] * AGENTS

        def ask(index):
            headers = {"Authorization": f"Bearer {tenant} {index}"} if tenant else {}
            replies[index] = running.complete(prompts[index], ANSWER_TOKENS, headers)

        begin = time.monotonic()
        agents = [threading.Thread(target=ask, args=(index,)) for index in range(AGENTS)]
        for agent in agents:
            agent.start()
        for agent in agents:
            agent.join()
        seconds = time.monotonic() - begin
        for reply in replies:
            if reply is None or reply.status != 200:
                raise server.ServerError(f"an agent got no answer: {reply}")
        total = sum(reply.usage["prompt_tokens"] for reply in replies)
        cached = sum(reply.cached_tokens for reply in replies)
        return seconds, total - cached, cached / total

    # --- gaps ------------------------------------------------------------------------------------

    def gaps(self):
        model = server.make_model(self.folder / "small.gguf", **SMALL)
        with self.serve(model, "--kv-memory", "48MiB") as running:
            quiet = self.load(running, "--clients", 64, "--seconds", self.options.seconds,
                              "--prompt-tokens", "20:40")["itl_ms"]["p99"]
            chunk = self.load(running, "--clients", 1, "--seconds", 3, "--output-tokens", 1,
                              "--prompt-tokens", f"{CHUNK_TOKENS}:{CHUNK_TOKENS}", "--fresh", 1,
                              "--shared-prefixes", 0)["ttft_ms"]["p50"]
            loaded = self.load(running, "--clients", 64, "--seconds", 2 * self.options.seconds,
                               "--prompt-tokens", "100:8000", "--cancel", 0.1)["itl_ms"]["p99"]
        row("64 clients that only decode: ITL p99", f"{quiet:.1f} ms",
            f"one chunk {chunk:.1f} ms")
        bound = 2 * quiet + chunk
        return row("64 clients, prompts of 100-8000: ITL p99", f"{loaded:.1f} ms",
                   f"<= 2 x + chunk = {bound:.1f} ms", loaded <= bound)


def main():
    parts = ("decodes", "lanes", "agents", "gaps")
    parser = argparse.ArgumentParser(prog="scripts/bench serve", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=parts, default=parts)
    parser.add_argument("--types", nargs="+", choices=("q8_0", "f16"), default=["q8_0", "f16"])
    parser.add_argument("--seconds", type=int, default=15, help="of each load")
    parser.add_argument("--runs", type=int, default=5, help="short prompts behind the long one")
    parser.add_argument("serve_arguments", nargs="*", help="passed to kvgate serve, after --")
    bench = Bench(parser.parse_args())
    ok = [getattr(bench, part)() for part in parts if part in bench.options.parts]
    return 0 if all(ok) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except server.ServerError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
