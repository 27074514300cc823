#!/usr/bin/env python3
"""Keeps what the fuzzers have learnt: keep_corpus.py BUILD writes tests/fuzz/corpus/TARGET.tar.xz.

BUILD is a build folder of the preset `fuzz` with BUILD/corpus/TARGET beside it, as scripts/test
leaves them. Each corpus is merged to the inputs that cover something of their own, the smallest
first, and cut at BYTES_MAX compressed; the archive's bytes depend on those inputs only.
make_seeds.py unpacks the archives beside its own seeds.
"""

import io
import lzma
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

BYTES_MAX = 12 << 10
INPUT_BYTES_MAX = 2 << 10


def merged(fuzzer, corpus):
    """The inputs of a corpus that are worth keeping, smallest first, without equal ones."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([fuzzer, "-merge=1", folder, corpus], check=True, capture_output=True)
        inputs = [path.read_bytes() for path in Path(folder).iterdir()]
    return sorted({data for data in inputs if len(data) <= INPUT_BYTES_MAX},
                  key=lambda data: (len(data), data))


def packed(inputs):
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for index, data in enumerate(inputs):
            member = tarfile.TarInfo(f"kept-{index:04}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return lzma.compress(raw.getvalue(), preset=9 | lzma.PRESET_EXTREME)


def cut(inputs):
    """As many of the inputs, spread evenly over their sizes, as the bound allows, packed."""
    low, high = 1, len(inputs)
    while low < high:
        middle = (low + high + 1) // 2
        if len(packed(spread(inputs, middle))) <= BYTES_MAX:
            low = middle
        else:
            high = middle - 1
    return packed(spread(inputs, low))


def spread(inputs, count):
    return [inputs[i * len(inputs) // count] for i in range(count)]


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    build = Path(sys.argv[1])
    out = Path(__file__).parent / "corpus"
    out.mkdir(exist_ok=True)
    for fuzzer in sorted((build / "tests").glob("*_fuzz")):
        inputs = merged(fuzzer, build / "corpus" / fuzzer.name)
        data = cut(inputs)
        (out / f"{fuzzer.name}.tar.xz").write_bytes(data)
        print(f"{fuzzer.name}: {len(inputs)} inputs, {len(data)} bytes kept", flush=True)


if __name__ == "__main__":
    main()
