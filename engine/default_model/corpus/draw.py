"""The random generator of the corpus, and which patterns it may draw. Standard library only.

A pattern is whatever a text is made by: a form of sentence, question or document, a kind of entity,
a way to ask for a tool. Of each list of patterns some, chosen by their own bytes, are in no text
that is trained on. A corpus of the part "unseen" is made of these alone, so that its loss shows
what the model makes of words and forms that it was never taught.
"""

import random
import zlib

SHORTEST = 6  # lists with fewer patterns are not divided


def rank(pattern):
    """By its bytes; a function, whose repr would have its place in memory, by its name."""
    name = pattern.__name__ if callable(pattern) else repr(pattern)
    return zlib.crc32(name.encode())


class Patterns:
    """A list of patterns, of which a tenth (of a short list one) is held out."""

    def __init__(self, items):
        self.all = list(items)
        if not self.all:
            raise ValueError("a list of no patterns")
        count = 0 if len(self.all) < SHORTEST else max(1, len(self.all) // 10)
        held = set(sorted(range(len(self.all)), key=lambda i: (rank(self.all[i]), i))[:count])
        self.seen = [item for i, item in enumerate(self.all) if i not in held]
        self.unseen = [item for i, item in enumerate(self.all) if i in held] or self.seen

    def __len__(self):
        return len(self.all)

    def of(self, part):
        return self.unseen if part == "unseen" else self.seen


class Draw(random.Random):
    """random.Random that knows for which part of the corpus it draws."""

    part = "train"

    @classmethod
    def of(cls, seed, part="train"):
        made = cls(seed)
        made.part = part
        return made

    def pick(self, patterns):
        return self.choice(patterns.of(self.part))

    def picks(self, patterns, count):
        """Several different ones, as many as there are."""
        among = patterns.of(self.part)
        return self.sample(among, min(count, len(among)))

    def chance(self, share):
        return self.random() < share
