"""Conversations in which a fact has to be read out of a text. Standard library only.

A text is made of records (an entity with attributes of random values) in one of many forms, with
other sentences between them. The question names an entity and an attribute, or one that the text
does not have. What is asked is random, so only reading helps.
"""

import json

import names
from wording import expand

# attribute: kinds of its value, and questions of its own beside the general ones
ATTRIBUTES = {
    "port": ["number"], "owner": ["person"], "colour": ["colour"], "budget": ["money"],
    "deadline": ["date"], "password": ["secret"], "address": ["address"], "version": ["version"],
    "location": ["city"], "manager": ["person"], "code": ["code"], "price": ["money"],
    "size": ["number"], "weight": ["number", "decimal"], "status": ["word", "phrase"],
    "timeout": ["number"], "key": ["secret", "code"], "region": ["city", "code"],
    "contact": ["person", "mail"], "id": ["code", "number"], "serial number": ["code"],
    "birthday": ["date"], "favourite dish": ["phrase"], "e-mail": ["mail"], "file": ["path"],
    "path": ["path"], "start time": ["time"], "end time": ["time"], "host": ["host"],
    "limit": ["number"], "score": ["number", "decimal"], "temperature": ["decimal", "number"],
    "author": ["person"], "title": ["phrase"], "room": ["number", "code"], "phone": ["number"],
    "speed": ["decimal", "number"], "height": ["number"], "age": ["number"], "team": ["coined"],
    "project": ["coined"], "supplier": ["coined", "person"], "material": ["phrase", "word"],
    "capital": ["city"], "population": ["number"], "branch": ["code", "word"],
    "commit": ["code"], "ticket": ["code"], "error": ["code", "phrase"], "reason": ["phrase"],
    "job": ["phrase", "word"], "nickname": ["coined", "word"], "pet": ["coined"],
    "result": ["decimal", "number", "phrase"], "distance": ["number"], "token": ["secret"],
    "secret word": ["word", "secret"], "order number": ["code", "number"], "street": ["coined"],
    "replacement": ["coined", "host"], "backup": ["host", "path"], "model": ["code", "coined"],
}
ENTITIES = [("server", "host"), ("project", "coined"), ("", "person"), ("", "coined"),
            ("room", "code"), ("device", "code"), ("service", "word"), ("city", "city"),
            ("order", "code"), ("team", "coined"), ("the", "phrase"), ("station", "coined"),
            ("customer", "person"), ("module", "word"), ("", "host"), ("ship", "coined"),
            ("sample", "code"), ("book", "phrase"), ("machine", "host"), ("company", "coined")]

SENTENCES = [
    "The {a} of {e} is {v}.", "{E} has the {a} {v}.", "For {e} the {a} is {v}.",
    "{E}'s {a} is {v}.", "The {a} for {e} was set to {v}.", "As {a} of {e} we use {v}.",
    "Note that {e} has {v} as its {a}.", "{v} is the {a} of {e}.", "{E}: {a} {v}.",
    "Since last week the {a} of {e} has been {v}.", "We agreed on {v} as the {a} of {e}.",
    "According to the list, the {a} of {e} is {v}.", "{E} got a new {a}: {v}.",
    "Please remember the {a} of {e}: {v}.", "In the case of {e}, the {a} is {v}.",
]
QUESTIONS = [
    "What is the {a} of {e}?", "What's the {a} of {e}?", "Which {a} does {e} have?",
    "What is {e}'s {a}?", "Tell me the {a} of {e}.", "{E}: what is the {a}?", "{a} of {e}?",
    "I need the {a} of {e}.", "Can you [find|tell me|look up] the {a} of {e}?",
    "What {a} does {e} have?", "Do you know the {a} of {e}?", "Give me {e}'s {a}.",
    "What does the text say about the {a} of {e}?", "Which {a} is given for {e}?",
    "Find the {a} of {e} in the text.", "What is the {a} for {e}?",
    "What was said about the {a} of {e}?", "And the {a} of {e}?",
]
ANSWERS = ["{v}", "{v}", "The {a} of {e} is {v}.", "The {a} of {e} is {v}.", "{v}."]
MISSING = ["The text does not say.", "That is not in the text.",
           "The text does not say what the {a} of {e} is."]
FILLER_SUBJECTS = [
    "The meeting", "The weather", "A colleague", "The old bridge", "Our garden",
    "The morning train", "The second report", "The new office", "Somebody", "The kitchen",
    "The team", "A neighbour", "The library", "The long road", "The other group",
    "The machine in the hall", "A visitor from the north", "The plan", "The market",
    "The last test", "The cache", "The server room", "An agent", "The gateway", "The summer",
    "The review",
]
FILLER_VERBS = [
    "was quieter than usual", "took longer than we had thought", "went well", "had to wait",
    "came back in the evening", "was closed for an hour", "changed nothing",
    "made everybody laugh", "needs a new coat of paint", "was discussed again", "is still open",
    "did not help much", "looked better from afar", "stayed the same", "was moved to another day",
    "needed two more people", "seemed to work", "was described in a letter", "had no effect",
    "grew slowly", "will be repeated", "was paid for in advance", "ended without a result",
]
FILLER_ENDS = ["", "", "", " because of the rain", " as always", " after lunch", " without a word",
               " for the second time", " according to the notes", " in spite of everything",
               ", which surprised nobody", ", and nobody knew why", " until late", " this year",
               ", so we went home", " for good reasons", " between two other things"]
READ = ["OK.", "I have read it.", "Got it. What would you like to know?"]
INSTRUCTIONS = ["Answer from the text.", "Read the text and answer.", "Use only the text below.",
                "Here is a text.", "Read this:", "", "", "", "Context:", "Look at this:",
                "This is what I have:", "Please read carefully.", "I have the following notes."]


def filler(rng):
    return rng.choice(FILLER_SUBJECTS) + " " + rng.choice(FILLER_VERBS) + \
        rng.choice(FILLER_ENDS) + "."


class Records:
    """Entities with attributes, and the text that says them."""

    def __init__(self, rng, chars):
        self.rng = rng
        self.kind, maker = rng.choice(ENTITIES)
        self.per = rng.choice([1, 1, 2, 3, 4])
        self.attributes = rng.sample(sorted(ATTRIBUTES), self.per + rng.randint(0, 2))
        # An attribute has one kind of value in a text, as in real ones; sometimes any.
        kinds = {a: rng.choice(ATTRIBUTES[a]) for a in self.attributes}
        per_entity = 40 * self.per + 25
        filler_share = rng.choice([0, 0, 0.3, 0.6])
        count = max(1, int(chars * (1 - filler_share) / per_entity))
        self.rows, seen = [], set()
        for _ in range(count):
            entity = names.value(rng, maker)
            if entity in seen:
                continue
            seen.add(entity)
            entity = f"{self.kind} {entity}".strip()
            chosen = rng.sample(self.attributes, self.per)
            self.rows.append((entity, {a: names.value(rng, kinds[a]) for a in chosen}))
        self.chars = chars

    def facts(self):
        return [(e, a, v) for e, row in self.rows for a, v in row.items()]

    def text(self):
        form = self.rng.choice([self.prose, self.prose, self.prose, self.blocks, self.data,
                                self.table, self.toml, self.log, self.bullets, self.mail,
                                self.lines])
        return form()

    def with_filler(self, sentences, between):
        out, size, rng = [], sum(map(len, sentences)), self.rng
        missing = max(0, self.chars - size)
        gaps = [0] * (len(sentences) + 1)
        while missing > 0:
            gaps[rng.randrange(len(gaps))] += 1
            missing -= 55
        for index, gap in enumerate(gaps):
            out += [filler(rng) for _ in range(gap)]
            out += sentences[index:index + 1]
        return between(out)

    def prose(self):
        rng, sentences = self.rng, []
        for entity, attribute, value in self.facts():
            sentences.append(fill(rng.choice(SENTENCES), entity, attribute, value))
        if rng.random() < 0.5:
            rng.shuffle(sentences)
        step = rng.choice([3, 5, 8, 1000])
        return self.with_filler(sentences, lambda all_: "\n\n".join(
            " ".join(all_[i:i + step]) for i in range(0, len(all_), step)))

    def blocks(self):
        mark, rng = self.rng.choice(["{}:", "## {}", "[{}]", "{}", "- {}", "* {}"]), self.rng
        sign = rng.choice([": ", " = ", " - ", " is "])
        return rng.choice(["\n", "\n\n"]).join(
            mark.format(e) + "\n" + "\n".join(f"{a}{sign}{v}" for a, v in row.items())
            for e, row in self.rows)

    def data(self):
        value = {e: row for e, row in self.rows}
        if self.rng.random() < 0.5:
            value = [{"name": e, **row} for e, row in self.rows]
        return json.dumps(value, ensure_ascii=False, indent=self.rng.choice([None, None, 1, 2]))

    def table(self):
        used = [a for a in self.attributes if any(a in row for _, row in self.rows)]
        left, mid, right = self.rng.choice([("| ", " | ", " |"), ("", ",", ""), ("", "\t", ""),
                                            ("", "; ", "")])
        lines = [left + mid.join(["name", *used]) + right]
        if left:
            lines.append("|" + "---|" * (len(used) + 1))
        for entity, row in self.rows:
            lines.append(left + mid.join([entity, *(row.get(a, "-") for a in used)]) + right)
        return "\n".join(lines)

    def toml(self):
        quote = self.rng.choice(['"{}"', "{}", "'{}'"])
        return "\n".join(f"[{e}]\n" + "\n".join(f"{a.replace(' ', '_')} = {quote.format(v)}"
                                                for a, v in row.items()) + "\n"
                         for e, row in self.rows)

    def log(self):
        rng, lines, minute = self.rng, [], self.rng.randint(0, 900)
        for entity, attribute, value in self.facts():
            minute += rng.randint(0, 3)
            stamp = rng.choice(["{:02}:{:02}", "[{:02}:{:02}:07]", "2026-11-26T{:02}:{:02}:00"])
            level = rng.choice(["INFO", "info", "WARN", "DEBUG", "-"])
            lines.append(stamp.format(minute // 60 % 24, minute % 60) + " " + level + " " +
                         rng.choice(["{e}: {a}={v}", "{e} {a}: {v}", "{a} of {e} is now {v}",
                                     "{e}: {a} {v}"]).format(e=entity, a=attribute, v=value))
        return "\n".join(lines)

    def bullets(self):
        mark = self.rng.choice(["- ", "* ", "• ", "{n}. ", "{n}) "])
        return "\n".join(mark.format(n=n + 1) + f"{e}, {a} {v}" if self.rng.random() < 0.5 else
                         mark.format(n=n + 1) + f"{a} of {e}: {v}"
                         for n, (e, a, v) in enumerate(self.facts()))

    def lines(self):
        sign = self.rng.choice([": ", " -> ", " = ", "\t"])
        return "\n".join(f"{e} {a}{sign}{v}" for e, a, v in self.facts())

    def mail(self):
        rng = self.rng
        head = f"From: {names.mail(rng)}\nTo: {names.mail(rng)}\nSubject: {names.phrase(rng)}\n\n"
        return head + f"Dear {rng.choice(names.FIRST)},\n\n" + self.prose() + \
            f"\n\n{rng.choice(['Best', 'Regards', 'Yours'])},\n{names.person(rng)}"


def fill(text, entity, attribute, value=""):
    return text.replace("{e}", entity).replace("{E}", entity[:1].upper() + entity[1:]) \
        .replace("{a}", attribute).replace("{v}", value)


def question(rng, records):
    """(question, answer)."""
    facts = records.facts()
    entity, attribute, value = rng.choice(facts)
    text = expand(rng, rng.choice(QUESTIONS))
    if rng.random() < 0.07:
        present = dict(records.rows)[entity]
        if rng.random() < 0.5:
            entity = f"{records.kind} {names.coined(rng)}".strip()
        else:
            attribute = rng.choice([a for a in sorted(ATTRIBUTES) if a not in present])
        if not any((entity, attribute) == fact[:2] for fact in facts):
            return fill(text, entity, attribute), fill(rng.choice(MISSING), entity, attribute)
        value = dict(records.rows)[entity][attribute]
    # An entity is often asked for without its kind, and an attribute in other case.
    asked = entity.split(" ", 1)[1] if records.kind and rng.random() < 0.3 else entity
    return fill(text, asked, attribute), fill(rng.choice(ANSWERS), asked, attribute, value)


def length(rng, longest):
    """Characters of a text: most are short, because short ones teach most per second."""
    low, high = rng.choices([(80, 400), (400, 1500), (1500, 4000), (4000, 9000), (9000, 16000)],
                            [42, 31, 18, 6, 3])[0]
    return min(rng.randint(low, high), longest)


def conversation(rng, longest=16000):
    records = Records(rng, length(rng, longest))
    text, instruction = records.text(), rng.choice(INSTRUCTIONS)
    number = rng.choice([1, 2, 3, 4, 6, 8])
    asked = [question(rng, records) for _ in range(number)]
    messages = []
    first, answer = asked[0]
    place = rng.random()
    if place < 0.15:
        messages.append({"role": "system", "content": (instruction + "\n" + text).strip()})
        messages.append({"role": "user", "content": first})
    elif place < 0.40:
        messages.append({"role": "user", "content": first + "\n\n" + text})
    elif place < 0.50:
        messages.append({"role": "user", "content": (instruction + "\n" + text).strip()})
        messages.append({"role": "assistant", "content": rng.choice(READ)})
        messages.append({"role": "user", "content": first})
    else:
        content = "\n\n".join(part for part in (instruction, text, first) if part)
        messages.append({"role": "user", "content": content})
    messages.append({"role": "assistant", "content": answer})
    for ask, answer in asked[1:]:
        messages += [{"role": "user", "content": ask}, {"role": "assistant", "content": answer}]
    return {"kind": "reading", "messages": messages}


REPEAT = ["Repeat: {t}", "Repeat this exactly: {t}", "Say this again:\n{t}", "{t}\n\nRepeat that.",
          "Copy the following line.\n{t}", "Write exactly: {t}", "Echo {t}", "Please type: {t}",
          "Quote this back to me: \"{t}\""]


def copying(rng):
    """Copying of random strings, and lists in which one item leads to another."""
    if rng.random() < 0.4:
        kinds = list(names.KINDS)
        text = rng.choice([" ", ", ", " / "]).join(names.value(rng, rng.choice(kinds))
                                                  for _ in range(rng.randint(1, 14)))
        return {"kind": "copying", "messages": [
            {"role": "user", "content": rng.choice(REPEAT).format(t=text)},
            {"role": "assistant", "content": text}]}
    kind, other = rng.sample(list(names.KINDS), 2)
    pairs = {}
    for _ in range(rng.randint(2, 30)):
        pairs[names.value(rng, kind)] = names.value(rng, other)
    sign = rng.choice([": ", " -> ", " = ", " is ", " goes with ", ","])
    text = rng.choice(["\n", "\n", "; "]).join(f"{k}{sign}{v}" for k, v in pairs.items())
    keys = rng.choices(list(pairs), k=rng.randint(1, 8))
    form = rng.choice(["{k}?", "What goes with {k}?", "{k}", "What is {k}?", "Find {k}.",
                       "What stands beside {k}?", "Look up {k}."])
    messages = [{"role": "user", "content": text + "\n\n" + form.format(k=keys[0])}]
    for index, key in enumerate(keys):
        if index:
            messages.append({"role": "user", "content": form.format(k=key)})
        messages.append({"role": "assistant", "content": pairs[key]})
    return {"kind": "copying", "messages": messages}
