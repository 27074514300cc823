"""The transformer that is trained: Llama as the engine runs it, in PyTorch 1.13 and newer.

RMSNorm, rope on the first `rotary_dim` dimensions of a head (the others see no position, so that
what is looked up by content is found at any distance), grouped queries, SwiGLU, tied embeddings.

Weights and sums are f32; matrix products are `dtype`, bf16 where that is faster. The functions with
their own backward pass are those that PyTorch would compute in many passes through memory, which is
what a CPU spends its time on at this size. Attention keeps its probabilities and never sees a
column behind its chunk of rows.
"""

from dataclasses import asdict, dataclass

import torch

CHUNK = 256  # rows of queries at once
# Initial size of embeddings: large beside a step of the optimizer, so that what they mean stays.
EMBEDDING, OUTPUT_NORM = 0.1, 0.4


@dataclass
class Shape:
    vocab_size: int = 2560
    num_layers: int = 8
    hidden_dim: int = 256
    num_heads: int = 4
    num_kv_heads: int = 2
    head_dim: int = 64
    rotary_dim: int = 32
    ffn_dim: int = 512
    context: int = 8192
    rope_theta: float = 10000.0
    norm_eps: float = 1e-5

    def asdict(self):
        return asdict(self)


class RmsNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, eps, dtype):
        scale = torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
        ctx.save_for_backward(x, weight, scale)
        return (x * scale * weight).to(dtype)

    @staticmethod
    def backward(ctx, grad):
        x, weight, scale = ctx.saved_tensors
        grad = grad.float()
        normed = x * scale
        weight_grad = (grad * normed).sum(0)
        grad = grad * weight
        mean = (grad * normed).mean(-1, keepdim=True)
        return (grad - normed * mean) * scale, weight_grad, None, None


class SwiGlu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gate, up):
        ctx.save_for_backward(gate, up)
        return torch.nn.functional.silu(gate) * up

    @staticmethod
    def backward(ctx, grad):
        gate, up = ctx.saved_tensors
        sigmoid = torch.sigmoid(gate)
        silu = gate * sigmoid
        up_grad = grad * silu
        # silu' = sigmoid + silu * (1 - sigmoid)
        gate_grad = grad * up * (sigmoid + silu * (1 - sigmoid))
        return gate_grad, up_grad


class CausalAttention(torch.autograd.Function):
    """q [groups, heads of a group, T, D] (scaled), k and v [groups, T, D]."""

    @staticmethod
    def forward(ctx, q, k, v):
        groups, heads, length, dim = q.shape
        out = torch.empty_like(q)
        kept = []
        for begin in range(0, length, CHUNK):
            end = min(begin + CHUNK, length)
            rows = q[:, :, begin:end].reshape(groups, heads * (end - begin), dim)
            scores = torch.bmm(rows, k[:, :end].transpose(1, 2))
            hidden = torch.ones(end - begin, end - begin, dtype=torch.bool, device=q.device).triu(1)
            scores.view(groups, heads, end - begin, end)[..., begin:].masked_fill_(
                hidden, float("-inf"))
            shares = torch.softmax(scores, -1)
            out[:, :, begin:end] = torch.bmm(shares, v[:, :end]).view(groups, heads, -1, dim)
            kept.append(shares)
        ctx.save_for_backward(q, k, v, *kept)
        return out

    @staticmethod
    def backward(ctx, grad):
        q, k, v, *kept = ctx.saved_tensors
        groups, heads, length, dim = q.shape
        q_grad = torch.empty_like(q)
        k_grad = torch.zeros(k.shape, dtype=torch.float32, device=k.device)
        v_grad = torch.zeros_like(k_grad)
        for index, begin in enumerate(range(0, length, CHUNK)):
            end, shares = min(begin + CHUNK, length), kept[index]
            rows = q[:, :, begin:end].reshape(groups, heads * (end - begin), dim)
            out_grad = grad[:, :, begin:end].reshape(groups, heads * (end - begin), dim)
            v_grad[:, :end] += torch.bmm(shares.transpose(1, 2), out_grad)
            shares_grad = torch.bmm(out_grad, v[:, :end].transpose(1, 2))
            scores_grad = torch._softmax_backward_data(shares_grad, shares, -1, shares.dtype)
            q_grad[:, :, begin:end] = torch.bmm(scores_grad, k[:, :end]).view(groups, heads, -1,
                                                                             dim)
            k_grad[:, :end] += torch.bmm(scores_grad.transpose(1, 2), rows)
        return q_grad, k_grad.to(k.dtype), v_grad.to(v.dtype)


class CrossEntropy(torch.autograd.Function):
    """The sum of weight * -log p(target) over rows of hidden states."""

    @staticmethod
    def forward(ctx, x, table, targets, weights):
        logits = (x @ table.t()).float()
        logs = torch.log_softmax(logits, -1)
        picked = logs.gather(1, targets[:, None])[:, 0]
        grad = logs.exp_()
        grad[torch.arange(len(targets), device=x.device), targets] -= 1
        grad *= weights[:, None]
        ctx.save_for_backward(x, table, grad.to(x.dtype))
        ctx.mark_non_differentiable(picked)
        return -(picked * weights).sum(), picked

    @staticmethod
    def backward(ctx, grad, _):
        x, table, logits_grad = ctx.saved_tensors
        logits_grad = logits_grad * grad.to(logits_grad.dtype)
        return logits_grad @ table, logits_grad.t() @ x, None, None


def rope_tables(shape, length, device):
    """Cosine and sine [length, rotary_dim / 2]."""
    half = shape.rotary_dim // 2
    frequency = shape.rope_theta ** -(torch.arange(half, dtype=torch.float64) / half)
    angle = torch.arange(length, dtype=torch.float64)[:, None] * frequency
    return angle.cos().float().to(device), angle.sin().float().to(device)


def rotate(x, cosine, sine):
    """x [B, T, heads, head_dim]; the pairs are (i, i + half): `export.py` makes them neighbours."""
    half = cosine.shape[1]
    cosine, sine = (t[None, :, None].to(x.dtype) for t in (cosine, sine))
    first, second = x[..., :half], x[..., half:2 * half]
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine,
                      x[..., 2 * half:]], -1)


class Model:
    """The parameters by name, and the forward pass. `weights` are the f32 masters."""

    def __init__(self, shape, device="cpu", dtype=torch.float32, seed=0):
        self.shape, self.device, self.dtype = shape, device, dtype
        generator = torch.Generator().manual_seed(seed)
        self.weights = {name: self._initial(name, size, generator).to(device)
                        for name, size in self.sizes().items()}
        self._tables = {}
        self.cast()

    def sizes(self):
        s = self.shape
        out = {"token_embd": (s.vocab_size, s.hidden_dim), "output_norm": (s.hidden_dim,)}
        q, kv = s.num_heads * s.head_dim, s.num_kv_heads * s.head_dim
        for i in range(s.num_layers):
            out.update({
                f"blk.{i}.attn_norm": (s.hidden_dim,), f"blk.{i}.ffn_norm": (s.hidden_dim,),
                f"blk.{i}.attn_q": (q, s.hidden_dim), f"blk.{i}.attn_k": (kv, s.hidden_dim),
                f"blk.{i}.attn_v": (kv, s.hidden_dim), f"blk.{i}.attn_output": (s.hidden_dim, q),
                f"blk.{i}.ffn_gate": (s.ffn_dim, s.hidden_dim),
                f"blk.{i}.ffn_up": (s.ffn_dim, s.hidden_dim),
                f"blk.{i}.ffn_down": (s.hidden_dim, s.ffn_dim)})
        return out

    @staticmethod
    def _initial(name, size, generator):
        if len(size) == 1:
            # Logits of embeddings this large would be too sure of themselves.
            return torch.full(size, OUTPUT_NORM if name == "output_norm" else 1.0)
        if name.endswith(("attn_output", "ffn_down")):
            return torch.zeros(size)  # each layer begins as the identity
        scale = EMBEDDING if name == "token_embd" else size[1] ** -0.5
        return torch.randn(size, generator=generator) * scale

    @property
    def num_parameters(self):
        return sum(weight.numel() for weight in self.weights.values())

    def cast(self):
        """Makes the copies of the weights that the forward pass uses, in its type."""
        self.cast_weights = {
            name: w.detach().to(self.dtype if w.dim() == 2 else torch.float32).clone()
            .requires_grad_(True) for name, w in self.weights.items()}

    def take_gradients(self, into):
        """Adds the gradients of the copies to `into` (name -> f32), and clears them."""
        for name, copy in self.cast_weights.items():
            if copy.grad is not None:
                into[name] += copy.grad.float()
                copy.grad = None

    def hidden(self, tokens):
        """tokens [B, T] to hidden states [B * T, hidden_dim] in the type of the products."""
        shape, w = self.shape, self.cast_weights
        batch, length = tokens.shape
        if length not in self._tables:
            self._tables[length] = rope_tables(shape, length, tokens.device)
        cosine, sine = self._tables[length]
        x = torch.nn.functional.embedding(tokens.reshape(-1), w["token_embd"]).float()
        for i in range(shape.num_layers):
            normed = RmsNorm.apply(x, w[f"blk.{i}.attn_norm"], shape.norm_eps, self.dtype)
            x = x + self._attention(i, normed, batch, length, cosine, sine).float()
            normed = RmsNorm.apply(x, w[f"blk.{i}.ffn_norm"], shape.norm_eps, self.dtype)
            inner = SwiGlu.apply(*self._products(normed, i, "ffn_gate", "ffn_up"))
            x = x + (inner @ w[f"blk.{i}.ffn_down"].t()).float()
        return RmsNorm.apply(x, w["output_norm"], shape.norm_eps, self.dtype)

    def _products(self, x, i, *names):
        """x times several matrices, as one product."""
        matrices = [self.cast_weights[f"blk.{i}.{name}"] for name in names]
        return (x @ torch.cat(matrices).t()).split([len(m) for m in matrices], 1)

    def _attention(self, i, x, batch, length, cosine, sine):
        s, w = self.shape, self.cast_weights
        q, k, v = (t.reshape(batch, length, -1, s.head_dim)
                   for t in self._products(x, i, "attn_q", "attn_k", "attn_v"))
        q = rotate(q, cosine, sine) * s.head_dim ** -0.5
        k = rotate(k, cosine, sine)
        heads = s.num_heads // s.num_kv_heads
        q = q.view(batch, length, s.num_kv_heads, heads, s.head_dim).permute(0, 2, 3, 1, 4) \
            .reshape(batch * s.num_kv_heads, heads, length, s.head_dim)
        k, v = (t.transpose(1, 2).reshape(batch * s.num_kv_heads, length, s.head_dim)
                for t in (k, v))
        out = CausalAttention.apply(q, k, v)
        out = out.view(batch, s.num_kv_heads, heads, length, s.head_dim).permute(0, 3, 1, 2, 4)
        return out.reshape(batch * length, -1) @ w[f"blk.{i}.attn_output"].t()

    def loss(self, tokens, weights):
        """(the weighted sum of the losses of the next tokens, each one's log p, which rows).

        tokens [B, T]; weights [B, T] says how much the prediction of each token counts.
        """
        rows = weights[:, 1:].reshape(-1).nonzero()[:, 0]
        columns = tokens.shape[1] - 1
        places = rows // columns * tokens.shape[1] + rows % columns
        hidden = self.hidden(tokens)
        total, logs = CrossEntropy.apply(hidden[places], self.cast_weights["token_embd"],
                                         tokens[:, 1:].reshape(-1)[rows],
                                         weights[:, 1:].reshape(-1)[rows])
        return total, logs, rows

    @torch.no_grad()
    def logits(self, tokens):
        """Logits [T, vocab_size] of one sequence."""
        hidden = self.hidden(torch.tensor([tokens], device=self.device))
        return (hidden @ self.cast_weights["token_embd"].t()).float()
