"""A corpus as tokens, and batches of it.

`encode` writes three arrays beside each other: tokens, how much the prediction of each counts, and
where conversations begin. A conversation is one row of a batch and is never cut or packed with
another: rows of similar length go together, which costs less padding than a mask between packed
ones costs time.
"""

import json

import numpy
import torch

import chat

LENGTHS = [48, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024,
           1280, 1536, 1792, 2048, 2560, 3072, 3584, 4096, 5120, 6144, 8192]
# What is said counts; of the rest a share of the tokens counts a little, chosen anew each time.
PROMPT, SAID, READ = 0, 1, 2
WEIGHT_SAID, WEIGHT_READ = 1.0, 2.0  # answers that are read from a text are short
PROMPT_SHARE, PROMPT_WEIGHT = 0.15, 0.2
READING = ("reading", "recall")


def encode(tokenizer, corpus, prefix, context):
    """Returns the number of tokens and of bytes. Longer conversations are left out."""
    tokens, said, begins, size = [], [], [0], 0
    with open(corpus, encoding="utf-8") as lines:
        for line in lines:
            conversation = json.loads(line)
            mark = READ if conversation["kind"] in READING else SAID
            ids, marks = [], []
            for text, is_said in chat.segments(conversation):
                piece = tokenizer.encode(text)
                ids += piece
                marks += [mark if is_said else PROMPT] * len(piece)
                size += len(text.encode())
            if len(ids) <= context:
                tokens.append(numpy.array(ids, dtype=numpy.uint16))
                said.append(numpy.array(marks, dtype=numpy.uint8))
                begins.append(begins[-1] + len(ids))
    numpy.save(f"{prefix}.tokens.npy", numpy.concatenate(tokens))
    numpy.save(f"{prefix}.said.npy", numpy.concatenate(said))
    numpy.save(f"{prefix}.begins.npy", numpy.array(begins, dtype=numpy.int64))
    return begins[-1], size


class Batches:
    """Rows by length; each length has an order of its own, which begins anew when it is through.

    `state` is all that a checkpoint has to keep.
    """

    def __init__(self, prefix, seed=0, tokens_max=8192):
        self.tokens = numpy.load(f"{prefix}.tokens.npy", mmap_mode="r")
        self.said = numpy.load(f"{prefix}.said.npy", mmap_mode="r")
        self.begins = numpy.load(f"{prefix}.begins.npy")
        self.seed, self.tokens_max = seed, tokens_max
        sizes = numpy.diff(self.begins)
        bucket_of = numpy.searchsorted(LENGTHS, sizes)
        self.rows = {i: numpy.nonzero(bucket_of == i)[0] for i in sorted(set(bucket_of.tolist()))}
        self.mass = {i: float(sizes[rows].sum()) for i, rows in self.rows.items()}
        self.state = {i: 0 for i in self.rows}  # rows taken so far
        self._orders = {}

    def _take(self, bucket):
        rows, taken = self.rows[bucket], self.state[bucket]
        count = min(max(1, self.tokens_max // LENGTHS[bucket]), len(rows))
        epoch, at = divmod(taken, len(rows))
        if self._orders.get(bucket, (None,))[0] != epoch:
            order = numpy.random.RandomState((self.seed, bucket, epoch)).permutation(rows)
            self._orders[bucket] = (epoch, order)
        chosen = self._orders[bucket][1][at:at + count]
        self.state[bucket] = taken + len(chosen)
        return chosen

    def draw(self, random, longest, device="cpu", prompts=True):
        """(tokens [B, T], weights [B, T]) of one length of at most `longest`."""
        allowed = [i for i in self.rows if LENGTHS[i] <= longest] or [min(self.rows)]
        mass = numpy.array([self.mass[i] for i in allowed])
        return self.batch(self._take(allowed[random.choice(len(allowed), p=mass / mass.sum())]),
                          random if prompts else None, device)

    def batch(self, chosen, random=None, device="cpu"):
        length = int(max(self.begins[r + 1] - self.begins[r] for r in chosen))
        tokens = numpy.zeros((len(chosen), length), dtype=numpy.int64)
        said = numpy.full((len(chosen), length), 255, dtype=numpy.uint8)
        for index, row in enumerate(chosen):
            begin, end = self.begins[row], self.begins[row + 1]
            tokens[index, :end - begin] = self.tokens[begin:end]
            said[index, :end - begin] = self.said[begin:end]
        weights = numpy.select([said == SAID, said == READ], [WEIGHT_SAID, WEIGHT_READ], 0.0)
        if random is not None:
            heard = (said == PROMPT) & (random.random_sample(said.shape) < PROMPT_SHARE)
            weights[heard] = PROMPT_WEIGHT
        return (torch.from_numpy(tokens).to(device),
                torch.from_numpy(weights.astype(numpy.float32)).to(device))
