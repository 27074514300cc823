#!/usr/bin/env python3
"""Prints torch_vectors.h: what torch makes of the encoder that plain_encoder.h writes.

The layers are torch's own nn.TransformerEncoderLayer, so that the engine is compared with code of
other authors. Run it with a Python that has torch: torch_vectors.py > torch_vectors.h
"""

import math
import sys

import torch

LAYERS, HIDDEN, HEADS, FFN, VOCAB, CONTEXT, EPS = 2, 32, 4, 48, 60, 40, 1e-12
TEXTS = [[2, 7, 11, 59, 3], [2, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45,
                             46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 5, 6, 8, 9, 3]]
MASK = (1 << 64) - 1


def mix(x):
    x = ((x ^ (x >> 30)) * 0xbf58476d1ce4e5b9) & MASK
    x = ((x ^ (x >> 27)) * 0x94d049bb133111eb) & MASK
    return x ^ (x >> 31)


def tensor(name, *shape):
    """The values of plain_encoder.h's FillHashed."""
    key = 0xcbf29ce484222325
    for byte in name.encode():
        key = ((key ^ byte) * 0x100000001b3) & MASK
    if len(shape) == 1:
        middle, scale = (1.0, 0.3) if name.endswith("norm.weight") else (0.0, 0.3)
    else:
        middle, scale = 0.0, 2 / math.sqrt(shape[-1])
    values = []
    for i in range(math.prod(shape)):
        unit = (mix((key + i * 0x9e3779b97f4a7c15) & MASK) >> 40) / 8388608 - 1
        values.append(middle + scale * unit)
    return torch.tensor(values, dtype=torch.float32).to(torch.float64).reshape(shape)


def layer(index):
    one = torch.nn.TransformerEncoderLayer(
        HIDDEN, HEADS, FFN, dropout=0, activation="gelu", layer_norm_eps=EPS, batch_first=True,
        norm_first=False, dtype=torch.float64)
    prefix = f"blk.{index}."

    def weight_and_bias(name, rows, columns):
        return tensor(prefix + name + ".weight", rows, columns), tensor(prefix + name + ".bias",
                                                                        rows)

    projections = [weight_and_bias(f"attn_{which}", HIDDEN, HIDDEN) for which in "qkv"]
    output = weight_and_bias("attn_output", HIDDEN, HIDDEN)
    up, down = weight_and_bias("ffn_up", FFN, HIDDEN), weight_and_bias("ffn_down", HIDDEN, FFN)
    one.load_state_dict({
        "self_attn.in_proj_weight": torch.cat([weight for weight, _ in projections]),
        "self_attn.in_proj_bias": torch.cat([bias for _, bias in projections]),
        "self_attn.out_proj.weight": output[0], "self_attn.out_proj.bias": output[1],
        "linear1.weight": up[0], "linear1.bias": up[1],
        "linear2.weight": down[0], "linear2.bias": down[1],
        "norm1.weight": tensor(prefix + "attn_output_norm.weight", HIDDEN),
        "norm1.bias": tensor(prefix + "attn_output_norm.bias", HIDDEN),
        "norm2.weight": tensor(prefix + "layer_output_norm.weight", HIDDEN),
        "norm2.bias": tensor(prefix + "layer_output_norm.bias", HIDDEN)})
    return one.train()  # the fast path of eval() is another implementation


def main():
    torch.manual_seed(0)
    tokens = tensor("token_embd.weight", VOCAB, HIDDEN)
    positions = tensor("position_embd.weight", CONTEXT, HIDDEN)
    types = tensor("token_types.weight", 2, HIDDEN)
    layers = [layer(i) for i in range(LAYERS)]
    lines = []
    for text in TEXTS:
        x = tokens[text] + positions[:len(text)] + types[0]
        x = torch.nn.functional.layer_norm(x, (HIDDEN,), tensor("token_embd_norm.weight", HIDDEN),
                                           tensor("token_embd_norm.bias", HIDDEN), EPS)
        x = x.unsqueeze(0)
        for one in layers:
            x = one(x)
        for pooled in (x[0].mean(0), x[0, 0]):
            vector = torch.nn.functional.normalize(pooled, dim=0).tolist()
            lines.append("    {" + ", ".join(f"{value:.7g}f" for value in vector) + "},")
    print("// Written by torch_vectors.py. For each text the mean of its rows, then its first row.")
    print("#pragma once\n\n#include <vector>\n\nnamespace kvgate::embed {\n")
    print("// clang-format off")
    print("inline const std::vector<std::vector<float>> kTorchVectors = {")
    for line in lines:
        while len(line) > 100:
            cut = line.rindex(", ", 0, 99) + 1
            print(line[:cut])
            line = "     " + line[cut + 1:]
        print(line)
    print("};\n// clang-format on\n\n}  // namespace kvgate::embed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
