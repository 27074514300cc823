"""Just enough of GGUF to read vocabularies and plain tensors without any of the code under test."""

import math
import struct

GGUF_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?",
                10: "<Q", 11: "<q", 12: "<d"}
GGUF_STRING, GGUF_ARRAY = 8, 9


class GgufReader:
    def __init__(self, path):
        self.data = path.read_bytes()
        self.at = 4

    def scalar(self, form):
        value, = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return value

    def string(self):
        size = self.scalar("<Q")
        self.at += size
        return self.data[self.at - size:self.at].decode(errors="replace")

    def value(self, kind):
        if kind == GGUF_STRING:
            return self.string()
        if kind == GGUF_ARRAY:
            inner, count = self.scalar("<I"), self.scalar("<Q")
            return [self.value(inner) for _ in range(count)]
        return self.scalar(GGUF_SCALARS[kind])

    def metadata(self):
        self.scalar("<I")  # version
        self.num_tensors = self.scalar("<Q")
        pairs = {}
        for _ in range(self.scalar("<Q")):
            key = self.string()
            pairs[key] = self.value(self.scalar("<I"))
        return pairs

    def tensors(self):
        """Behind the metadata: name, dimensions (innermost first), type (F32 or F16), bytes."""
        infos = []
        for _ in range(self.num_tensors):
            name = self.string()
            dimensions = [self.scalar("<Q") for _ in range(self.scalar("<I"))]
            infos.append((name, dimensions, self.scalar("<I"), self.scalar("<Q")))
        start = -(-self.at // 32) * 32
        for name, dimensions, kind, offset in infos:
            size = math.prod(dimensions) * {0: 4, 1: 2}[kind]
            yield name, dimensions, kind, self.data[start + offset:start + offset + size]


def token_texts(path):
    """What each id prints as, in the spelling of SentencePiece vocabularies."""
    texts = []
    for token in GgufReader(path).metadata()["tokenizer.ggml.tokens"]:
        if token.startswith("<0x") and len(token) == 6:
            byte = int(token[3:5], 16)
            texts.append(chr(byte) if byte < 0x80 else f"bytes:\\x{byte:02x}")
        else:
            texts.append(token.replace("\u2581", " "))
    return texts
