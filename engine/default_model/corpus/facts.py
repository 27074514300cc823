"""Questions and answers on kvgate and prompt caching, from facts/ and gateway/config/KEYS.md.

A Fact has `ask(rng)`, a question, and `answers`. Standard library only.
"""

import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import wording
from draw import Patterns

HERE = Path(__file__).resolve().parent
KEYS = HERE.parents[2] / "gateway/config/KEYS.md"


@dataclass
class Fact:
    name: str
    forms: list = field(default_factory=list)  # (kind, wordings of the subject)
    templates: Patterns | None = None  # whole questions, as a grammar
    answers: list = field(default_factory=list)
    meaning: str = ""  # stands for {v} in templates, and may be said in part

    @cached_property
    def subjects(self):
        """(kind, subject); that of a kind of questions counts twice, as it can be asked in many."""
        return Patterns(pair for kind, subjects in self.forms for subject in subjects
                        for pair in [(kind, subject)] * (1 if kind == "q" else 2))

    def ask(self, rng):
        # A subject has many templates, a whole question only itself.
        if self.templates:
            text = wording.expand(rng, rng.pick(self.templates))
            return text.replace("{v}", wording.loosen(rng, self.meaning))
        return wording.ask(rng, *rng.pick(self.subjects))


def read_prose(path):
    fact = None
    for line in path.read_text().splitlines():
        if line.startswith("? "):
            if fact is None:
                fact = Fact(f"{path.stem}:{line[2:50]}")
            kind, _, subjects = line[2:].partition(": ")
            fact.forms.append((kind, [s.strip() for s in subjects.split(" | ")]))
        elif line.startswith("= "):
            fact.answers.append(line[2:])
        elif not line and fact is not None:
            yield fact
            fact = None
    if fact is not None:
        yield fact


def fill(text, row):
    for key, value in row.items():
        text = text.replace("{" + key + "}", value)
    return text.strip()


def of_row(table, row):
    """The facts of a table's row: what its name means, and which name a meaning has."""
    by_name, by_meaning, says_meaning, says_name = wording.TABLES[table]
    name = f"{table}:{row['k']}"
    if says_meaning is not None:
        fact = Fact(name, answers=[fill(text, row) for text in says_meaning])
        if by_name is None:
            fact.forms = [("what", [row["k"]])]
        else:
            fact.templates = Patterns(fill(text, row) for text in by_name)
        yield fact
    if by_meaning is not None:
        yield Fact(name + ":reverse",
                   templates=Patterns(text.replace("{k}", row["k"]) for text in by_meaning),
                   meaning=row["v"], answers=[fill(text, row) for text in says_name])


def read_tables(path):
    table = None
    for line in path.read_text().splitlines():
        if line.startswith("["):
            table = line.strip("[]")
        elif line and not line.startswith("#"):
            name, meaning, *more = [part.strip() for part in line.split(" | ")]
            yield from of_row(table, {"k": name, "K": name[:1].upper() + name[1:],
                                      "v": meaning, "m": more[0] if more else ""})


def read_settings(path=KEYS):
    """The settings as the documentation of the configuration has them."""
    table = ""
    for line in path.read_text().splitlines():
        if (head := re.match(r"## (\[+\w+\]+)", line)):
            table = head.group(1).strip("[]")
        match = re.match(r"\| `(\w+)` \| (.+?) \| (.+) \|$", line)
        if not match:
            continue
        key, default, meaning = (part.replace("`", "") for part in match.groups())
        default = default.strip('"') or "empty"
        if len(meaning) > 160:
            meaning = re.split(r"[;.] ", meaning)[0]
        row = {"k": f"{table}.{key}", "v": meaning.rstrip("."), "d": default}
        yield from of_row("settings", row)
        if default not in ("required", "none"):
            yield from of_row("defaults", row)
        if len(meaning) < 90:
            yield from of_row("which_setting", row)


def load():
    facts = []
    for path in sorted((HERE / "facts").glob("*.txt")):
        facts += read_tables(path) if path.stem == "tables" else read_prose(path)
    facts += read_settings()
    return facts


def turns(rng, fact):
    return [{"role": "user", "content": wording.vary(rng, fact.ask(rng))},
            {"role": "assistant", "content": wording.answer(rng, fact.answers)}]
