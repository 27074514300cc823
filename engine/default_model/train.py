#!/usr/bin/env python3
"""Trains the default model by the clock; goes on where it was stopped.

    train.py --work DIR --minutes 100 [--resume]

DIR has `tokenizer.json`, `train.*.npy`, `heldout.*.npy` and, where it is to be looked at as well,
`unseen.*.npy` (build.py writes them), and gets `curve.csv` and, every two minutes, `checkpoint.pt`
(written beside, synced, renamed: a kill costs at most that). Learning rate and curriculum follow
the share of the minutes that has passed, so that the budget holds on any machine; a run on a faster
one sees more tokens.
"""

import argparse
import json
import math
import os
import sys
import time
from pathlib import Path

# Read by the C library and PyTorch when they are loaded: without them each large tensor is mapped
# and unmapped anew (five times slower), and AVX-512 is left unused.
ENVIRONMENT = {"ATEN_CPU_CAPABILITY": "avx512", "MALLOC_MMAP_THRESHOLD_": "4000000000",
               "MALLOC_TRIM_THRESHOLD_": "8000000000", "MALLOC_TOP_PAD_": "268435456"}
if __name__ == "__main__" and os.environ.get("MALLOC_TRIM_THRESHOLD_") is None:
    extra = dict(ENVIRONMENT)
    if "avx512f" not in (Path("/proc/cpuinfo").read_text() if os.path.exists("/proc/cpuinfo")
                         else ""):
        del extra["ATEN_CPU_CAPABILITY"]
    os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **extra})

import numpy  # noqa: E402
import torch  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parent))

import circuits  # noqa: E402
from data import Batches  # noqa: E402
from model import Model, Shape  # noqa: E402
from optimizer import Optimizer  # noqa: E402

CHECKPOINT_SECONDS = 120
HELDOUT_SECONDS = 300
HELDOUT_BATCHES = 16
HELDOUT_COLUMNS = ["heldout", "said", "read", "unseen", "unseen_said", "unseen_read"]
LEFT_OUT_MAX = 20
PROBE_STEADY, PROBE_SECONDS = 40, 20.0  # rounds of products, of which type is faster
SMALL = {"num_layers": 2, "hidden_dim": 64, "num_heads": 2, "num_kv_heads": 1, "head_dim": 32,
         "rotary_dim": 16, "ffn_dim": 96, "vocab_size": 768}
# Share of the time from which on rows of a length are seen. Short ones first: a step over them
# costs little, and copying is learnt from them.
CURRICULUM = [(0.0, 192), (0.03, 384), (0.08, 768), (0.40, 1536), (0.72, 3072), (0.88, 8192)]


def longest_at(share):
    return [length for begin, length in CURRICULUM if begin <= share][-1]


def rate_at(share, warm_up=0.01, falls_from=0.35):
    """Warm-up, a plateau, and a line down to a hundredth."""
    if share < warm_up:
        return share / warm_up + 0.01
    if share < falls_from:
        return 1.0
    return max(0.01, (1.0 - share) / (1.0 - falls_from))


def product_seconds(dtype, count=4):
    """The least of the times of a few products of a type; other work can only make it longer."""
    a, b = torch.randn(256, 256).to(dtype), torch.randn(256, 256).to(dtype)
    times = []
    for _ in range(count):
        begin = time.perf_counter()
        a @ b
        times.append(time.perf_counter() - begin)
    return min(times)


def compare_types(measure=product_seconds, clock=time.perf_counter):
    """The least seconds of a product in f32 and in bf16.

    Both are measured in turn until the ratio of the two minima has stayed within a twentieth for
    PROBE_STEADY rounds: beside other work a few products say nothing, as one type may have had the
    cores and the other not. PROBE_SECONDS bound it.
    """
    best = {torch.float32: math.inf, torch.bfloat16: math.inf}
    begin, steady, ratio = clock(), 0, None
    while steady < PROBE_STEADY and clock() - begin < PROBE_SECONDS:
        for dtype in best:
            best[dtype] = min(best[dtype], measure(dtype))
        now = best[torch.float32] / best[torch.bfloat16]
        steady = steady + 1 if ratio is not None and abs(now / ratio - 1) < 0.05 else 0
        ratio = now
    return best


def choose_type(device):
    """bf16 on a GPU; on a CPU what is faster here."""
    if device != "cpu":
        return torch.bfloat16
    best = compare_types()
    chosen = min(best, key=best.get)
    speed = 2 * 256 ** 3 / best[chosen] / 1e9
    if speed < 20:
        print(f"products run at {speed:.0f} GFLOP/s only: the model will see few tokens. "
              "f32 gets faster with libopenblas0-pthread, bf16 with a CPU that has avx512_bf16",
              flush=True)
    return chosen


def write_whole(path, write):
    """Calls write(file); the path holds the old bytes or the new ones, whatever happens."""
    beside = Path(f"{path}.new")
    with open(beside, "wb") as out:
        write(out)
        out.flush()
        os.fsync(out.fileno())
    os.replace(beside, path)
    folder = os.open(Path(path).parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


class Training:
    def __init__(self, work, shape, minutes, seed=0, optimizer="muon", tokens_per_step=12288,
                 device=None):
        self.work, self.minutes, self.seed = Path(work), minutes, seed
        self.device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        dtype = choose_type(self.device)
        self.model = Model(shape, self.device, dtype, seed)
        circuits.write(self.model, seed)
        self.optimizer = Optimizer(self.model.weights, optimizer, dtype=dtype)
        self.batches = Batches(self.work / "train", seed)
        self.heldout = {name: Batches(self.work / name, seed, tokens_max=4096)
                        for name in ("heldout", "unseen")
                        if (self.work / f"{name}.begins.npy").exists()}
        self.tokens_per_step = tokens_per_step
        self.step_number, self.tokens, self.seconds, self.smooth = 0, 0, 0.0, None
        self.rows = []  # of the curve
        self.left_out = 0  # steps in a row

    @property
    def path(self):
        return self.work / "checkpoint.pt"

    def save(self):
        state = {"shape": self.model.shape.asdict(), "weights": self.model.weights,
                 "optimizer": self.optimizer.state, "batches": self.batches.state,
                 "step": self.step_number, "tokens": self.tokens, "seconds": self.seconds,
                 "smooth": self.smooth, "rows": self.rows, "minutes": self.minutes}
        write_whole(self.path, lambda out: torch.save(state, out))

    def load(self):
        state = torch.load(self.path, map_location=self.device)
        if state["shape"] != self.model.shape.asdict():
            raise SystemExit(f"{self.path} has another shape: {state['shape']}")
        self.model.weights.update(state["weights"])
        self.optimizer.load(state["optimizer"])
        self.batches.state = state["batches"]
        self.step_number, self.tokens, self.seconds, self.smooth, self.rows = (
            state[key] for key in ("step", "tokens", "seconds", "smooth", "rows"))

    @property
    def share(self):
        return min(1.0, self.seconds / (60 * self.minutes))

    def step(self):
        """One step over several batches of rows of different lengths; returns its mean loss."""
        # All chance of a step comes from its number, so that a run goes on as it would have.
        random = numpy.random.RandomState((self.seed, self.step_number))
        drawn, size = [], 0
        while size < self.tokens_per_step:
            drawn.append(self.batches.draw(random, longest_at(self.share), self.device))
            size += drawn[-1][0].numel()
        self.model.cast()
        gradients = {name: torch.zeros_like(w) for name, w in self.model.weights.items()}
        total = weight = 0.0
        for tokens, weights in drawn:
            loss, _, _ = self.model.loss(tokens, weights)
            loss.backward()
            self.model.take_gradients(gradients)
            total += float(loss.detach())
            weight += float(weights[:, 1:].sum())
        self.step_number += 1
        if not math.isfinite(total):
            # Its rows are left out; many in a row mean that the weights are beyond help.
            self.left_out += 1
            if self.left_out > LEFT_OUT_MAX:
                raise SystemExit("the loss is not finite any more: begin anew with lower rates "
                                 "(optimizer.py)")
            return self.smooth or 0.0
        self.left_out = 0
        for gradient in gradients.values():
            gradient /= weight
        self.optimizer.step(gradients, rate_at(self.share))
        self.tokens += size
        return total / weight

    @torch.no_grad()
    def heldout_loss(self, name):
        """Nats per token: of all, of what is said, and of what is read.

        "heldout" has the patterns of what is trained on and other values; "unseen" has patterns
        that are in no text that is trained on.
        """
        batches = self.heldout[name]
        self.model.cast()
        total = {1.0: 0.0, 2.0: 0.0}
        count = {1.0: 0, 2.0: 0}
        random = numpy.random.RandomState(1)
        batches.state = {i: 0 for i in batches.rows}
        for _ in range(HELDOUT_BATCHES):
            # Without the share of the prompt that a step learns beside what is said.
            tokens, weights = batches.draw(random, 2048, self.device, prompts=False)
            _, logs, places = self.model.loss(tokens, weights)
            marks = weights[:, 1:].reshape(-1)[places]
            for mark in total:
                total[mark] -= float(logs[marks == mark].sum())
                count[mark] += int((marks == mark).sum())
        said, read = (total[m] / max(1, count[m]) for m in (1.0, 2.0))
        return (total[1.0] + total[2.0]) / max(1, count[1.0] + count[2.0]), said, read

    def log(self, loss, found=None):
        """A row of the curve; `found` has the losses of the texts that are held out."""
        row = {"minutes": round(self.seconds / 60, 2), "step": self.step_number,
               "tokens": self.tokens, "rate": round(rate_at(self.share), 4),
               "train": round(loss, 4), **dict.fromkeys(HELDOUT_COLUMNS, "")}
        for name, losses in (found or {}).items():
            columns = [c for c in HELDOUT_COLUMNS if c.startswith("unseen") == (name == "unseen")]
            row.update(zip(columns, (round(x, 4) for x in losses)))
        self.rows.append(row)

        def write(out):
            text = [",".join(row)] + [",".join(str(r.get(key, "")) for key in row)
                                      for r in self.rows]
            out.write(("\n".join(text) + "\n").encode())
        write_whole(self.work / "curve.csv", write)

    def run(self):
        saved = said = looked = self.seconds
        while self.share < 1.0:
            begin = time.perf_counter()
            loss = self.step()
            self.smooth = loss if self.smooth is None else self.smooth * 0.95 + loss * 0.05
            self.seconds += time.perf_counter() - begin
            if self.seconds - said > 20 or self.step_number == 1:
                said = self.seconds
                self.log(self.smooth)
                left = self.minutes - self.seconds / 60
                print(f"step {self.step_number}: loss {self.smooth:.3f}, "
                      f"{self.tokens / 1e6:.1f} M tokens, {self.tokens / self.seconds:.0f} a "
                      f"second, rows up to {longest_at(self.share)}, {left:.1f} min left",
                      flush=True)
            if self.seconds - looked > HELDOUT_SECONDS:
                looked = self.seconds
                self.show_heldout()
            if self.seconds - saved > CHECKPOINT_SECONDS:
                self.save()
                saved = self.seconds
        self.show_heldout()
        self.save()

    def show_heldout(self):
        found = {name: self.heldout_loss(name) for name in self.heldout}
        self.log(self.smooth, found)
        for name, (whole, said, read) in found.items():
            print(f"{name}: {whole:.3f} nats a token (said {said:.3f}, read {read:.3f})",
                  flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--work", required=True, help="folder with tokens; gets the checkpoint")
    parser.add_argument("--minutes", type=float, default=100)
    parser.add_argument("--resume", action="store_true", help="go on from its checkpoint")
    parser.add_argument("--threads", type=int, default=0, help="0: as many as there are cores")
    parser.add_argument("--small", action="store_true", help="a tiny shape, for tests")
    parser.add_argument("--optimizer", choices=["muon", "adamw"], default="muon")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tokens-per-step", type=int, default=12288)
    args = parser.parse_args()
    torch.set_num_threads(args.threads or os.cpu_count() or 1)
    vocab_size = json.loads(Path(args.work, "tokenizer.json").read_text())["vocab_size"]
    shape = Shape(**{**(SMALL if args.small else {}), "vocab_size": vocab_size})
    training = Training(args.work, shape, args.minutes, args.seed, args.optimizer,
                        args.tokens_per_step)
    if args.resume and training.path.exists():
        training.load()
    print(f"{training.model.num_parameters / 1e6:.2f} M parameters on {training.device}, products "
          f"in {training.model.dtype}, {torch.get_num_threads()} threads, at "
          f"{training.seconds / 60:.1f} of {args.minutes:g} minutes", flush=True)
    training.run()


if __name__ == "__main__":
    main()
