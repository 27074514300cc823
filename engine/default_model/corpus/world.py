"""What texts say: entities, attributes and values, in sentences, with questions for them.

A Fact says one attribute of one entity. Which attributes something can have, and how they are said
and asked naturally, stands in attributes.txt; patterns.txt has the forms that fit any attribute.
Standard library only.
"""

import re
from pathlib import Path

import lexicon
import names
from draw import Patterns
from lexicon import WORDS, upper

HERE = Path(__file__).resolve().parent
SLOT = re.compile(r"\{(\w+)\}")
NAMED = re.compile(r"\{x:(\w+)\}")
# Attributes whose questions could be taken for each other: an entity has one of a line.
ALIKE = [set(line.split(", ")) for line in """\
boss, chair, caretaker, owner, maintainer, tenant, \
buyer
organiser, sponsor, speaker
location, home, venue, postal address, headquarters, origin, birthplace, repository, room, \
IP address, key
duration, cooking time
length, number of pages, height, width, depth
start time, opening time, departure, arrival, date, deadline, birth year, year of construction, \
founding year, year of publication
end time, closing time, day off, shift
use, task, job, subject
favourite food, food, contents, ingredient, cargo, product, material
number of members, area, population, size, capacity
hobby, sport, task
price, rent, entrance fee, salary
builder, architect, cook, author, finder, founder
state, colour, operating system, programming language, nickname
error, serial number, platform
number of legs, number of chapters, number of errors, number of guests, number of seats, \
age
vet, teacher, friend, partner, neighbour
means of transport, destination""".split("\n")]
# The last word of a coined attribute, and the kind of its value.
HEADS = {"number": "number", "code": "code", "colour": "colour", "name": "coined", "date": "date",
         "limit": "amount", "fee": "money", "manager": "person", "officer": "person",
         "address": "mail", "time": "time", "weight": "weight", "length": "length",
         "version": "version", "key": "secret", "title": "title", "path": "path", "port": "number",
         "city": "city", "id": "code", "count": "count", "level": "small", "rate": "percent",
         "speed": "speed", "temperature": "degrees", "author": "person", "partner": "organisation",
         "material": "material", "budget": "money", "size": "bytes", "contact": "person",
         "host": "host", "token": "secret", "range": "distance", "period": "period",
         "street": "street", "brand": "coined", "supplier": "organisation", "animal": "animal",
         "day": "weekday", "month": "month", "year": "year", "phone": "phone", "page": "url",
         "word": "word", "password": "secret", "country": "country", "rule": "word"}


class Attribute:
    def __init__(self, words, kinds, classes, statements, questions):
        self.names = [w.strip() for w in words.split(",")]
        self.kinds = [k.strip() for k in kinds.split(",")]
        self.classes = classes.split()
        self.statements = Patterns(s.strip() for s in statements.split(" ; ")) \
            if statements else None
        self.questions = Patterns(q.strip() for q in questions.split(" ; ")) if questions else None

    def __repr__(self):
        return f"Attribute({self.names})"  # by which it may be held out

    @property
    def name(self):
        return self.names[0]


def read_attributes(path=HERE / "attributes.txt"):
    return [Attribute(*line.split(" | ")) for line in path.read_text().splitlines()
            if line and not line.startswith("#")]


def read_entities(path=HERE / "entities.txt"):
    out = {}
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            kind, nouns, form = line.split(" | ")
            out.setdefault(kind, []).append((tuple(nouns.split(", ")), form))
    return {kind: Patterns(forms) for kind, forms in out.items()}


ATTRIBUTES = read_attributes()
BY_CLASS = {}
for _attribute in ATTRIBUTES:
    for _class in _attribute.classes:
        BY_CLASS.setdefault(_class, []).append(_attribute)
BY_CLASS = {kind: Patterns(found) for kind, found in BY_CLASS.items()}
ENTITIES = read_entities()
CLASSES = sorted(ENTITIES)
FORMS = {name: Patterns(lines) for name, lines in
         lexicon.sections(HERE / "patterns.txt").items()}
FILLER = Patterns(line for line in (HERE / "filler.txt").read_text().splitlines()
                  if line and not line.startswith("#"))


def put(text, **values):
    """Fills {slots}; {E} is {e} at the beginning of a sentence; "a {v}" agrees with its value."""
    for name, value in values.items():
        if value is None:
            continue
        if value[:1].lower() in "aeiou" and lexicon.article(value) == "an":
            text = text.replace("a {" + name + "}", "an {" + name + "}")
        text = text.replace("{" + name + "}", value).replace("{" + name.upper() + "}", upper(value))
    return text


# Kinds of values that are written with a capital at the beginning of a sentence.
SENTENCE_CASE = set("person material job food thing animal place count ordinal topic period colour "
                    "instrument sport vehicle nickname purpose".split())


JOINTS = Patterns([", and {b}", ", but {b}", " because {b}", " while {b}", ", so {b}", "; {b}",
                   ", as {b}", ", although {b}", ", and then {b}", " when {b}",
                   ", which was a pity",
                   ", as one could have expected", ", or so they say", ", if I remember",
                   ", as always", ", to be honest", ", of course", ", at least for now"])


def plain_filler(rng):
    text = SLOT.sub(lambda m: names.value(rng, m.group(1)), rng.pick(FILLER))
    text = re.sub(r"\ba ([aeiou])", r"an \1", text)
    return re.sub(r"\bA ([aeiou])", r"An \1", text)


def filler(rng):
    """A sentence that says nothing which is asked for, of one part or of two."""
    text = plain_filler(rng)
    if rng.chance(0.3):
        other = plain_filler(rng).rstrip(".")
        if not other.startswith("I "):
            other = other[:1].lower() + other[1:]
        text = text.rstrip(".") + rng.pick(JOINTS).replace("{b}", other) + "."
    return text


class Entity:
    def __init__(self, kind, noun, long, short, is_name=False):
        self.kind, self.noun, self.long, self.short = kind, noun, long, short
        self.is_name = is_name  # of a machine: written as it is everywhere

    def said(self, rng):
        return self.short if rng.chance(0.35) else self.long

    @property
    def bare(self):
        """The name alone, which each way to say it has in it."""
        name = self.short.removeprefix("the ") if self.short != self.long else self.long
        return name.strip('"')


class Scene:
    """Words that are taken: of two entities of a text none can be meant by the other's name."""

    def __init__(self, rng):
        self.rng, self.taken = rng, set()

    def is_free(self, text):
        words = {w for w in re.findall(r"\w+", text.lower()) if len(w) > 1} - COMMON
        if not words or words & self.taken:
            return False
        self.taken |= words
        return True

    def entity(self, kind, form=None):
        rng = self.rng
        for _ in range(60):
            nouns, text = form or rng.pick(ENTITIES[kind])
            noun = rng.choice(nouns)
            adjective = rng.choice(WORDS["adjectives"])
            made = NAMED.sub(lambda m: names.value(rng, m.group(1)),
                             text.split(" = ")[0].replace("{k}", noun)
                             .replace("{adj}", adjective))
            short = made
            if " = " in text:
                # The shorter name is made of the longer one's words.
                value = re.search(NAMED.sub(lambda m: "(.+)", re.sub(
                    r"\{(k|adj)\}", ".+?", text.split(" = ")[0])), made)
                parts = list(value.groups())
                short = NAMED.sub(lambda m: parts.pop(0), text.split(" = ")[1]) \
                    .replace("{k}", noun)
                if "the {k}" == text.split(" = ")[1]:
                    short = made  # it would name every one of its kind
            # Where only the name tells one from the other, the noun is not asked to.
            bare = short if form is None or " = " in text else \
                re.sub(r"^(the|my|\w+) (?=\S)", "", made) if "{x:" in text else made
            if self.is_free(bare):
                return Entity(kind, noun, made, short,
                              text in ("{x:word}", "{x:host}", "{x:code}"))
        return None


COMMON = set("the of my and mr mrs ms dr professor captain under beyond inc ltd group".split())


class Fact:
    """`attribute` of `entity` is `value`; `old` is what it was before, if anything."""

    def __init__(self, rng, entity, attribute, kind, others=()):
        self.entity, self.attribute, self.kind = entity, attribute, kind
        self.name = attribute.name if rng.chance(0.6) else rng.choice(attribute.names)
        for _ in range(20):
            self.value = names.value(rng, kind)
            if self.value not in others:
                break
        self.old = None
        if rng.chance(0.07):
            self.old = names.value(rng, kind)
            if self.old.lower() in self.value.lower() or self.value.lower() in self.old.lower():
                self.old = None

    def put(self, text, rng):
        if self.kind not in SENTENCE_CASE:
            text = text.replace("{V}", "{v}")
        if self.entity.is_name:
            text = text.replace("{E}", "{e}")
        return put(text, a=self.name, v=self.value, o=self.old, e=self.entity.said(rng))

    def sentence(self, rng):
        if self.old is not None:
            return self.put(rng.pick(FORMS["changes"]), rng)
        natural = self.attribute.statements
        form = natural if natural is not None and rng.chance(0.65) else FORMS["statements"]
        return self.put(rng.pick(form), rng)

    def clause(self, rng):
        """What can be said of an entity that the sentence has named: "costs 40 euros"; or None."""
        natural = self.attribute.statements
        forms = [form for form in natural.of(rng.part) if form.startswith("{E} ")] \
            if natural and self.old is None else []
        text = rng.choice(forms)[4:].rstrip(".") if forms else None
        return None if text is None or "{e}" in text else self.put(text, rng)

    def question(self, rng, name=None):
        """(question, answer)."""
        if self.old is not None:
            if rng.chance(0.35):
                return self.put(rng.pick(FORMS["old"]), rng), self.old
            if rng.chance(0.5):
                return self.put(rng.pick(FORMS["new"]), rng), self.value
        natural = self.attribute.questions
        form = natural if natural is not None and rng.chance(0.55) else FORMS["questions"]
        text = rng.pick(form)
        kept, self.name = self.name, name or self.name
        if len(self.attribute.names) > 1 and rng.chance(0.15):
            self.name = rng.choice(self.attribute.names)
        asked, self.name = self.put(text, rng), kept
        return asked, self.value

    def in_words(self, rng):
        """The answer as a sentence."""
        return put("The {a} of {e} is {v}.", a=self.name, v=self.value, e=self.entity.bare)

    def reverse(self, rng):
        text = rng.pick(FORMS["reverse"])
        if self.kind not in SENTENCE_CASE:
            text = text.replace("{V}", "{v}")
        return put(text, a=self.name, v=self.value, k=self.entity.noun), self.entity.bare


def sentences(rng, facts):
    """Facts as sentences; two of one entity are sometimes said in one."""
    out, at = [], 0
    while at < len(facts):
        first, two = facts[at], facts[at:at + 2]
        clauses = [fact.clause(rng) for fact in two] if rng.chance(0.3) else []
        if len(clauses) == 2 and all(clauses) and two[0].entity is two[1].entity:
            name = first.entity.said(rng)
            name = name if first.entity.is_name else upper(name)
            joint = rng.choice([" and ", " and ", ", and ", " and also ", " but ", ", "])
            end = ", as we all know" if joint == ", " else ""
            out.append(f"{name} {clauses[0]}{joint}{clauses[1]}{end}.")
            at += 2
        else:
            out.append(first.sentence(rng))
            at += 1
    return out


def coin(rng, used):
    """An attribute that nobody has thought of: "blanket code", "zoram level"."""
    while True:
        first = rng.choice([rng.choice(WORDS["things"]), rng.choice(WORDS["software"]),
                            names.word(rng), rng.choice(WORDS["topics"]),
                            rng.choice(WORDS["events"]), rng.choice(WORDS["animals"])])
        head = rng.choice(sorted(HEADS))
        if head not in used:
            used.add(head)
            return Attribute(f"{first} {head}", HEADS[head], "any", "", "")


def attributes_of(rng, kind, count):
    """Attributes of a class that cannot be taken for each other, some of them coined."""
    chosen, taken, heads = [], set(), set()
    coined = rng.choice([0.0, 0.0, 0.2, 0.5, 1.0])
    among = rng.picks(BY_CLASS[kind], 3 * count + 4)
    while len(chosen) < count:
        if not among or rng.chance(coined):
            chosen.append(coin(rng, heads))
            continue
        one = among.pop()
        alike = {index for index, group in enumerate(ALIKE) if set(one.names) & group}
        alike |= {name for name in one.names}
        if not alike & taken:
            taken |= alike
            chosen.append(one)
    return chosen


class World:
    """Entities of one or several classes, and what is known of them."""

    def __init__(self, rng, entities, per_entity, one_class=None):
        self.rng, self.scene = rng, Scene(rng)
        self.facts, self.rows = [], []
        same = rng.chance(0.6) if one_class is None else one_class
        kind = rng.choice(CLASSES)
        form = rng.pick(ENTITIES[kind]) if same and rng.chance(0.6) else None
        columns = None
        for _ in range(entities):
            if not same:
                kind = rng.choice(CLASSES)
            if columns is None or not same:
                columns = [(attribute, rng.choice(attribute.kinds))
                           for attribute in attributes_of(rng, kind, per_entity)]
            entity = self.scene.entity(kind, form)
            if entity is None:
                break
            self.add(entity, columns)
        self.columns = columns

    def add(self, entity, columns):
        rng, row = self.rng, []
        for attribute, kind in columns:
            if len(columns) > 1 and rng.chance(0.12):
                continue  # not everything is known of everything
            taken = {f.value for f in self.facts}
            fact = Fact(rng, entity, attribute, kind, taken)
            row.append(fact)
        if not row:
            row = [Fact(rng, entity, *columns[0])]
        names_of = {f.attribute: f.name for r in self.rows for f in r}
        for fact in row:
            fact.name = names_of.get(fact.attribute, fact.name)
        self.facts += row
        self.rows.append(row)

    def keep(self, count):
        """Forgets facts beyond so many."""
        self.facts = self.facts[:count]
        self.rows = [row for row in ([f for f in row if f in self.facts] for row in self.rows)
                     if row]

    def questions(self):
        """(question, answer, fact), the same question never with two answers."""
        rng = self.rng
        for fact in rng.sample(self.facts, len(self.facts)):
            question, answer = fact.question(rng)
            values = [f.value for f in self.facts] + [f.old for f in self.facts]
            if fact.old is None and rng.chance(0.06) and values.count(fact.value) == 1 and \
                    fact.kind not in ("adjective", "ordinal", "small"):
                question, answer = fact.reverse(rng)
            yield question, answer, fact
