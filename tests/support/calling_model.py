#!/usr/bin/env python3
"""A model that calls a tool, so that loops of tool calls can be tested with real clients.

    calling_model.py BASE OUT PIECE...

BASE is a model of one layer, of `kvgate make-model --arch qwen2 --type f16`. In OUT its attention
and its feed-forward network add nothing, so that what comes next depends on the last token alone:
behind a line feed, with which every generation prompt ends, come the PIECEs in their order, each
as one token that takes the place of another in the vocabulary, and then <|im_end|>.
"""

import random
import struct
import sys

NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q",
           12: "d"}
STRING, ARRAY = 8, 9
F32, F16 = 0, 1
ELEMENT_BYTES = {F32: 4, F16: 2}
ALIGNMENT = 32
LOGIT = 60.0  # of what comes next; of all else about a sixteenth of it


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def number(self, form):
        value, = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return value

    def bytes(self):
        size = self.number("Q")
        self.at += size
        return self.data[self.at - size:self.at]

    def value(self, kind):
        if kind == STRING:
            return self.bytes()
        if kind != ARRAY:
            return self.number(NUMBERS[kind])
        element = self.number("I")
        return element, [self.value(element) for _ in range(self.number("Q"))]


def read(data):
    """{key: (kind, value)} and {name: [dims, dtype, bytes]}, in the file's order."""
    reader = Reader(data)
    magic, version = reader.data[:4], 3
    reader.at = 4
    if magic != b"GGUF" or reader.number("I") != version:
        raise ValueError("not a GGUF file of version 3")
    num_tensors, num_keys = reader.number("Q"), reader.number("Q")
    metadata = {}
    for _ in range(num_keys):
        key, kind = reader.bytes(), reader.number("I")
        metadata[key] = kind, reader.value(kind)
    infos = []
    for _ in range(num_tensors):
        name = reader.bytes()
        dims = [reader.number("Q") for _ in range(reader.number("I"))]
        infos.append((name, dims, reader.number("I"), reader.number("Q")))
    begin = -(-reader.at // ALIGNMENT) * ALIGNMENT
    tensors = {}
    for name, dims, dtype, offset in infos:
        size = ELEMENT_BYTES[dtype]
        for dim in dims:
            size *= dim
        tensors[name] = [dims, dtype, data[begin + offset:begin + offset + size]]
    return metadata, tensors


def packed(kind, value):
    if kind == STRING:
        return struct.pack("<Q", len(value)) + value
    if kind != ARRAY:
        return struct.pack("<" + NUMBERS[kind], value)
    element, values = value
    return struct.pack("<IQ", element, len(values)) + b"".join(packed(element, v) for v in values)


def written(metadata, tensors):
    out = bytearray(b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata)))
    for key, (kind, value) in metadata.items():
        out += packed(STRING, key) + struct.pack("<I", kind) + packed(kind, value)
    offset = 0
    for name, (dims, dtype, data) in tensors.items():
        out += packed(STRING, name) + struct.pack("<I", len(dims))
        out += struct.pack(f"<{len(dims)}Q", *dims) + struct.pack("<IQ", dtype, offset)
        offset += -(-len(data) // ALIGNMENT) * ALIGNMENT
    for _, _, data in tensors.values():
        out += bytes(-len(out) % ALIGNMENT) + data
    return out


def alphabet():
    """The characters in which vocabularies of GPT-2's kind write bytes."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in shown]
    letters = {byte: chr(byte) for byte in shown}
    letters.update((byte, chr(256 + i)) for i, byte in enumerate(hidden))
    return letters


def make_calling(metadata, tensors, pieces):
    letters = alphabet()
    tokens = metadata[b"tokenizer.ggml.tokens"][1][1]
    merges = metadata[b"tokenizer.ggml.merges"][1][1]
    # The last tokens of the vocabulary in front of three special ones, and the merges that make
    # them, give way.
    first = len(tokens) - 3 - len(pieces)
    for i, piece in enumerate(pieces):
        tokens[first + i] = "".join(letters[byte] for byte in piece.encode()).encode()
    del merges[len(merges) - len(pieces):]
    line_feed, end = tokens.index(letters[10].encode()), tokens.index(b"<|im_end|>")

    dims, _, data = tensors[b"token_embd.weight"]
    width = dims[0]
    embedding, output = bytearray(data), bytearray(len(data))
    signs = random.Random(1)
    chain = [line_feed, *range(first, first + len(pieces)), end]
    for token, following in zip(chain, chain[1:]):
        row = [signs.choice((-1.0, 1.0)) for _ in range(width)]
        struct.pack_into(f"<{width}e", embedding, token * width * 2, *row)
        struct.pack_into(f"<{width}e", output, following * width * 2,
                         *(value * LOGIT / width for value in row))
    tensors[b"token_embd.weight"][2] = bytes(embedding)
    tensors[b"output.weight"] = [dims, F16, bytes(output)]
    for name in (b"blk.0.attn_output.weight", b"blk.0.ffn_down.weight"):
        tensors[name][2] = bytes(len(tensors[name][2]))
    tensors[b"output_norm.weight"][2] = struct.pack(f"<{width}f", *[1.0] * width)


def main():
    base, out, *pieces = sys.argv[1:]
    with open(base, "rb") as file:
        metadata, tensors = read(file.read())
    make_calling(metadata, tensors, pieces)
    with open(out, "wb") as file:
        file.write(written(metadata, tensors))


if __name__ == "__main__":
    main()
