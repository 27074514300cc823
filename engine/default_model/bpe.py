"""Byte-level BPE: the trainer, the encoder, and what a GGUF file says of both.

Words are cut as `tokenizer.ggml.pre = qwen2` says: digits stand alone, so that numbers are copied
digit by digit and never have a spelling that was not seen in training. No merge joins a word with
the space or sign before it: a name is the same tokens behind a space, in quotes and at the
beginning of an answer, so that it can be copied. tests/engine/default_model compares the encoder's
ids with `kvgate tokenize`. Standard library only.
"""

import functools
import heapq
import json
import re
import unicodedata
from collections import Counter, defaultdict

# Ids 0, 1, 2, ... in this order, before the 256 bytes.
CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MARKS = ["<tool_call>", "</tool_call>", "<tools>", "</tools>"]
TYPE_NORMAL, TYPE_CONTROL, TYPE_USER = 1, 3, 4
PRE = "qwen2"
CONTRACTIONS = ("'s", "'t", "'re", "'ve", "'m", "'ll", "'d")
# Behind the last letter, number and separator of Unicode (U+323AF in version 15).
CODES_END = 0x40000


def byte_alphabet():
    """GPT-2's spelling of bytes as printable characters."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    spelled = {byte: chr(byte) for byte in plain}
    extra = 256
    for byte in range(256):
        if byte not in spelled:
            spelled[byte] = chr(extra)
            extra += 1
    return spelled


def classes():
    """The ranges of letters, numbers and separators for a class of a regular expression."""
    ranges, last, begin = {"L": [], "N": [], "Z": []}, "", 0
    for code in range(CODES_END):
        kind = unicodedata.category(chr(code))[0]
        if kind != last:
            if last in ranges:
                ranges[last].append(f"\\U{begin:08x}-\\U{code - 1:08x}")
            last, begin = kind, code
    return ("".join(ranges[kind]) for kind in "LNZ")


@functools.cache
def word_pattern():
    letter, number, separator = classes()
    space = "\\t-\\r\\x85" + separator
    return re.compile(
        "'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]"
        f"|[^\\r\\n{letter}{number}]?[{letter}]+"
        f"|[{number}]"
        f"| ?[^{space}{letter}{number}]+[\\r\\n]*"
        f"|[{space}]*[\\r\\n]+|[{space}]+(?![^{space}])|[{space}]+")


class Tokenizer:
    def __init__(self, merges):
        spelled = byte_alphabet()
        self.merges = [tuple(pair) for pair in merges]
        self.texts = CONTROL + MARKS + [spelled[byte] for byte in range(256)]
        self.types = [TYPE_CONTROL] * len(CONTROL) + [TYPE_USER] * len(MARKS) + [TYPE_NORMAL] * 256
        self._spelled = spelled
        self._bytes = {character: byte for byte, character in spelled.items()}
        self._ids = {text: index for index, text in enumerate(self.texts)}
        self._ranks = {}
        for rank, (left, right) in enumerate(self.merges):
            self._ranks[(self._ids[left], self._ids[right])] = (rank, len(self.texts))
            self._ids[left + right] = len(self.texts)
            self.texts.append(left + right)
            self.types.append(TYPE_NORMAL)
        self.end = CONTROL.index("<|im_end|>")
        self._words = {}
        self._pattern = word_pattern()
        marks = sorted(CONTROL + MARKS, key=len, reverse=True)
        self._marks = re.compile("(" + "|".join(re.escape(mark) for mark in marks) + ")")

    def __len__(self):
        return len(self.texts)

    def _encode_word(self, word):
        ids = [self._ids[self._spelled[byte]] for byte in word.encode()]
        while len(ids) > 1:
            best = min((self._ranks[pair] + (i,) for i, pair in enumerate(zip(ids, ids[1:]))
                        if pair in self._ranks), default=None)
            if best is None:
                break
            _, merged, at = best
            ids[at:at + 2] = [merged]
        if len(self._words) < 500_000:
            self._words[word] = ids
        return ids

    def encode(self, text):
        out = []
        for fragment in self._marks.split(text):
            if fragment in self._ids and self._marks.fullmatch(fragment):
                out.append(self._ids[fragment])
                continue
            for word in self._pattern.findall(fragment):
                out += self._words.get(word) or self._encode_word(word)
        return out

    def decode(self, ids):
        out = b""
        for index in ids:
            text = self.texts[index]
            out += text.encode() if self.types[index] != TYPE_NORMAL else \
                bytes(self._bytes[character] for character in text)
        return out.decode(errors="replace")

    def metadata(self):
        """Keys of a GGUF file."""
        return {
            "tokenizer.ggml.model": "gpt2",
            "tokenizer.ggml.pre": PRE,
            "tokenizer.ggml.tokens": self.texts,
            "tokenizer.ggml.token_type": self.types,
            "tokenizer.ggml.merges": [f"{left} {right}" for left, right in self.merges],
            "tokenizer.ggml.eos_token_id": self.end,
            "tokenizer.ggml.padding_token_id": 0,
            "tokenizer.ggml.add_bos_token": False,
            "tokenizer.ggml.add_eos_token": False,
        }

    def save(self, path):
        with open(path, "w", encoding="utf-8") as out:
            json.dump({"vocab_size": len(self), "merges": self.merges}, out, ensure_ascii=False)

    @staticmethod
    def load(path):
        with open(path, encoding="utf-8") as file:
            return Tokenizer(json.load(file)["merges"])


def count_words(texts):
    """How often each word occurs in texts without control tokens and marks, from which merges are
    made; a space or sign before letters counts apart from them."""
    pattern, counts = word_pattern(), Counter()
    marks = re.compile("|".join(re.escape(mark) for mark in CONTROL + MARKS))
    for text in texts:
        for fragment in marks.split(text):
            counts.update(pattern.findall(fragment))
    parts = Counter()
    for word, count in counts.items():
        if len(word) > 1 and word[-1].isalpha() and not word[0].isalpha() and \
                word.lower() not in CONTRACTIONS:
            parts[word[0]] += count
            word = word[1:]
        parts[word] += count
    return parts


class _Trainer:
    """Words as lists of symbols, the count of each pair, and the words that have it."""

    def __init__(self, counts):
        spelled = byte_alphabet()
        self.words, self.weights = [], []
        for word, count in sorted(counts.items()):
            if count > 1:
                self.words.append([spelled[byte] for byte in word.encode()])
                self.weights.append(count)
        self.counts, self.places = Counter(), defaultdict(set)
        for index, word in enumerate(self.words):
            for pair in zip(word, word[1:]):
                self.counts[pair] += self.weights[index]
                self.places[pair].add(index)
        # Ties go to the pair that is first in order, so that a run can be repeated.
        self.heap = [(-count, pair) for pair, count in self.counts.items()]
        heapq.heapify(self.heap)

    def best(self):
        while self.heap:
            count, pair = heapq.heappop(self.heap)
            if self.counts[pair] == -count:
                return pair if -count > 1 else None
        return None

    def merge(self, pair):
        changed = set()
        for index in self.places.pop(pair):
            word, weight = self.words[index], self.weights[index]
            merged, i = [], 0
            while i < len(word):
                if i + 1 < len(word) and (word[i], word[i + 1]) == pair:
                    merged.append(word[i] + word[i + 1])
                    i += 2
                else:
                    merged.append(word[i])
                    i += 1
            for old in zip(word, word[1:]):
                self.counts[old] -= weight
                changed.add(old)
            for new in zip(merged, merged[1:]):
                self.counts[new] += weight
                self.places[new].add(index)
                changed.add(new)
            self.words[index] = merged
        for other in changed:
            if self.counts[other] > 0 and other != pair:
                heapq.heappush(self.heap, (-self.counts[other], other))
        self.counts.pop(pair, None)


def train(counts, vocab_size):
    """The merges of a vocabulary of `vocab_size` tokens from counts of words."""
    trainer, merges = _Trainer(counts), []
    while len(merges) < vocab_size - len(CONTROL) - len(MARKS) - 256:
        pair = trainer.best()
        if pair is None:
            raise ValueError(f"the text gives only {len(merges)} merges")
        merges.append(pair)
        trainer.merge(pair)
    return Tokenizer(merges)
