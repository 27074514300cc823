"""Initial weights with which a model copies from the first step on.

Copying out of a text needs two heads that find each other: one that says at each place which token
stood before it, and a later one that looks for places behind the same token as now and says what
stands there (induction heads; Olsson et al., 2022). From random weights they form late and all at
once. Here they are written down, and training goes on from them:

- Each embedding has a constant in its last dimension, from which position heads make their queries
  and keys; for the output it adds the same to all tokens.
- Layer 0, every group: keys are queries turned by one position, so scores peak at the token
  before. Its value, a projection of the token, is written to dimensions that no embedding uses.
- Layer 1, every group, in the dimensions that see no position: the query is the present token, the
  key the token before; the value is the token, and adds to its own logit.
"""

import torch

from model import EMBEDDING

FREQUENCIES = 6  # of rope, from the fastest, that tell one position from its neighbours
SHARPNESS_POSITION, SHARPNESS_MATCH = 12.0, 18.0
OUTPUT = 4.0  # of what the match says, beside the token that stands there


def orthonormal(rows, columns, generator):
    """A matrix whose rows (or columns, if there are fewer of them) are orthogonal unit vectors."""
    tall = torch.randn(max(rows, columns), min(rows, columns), generator=generator)
    made = torch.linalg.qr(tall)[0]
    return made if rows >= columns else made.t()


def write(model, seed=0):
    """Changes the initial weights of `model` in place."""
    s, w = model.shape, model.weights
    if s.num_layers < 2 or s.hidden_dim < 2 * s.head_dim:
        return
    generator = torch.Generator().manual_seed(seed + 1)
    token = s.hidden_dim - s.head_dim - 1  # dimensions of the token, then those of the one before
    before = slice(token, token + s.head_dim)
    constant = s.hidden_dim - 1
    scale = EMBEDDING
    w["token_embd"][:, before] = 0
    w["token_embd"][:, constant] = scale * token ** 0.5
    # Half of the energy is the constant's, and a normed row has hidden_dim in all.
    half = (s.hidden_dim / 2) ** 0.5
    heads, per_group = s.num_heads, s.num_heads // s.num_kv_heads
    projection = orthonormal(s.head_dim, token, generator).to(w["token_embd"].device)
    _position(model, 0, constant, half)
    v, o = w["blk.0.attn_v"], w["blk.0.attn_output"]
    v.zero_()
    o.zero_()
    for group in range(s.num_kv_heads):
        v[group * s.head_dim:(group + 1) * s.head_dim, :token] = projection
    for head in range(heads):
        # As large in the stream as the token itself.
        o[before, head * s.head_dim:(head + 1) * s.head_dim] = \
            torch.eye(s.head_dim) * (scale * token ** 0.5 / half / heads)
    _match(model, 1, token, before, projection, generator, per_group)


def _position(model, layer, constant, half):
    """Queries and keys of a constant, with scores that peak one position back."""
    s, w = model.shape, model.weights
    q, k = w[f"blk.{layer}.attn_q"], w[f"blk.{layer}.attn_k"]
    q *= 0.1
    k *= 0.1
    pairs = s.rotary_dim // 2
    theta = s.rope_theta ** -(torch.arange(pairs, dtype=torch.float64) / pairs)
    used = min(FREQUENCIES, pairs)
    # q . k / sqrt(head_dim) of the constant is the sharpness for each frequency.
    size = (SHARPNESS_POSITION * s.head_dim ** 0.5) ** 0.5 / half
    for head in range(s.num_heads):
        q[head * s.head_dim:head * s.head_dim + used, constant] = size
    for group in range(s.num_kv_heads):
        at = group * s.head_dim
        k[at:at + used, constant] = size * theta[:used].cos().float()
        k[at + pairs:at + pairs + used, constant] = size * theta[:used].sin().float()


def _match(model, layer, token, before, projection, generator, per_group):
    """Queries of the present token, keys of the one before, values of the token."""
    s, w = model.shape, model.weights
    q, k = w[f"blk.{layer}.attn_q"], w[f"blk.{layer}.attn_k"]
    v, o = w[f"blk.{layer}.attn_v"], w[f"blk.{layer}.attn_output"]
    q *= 0.1
    k *= 0.1
    o.zero_()
    free = s.head_dim - s.rotary_dim
    # A normed token has a third of hidden_dim, projected to `free` of its dimensions.
    energy = s.hidden_dim / 3 * free / token
    size = (SHARPNESS_MATCH * s.head_dim ** 0.5 / energy) ** 0.5
    for group in range(s.num_kv_heads):
        picked = orthonormal(free, s.head_dim, generator)
        rows = slice(group * s.head_dim + s.rotary_dim, (group + 1) * s.head_dim)
        k[rows, before] = picked * size
        for head in range(group * per_group, (group + 1) * per_group):
            rows_q = slice(head * s.head_dim + s.rotary_dim, (head + 1) * s.head_dim)
            q[rows_q, :token] = picked @ projection * size
        values = orthonormal(s.head_dim, token, generator)
        v[group * s.head_dim:(group + 1) * s.head_dim, :token] = values
        v[group * s.head_dim:(group + 1) * s.head_dim, token:] *= 0.1
        for head in range(group * per_group, (group + 1) * per_group):
            o[:token, head * s.head_dim:(head + 1) * s.head_dim] = \
                values.t() * (OUTPUT * EMBEDDING * 3 ** 0.5 / per_group)
