"""Small talk, and saying that one does not know. Standard library only."""

import re
from pathlib import Path

import names
import wording
from draw import Patterns

HERE = Path(__file__).parent
DENIALS = ["I do not know that.", "I do not know. I know kvgate and prompt caching, and what you "
           "give me to read."]


def load_talk():
    out = []
    for line in (HERE / "smalltalk.txt").read_text().splitlines():
        if line.startswith("? "):
            out.append((Patterns(line[2:].split(" | ")), []))
        elif line.startswith("= "):
            out[-1][1].append(line[2:])
    return out


TALK = load_talk()
UNKNOWN = Patterns(line for line in (HERE / "unknown.txt").read_text().splitlines()
                   if line and not line.startswith("#"))


def small(rng):
    asked, answers = rng.choice(TALK)
    text = rng.pick(asked)
    if rng.random() < 0.3:
        text = rng.choice([text.lower(), text + "!", text.rstrip("?.!") or text, text + "."])
    return [{"role": "user", "content": text},
            {"role": "assistant", "content": wording.answer(rng, answers)}]


def unknown(rng):
    text = re.sub(r"\{(\w+)\}", lambda match: names.value(rng, match.group(1)), rng.pick(UNKNOWN))
    return [{"role": "user", "content": wording.vary(rng, text)},
            {"role": "assistant", "content": wording.answer(rng, DENIALS)}]
