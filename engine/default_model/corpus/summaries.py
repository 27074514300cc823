"""Conversations that are to be summarised in the form of gateway/session/summary.

The words that ask are read from that folder's sources, so that they cannot part from them. What is
summarised is made of a plan (goal, decisions, facts, open ends, files), and the summary says it.
"""

import re
from pathlib import Path

import names
from draw import Patterns
from wording import expand

ROOT = Path(__file__).resolve().parents[3]
SOURCES = ROOT / "gateway/session/summary"
LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')


def constant(path, name):
    """The text of `constexpr std::string_view NAME = "..." "..."` in a C++ source."""
    source = (SOURCES / path).read_text()
    begin = source.index(f"std::string_view {name} =")
    end = re.compile(r'";').search(source, begin).end()
    joined = "".join(LITERAL.findall(source[begin:end]))
    return joined.replace("\\n", "\n").replace('\\"', '"')


ASK = constant("summary_prompt.cc", "kText") + constant("summary_prompt.cc", "kHeadings")
ABOVE = constant("summary_prompt.cc", "kAbove")
BEGIN, END = constant("summary_text.cc", "kBegin"), constant("summary_text.cc", "kEnd")

GOALS = Patterns([
    "Make the {t} of {e} {q}", "Find out why {e} is slow", "Move {e} to {c}",
    "Write a test for {e}", "Add a {t} to {e}", "Plan the trip to {c}", "Fix {x} in {e}",
    "Rename {w} to {e}", "Write a report about {e} for {p}", "Set up {e} on {h}",
    "Prepare the meeting with {p}", "Bring the cost of {e} below {m}", "Review {f}",
    "Find a place for the {z} in {c}", "Translate {f} for {p}", "Remove {w} from {e}",
    "Compare {e} with {w}", "Get {e} ready for {d}", "Upgrade {h} to {v}", "Sell the {z}"])
DECISIONS = Patterns([
    ("Shall we use {e} or {w}?", "Use {e}, because {w} is slower.", "{e} instead of {w}"),
    ("When do we do it?", "Let us do it on {d}.", "do it on {d}"),
    ("Who does it?", "{p} should do it.", "{p} does it"),
    ("Where do we put it?", "Put it into {f}.", "put it into {f}"),
    ("How large may it be?", "At most {n}.", "at most {n}"),
    ("Which version do we take?", "Take {v}.", "version {v}"),
    ("What do we call it?", "Call it {w}.", "call it {w}"),
    ("On which machine?", "On {h}, it has more memory.", "on {h}"),
    ("What may it cost?", "Not more than {m}.", "at most {m}"),
    ("Do we keep {w}?", "No, {w} goes.", "{w} goes"),
    ("Where do we meet?", "We meet in {c}.", "meet in {c}")])
FACTS = Patterns([
    "The port of {h} is {n}", "{p} is responsible for {e}", "The key is {k}", "{e} runs on {a}",
    "The deadline is {d}", "The error is {k}", "{e} costs {m}", "The ticket is {k}",
    "The branch is called {w}", "The user's name is {p}", "The test took {n} ms",
    "The office is in {c}", "The {z} is in {c}", "The owner of {h} is {p}", "The limit is {n}",
    "The new service is called {w}", "The build took {n} seconds", "The path of the log is {f}",
    "The {z} costs {m}", "{w} runs on {h}"])
OPENS = Patterns([
    "{p} still has to answer", "{w} fails with {k}", "the test of {e} is not written yet",
    "the next step is to read {f}", "{e} has to be restarted", "the bill of {m} is not paid",
    "nobody has asked {p}", "the {z} has not come", "{f} is not reviewed", "{h} is still down"])
FILES = Patterns([
    "{f}: {w} was added", "{f}: read, holds the settings of {e}", "{f}: line {n} was changed",
    "{f}: made for {p}", "{f}: deleted", "{f}: renamed, it was {w}", "{f}: has {n} lines",
    "{f}: the error {k} is in it"])
SLOTS = {"t": "word", "e": "coined", "c": "city", "w": "word", "p": "person", "h": "host",
         "m": "money", "d": "date", "f": "path", "n": "number", "v": "version", "k": "code",
         "a": "address", "x": "code", "z": "thing"}


def put(rng, *texts):
    """The same values in each text."""
    values = {slot: names.value(rng, kind) for slot, kind in SLOTS.items()}
    values["q"] = rng.choice(["faster", "smaller", "safer", "shorter", "cheaper"])
    return [re.sub(r"\{(\w)\}", lambda m: values[m.group(1)], text) for text in texts]


class Plan:
    """What is talked about: turns, and the lines of the summary under their headings."""

    def __init__(self, rng):
        self.rng, self.turns = rng, []
        self.parts = {"Goals": [], "Decisions": [], "Facts": [], "Open ends": [], "Files": []}
        self.goal()
        for step in rng.choices([self.decision, self.fact, self.fact, self.open, self.file],
                                k=rng.randint(1, 6)):
            step()

    def say(self, user, answer, part, line):
        self.turns += [{"role": "user", "content": user}, {"role": "assistant", "content": answer}]
        self.parts[part].append(line)

    def goal(self):
        goal, = put(self.rng, self.rng.pick(GOALS))
        lower = goal[0].lower() + goal[1:]
        said = expand(self.rng, "[I want to|We have to|Please help me to|My aim is to|Let us|"
                      "I'd like to|The plan is to|Today I have to|Can you help me to|I need to] ")
        self.say(said + lower + ".", self.rng.choice(["OK, let us begin.", "Good. What do you have "
                                                      "so far?", "All right."]), "Goals", goal)

    def decision(self):
        question, reply, line = put(self.rng, *self.rng.pick(DECISIONS))
        if self.rng.random() < 0.5:
            self.say(reply, "OK, so: " + line + ".", "Decisions", line[0].upper() + line[1:])
        else:
            self.say(question, reply, "Decisions", line[0].upper() + line[1:])

    def fact(self):
        fact, = put(self.rng, self.rng.pick(FACTS))
        self.say(self.rng.choice(["{}.", "By the way: {}.", "You should know: {}.", "{}"])
                 .format(fact), self.rng.choice(["Noted.", "Thanks.", "OK.", "Good to know."]),
                 "Facts", fact)

    def open(self):
        line, = put(self.rng, self.rng.pick(OPENS))
        self.say(self.rng.choice(["What is left?", "And now?", "What is open?"]),
                 line[0].upper() + line[1:] + ".", "Open ends", line[0].upper() + line[1:])

    def file(self):
        line, = put(self.rng, self.rng.pick(FILES))
        path, what = line.split(": ", 1)
        self.say(f"What about {path}?", what[0].upper() + what[1:] + ".", "Files", line)

    def merge(self, other):
        for part, lines in other.parts.items():
            self.parts[part] = lines + self.parts[part]

    def summary(self):
        return "\n".join("## " + part + "\n" + "\n".join("- " + line for line in lines)
                         for part, lines in self.parts.items() if lines)


def ask(rng, kept_from, part=""):
    text = ASK.replace("{{tokens}}", str(rng.choice([64, 96, 128, 200, 256, 300, 512, 1024, 2048])))
    text = text.replace("{{kept_from}}", kept_from)
    text = text.replace("{{part}}", ABOVE if not part else
                        "the part that stands at the end of this message")
    return text + (f"\n\n<part>\n{part}</part>" if part else "")


def conversation(rng):
    plan, kept = Plan(rng), Plan(rng)
    turns = list(plan.turns)
    if rng.random() < 0.4:
        before = Plan(rng)
        plan.merge(before)
        turns[0] = {"role": "user", "content": BEGIN + before.summary() + END + "\n\n" +
                    turns[0]["content"]}
    form = rng.random()
    if form < 0.75:
        messages = list(turns)
        if rng.random() < 0.7:
            messages += kept.turns[:2]
            kept_from = kept.turns[0]["content"]
        else:
            kept_from = turns[-2]["content"]
            # What stays as it is is no part of the summary.
            for lines in plan.parts.values():
                if lines and lines[-1] in turns[-2]["content"] + turns[-1]["content"]:
                    lines.pop()
        messages.append({"role": "user", "content": ask(rng, kept_from)})
    else:
        part = "".join(f"{t['role']}: {t['content']}\n" for t in turns)
        messages = [{"role": "user", "content": ask(rng, kept.turns[0]["content"], part)}]
    if not plan.summary():
        plan.parts["Goals"].append(turns[0]["content"])
    if rng.random() < 0.3:
        messages.insert(0, {"role": "system", "content": "You are a helpful assistant."})
    messages.append({"role": "assistant", "content": plan.summary()})
    return {"kind": "summary", "messages": messages}


def after(rng):
    """Questions on a summary that stands in front of what goes on."""
    plan = Plan(rng)
    while not plan.parts["Facts"]:
        plan = Plan(rng)
    question, answer = asked(rng.choice(plan.parts["Facts"]))
    return {"kind": "summary", "messages": [
        {"role": "user", "content": BEGIN + plan.summary() + END + "\n\n" + question},
        {"role": "assistant", "content": answer}]}


def asked(fact):
    """(question, answer) of a line of facts."""
    pattern = r"(.+?) (is responsible for|is called|is in|is|runs on|costs|took) (.+)"
    subject, verb, value = re.match(pattern, fact).groups()
    subject = re.sub(r"^The ", "the ", subject)
    if verb == "is responsible for":
        return f"Who is responsible for {value}?", subject
    return {"is": f"What is {subject}?", "is in": f"Where is {subject}?",
            "is called": f"What is {subject} called?", "runs on": f"On what does {subject} run?",
            "costs": f"How much does {subject} cost?",
            "took": f"How long did {subject} take?"}[verb], value
