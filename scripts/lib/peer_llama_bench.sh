#!/usr/bin/env bash
# An adapter of `scripts/bench cpu --peer` for llama.cpp's llama-bench, which must be in PATH or in
# LLAMA_BENCH. Usage: peer_llama_bench.sh MODEL THREADS PROMPT_TOKENS DECODE_TOKENS
set -euo pipefail
"${LLAMA_BENCH:-llama-bench}" -m "$1" -t "$2" -p "$3" -n "$4" -r 3 -fa 1 -ngl 0 -o json |
  python3 -c '
import json, sys
runs = json.load(sys.stdin)
speed = lambda is_prompt: next(r["avg_ts"] for r in runs if (r["n_prompt"] > 0) == is_prompt)
print(json.dumps({"pp": speed(True), "tg": speed(False)}))'
