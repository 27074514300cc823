#!/usr/bin/env python3
"""Writes unicode_tables.cc from Python's own tables: what str.isalpha() and the like say.

Usage: make_unicode_tables.py > unicode_tables.cc
"""

import textwrap
import unicodedata

CODE_POINTS = [chr(c) for c in range(0x110000) if not 0xd800 <= c <= 0xdfff]
PROPERTIES = [("Alpha", str.isalpha), ("Decimal", str.isdecimal), ("Digit", str.isdigit),
              ("Numeric", str.isnumeric), ("Printable", str.isprintable),
              ("Upper", str.isupper), ("Lower", str.islower),
              ("Titlecase", lambda c: unicodedata.category(c) == "Lt")]


def strided(points):
    """Runs (first, last, stride 1 or 2) of ascending numbers."""
    runs = []
    for point in points:
        if runs:
            first, last, stride = runs[-1]
            if point - last == stride or (first == last and point - last == 2):
                runs[-1] = (first, point, point - last)
                continue
        runs.append((point, point, 1))
    return runs


def mapped(function):
    """Runs (first, last, stride, delta) of single mappings, and the mappings to several."""
    runs, several = [], []
    for char in CODE_POINTS:
        target = function(char)
        if target == char:
            continue
        if len(target) > 1:
            several.append((ord(char), *map(ord, target.ljust(3, "\0"))))
            continue
        point, delta = ord(char), ord(target) - ord(char)
        if runs and runs[-1][3] == delta:
            first, last, stride, _ = runs[-1]
            if point - last == stride or (first == last and point - last == 2):
                runs[-1] = (first, point, point - last, delta)
                continue
        runs.append((point, point, 1, delta))
    return runs, several


def print_array(kind, name, rows):
    text = ", ".join("{" + ", ".join(map(str, row)) + "}" for row in rows)
    print(f"const {kind} k{name}[] = {{")
    print(textwrap.fill(text, 98, initial_indent="    ", subsequent_indent="    "))
    print(f"}};\nconst size_t kNum{name} = {len(rows)};\n")


def main():
    print(f"// Written by make_unicode_tables.py (Unicode {unicodedata.unidata_version}).")
    print('#include "engine/jinja/unicode_tables.h"\n\nnamespace kvgate::jinja {\n')
    print("// clang-format off")
    for name, has in PROPERTIES:
        print_array("CodePointRun", name, strided([ord(c) for c in CODE_POINTS if has(c)]))
    for name, function in ("ToLower", str.lower), ("ToUpper", str.upper), ("ToTitle", str.title):
        runs, several = mapped(function)
        print_array("CaseRun", name, runs)
        print_array("CaseExpansion", name + "Several", several)
    print("// clang-format on\n\n}  // namespace kvgate::jinja")


if __name__ == "__main__":
    main()
