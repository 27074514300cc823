"""Facts in natural sentences among others, and questions for them. Standard library only."""

import re
from pathlib import Path

import events
import names
import reading
import wording

SLOT = re.compile(r"\{(\w+)\}")


def load(path=Path(__file__).parent / "needles.txt"):
    out = []
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            sentence, *questions = [part.strip() for part in line.split(" | ")]
            out.append((sentence, [tuple(q.split(" > ")) for q in questions]))
    return out


NEEDLES = load()


def needle(rng, chosen):
    """A sentence with values, and its questions with their answers."""
    sentence, questions = chosen
    values = {slot: names.value(rng, slot) for slot in SLOT.findall(sentence)}

    def put(text):
        return SLOT.sub(lambda match: values[match.group(1)], text)

    return put(sentence), [(put(text), values[slot]) for text, slot in questions]


def sentence_of(value, rng):
    return rng.choice(["{v}", "{v}", "{v}", "It is {v}.", "{v}.", "That is {v}."]).format(v=value)


def conversation(rng, known, longest=16000):
    """`known`: other sentences that may stand around (answers of facts)."""
    made = [needle(rng, chosen) for chosen in
            rng.sample(NEEDLES, rng.choice([0, 0, 1, 1, 2, 3, 5, 8]))]
    made += [events.make(rng) for _ in range(rng.choice([0, 1, 1, 2, 3, 5, 8, 12]))]
    made = made or [events.make(rng)]
    rng.shuffle(made)
    chars, sentences = reading.length(rng, longest), [text for text, _ in made]
    around = []
    style = rng.choice(["filler", "filler", "known", "both"])
    size = sum(map(len, sentences))
    while size < chars:
        more = rng.choice(known) if style == "known" or style == "both" and rng.random() < 0.5 \
            else reading.filler(rng)
        around.append(more)
        size += len(more) + 1
    for text in sentences:
        around.insert(rng.randint(0, len(around)), text)
    step = rng.choice([1, 2, 4, 6, 1000])
    text = rng.choice(["\n\n", "\n"]).join(" ".join(around[i:i + step])
                                          for i in range(0, len(around), step))
    # Two sentences may answer one question: then it is not asked.
    answers = {}
    for _, questions in made:
        for question, value in questions:
            answers.setdefault(question, set()).add(value)
    clear = [[q for q in questions if len(answers[q[0]]) == 1] for _, questions in made]
    clear = [questions for questions in clear if questions]
    if not clear:
        return conversation(rng, known, longest)
    asked = [rng.choice(questions) for questions in rng.sample(clear, min(len(clear), 6))]
    first = wording.vary(rng, asked[0][0]) if rng.random() < 0.3 else asked[0][0]
    instruction = rng.choice(reading.INSTRUCTIONS)
    parts = [part for part in (instruction, text) if part]
    place = rng.random()
    if place < 0.2:
        messages = [{"role": "system", "content": "\n\n".join(parts)},
                    {"role": "user", "content": first}]
    elif place < 0.45:
        messages = [{"role": "user", "content": first + "\n\n" + text}]
    else:
        messages = [{"role": "user", "content": "\n\n".join(parts + [first])}]
    messages.append({"role": "assistant", "content": sentence_of(asked[0][1], rng)})
    for question, value in asked[1:]:
        messages += [{"role": "user", "content": question},
                     {"role": "assistant", "content": sentence_of(value, rng)}]
    return {"kind": "needle", "messages": messages}


def remembered(rng):
    """The user says something in passing and asks for it turns later."""
    own = [chosen for chosen in NEEDLES if chosen[0].startswith(("My", "I ", "Our"))]
    text, questions = needle(rng, rng.choice(own))
    question, value = rng.choice(questions)
    said = [{"role": "user", "content": rng.choice(["", "Hi. ", "Hello! ", "By the way: "]) + text},
            {"role": "assistant", "content": rng.choice(["Good to know.", "Thanks, I will remember "
                                                         "that.", "Noted.", "OK."])}]
    asked = [{"role": "user", "content": question},
             {"role": "assistant", "content": sentence_of(value, rng)}]
    return said, asked
