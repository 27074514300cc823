#!/usr/bin/env python3
"""Puts the sources of one target together, so that each translation unit compiles a few of them.

Usage: source_groups.py ROOT OUT SOURCE...
Writes into the folder OUT one file per group, which includes its sources by their paths from ROOT,
and prints what is to be compiled instead of the sources, with semicolons in between. A source that
goes with no other is printed itself.

Two sources do not go together if one names what the other defines for itself alone: something in an
unnamed namespace, something static, or a macro. They may share aliases with the same meaning, and
namespaces whose names both open to all that follows.
Groups are filled in the order of the sources, so that a change of one file moves few others.
"""
import pathlib
import re
import sys

SOURCES_MAX = 8
BYTES_MAX = 64_000

# Strings, characters and comments: their text names nothing.
TEXT = re.compile(r'''R"(\w*)\((?:.|\n)*?\)\1"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+'|'''
                  r'''//[^\n]*|/\*(?:.|\n)*?\*/''')
DIRECTIVE = re.compile(r'^[ \t]*#(?:[^\n]*\\\n)*[^\n]*', re.MULTILINE)
MACRO = re.compile(r'#\s*define\s+(\w+)')
TYPE = re.compile(r'\s*(?:template\s*<[^;]*?>\s*)?(?:struct|class|enum\s+class|enum|union)\s+(\w+)')
ALIAS = re.compile(r'\s*(?:using|namespace)\s+(\w+)\s*=\s*([^;]*)')
USING = re.compile(r'\s*using\s+(?!namespace\b)([\w:]*?(\w+))\s*$')
DIRECTIVE_USING = re.compile(r'\s*using\s+namespace\s+([\w:]+)')
DECLARED = re.compile(r'(\w+)\s*(?:\[[^\]]*\]\s*)*(?:\(|=|$)')
# Statements whose first word is not the beginning of a definition of a name.
NO_NAME = re.compile(r'\s*(?:using|static_assert|TEST\w*|INSTANTIATE\w*|'
                     r'template\s+(?:class|struct))\b')


class Source:
    """What one source defines for itself, and every word that it says."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            text = TEXT.sub(lambda match: '""' if match[0][0] in "\"'R" else " ", file.read())
        self.path = path
        self.bytes = len(text)
        self.macros = set(MACRO.findall(text))
        code = DIRECTIVE.sub("", text)
        self.words = set(re.findall(r"[A-Za-z_]\w*", code))
        # An alias is taken only by a name that stands alone: `parse::Segment` means itself.
        self.plain = set(re.findall(r"(?<!::)(?<!\.)(?<!->)\b[A-Za-z_]\w*", code))
        self.own, self.aliases, self.opened = set(self.macros), {}, set()
        self._read(code)

    def _read(self, code):
        scopes, statement = [], ""
        for token in re.findall(r"[{};]|[^{};]+", code):
            outside = "other" not in scopes
            if token == "}":
                if scopes:
                    scopes.pop()
                statement = ""
            elif token == ";" or token == "{":
                opened = re.search(r"\bnamespace\b([\s\w:]*)$", statement) if token == "{" else None
                if outside and not opened:
                    self._define(statement, own="unnamed" in scopes)
                if token == "{":
                    kind = "other" if not opened else "named" if opened[1].strip() else "unnamed"
                    scopes.append(kind if outside else "other")
                statement = ""
            elif outside:
                statement += token

    def _define(self, statement, own):
        statement = re.sub(r"\[\[.*?\]\]|\balignas\s*\([^)]*\)", " ", statement)
        alias, using = ALIAS.match(statement), USING.match(statement)
        opened = DIRECTIVE_USING.match(statement)
        if alias:
            self.aliases[alias[1]] = re.sub(r"\s+", " ", alias[2].strip())
        elif using:
            self.aliases[using[2]] = using[1]
        elif opened:
            self.opened.add(opened[1])
        elif (own or re.match(r"\s*static\b", statement)) and not NO_NAME.match(statement):
            name = TYPE.match(statement) or DECLARED.search(statement)
            if name:
                self.own.add(name[1])

    def goes_with(self, other):
        if self.opened != other.opened:
            return False
        for one, two in ((self, other), (other, self)):
            if one.own & two.words or one.own & two.own:
                return False
            if any(two.aliases.get(name, meaning) != meaning or
                   (name not in two.aliases and name in two.plain)
                   for name, meaning in one.aliases.items()):
                return False
        return True


def write(path, text):
    """Leaves an equal file as it is, so that nothing is compiled again."""
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def main():
    root, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    groups = []
    for source in map(Source, sys.argv[3:]):
        for group in groups:
            if (len(group) < SOURCES_MAX and source.bytes + sum(s.bytes for s in group) < BYTES_MAX
                    and all(source.goes_with(one) for one in group)):
                group.append(source)
                break
        else:
            groups.append([source])
    out.mkdir(parents=True, exist_ok=True)
    compiled = []
    for group in groups:
        paths = [pathlib.Path(source.path) for source in group]
        if len(paths) == 1:
            compiled.append(str(paths[0]))
            continue
        unit = out / f"{paths[0].stem}_and_{len(paths) - 1}.cc"
        write(unit, "".join(f'#include "{path.relative_to(root)}"\n' for path in paths))
        compiled.append(str(unit))
    print(";".join(compiled))


if __name__ == "__main__":
    main()
