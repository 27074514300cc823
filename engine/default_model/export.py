#!/usr/bin/env python3
"""Makes a GGUF file of a checkpoint: export.py --work DIR --out FILE [--type f32|f16].

Rows of attn_q and attn_k are put in the order of llama's files, in which the two dimensions that
rope turns together are neighbours.
"""

import argparse
import sys
from pathlib import Path

import numpy
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))

import chat  # noqa: E402
import gguf  # noqa: E402
from bpe import Tokenizer  # noqa: E402
from model import Shape  # noqa: E402

NAME = "kvgate-default"
# What the logits are multiplied by. Clients that name no temperature get 1, at which so small a
# model says much that it does not mean: with this it is as 0.4 would be. Greedy answers are the
# same.
SHARPNESS = 2.5


def keys_of(shape, tokenizer, file_type, version):
    return {
        "general.architecture": "llama",
        "general.type": "model",
        "general.name": NAME,
        "general.version": version,
        "general.author": "the makers of kvgate",
        "general.description": "A small chat model that knows kvgate and prompt caching, trained "
                               "on texts of kvgate's own",
        "general.license": "Apache-2.0",
        "general.file_type": file_type,
        "llama.block_count": shape.num_layers,
        "llama.context_length": shape.context,
        "llama.embedding_length": shape.hidden_dim,
        "llama.feed_forward_length": shape.ffn_dim,
        "llama.attention.head_count": shape.num_heads,
        "llama.attention.head_count_kv": shape.num_kv_heads,
        "llama.attention.key_length": shape.head_dim,
        "llama.attention.value_length": shape.head_dim,
        "llama.attention.layer_norm_rms_epsilon": shape.norm_eps,
        "llama.rope.dimension_count": shape.rotary_dim,
        "llama.rope.freq_base": shape.rope_theta,
        "llama.vocab_size": shape.vocab_size,
        **tokenizer.metadata(),
        "tokenizer.chat_template": chat.TEMPLATE,
    }


def neighbours(weight, heads, shape):
    """Rows (i, i + half) of each head's rotated part become rows (2i, 2i + 1)."""
    half = shape.rotary_dim // 2
    order = [row for i in range(half) for row in (i, i + half)]
    order += range(shape.rotary_dim, shape.head_dim)
    by_head = weight.reshape(heads, shape.head_dim, -1)
    return by_head[:, order].reshape(weight.shape)


def tensors_of(weights, shape, matrix_type):
    out = []
    for name, weight in weights.items():
        array = weight.detach().cpu().float().numpy()
        if name == "output_norm":
            array = array * SHARPNESS
        if name.endswith("attn_q"):
            array = neighbours(array, shape.num_heads, shape)
        elif name.endswith("attn_k"):
            array = neighbours(array, shape.num_kv_heads, shape)
        kind = matrix_type if array.ndim == 2 else gguf.F32
        data = array.astype(numpy.float16 if kind == gguf.F16 else numpy.float32)
        out.append((name + ".weight", array.shape, kind, numpy.ascontiguousarray(data).tobytes()))
    return out


def export(checkpoint, tokenizer_path, out, matrix_type=gguf.F32, version="1"):
    state = torch.load(checkpoint, map_location="cpu")
    shape = Shape(**state["shape"])
    tokenizer = Tokenizer.load(tokenizer_path)
    if len(tokenizer) != shape.vocab_size:
        raise SystemExit(f"{tokenizer_path} has {len(tokenizer)} tokens, the model "
                         f"{shape.vocab_size}")
    keys = keys_of(shape, tokenizer, matrix_type, version)
    gguf.write(out, keys, tensors_of(state["weights"], shape, matrix_type))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--work", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--type", choices=["f32", "f16"], default="f32")
    parser.add_argument("--version", default="1")
    args = parser.parse_args()
    work = Path(args.work)
    export(work / "checkpoint.pt", work / "tokenizer.json", args.out,
           {"f32": gguf.F32, "f16": gguf.F16}[args.type], args.version)


if __name__ == "__main__":
    main()
