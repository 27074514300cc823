"""The loss of a batch and its gradients by step/: what model.py computes, several times as fast.

On a CPU with AVX-512 BF16 where a C++ compiler is. Built once into the work folder.
"""

import ctypes
import shutil
import subprocess
from pathlib import Path

import torch

HERE = Path(__file__).resolve().parent / "step"
LAYER = ["attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm", "ffn_gate",
         "ffn_up", "ffn_down"]


def why_not(shape, device="cpu", cpuinfo=Path("/proc/cpuinfo")):
    """Why step/ cannot compute this shape here; None if it can."""
    if device != "cpu":
        return f"the device is {device}"
    flags = cpuinfo.read_text() if cpuinfo.exists() else ""
    if " avx512_bf16" not in flags:
        return "the CPU has no AVX-512 BF16"
    if shutil.which("g++") is None:
        return "there is no g++"
    widths = (shape.vocab_size, shape.hidden_dim, shape.ffn_dim)
    if shape.head_dim != 64 or any(width % 64 for width in widths) or shape.rotary_dim % 32:
        return "its widths are no multiples of 64"
    return None


def build(folder):
    """The library, in a folder; made anew where the sources are newer."""
    out = Path(folder) / "libstep.so"
    if not out.exists() or out.stat().st_mtime < max(p.stat().st_mtime for p in HERE.iterdir()):
        beside = out.with_suffix(".new")
        subprocess.run(["g++", "-std=c++20", "-O3", "-march=native", "-shared", "-fPIC", "-pthread",
                        "-w", "-I", str(HERE.parents[2]), "-o", str(beside),
                        str(HERE / "step.cc")], check=True)
        beside.replace(out)
    return out


class Step:
    def __init__(self, shape, folder, threads):
        self.shape = shape
        self.library = ctypes.CDLL(str(build(folder)))
        self.library.kvgate_step_new.restype = ctypes.c_void_p
        self.library.kvgate_step_loss.restype = ctypes.c_double
        sizes = (ctypes.c_int64 * 7)(shape.vocab_size, shape.num_layers, shape.hidden_dim,
                                     shape.num_heads, shape.num_kv_heads, shape.rotary_dim,
                                     shape.ffn_dim)
        self.names = ["token_embd", "output_norm"] + [
            f"blk.{i}.{name}" for i in range(shape.num_layers) for name in LAYER]
        self.step = ctypes.c_void_p(self.library.kvgate_step_new(
            sizes, ctypes.c_float(shape.rope_theta), ctypes.c_float(shape.norm_eps), threads))

    def __del__(self):
        if getattr(self, "step", None):
            self.library.kvgate_step_free(self.step)

    def pointers(self, arrays):
        """Of contiguous f32 arrays by name, in the order of step.h; null where there is none."""
        return (ctypes.c_void_p * len(self.names))(
            *(arrays[name].data_ptr() if name in arrays else None for name in self.names))

    def set_weights(self, weights):
        """f32 weights by name; copied."""
        self.library.kvgate_step_set_weights(self.step, self.pointers(weights))

    def loss(self, tokens, weights, gradients=None):
        """(weighted sum of losses, log p of the counted tokens, their rows); adds to gradients.

        As Model.loss: tokens and weights [B, T]; gradients by name, f32.
        """
        tokens, weights = tokens.contiguous(), weights.contiguous()
        batch, length = tokens.shape
        logs = torch.zeros(batch * (length - 1))
        total = self.library.kvgate_step_loss(
            self.step, ctypes.c_int64(batch), ctypes.c_int64(length),
            ctypes.c_void_p(tokens.data_ptr()), ctypes.c_void_p(weights.data_ptr()),
            None if gradients is None else self.pointers(gradients),
            ctypes.c_void_p(logs.data_ptr()))
        rows = weights[:, 1:].reshape(-1).nonzero()[:, 0]
        return total, logs[rows], rows

    def muon(self, weights, gradients, momenta, rate, decay):
        """One step of Muon on the layers' matrices, in place; the others' entries are not read."""
        self.library.kvgate_step_muon(
            self.step, self.pointers(weights), self.pointers(gradients), self.pointers(momenta),
            ctypes.c_float(rate), ctypes.c_float(decay))
