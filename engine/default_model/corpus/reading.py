"""Conversations in which facts have to be read out of a text. Standard library only.

A text is made of facts (world.py), deeds (deeds.py) and hand-written sentences (needles.py) in one
of many forms (documents.py), with other sentences between them. All values are random, so only
reading helps; a text has more facts than are asked for, often with the same attribute of another
entity, so that it does not do to look for a value of the right kind.
"""

import re

import deeds
import documents
import facts
import needles
import wording
import world
from draw import Patterns
from lexicon import upper
from world import FORMS

MISSING = "The text does not say."
# What the model knows by heart may stand in a text as well.
KNOWN = Patterns(sorted({fact.answers[0] for fact in facts.load() if len(fact.answers[0]) > 40}))


class Text:
    """A text, and the questions on it: (question, answer, the answer as a sentence or None)."""

    def __init__(self, rng, chars):
        self.rng, self.chars = rng, chars
        self.questions, self.more = [], []
        kind = rng.random()
        if chars > 5000 and kind < 0.75:
            self.text = self.prose()
        elif kind < 0.30:
            self.text = self.records()
        elif kind < 0.93:
            self.text = self.prose()
        else:
            self.text = self.prose() + "\n\n" + self.records()
        self.questions = self.sure()

    def sure(self):
        """The questions that have one answer."""
        answers = {}
        for question, answer, _ in self.questions:
            answers.setdefault(question.lower(), set()).add(answer)
        return [q for q in self.questions if len(answers[q[0].lower()]) == 1]

    def ask_world(self, made):
        for question, answer, fact in made.questions():
            whole = fact.in_words(self.rng) if answer == fact.value else None
            self.questions.append((question, answer, whole))
        self.absent(made)

    def absent(self, made):
        """A question that the text does not answer."""
        rng = self.rng
        if not rng.chance(0.35):
            return
        row = rng.choice(made.rows)
        entity, had = row[0].entity, {n for f in row for n in f.attribute.names}
        if rng.chance(0.5):
            entity = made.scene.entity(entity.kind) or entity
            attribute = row[0].attribute
            if entity is row[0].entity:
                return
        else:
            attribute = next((a for a in world.attributes_of(rng, entity.kind, 6)
                              if not set(a.names) & had), None)
            if attribute is None:
                return
        fact = world.Fact(rng, entity, attribute, attribute.kinds[0])
        fact.old = None
        self.more.append((fact.question(rng)[0], MISSING, MISSING))

    def records(self):
        rng = self.rng
        per = rng.choice([1, 1, 2, 2, 3, 3, 4, 5, 6])
        count = max(1, min(self.chars // (28 * per + 20), 40))
        made = world.World(rng, count, per, one_class=rng.chance(0.75) or None)
        for fact in made.facts:
            fact.old = None
        self.ask_world(made)
        self.lists(made)
        form = rng.pick(documents.RECORDS)
        same = len({f.entity.kind for f in made.facts}) == 1
        if not same and form in (documents.as_table, documents.as_csv, documents.as_columns,
                                 documents.turned_table):
            form = documents.triples
        return form(rng, made.rows)

    def lists(self, made):
        """All values of an attribute, or all that is known of an entity."""
        rng = self.rng
        fact = rng.choice(made.facts)
        same = [f.value for f in made.facts if f.attribute is fact.attribute]
        if 2 <= len(same) <= 8 and rng.chance(0.3):
            self.more.append((world.put(rng.pick(FORMS["list"]), a=fact.name), ", ".join(same),
                              None))
        row = rng.choice(made.rows)
        if 2 <= len(row) <= 5 and rng.chance(0.3):
            said = "; ".join(f"{f.name}: {f.value}" for f in row)
            self.more.append((world.put(rng.pick(FORMS["details"]), e=row[0].entity.long), said,
                              None))

    def prose(self):
        rng, lines = self.rng, []
        kind = rng.random()
        dense = rng.choice([0.25, 0.5, 0.8, 1.0]) if self.chars < 4000 else \
            rng.choice([0.02, 0.05, 0.15, 0.4])
        wanted = max(1, min(int(self.chars * dense / 75), 45))
        scene = None
        if kind < 0.62:
            made = world.World(rng, max(1, wanted // rng.choice([1, 1, 2, 3])),
                               rng.choice([1, 1, 2, 3]))
            made.keep(wanted + 6)
            scene = made.scene
            self.ask_world(made)
            said = rng.sample(made.facts, len(made.facts)) if rng.chance(0.5) else made.facts
            lines += world.sentences(rng, said)
        if kind >= 0.62 or rng.chance(0.25):
            scene = scene or world.Scene(rng)
            kinds = rng.sample(sorted(deeds.VERBS), rng.choice([1, 2, 3])) if rng.chance(0.6) \
                else None
            made = [deeds.make(rng, scene, kinds) for _ in range(max(1, wanted * 2 // 3))]
            for deed in filter(None, made):
                lines.append(deed.sentence())
                asked = deed.questions()
                self.questions += [(q, a, None) for q, a in
                                   rng.sample(asked, min(len(asked), 3))]
        if rng.chance(0.6) or not lines:
            for _ in range(rng.choice([1, 1, 2, 3])):
                sentence, asked = needles.make(rng)
                if not any(sentence[:12] == line[:12] for line in lines):
                    lines.append(sentence)
                    self.questions += [(q, a, None) for q, a in asked]
        return self.among(lines)

    def among(self, lines):
        """The lines in a form, with other sentences between them."""
        rng, size = self.rng, sum(map(len, lines))
        out = list(lines)
        at = rng.random() * 2  # beginnings, middles and ends of texts have facts alike
        while size < self.chars * 0.95:
            more = world.filler(rng) if rng.chance(0.92) else rng.pick(KNOWN)
            out.insert(int(rng.random() ** at * (len(out) + 1)) if rng.chance(0.7) else
                       rng.randint(0, len(out)), more)
            size += len(more) + 1
        return rng.pick(documents.PROSE)(rng, [ended(line) for line in out])

    def asked(self, count):
        """So many of the questions."""
        rng = self.rng
        chosen = rng.sample(self.questions, min(count, len(self.questions)))
        if self.more and rng.chance(0.3):
            chosen.insert(rng.randint(0, len(chosen)), rng.choice(self.more))
        return chosen


def ended(line):
    """A line as a sentence: with a capital, and one full stop behind "p.m." and the like."""
    return upper(re.sub(r"(?<!\.)\.\.$", ".", line))


def lower_first(question):
    """A question behind "And", where its first word is one that is not a name."""
    first = question.split(" ")[0]
    known = "What Which Who Whom Whose Where When Why How By At In On To For From With Can Could " \
        "Do Did Tell Give Name Find Look Show I Until Since As Of The State Extract Please Remind"
    return question[:1].lower() + question[1:] if first in known.split() and first != "I" \
        else question


def dressed(rng, question, whole):
    """(the question as somebody asks it, if a sentence is wanted)."""
    full = whole is not None and rng.chance(0.07)
    if full:
        return rng.pick(FORMS["full"]).replace("{q}", question), True
    if rng.chance(0.3):
        form = rng.pick(FORMS["wrap"])
        asked = lower_first(question) if not form.startswith("{q}") and rng.chance(0.7) \
            else question
        return form.replace("{q}", asked), False
    if rng.chance(0.12):
        return wording.careless(rng, question), False
    return question, False


def length(rng, longest):
    """Characters of a text: most are short, because short ones teach most per second."""
    low, high = rng.choices([(40, 200), (200, 500), (500, 1200), (1200, 3500), (3500, 8000),
                             (8000, 17000)], [34, 34, 21, 9, 1.6, 0.5])[0]
    return min(rng.randint(low, high), longest)


def pairs(rng, text, count):
    """[(question, answer)] as they are asked and answered."""
    out = []
    for question, answer, whole in text.asked(count):
        question, full = dressed(rng, question, whole)
        out.append((question, whole if full else answer))
    return out


def placed(rng, text, first):
    """The messages up to the first question: where the text stands, and where the question."""
    place, lead = rng.random(), ""
    instruction = rng.pick(FORMS["instructions"]) if rng.chance(0.35) else ""
    if place < 0.10:
        system = rng.pick(FORMS["system"]) if rng.chance(0.7) else instruction
        return [{"role": "system", "content": (system + "\n\n" + text).strip()},
                {"role": "user", "content": first}]
    if place < 0.45:
        if rng.chance(0.25):
            lead = rng.pick(FORMS["lead"])
        gap = rng.choice(["\n\n", "\n\n", "\n\n", "\n"])
        return [{"role": "user", "content": first + gap + (lead + "\n" + text).strip()}]
    if place < 0.52:
        return [{"role": "user", "content": (instruction + "\n" + text).strip()},
                {"role": "assistant", "content": "OK."}, {"role": "user", "content": first}]
    if rng.chance(0.3):
        first = rng.pick(FORMS["then"]).replace("{q}", first)
    quote = rng.choice(['"""', "---", "```", "==="]) if rng.chance(0.12) else ""
    text = f"{quote}\n{text}\n{quote}" if quote else text
    gap = rng.choice(["\n\n", "\n\n", "\n\n", "\n", " "])
    return [{"role": "user", "content": (instruction + "\n\n" + text + gap + first).strip()}]


def conversation(rng, longest=16000):
    while True:
        chars = length(rng, longest)
        text = Text(rng, chars)
        if not text.questions:
            continue
        count = rng.choice([1, 2, 3, 4, 6, 8]) if chars < 600 else rng.choice([2, 4, 6, 9, 12])
        asked = pairs(rng, text, count)
        messages = placed(rng, text.text, asked[0][0])
        if rng.chance(0.05) and len(asked) > 1:
            # Several questions at once, with an answer in lines.
            numbers = rng.chance(0.5)
            lines = [f"{n + 1}. {q}" if numbers else q for n, (q, _) in enumerate(asked)]
            messages = placed(rng, text.text, "\n".join(lines))
            answer = "\n".join(f"{n + 1}. {a}" if numbers else a
                               for n, (_, a) in enumerate(asked))
            asked = [("", answer)]
        messages.append({"role": "assistant", "content": asked[0][1]})
        for question, answer in asked[1:]:
            messages += [{"role": "user", "content": question},
                         {"role": "assistant", "content": answer}]
        return {"kind": "reading", "messages": messages}


def said_before(rng):
    """(what the user says in passing, its questions) of a fact or a deed."""
    if rng.chance(0.5):
        return needles.remembered(rng)
    made = world.World(rng, 1, 1)
    fact = made.facts[0]
    said = [{"role": "user", "content": upper(fact.sentence(rng))},
            {"role": "assistant", "content": rng.choice(["Good to know.", "Noted."])}]
    question, answer = fact.question(rng)
    return said, [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]

