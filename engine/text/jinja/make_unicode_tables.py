#!/usr/bin/env python3
"""Writes unicode_tables.cc from Python's own tables: what str.isalpha() and the like say.

It writes what utf8proc does not know (digits, numbers, mappings to several characters) or says of
a later Unicode than the templates' Python (letters, printable and lower-case characters).

Usage: make_unicode_tables.py > unicode_tables.cc
"""

import textwrap
import unicodedata

CODE_POINTS = [chr(c) for c in range(0x110000) if not 0xd800 <= c <= 0xdfff]
PROPERTIES = [("Alpha", str.isalpha), ("Decimal", str.isdecimal), ("Digit", str.isdigit),
              ("Numeric", str.isnumeric), ("Printable", str.isprintable), ("Lower", str.islower)]


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


def expansions(function):
    """The mappings to several characters."""
    targets = [(char, function(char)) for char in CODE_POINTS]
    return [(ord(char), *map(ord, target.ljust(3, "\0"))) for char, target in targets
            if len(target) > 1]


def print_array(kind, name, rows):
    text = ", ".join("{" + ", ".join(map(str, row)) + "}" for row in rows)
    print(f"const {kind} k{name}[] = {{")
    print(textwrap.fill(text, 98, initial_indent="    ", subsequent_indent="    "))
    print(f"}};\nconst size_t kNum{name} = {len(rows)};\n")


def main():
    print(f"// Written by make_unicode_tables.py (Unicode {unicodedata.unidata_version}).")
    print('#include "engine/text/jinja/value/unicode_tables.h"\n')
    print("namespace kvgate::jinja::value {\n")
    print("// clang-format off")
    for name, has in PROPERTIES:
        print_array("CodePointRun", name, strided([ord(c) for c in CODE_POINTS if has(c)]))
    for name, function in ("ToLower", str.lower), ("ToUpper", str.upper), ("ToTitle", str.title):
        print_array("CaseExpansion", name + "Several", expansions(function))
    print("// clang-format on\n\n}  // namespace kvgate::jinja::value")


if __name__ == "__main__":
    main()
