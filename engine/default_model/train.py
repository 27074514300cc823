#!/usr/bin/env python3
"""Trains the default model by the clock; goes on where it was stopped.

    train.py --work DIR --minutes 100 [--resume]

DIR has `tokenizer.json`, `train.*.npy` and `heldout.*.npy` (build.py writes them) and gets
`checkpoint.pt` every two minutes (written beside, synced, renamed: a kill costs at most that) and
`curve.csv`. Learning rate and curriculum follow the share of the minutes that has passed, so that
the budget holds on any machine; a run on a faster one sees more tokens.
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
LEFT_OUT_MAX = 20
SMALL = {"num_layers": 2, "hidden_dim": 64, "num_heads": 2, "num_kv_heads": 1, "head_dim": 32,
         "rotary_dim": 16, "ffn_dim": 96, "vocab_size": 768}
# Share of the time from which on rows of a length are seen. Short ones first: a step over them
# costs little, and copying is learnt from them.
CURRICULUM = [(0.0, 192), (0.06, 384), (0.18, 768), (0.40, 1536), (0.60, 3072), (0.75, 8192)]


def longest_at(share):
    return [length for begin, length in CURRICULUM if begin <= share][-1]


def rate_at(share, warm_up=0.01, falls_from=0.35):
    """Warm-up, a plateau, and a line down to a hundredth."""
    if share < warm_up:
        return share / warm_up + 0.01
    if share < falls_from:
        return 1.0
    return max(0.01, (1.0 - share) / (1.0 - falls_from))


def speed_of(dtype):
    """G operations per second in products of a type; the best of several, as others run too."""
    a, b = torch.randn(256, 256).to(dtype), torch.randn(256, 256).to(dtype)
    times = []
    for _ in range(6):
        begin = time.perf_counter()
        a @ b
        times.append(time.perf_counter() - begin)
    return 2 * 256 ** 3 / min(times) / 1e9


def choose_type(device):
    """bf16 on a GPU; on a CPU what is faster here."""
    if device != "cpu":
        return torch.bfloat16
    speeds = {dtype: speed_of(dtype) for dtype in (torch.float32, torch.bfloat16)}
    chosen = max(speeds, key=speeds.get)
    if speeds[chosen] < 20:
        print(f"products run at {speeds[chosen]:.0f} GFLOP/s only: the model will see few tokens. "
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
        self.heldout = Batches(self.work / "heldout", seed, tokens_max=4096)
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
    def heldout_loss(self):
        """Nats per token that is said, in a part of the corpus that is never trained on."""
        self.model.cast()
        total = {1.0: 0.0, 2.0: 0.0}
        count = {1.0: 0, 2.0: 0}
        random = numpy.random.RandomState(1)
        self.heldout.state = {i: 0 for i in self.heldout.rows}
        for _ in range(HELDOUT_BATCHES):
            # Without the share of the prompt that a step learns beside what is said.
            tokens, weights = self.heldout.draw(random, 2048, self.device, prompts=False)
            _, logs, places = self.model.loss(tokens, weights)
            marks = weights[:, 1:].reshape(-1)[places]
            for mark in total:
                total[mark] -= float(logs[marks == mark].sum())
                count[mark] += int((marks == mark).sum())
        said, read = (total[m] / max(1, count[m]) for m in (1.0, 2.0))
        return (total[1.0] + total[2.0]) / max(1, count[1.0] + count[2.0]), said, read

    def log(self, loss, heldout=None):
        row = {"minutes": round(self.seconds / 60, 2), "step": self.step_number,
               "tokens": self.tokens, "rate": round(rate_at(self.share), 4),
               "train": round(loss, 4), "heldout": "", "said": "", "read": ""}
        if heldout is not None:
            row.update(zip(("heldout", "said", "read"), (round(x, 4) for x in heldout)))
        self.rows.append(row)

        def write(out):
            text = [",".join(row)] + [",".join(map(str, r.values())) for r in self.rows]
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
        found = self.heldout_loss()
        self.log(self.smooth, found)
        print(f"held out: {found[0]:.3f} nats a token (said {found[1]:.3f}, read {found[2]:.3f})",
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
