"""Conversations with tools: requests, calls, results, and requests that no tool fits.

Tools are random ones (toolbox.py) and those of tools.txt, whose requests are in people's words; a
list of tools may have both. Standard library only.
"""

import json
import re
from pathlib import Path

import names
import toolbox
import wording
from draw import Patterns
from lexicon import upper

NONE_FITS = "I have no tool for that."
SYSTEMS = Patterns([
    "You are a helpful assistant.", "You are a coding agent. Use the tools to do what is asked.",
    "You are a careful assistant with tools.", "Be brief.", "You are an agent that works in a "
    "repository. Read before you write, and never guess a path.", "You help with the command line.",
    "Answer in one sentence.", "You are kvgate's assistant.", "Use a tool when one fits; else "
    "answer.", "You are an interactive agent that helps users with software engineering tasks. "
    "Keep your answers short. Do not call a tool that is not listed.", "You are a bot in a chat.",
    "You are a butler. Be polite.", "You run the house.", "Call tools when needed.",
    "You work for a travel agency.", "Never invent arguments.", "You are the assistant of a shop."])
# Other names of a parameter, and of the verb in a tool's name.
PARAMETER_NAMES = [line.split() for line in """city town location place
path file filename file_path
date day on
time at hour
title name subject
text message content body
people persons guests party_size
minutes duration_minutes mins
id identifier ref
host machine server
service app name
query q search
amount sum value
count quantity number
limit max top
address street addr
days nights num_days
product item article
code token pin
order order_id order_number
ticket ticket_id issue
user username account
phone number mobile
start begin from_date
topic subject theme
source from src
target to dest
room area zone
level value amount""".splitlines()]
VERB_NAMES = [line.split() for line in """get fetch show read lookup
create add make new
delete remove erase drop
find search locate query
start run launch begin
book reserve order
send post deliver
set change adjust update
list enumerate browse
check verify test inspect
open unlock
cancel revoke
move transfer
record log note track
call phone""".splitlines()]
RENAMES = {}
for _group in PARAMETER_NAMES + [[f"!{verb}" for verb in line] for line in VERB_NAMES]:
    for _name in _group:
        RENAMES.setdefault(_name, _group)


def read_archetypes(path=Path(__file__).parent / "tools.txt"):
    out = []
    for line in path.read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        name, parameters, description, requests = line.split(" | ")
        kinds = []
        for parameter in parameters.split(", "):
            key, kind = parameter.split(":")
            kinds.append((key, kind.rstrip("?"), kind.endswith("?")))
        out.append((name, tuple(kinds), description, tuple(requests.split(" ; "))))
    return out


WRAPPED = Patterns([
    "{q} Please.", "Please do this: {q}", "I'm in a hurry. {q}", "Could you help me? {q}",
    "{q} Thanks in advance.", "Hello assistant, {q}", "My request: {q}", "One more thing: {q}",
    "{q} Can you do that?", "Can you do this for me? {q}", "It's me again. {q}", "Hey! {q}",
    "{q} It is important.", "If possible: {q}", "Next task: {q}", "{q} Tell me when it is done.",
    "I have a task for you. {q}", "For my colleague: {q}", "{q} No hurry.", "Well, {q}",
    "Let me think. {q}", "Listen: {q}", "Sorry to bother you. {q}", "{q} You know what I mean.",
    "First of all: {q}", "Right, {q}", "Now then: {q}", "{q} That is all.", "Do it: {q}",
    "Here is what I want: {q}"])
ARCHETYPES = Patterns(read_archetypes())
# What ordinary tools say that are held out: a random tool may come to say the same.
HELD_OUT = tuple(archetype[2].lower() for archetype in ARCHETYPES.unseen)


PURPOSES = Patterns([
    "{d}", "{d}", "{d}", "{d}.", "{d}.", "{d}.", "Use this to {l}.", "Call it to {l}.",
    "This tool can {l}.", "{d} for the user.", "Lets you {l}.", "Tool to {l}.",
    "{d} and return the result.", "Use it when somebody wants to {l}.", "A function to {l}."])


class NamedTool:
    """A tool as people have them, often with other names than those of tools.txt."""

    def __init__(self, rng, archetype):
        self.archetype = archetype
        name, self.kinds, self.description, requests = archetype
        self.requests = Patterns(requests)
        words = name.split("_")
        if rng.chance(0.4):
            words[0] = rng.choice(RENAMES.get("!" + words[0], ["!" + words[0]]))[1:]
        if rng.chance(0.15):
            words = words[1:] or words
        style = "snake" if rng.chance(0.7) or len(words) < 2 else \
            rng.choice(["camel", "pascal", "kebab", "object"])
        self.name = toolbox.spelled(words, style)
        self.keys, used = {}, {key for key, _, _ in self.kinds}
        for key, _, _ in self.kinds:
            other = rng.choice(RENAMES.get(key, [key])) if rng.chance(0.4) else key
            self.keys[key] = key if other in used else other
            used.add(self.keys[key])

    def schema(self, rng):
        properties = {}
        for key, kind, _ in self.kinds:
            type_ = "integer" if kind in ("int", "digit") else "string"
            properties[self.keys[key]] = entry = {"type": type_}
            if kind in ("decimal",):
                entry["type"] = "number"
            if "/" in kind:
                entry["enum"] = kind.split("/")
            if rng.chance(0.5):
                entry["description"] = toolbox.described(
                    rng, rng.choice(["The ", "Which ", "Name of the "]) + key.replace("_", " "),
                    kind, entry.get("enum"))
        required = [self.keys[key] for key, _, optional in self.kinds if not optional]
        return {"type": "function", "function": {
            "name": self.name,
            "description": rng.pick(PURPOSES).replace("{d}", self.description).replace(
                "{l}", self.description[:1].lower() + self.description[1:]),
            "parameters": {"type": "object", "properties": properties, "required": required}}}

    def ask(self, rng):
        """(request, arguments)."""
        request, arguments = rng.pick(self.requests), {}
        begins_with_value = request.startswith("{")  # which must keep its letters
        for key, kind, _ in self.kinds:
            if "{" + key + "}" not in request:
                continue
            said = rng.choice(kind.split("/")) if "/" in kind else \
                names.value(rng, kind).replace('"', "")
            value = said
            if kind in ("int", "digit"):
                value = int(said)
                if value < 60 and rng.chance(0.15):
                    said = names.spelled(value)
            elif kind == "decimal":
                value = float(said)
                value = int(value) if value == int(value) else value
                said = str(value)
            arguments[self.keys[key]] = value
            request = request.replace("{" + key + "}", said.replace("_", " ")
                                      if "/" in kind else said)
        request = re.sub(r"\b([Aa]) (?=[aeio])", r"\1n ", upper(request))
        if rng.chance(0.2):
            return rng.pick(WRAPPED).replace("{q}", request), arguments
        if rng.chance(0.2):
            request = wording.around(rng, request, as_it_is=begins_with_value)
        return request, arguments


def words_of(tools):
    """The words by which tools say what they are for."""
    return {word for tool in tools
            for word in re.findall(r"[a-z]+", (tool.name + " " + tool.description).lower())}


def mixed(rng):
    """(tools, their schemas) of a conversation."""
    kind, count = rng.random(), rng.choice([1, 2, 2, 3, 3, 4, 4, 5, 6, 8])
    tools = []
    if kind < 0.78:
        tools += [NamedTool(rng, a) for a in rng.picks(ARCHETYPES, count)]
    if kind > 0.68:
        known = words_of(tools)
        apart = HELD_OUT if rng.part == "train" else ()
        tools += [t for t in toolbox.toolbox(rng, count if not tools else rng.choice([1, 2]), apart)
                  if not known & set(t.thing[0])]
    rng.shuffle(tools)
    unique = list({tool.name: tool for tool in tools}.values())
    return unique, [tool.schema(rng) for tool in unique]


def call_message(tool, arguments, rng):
    return {"role": "assistant", "content": "",
            "tool_calls": [{"id": "call_" + names.string_of(rng, names.HEX, 8, 8),
                            "type": "function",
                            "function": {"name": tool.name, "arguments": arguments}}]}


RESULT_KEYS = """status result value id owner total state message temperature count url time price
name location size version error title date level unit next author room code host eta balance
distance rating""".split()
ASK_KEY = Patterns([" What is the {k}?", " Tell me the {k}.", " I need the {k}.", " Which {k}?",
                    " Give me the {k}.", " I want to know the {k}.", " And the {k}?",
                    " Say the {k}, please."])


def result_of(rng):
    """A tool's result: (its text, key -> value, if it says more than that it was done)."""
    form = rng.random()
    if form < 0.6:
        keys = rng.sample(RESULT_KEYS, rng.randint(1, 5))
        values = {k: names.value(rng, rng.choice(["word", "number", "code", "person", "date",
                                                  "city", "time", "money", "phrase", "adjective"]))
                  for k in keys}
        given = {k: int(v) if v.isdigit() and v[0] != "0" else v for k, v in values.items()}
        text = json.dumps(given, ensure_ascii=False)
        if rng.chance(0.3):
            text = rng.choice(["\n", ", ", "; "]).join(f"{k}: {v}" for k, v in values.items())
        return text, values
    if form < 0.75:
        return names.value(rng, rng.choice(["word", "number", "code", "phrase", "person"])), None
    if form < 0.9:
        return rng.choice(["ok", "done", "success", '{"ok": true}', '{"status": "ok"}', ""]), {}
    return "error: " + rng.choice(["not found", "permission denied", "timeout", "no such " +
                                   names.word(rng), names.code(rng)]), {}


def answered(rng, request):
    """(the request, the tool's turn and what is said of it)."""
    result, values = result_of(rng)
    if values:
        key = rng.choice(sorted(values))
        if rng.chance(0.4):
            request += rng.pick(ASK_KEY).replace("{k}", key)
            said = f"The {key} is {values[key]}."
        else:
            said = "The result: " + ", ".join(f"{k} {v}" for k, v in values.items()) + "."
    elif values is None:
        said = f"The result is {result}."
    elif result.startswith("error: "):
        said = f"That failed: {result[7:]}."
    else:
        said = "Done."
    turns = [{"role": "tool", "content": result}, {"role": "assistant", "content": said}]
    if values and len(values) > 1 and rng.chance(0.3):
        key = rng.choice(sorted(values))
        turns += [{"role": "user", "content": rng.pick(ASK_KEY).replace("{k}", key).strip()},
                  {"role": "assistant", "content": f"The {key} is {values[key]}."}]
    return request, turns


def called(rng, tool):
    request, arguments = tool.ask(rng)
    turns = []
    if rng.chance(0.45):
        request, turns = answered(rng, request)
    return [{"role": "user", "content": request}, call_message(tool, arguments, rng), *turns]


def unfit(rng, tools):
    """A request that no tool of the list can do, or None."""
    named = {t.archetype for t in tools if isinstance(t, NamedTool)}
    if rng.chance(0.5):
        other = NamedTool(rng, rng.pick(ARCHETYPES))
        if other.archetype in named or set(other.archetype[0].split("_")) & words_of(tools):
            return None
    else:
        other = toolbox.Tool(rng, "snake")
        if other.coined or any(isinstance(t, toolbox.Tool) and (
                toolbox.shared(t.action, other.action) or toolbox.shared(t.thing, other.thing))
                for t in tools):
            return None
        if set(other.thing[0] + other.action[0]) & words_of(tools):
            return None
    return [{"role": "user", "content": other.ask(rng)[0]},
            {"role": "assistant", "content": NONE_FITS}]


def conversation(rng, turns_without):
    """`turns_without(rng)`: turns that need no tool."""
    tools, schemas = mixed(rng)
    messages = []
    if rng.chance(0.25):
        messages.append({"role": "system", "content": rng.pick(SYSTEMS)})
    for _ in range(rng.choice([1, 2, 3, 4, 5])):
        chance = rng.random()
        if chance < 0.08:
            messages += turns_without(rng)
        elif chance < 0.20:
            messages += unfit(rng, tools) or []
        else:
            messages += called(rng, rng.choice(tools))
    if not any(m["role"] == "user" for m in messages):
        messages += called(rng, tools[0])
    return {"kind": "tools", "tools": schemas, "messages": messages}
