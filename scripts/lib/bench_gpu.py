"""scripts/bench gpu: `kvgate bench gpu`, and where PyTorch and transformers are installed the same
shape with them behind it, each figure beside kvgate's of the same run.

Arguments are those of `kvgate bench gpu`. The comparison runs behind a run on a device that has
measured decode or prefill of the real shape.
"""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MODULES = ("torch", "transformers")
# What the comparison needs of a call's ten minutes.
COMPARISON_MINUTES = 2
# Llama-3.1-8B, as the shape of kvgate's is.
SHAPE = dict(hidden_size=4096, num_hidden_layers=32, num_attention_heads=32,
             num_key_value_heads=8, intermediate_size=14336, vocab_size=128256,
             max_position_embeddings=131072, rms_norm_eps=1e-5, tie_word_embeddings=False)
DECODE_STEPS = 32


def missing_modules():
    return [name for name in MODULES if importlib.util.find_spec(name) is None]


class Transformers:
    """The shape with random weights in bf16, on the device."""

    def __init__(self):
        import torch
        from transformers import LlamaConfig, LlamaForCausalLM
        self.torch = torch
        torch.set_default_dtype(torch.bfloat16)
        with torch.device("cuda"):
            self.model = LlamaForCausalLM(LlamaConfig(**SHAPE)).eval()

    def forward(self, ids, past=None):
        """(the most likely next tokens [batch, 1], the cache behind them)"""
        out = self.model.model(input_ids=ids, past_key_values=past, use_cache=True)
        logits = self.model.lm_head(out.last_hidden_state[:, -1:])
        return logits.argmax(-1), out.past_key_values

    def prompt(self, batch, count):
        return self.torch.randint(0, SHAPE["vocab_size"], (batch, count), device="cuda")

    def seconds(self, work):
        self.torch.cuda.synchronize()
        begin = time.perf_counter()
        work()
        self.torch.cuda.synchronize()
        return time.perf_counter() - begin

    def prefill(self, count):
        """tok/s; the better of two."""
        prompt = self.prompt(1, count)
        with self.torch.inference_mode():
            return count / min(self.seconds(lambda: self.forward(prompt)) for _ in range(2))

    def decode(self, batch, context):
        """tok/s of all sequences together."""
        with self.torch.inference_mode():
            ids, past = self.forward(self.prompt(batch, context))

            def steps():
                nonlocal ids, past
                for _ in range(DECODE_STEPS):
                    ids, past = self.forward(ids, past)
            steps()
            return batch * DECODE_STEPS / self.seconds(steps)


def compare(figures, model):
    """A row for each of kvgate's decode and prefill figures of bf16."""
    rows = []
    for figure in figures:
        words = figure["name"].split()
        if figure["part"] == "decode bf16":  # "64 sequences at 512"
            speed = model.decode(int(words[0]), int(words[3]))
        elif figure["part"] == "prefill bf16":  # "8192 tokens"
            speed = model.prefill(int(words[0]))
        else:
            continue
        rows.append({"part": figure["part"], "name": figure["name"], "unit": "tok/s",
                     "kvgate": figure["measured"], "transformers": speed,
                     "ratio": figure["measured"] / speed})
    return rows


def print_rows(rows):
    head = "beside PyTorch and transformers"
    print(f"\n{head:<44}{'kvgate':>14}{'theirs':>14}{'ratio':>8}")
    for row in rows:
        print(f"  {row['part'] + ': ' + row['name']:<42}{row['kvgate']:>14.1f}"
              f"{row['transformers']:>14.1f}{row['ratio']:>8.2f}")


def reason_against(arguments, figures):
    """Why there is no comparison; empty where there is one."""
    missing = missing_modules()
    if missing:
        return f"{' and '.join(missing)} not installed"
    if "cpu" in arguments or "tiny" in arguments:
        return "left out: of the real shape on a device only"
    if not any(figure["part"] in ("decode bf16", "prefill bf16") for figure in figures):
        return "left out: decode and prefill were not measured"
    import torch
    return "" if torch.cuda.is_available() else "left out: PyTorch finds no device"


def main():
    arguments = sys.argv[1:]
    as_json = "--json" in arguments
    if "--minutes" not in " ".join(arguments) and not missing_modules():
        arguments += ["--minutes", str(9 - COMPARISON_MINUTES)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "figures.json"
        command = [os.environ["KVGATE_BIN"], "bench", "gpu", *arguments]
        ran = subprocess.run([*command, "--json-file", path],
                             stdout=subprocess.DEVNULL if as_json else None)
        if not path.exists():  # it failed, or printed its help
            return ran.returncode
        report = json.loads(path.read_text())
    reason = reason_against(arguments, report["figures"])
    rows = [] if reason else compare(report["figures"], Transformers())
    if as_json:
        report["transformers"] = reason or rows
        print(json.dumps(report, indent=2))
    elif reason:
        print(f"PyTorch: {reason}")
    else:
        print_rows(rows)
    return ran.returncode


if __name__ == "__main__":
    sys.exit(main())
