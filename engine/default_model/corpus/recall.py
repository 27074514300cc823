"""Recall: pairs and lists of random things, asked for one after the other; copying.

Nothing in them is language, so that what a key leads to can only be looked up. Most of such a row
is answers. Standard library only.
"""

import names
from draw import Patterns

KINDS = Patterns(sorted(names.KINDS))
REPEAT = Patterns([
    "Repeat: {t}", "Repeat this exactly: {t}", "Say this again:\n{t}", "{t}\n\nRepeat that.",
    "Copy the following line.\n{t}", "Write exactly: {t}", "Echo {t}", "Please type: {t}",
    "Quote this back to me: \"{t}\"", "Copy this text:\n\n{t}", "Say: {t}", "Output only this: {t}",
    "Give me this back, unchanged: {t}", "What did I write? {t}", "{t}\nSay that once more.",
    "Return the following string: {t}", "Please repeat after me: {t}", "echo: {t}"])
SIGNS = Patterns([": ", " -> ", " = ", " is ", " goes with ", ",", " - ", "\t", " => ", " | ",
                  " means ", " belongs to ", " (", "/", " leads to ", " ~ ", ":", " stands for ",
                  "; ", " .. "])
GAPS = Patterns(["\n", "\n", "\n", "; ", "\n- ", ", ", " | ", "\n\n", "\n* "])
ASKED = Patterns([
    "{k}?", "What goes with {k}?", "{k}", "What is {k}?", "Find {k}.", "What stands beside {k}?",
    "Look up {k}.", "And {k}?", "Now {k}.", "{k} is?", "{k} =", "{k}:", "Give me {k}.",
    "Which one belongs to {k}?", "What does {k} lead to?", "I need {k}.", "What about {k}?",
    "Tell me what {k} has.", "To what does {k} lead?", "{k}, please", "What is next to {k}?",
    "Translate {k}.", "Value of {k}?", "Show {k}", "Where does {k} point?", "complete: {k}"])
SEVERAL = Patterns([
    "{k}?", "Look up {k}.", "Find these: {k}", "{k}", "Give me {k}, in this order.",
    "What goes with {k}?", "In order: {k}", "I need these: {k}.", "Now {k}.", "All of these: {k}"])
ORDERED = Patterns([
    ("What comes after {k}?", 1), ("What follows {k}?", 1), ("Next one after {k}?", 1),
    ("Which item stands behind {k}?", 1), ("What comes before {k}?", -1), ("after {k}?", 1),
    ("What stands in front of {k}?", -1), ("Which item precedes {k}?", -1), ("before {k}?", -1),
    ("{k}, and then?", 1), ("What is the one behind {k}?", 1), ("Name the one before {k}.", -1)])
LISTED = Patterns(["{t}", "A list: {t}", "Here is a list.\n{t}", "List:\n{t}", "In this order: {t}",
                   "The items are {t}.", "[{t}]", "Remember these: {t}"])


def distinct(rng, kind, count, taken=()):
    out = []
    for _ in range(4 * count):
        value = names.value(rng, kind)
        if value not in out and value not in taken and len(out) < count:
            out.append(value)
    return out


def copied(rng):
    """A text to say again."""
    kinds = [rng.pick(KINDS) for _ in range(rng.choice([1, 1, 2, 3, 5, 8, 14]))]
    text = rng.choice([" ", ", ", " / ", "\n", " - "]).join(names.value(rng, k) for k in kinds)
    return [{"role": "user", "content": rng.pick(REPEAT).replace("{t}", text)},
            {"role": "assistant", "content": text}]


def paired(rng):
    """Pairs, of which several are asked for, forwards or backwards."""
    kind, other = rng.pick(KINDS), rng.pick(KINDS)
    count = rng.choice([2, 3, 4, 6, 8, 12, 16, 24, 36])
    keys = distinct(rng, kind, count)
    values = distinct(rng, other, len(keys), set(keys))
    pairs = dict(zip(keys, values))
    if not pairs:
        return copied(rng)
    sign = rng.pick(SIGNS)
    end = ")" if sign == " (" else ""
    text = rng.pick(GAPS).join(f"{k}{sign}{v}{end}" for k, v in pairs.items())
    if rng.chance(0.15):
        pairs = {v: k for k, v in pairs.items()}
    asked = rng.sample(sorted(pairs), min(len(pairs), rng.choice([1, 2, 4, 6, 8, 10])))
    form, messages = rng.pick(ASKED), []
    if rng.chance(0.3):
        # Several of them in each turn.
        gap, form = rng.choice([", ", " ", "\n"]), rng.pick(SEVERAL)
        step = rng.choice([2, 3, 4, 5])
        for at in range(0, len(asked), step):
            part = asked[at:at + step]
            messages += [form.replace("{k}", gap.join(part)), gap.join(pairs[k] for k in part)]
    else:
        for key in asked:
            if rng.chance(0.15):
                form = rng.pick(ASKED)
            messages += [form.replace("{k}", key), pairs[key]]
    before = rng.chance(0.2)
    messages[0] = f"{messages[0]}\n\n{text}" if before else \
        rng.choice(["", "", "", "Pairs:\n", "Table:\n", "Here:\n"]) + f"{text}\n\n{messages[0]}"
    return [{"role": "user" if index % 2 == 0 else "assistant", "content": content}
            for index, content in enumerate(messages)]


def ordered(rng):
    """A list, and what stands beside an item of it."""
    items = distinct(rng, rng.pick(KINDS), rng.choice([3, 4, 6, 9, 14, 20]))
    text = rng.pick(LISTED).replace("{t}", rng.pick(GAPS).join(items))
    messages = []
    for _ in range(rng.choice([1, 2, 4, 6])):
        form, step = rng.pick(ORDERED)
        at = rng.randrange(1, len(items) - 1) if len(items) > 2 else 1 - step
        if 0 <= at + step < len(items):
            messages += [form.replace("{k}", items[at]), items[at + step]]
    if not messages:
        return copied(rng)
    messages[0] = f"{text}\n\n{messages[0]}"
    return [{"role": "user" if index % 2 == 0 else "assistant", "content": content}
            for index, content in enumerate(messages)]


def conversation(rng):
    maker = rng.choice([copied, paired, paired, paired, paired, ordered])
    return {"kind": "recall", "messages": maker(rng)}
