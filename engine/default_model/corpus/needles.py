"""Hand-written sentences with values, and questions for each of them. Standard library only.

A line of needles/ is a sentence with {slots} and its questions; a slot is a kind of names.KINDS,
with a digit if there are two of a kind and "a-" in front where "a" or "an" stands before it.
"""

import re
from pathlib import Path

import lexicon
import names
from draw import Patterns

SLOT = re.compile(r"\{(a-)?([a-z]+)(\d?)\}")
SAID_IN_PASSING = ("My ", "I ", "Our ")


def load(folder=Path(__file__).parent / "needles"):
    out = []
    for path in sorted(folder.glob("*.txt")):
        for line in path.read_text().splitlines():
            if line and not line.startswith("#"):
                sentence, *questions = [part.strip() for part in line.split(" | ")]
                out.append((sentence, tuple(tuple(q.split(" > ")) for q in questions)))
    return out


LINES = load()
NEEDLES = Patterns(LINES)
OWN = Patterns(line for line in LINES if line[0].startswith(SAID_IN_PASSING))


def make(rng, among=NEEDLES):
    """(sentence, [(question, answer)]) with random values."""
    sentence, questions = rng.pick(among)
    values = {}
    for article, kind, digit in SLOT.findall(sentence):
        for _ in range(20):
            value = names.value(rng, kind)
            if article:
                value = lexicon.a(value)
            if value not in values.values():
                break
        values[article + kind + digit] = value

    def put(text):
        text = SLOT.sub(lambda m: values["".join(m.groups(default=""))], text)
        text = re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", text)
        return text.replace("an uni", "a uni").replace("an ukulele", "a ukulele")

    def answer(slot):
        return " and ".join(values[s] for s in slot.split("+")) if slot.split("+")[0] in values \
            else slot

    made = [(put(question), answer(slot)) for question, slot in questions]
    # Two questions may be the same one where the wording is loose; values never are.
    text = put(sentence)
    return text[:1].upper() + text[1:], made


def remembered(rng):
    """The user says something in passing and asks for it turns later."""
    text, questions = make(rng, OWN)
    said = [{"role": "user", "content": rng.choice(["", "Hi. ", "Hello! ", "By the way: ", "Note: ",
                                                   "So you know: ", "Just so you know: "]) + text},
            {"role": "assistant", "content": rng.choice(["Good to know.", "Noted."])}]
    question, value = rng.choice(questions)
    return said, [{"role": "user", "content": question}, {"role": "assistant", "content": value}]
