#!/usr/bin/env python3
"""A fixed piece of work, whose time says how fast this machine is now (tests/budgets.toml).

It is a ctest of its own, so that its time stands beside the times of the tests, and it shares the
cores with them. The work is a third each of interpreting, hashing and touching memory.
"""

import hashlib


def interpret():
    counts = {}
    for number in range(1_500_000):
        key = number * 2654435761 % 65521
        counts[key] = counts.get(key, 0) + 1
    return len(counts)


def hash_bytes():
    digest = hashlib.blake2b()
    chunk = bytes(1 << 20)
    for _ in range(300):
        digest.update(chunk)
    return digest.hexdigest()


def touch_memory():
    total = 0
    for _ in range(4):
        block = bytearray(64 << 20)
        for at in range(0, len(block), 4096):
            block[at] = 1
        total += sum(block[::4096])
    return total


if __name__ == "__main__":
    print(interpret(), hash_bytes()[:16], touch_memory())
