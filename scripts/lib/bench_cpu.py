"""Prefill and decode of this engine and of another one, in turn on the same GGUF file.

Each round runs `kvgate bench engine` and then the peer: what else the machine does meets both. The
table has medians of the rounds, their spread, and the ratio; the limits are those of the same
rounds. COMMAND gets MODEL THREADS PROMPT_TOKENS DECODE_TOKENS as four more arguments and prints one
line `{"pp": tok/s, "tg": tok/s}` last (peer_llama_bench.sh, peer_node_llama_cpp.mjs).
"""

import argparse
import glob
import json
import os
import re
import shlex
import statistics
import subprocess
import sys

# `type threads pp GFLOP/s % tg GB/s %`, then the limits of the same run.
SPEEDS = re.compile(r"^(\S+)\s+\d+\s+([\d.]+)\s+[\d.]+\s+\d+%"
                    r"\s+([\d.]+)\s+[\d.]+\s+(\d+)%", re.M)
LIMITS = re.compile(r"limits here: (.*)")


def parse_arguments():
    parser = argparse.ArgumentParser(prog="scripts/bench cpu", description=__doc__.splitlines()[0])
    parser.add_argument("--peer", help="an adapter's command line; none: only this engine")
    parser.add_argument("--types", default="q8_0,q4_0,q4_k_m,f16")
    parser.add_argument("--shape", default="0.5b")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--decode", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--models", default="build/bench/models", help="where made models are kept")
    return parser.parse_args()


def run_ours(args, kind):
    command = [os.environ["KVGATE_BIN"], "bench", "engine", "--shape", args.shape, "--types", kind,
               "--threads", str(args.threads), "--prompt", str(args.prompt),
               "--decode", str(args.decode), "--repetitions", "3", "--cache", args.models]
    done = subprocess.run(command, capture_output=True, text=True)
    found = SPEEDS.search(done.stdout)
    if done.returncode != 0 or not found:
        sys.exit(f"kvgate bench engine failed:\n{done.stdout}{done.stderr}")
    return float(found[2]), float(found[3]), int(found[4]), LIMITS.search(done.stdout)[1]


def run_peer(args, model):
    command = shlex.split(args.peer) + [model, str(args.threads), str(args.prompt),
                                        str(args.decode)]
    done = subprocess.run(command, capture_output=True, text=True)
    lines = done.stdout.strip().splitlines()
    if done.returncode != 0 or not lines:
        sys.exit(f"{args.peer} failed:\n{done.stdout}{done.stderr}")
    speeds = json.loads(lines[-1])
    return float(speeds["pp"]), float(speeds["tg"])


def model_of(args, kind):
    found = [path for path in glob.glob(os.path.join(args.models, f"*-{kind}-*.gguf"))]
    newest = max(found, key=os.path.getmtime, default=None)
    if newest is None:
        sys.exit(f"no model of type {kind} in {args.models}")
    return newest


def spread(values):
    return f"{statistics.median(values):.1f} ({min(values):.1f}-{max(values):.1f})"


def measure(args, kind):
    ours, peers, limits = [], [], ""
    for _ in range(args.rounds):
        *speeds, limits = run_ours(args, kind)
        ours.append(speeds)
        if args.peer:
            peers.append(run_peer(args, model_of(args, kind)))
    for index, name in ((0, f"pp{args.prompt}"), (1, f"tg{args.decode}")):
        mine = [round_[index] for round_ in ours]
        line = f"{kind:<8} {name:<7} {spread(mine):>26}"
        if peers:
            theirs = [round_[index] for round_ in peers]
            ratio = statistics.median(a / b for a, b in zip(mine, theirs))
            line += f" {spread(theirs):>26} {ratio:>7.2f}"
        print(line, flush=True)
    share = statistics.median(round_[2] for round_ in ours)
    print(f"{'':<8} decode reads {share:.0f} % of the bandwidth; {limits}", flush=True)


def main():
    args = parse_arguments()
    args.models = os.path.join(args.models, args.shape)
    os.makedirs(args.models, exist_ok=True)
    print(f"{args.shape}, {args.threads} threads, {args.rounds} rounds; tok/s: median (least-most)")
    header = f"{'type':<8} {'':<7} {'kvgate':>26}"
    print(header + (f" {'peer':>26} {'ratio':>7}" if args.peer else ""))
    for kind in args.types.split(","):
        measure(args, kind)


if __name__ == "__main__":
    main()
