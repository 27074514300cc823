"""Sentences on who did what, where, when, with what and why, and questions for each part of them.

A deed is a verb with its parts; there are dozens of orders in which a sentence can say them and as
many to ask for one, so that a question is understood by its words and not by its form. Standard
library only.
"""

import re
from pathlib import Path

import lexicon
import names
from draw import Patterns
from lexicon import WORDS, upper


def forms(entry):
    """(base, past, participle) of an entry of verbs.txt."""
    words = entry.split()
    third = len(words) // 3
    if len(words) >= 3:
        return tuple(" ".join(words[i * third:(i + 1) * third]) for i in range(3))
    return words[0], lexicon.past(words[0]), lexicon.past(words[0])


VERBS = {kind: Patterns(forms(entry.strip()) for line in lines for entry in line.split(","))
         for kind, lines in lexicon.sections(Path(__file__).resolve().parent / "verbs.txt").items()}
# Verbs that ask for the same deed.
ALIKE = """repair, fix, mend
buy, purchase, acquire
build, construct, erect
find, discover
hire, employ, engage
help, assist
cancel, call off
postpone, put off
choose, pick, select
close, shut
examine, inspect, look at
throw away, discard
taste, try
leave, quit
reject, turn down
approve, accept
destroy, wreck
start, launch
record, tape
hide, conceal
demolish, tear down
organise, arrange
describe, portray
name, christen
end, finish
correct, amend
shut down, turn off
accompany, go with
dismiss, fire
publish, bring out
renovate, restore
deliver, bring"""
MORE_FORMS = {"shut": "shut shut", "tear down": "tore down torn down", "find": "found found",
              "build": "built built", "choose": "chose chosen", "leave": "left left",
              "quit": "quit quit", "hide": "hid hidden", "bring": "brought brought",
              "bring out": "brought out brought out", "go with": "went with gone with",
              "put off": "put off put off", "throw away": "threw away thrown away",
              "buy": "bought bought", "shut down": "shut down shut down",
              "call off": "called off called off", "turn off": "turned off turned off",
              "turn down": "turned down turned down", "look at": "looked at looked at"}
SYNONYMS = {}
for _line in ALIKE.split("\n"):
    for _verb in _line.split(", "):
        SYNONYMS.setdefault(_verb, []).extend(
            forms(f"{other} {MORE_FORMS.get(other, '')}".strip())
            for other in _line.split(", ") if other != _verb)
OBJECTS = {"thing": ["the {thing}", "the {adjective} {thing}", "the {material} {thing}",
                     "{first}'s {thing}", "the {colour} {thing}", "the {thing} from {city}",
                     "the {ordinal} {thing}", "a {thing} of {material}"],
           "place": ["the {spot}", "the {adjective} {spot}", "the {spot} of {coined}"],
           "document": ["the {document}", "the {adjective} {document}", "{first}'s {document}",
                        "\"{title}\"", "the {document} on {topic}", "the {topic} {document}"],
           "event": ["the {event}", "the {adjective} {event}", "the {topic} {event}"],
           "machine": ["the {software}", "the {adjective} {software}", "{word}", "{host}",
                       "the {word} {software}"],
           "animal": ["the {animal}", "the {adjective} {animal}", "{first}'s {animal}"],
           "food": ["the {food}", "{first}'s {food}"],
           "person": ["{person}", "the {job}", "the {adjective} {job}"],
           "vehicle": ["the {vehicle}", "the {adjective} {vehicle}", "{first}'s {vehicle}",
                       "the {vehicle} from {city}"]}
OBJECTS = {kind: Patterns(texts) for kind, texts in OBJECTS.items()}
AGENTS = Patterns(["{person}", "{person}", "{person}", "the {job}", "the {adjective} {job}",
                   "{person}, the {job},", "a {job} from {city}", "{organisation}",
                   "the {group} of {coined}", "my {relative}", "the {job} {first}"])
TOOLS = """brush, crane, drone, hammer, knife, ladder, lantern, magnifying glass, microscope, net,
old radio, pair of pliers, pencil, pocket knife, rope, ruler, saw, screwdriver, script, shovel,
sledge, small axe, spoon, sponge, stick, string, telescope, torch, tractor, wheelbarrow,
wrench""".replace("\n", " ")
# part -> (how it is said, questions with {w} who, {b} base, {p} past, {pp} participle, {o} object)
QUESTIONS = {
    "who": ["Who {p} {o}?", "By whom was {o} {pp}?", "Who was it that {p} {o}?",
            "Which person {p} {o}?", "Who has {pp} {o}?", "Who is said to have {pp} {o}?",
            "{O} was {pp} by whom?", "Do you know who {p} {o}?", "Tell me who {p} {o}.",
            "Name the one who {p} {o}.", "I want to know who {p} {o}.", "who {p} {o}",
            "Whose work was it to {b} {o}?", "Who did {b} {o}?", "Can you tell me who {p} {o}?",
            "Somebody {p} {o}. Who?", "The one who {p} {o} was who?"],
    "what": ["What did {w} {b}?", "What was {pp} by {w}?", "What has {w} {pp}?",
             "Tell me what {w} {p}.", "What was it that {w} {p}?", "Which thing did {w} {b}?",
             "{W} {p} what?", "Do you know what {w} {p}?", "I'd like to know what {w} {p}.",
             "{W} {p} something. What?", "What do they say {w} {p}?"],
    "where": ["Where did {w} {b} {o}?", "Where was {o} {pp}?", "In which place was {o} {pp}?",
              "At what place did {w} {b} {o}?", "Where was it that {w} {p} {o}?",
              "Tell me where {w} {p} {o}.", "Where exactly was {o} {pp}?",
              "{W} {p} {o}. Where was that?", "What was the place where {o} was {pp}?",
              "Do you know where {o} was {pp}?", "where was {o} {pp}"],
    "when": ["When did {w} {b} {o}?", "When was {o} {pp}?", "When was it that {w} {p} {o}?",
             "At what time was {o} {pp}?", "Tell me when {w} {p} {o}.",
             "{W} {p} {o}. When was that?", "Since when has {o} been {pp}?",
             "Do you know when {o} was {pp}?", "when was {o} {pp}", "What was the time when {w} "
             "{p} {o}?"],
    "tool": ["With what did {w} {b} {o}?", "What did {w} use to {b} {o}?",
             "With what was {o} {pp}?", "What was used to {b} {o}?", "How did {w} {b} {o}?",
             "What did {w} need to {b} {o}?", "By means of what was {o} {pp}?"],
    "why": ["Why did {w} {b} {o}?", "Why was {o} {pp}?", "For what reason was {o} {pp}?",
            "What was the reason that {w} {p} {o}?", "Tell me why {w} {p} {o}.",
            "What made {w} {b} {o}?", "How come {w} {p} {o}?", "why was {o} {pp}"],
    "price": ["How much did it cost to {b} {o}?", "For how much did {w} {b} {o}?",
              "What was paid when {w} {p} {o}?", "What was the price when {o} was {pp}?",
              "How much money was it when {o} was {pp}?"],
    "with": ["With whom did {w} {b} {o}?", "Who was with {w} when {o} was {pp}?",
             "Who helped {w} to {b} {o}?", "Together with whom did {w} {b} {o}?"],
    "for": ["For whom did {w} {b} {o}?", "For whom was {o} {pp}?", "On whose behalf did {w} {b} "
            "{o}?", "Whom did {w} do a favour when {o} was {pp}?"],
}
QUESTIONS = {part: Patterns(texts) for part, texts in QUESTIONS.items()}
ORDERS = Patterns([
    "{W} {p} {o}{rest}.", "{W} {p} {o}{rest}.", "{W} {p} {o}{rest}.", "{O} was {pp} by {w}{rest}.",
    "{O} was {pp} by {w}{rest}.", "{O} was {pp}{rest} by {w}.", "{F}, {w} {p} {o}{rest}.",
    "{F}, {o} was {pp} by {w}{rest}.", "It was {w} who {p} {o}{rest}.",
    "It was {o} that {w} {p}{rest}.", "{F} it was that {w} {p} {o}{rest}.",
    "{W} has {pp} {o}{rest}.", "{W} had {pp} {o}{rest}.", "{O} has been {pp} by {w}{rest}.",
    "{O}, which {w} {p}{rest}, is still talked about.", "What {w} {p}{rest} was {o}.",
    "The one who {p} {o}{rest} was {w}.", "That {w} {p} {o}{rest} is well known.",
    "They say that {w} {p} {o}{rest}.", "I heard that {o} was {pp} by {w}{rest}.",
    "Did you know that {w} {p} {o}{rest}?", "We owe it to {w} that {o} was {pp}{rest}.",
    "According to the report, {w} {p} {o}{rest}.", "To {b} {o} was the work of {w}{rest}.",
    "After a long talk {w} {p} {o}{rest}.", "{W} was the first to {b} {o}{rest}.",
    "{W} finally {p} {o}{rest}.", "{W}, of all people, {p} {o}{rest}.",
    "{O}? {W} {p} it{rest}.", "{W} did {b} {o}{rest}.", "News: {o} {pp} by {w}{rest}.",
    "By {w}, {o} was {pp}{rest}.", "In the end {o} was {pp} by {w}{rest}.",
    "Somebody had to {b} {o}; {w} did it{rest}.", "As {w} {p} {o}{rest}, everybody looked on.",
    "When {w} {p} {o}{rest}, nobody was there.", "My diary says: {w} {p} {o}{rest}."])


def filled(rng, text):
    for kind in ("adjective", "material", "thing", "colour", "ordinal", "first", "city", "spot",
                 "coined", "document", "title", "topic", "event", "software", "word", "host",
                 "animal", "food", "person", "job", "vehicle", "organisation", "group",
                 "relative"):
        while "{" + kind + "}" in text:
            text = text.replace("{" + kind + "}", names.value(rng, kind), 1)
    words = text.split(" ", 1)
    return lexicon.a(words[1]) if words[0] == "a" else text


class Deed:
    """One deed: its sentence, and what can be asked of it."""

    def __init__(self, rng, scene, kinds=None):
        self.rng = rng
        kind = rng.choice(kinds or sorted(VERBS))
        self.base, self.past, self.participle = rng.pick(VERBS[kind])
        self.what = self.fresh(scene, OBJECTS[kind])
        self.who = self.fresh(scene, AGENTS)
        if self.what and self.who:
            self.parts = self.more(scene)

    def fresh(self, scene, patterns):
        for _ in range(40):
            text = filled(self.rng, self.rng.pick(patterns))
            if scene.is_free(text.strip(",")):
                return text
        return None

    def more(self, scene):
        """part -> (as it is said in the sentence, the answer)."""
        rng, parts = self.rng, {}
        if rng.chance(0.5):
            place = names.city(rng) if rng.chance(0.5) else "the " + rng.choice(WORDS["places"])
            word = rng.choice(["in", "at", "near", "not far from", "close to"]) \
                if place.startswith("the ") else rng.choice(["in", "in", "near"])
            if scene.is_free(place):
                parts["where"] = (f"{word} {place}",) * 2
        if rng.chance(0.5):
            when = names.on_day(rng)
            parts["when"] = (when, when)
        if rng.chance(0.15):
            tool = lexicon.a(rng.choice(TOOLS.split(", ")))
            parts["tool"] = ("with " + tool, tool)
        if rng.chance(0.12):
            who = names.person(rng)
            if scene.is_free(who):
                parts["with"] = ("together with " + who, who)
        if rng.chance(0.12):
            who = rng.choice([names.person(rng), names.organisation(rng)])
            if scene.is_free(who):
                parts["for"] = ("for " + who, who)
        if self.base in ("buy", "sell", "repair", "rent", "order", "restore", "build") and \
                rng.chance(0.6) and "for" not in parts:
            money = names.money(rng)
            parts["price"] = ("for " + money, money)
        if rng.chance(0.15):
            reason = rng.choice(WORDS["reasons"])
            parts["why"] = ("because " + reason, "because " + reason)
        return parts

    def put(self, text, rest="", front=""):
        for slot, value in (("w", self.who), ("b", self.base), ("p", self.past), ("o", self.what),
                            ("f", front), ("pp", self.participle)):
            text = text.replace("{" + slot + "}", value) \
                .replace("{" + slot.upper() + "}", upper(value))
        # Who may end in the comma of an apposition.
        return upper(re.sub(r",(?=[.,;?:])", "", text.replace("{rest}", rest)))

    def sentence(self):
        rng = self.rng
        order = rng.pick(ORDERS)
        said = [part for name, (part, _) in self.parts.items() if name != "why"]
        rng.shuffle(said)
        front = ""
        if "{F}" in order:
            front = self.parts.get("when", self.parts.get("where", ("yesterday",)))[0]
            said = [part for part in said if part != front]
            if front == "yesterday" and "when" in self.parts:
                front = self.parts["when"][0]
        if "why" in self.parts:
            said.append(self.parts["why"][0])
        return self.put(order, "".join(" " + part for part in said), front)

    def questions(self):
        """(question, answer) for each part that the sentence has."""
        out = []
        rng = self.rng
        for part in ["who", "what", *self.parts]:
            answer = {"who": self.who.rstrip(","), "what": self.what}.get(part) or \
                self.parts[part][1]
            answer = answer.strip('"')
            text = rng.pick(QUESTIONS[part])
            # A part of who is not asked for, nor is what in the words of the answer.
            kept = self.who, self.base, self.past, self.participle
            self.who = self.who.split(",")[0]
            if self.base in SYNONYMS and rng.chance(0.3):
                self.base, self.past, self.participle = rng.choice(SYNONYMS[self.base])
            question = self.put(text)
            self.who, self.base, self.past, self.participle = kept
            out.append((question if text[0] in "{ABCDEFGHIJKLMNOPQRSTUVWXYZ" else
                        question[:1].lower() + question[1:], answer))
        return out


def make(rng, scene, kinds=None):
    """A deed, or None if the scene has no room for one."""
    made = Deed(rng, scene, kinds)
    return made if made.what and made.who else None
