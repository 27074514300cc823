"""Muon for the matrices of the layers, AdamW for embeddings and norms.

Muon (K. Jordan, 2024) makes a momentum of gradients orthogonal by a few Newton-Schulz steps, which
are matrix products only, and so costs little where products are fast.
"""

import torch

STEPS = 5
COEFFICIENTS = (3.4445, -4.7750, 2.0315)


def orthogonalise(batch, dtype):
    """The nearest (semi-)orthogonal matrices, roughly; batch [N, rows, columns]."""
    a, b, c = COEFFICIENTS
    x = batch / (batch.flatten(1).norm(dim=1)[:, None, None] + 1e-7)
    x = x.to(dtype)
    tall = x.shape[1] > x.shape[2]
    if tall:
        x = x.transpose(1, 2).contiguous()
    for _ in range(STEPS):
        gram = torch.bmm(x, x.transpose(1, 2))
        x = a * x + torch.bmm(b * gram + c * torch.bmm(gram, gram), x)
    return (x.transpose(1, 2) if tall else x).float()


class Optimizer:
    """`step` changes the weights in place. All of its state is in `state`."""

    def __init__(self, weights, kind="muon", matrix_rate=0.02, rate=5e-3, decay=0.02,
                 dtype=torch.float32):
        self.weights, self.kind, self.dtype = weights, kind, dtype
        self.matrix_rate, self.rate, self.decay = matrix_rate, rate, decay
        self.matrices = [n for n, w in weights.items() if kind == "muon" and w.dim() == 2 and
                         n != "token_embd"]
        self.state = {"steps": 0}
        for name, weight in weights.items():
            self.state[name] = [torch.zeros_like(weight)] if name in self.matrices else \
                [torch.zeros_like(weight), torch.zeros_like(weight)]

    @torch.no_grad()
    def step(self, gradients, factor):
        """`factor` scales both learning rates."""
        self.state["steps"] += 1
        by_size = {}
        for name in self.matrices:
            by_size.setdefault(tuple(self.weights[name].shape), []).append(name)
        for (rows, columns), names in by_size.items():
            updates = []
            for name in names:
                momentum = self.state[name][0]
                momentum.lerp_(gradients[name], 0.05)
                updates.append(gradients[name].lerp(momentum, 0.95))
            rate = self.matrix_rate * factor
            scale = max(1.0, rows / columns) ** 0.5
            for name, update in zip(names, orthogonalise(torch.stack(updates), self.dtype)):
                self.weights[name].mul_(1 - rate * self.decay).add_(update, alpha=-rate * scale)
        self._adam([n for n in self.weights if n not in self.matrices], gradients, factor)

    def _adam(self, names, gradients, factor):
        first, second, count = 0.9, 0.95, self.state["steps"]
        for name in names:
            mean, square = self.state[name]
            mean.lerp_(gradients[name], 1 - first)
            square.lerp_(gradients[name].square(), 1 - second)
            denominator = (square / (1 - second ** count)).sqrt_().add_(1e-8)
            rate = self.rate * factor
            if self.weights[name].dim() == 2:
                self.weights[name].mul_(1 - rate * self.decay)
            self.weights[name].addcdiv_(mean, denominator, value=-rate / (1 - first ** count))

    def load(self, state):
        self.state = state
