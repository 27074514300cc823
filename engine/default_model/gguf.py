"""Writes GGUF v3. Standard library only; tensors are bytes."""

import os
import struct
from pathlib import Path

ALIGNMENT = 32
F32, F16 = 0, 1
UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9


def string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def element(value):
    """(type, bytes) of a value of metadata."""
    if isinstance(value, bool):
        return BOOL, struct.pack("<B", value)
    if isinstance(value, int):
        return (UINT32, struct.pack("<I", value)) if value >= 0 else \
            (INT32, struct.pack("<i", value))
    if isinstance(value, float):
        return FLOAT32, struct.pack("<f", value)
    if isinstance(value, str):
        return STRING, string(value)
    raise TypeError(f"no type of GGUF for {value!r}")


def metadata(key, value):
    if not isinstance(value, list):
        kind, data = element(value)
        return string(key) + struct.pack("<I", kind) + data
    if value and isinstance(value[0], int):  # types of tokens are int32
        kind, data = INT32, struct.pack(f"<{len(value)}i", *value)
    else:
        kind, data = STRING, b"".join(string(text) for text in value)
    return string(key) + struct.pack("<IIQ", ARRAY, kind, len(value)) + data


def padding(size):
    return b"\0" * (-size % ALIGNMENT)


def write(path, keys, tensors):
    """`tensors`: (name, shape with rows first, type, bytes). The path has all of it or nothing."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys))
    head += b"".join(metadata(key, value) for key, value in keys.items())
    offset = 0
    for name, shape, kind, data in tensors:
        head += string(name) + struct.pack("<I", len(shape))
        head += struct.pack(f"<{len(shape)}Q", *reversed(shape)) + struct.pack("<IQ", kind, offset)
        offset += len(data) + len(padding(len(data)))
    beside = Path(f"{path}.partial")
    with open(beside, "wb") as out:
        out.write(head + padding(len(head)))
        for _, _, _, data in tensors:
            out.write(data + padding(len(data)))
        out.flush()
        os.fsync(out.fileno())
    os.replace(beside, path)
