"""Conversations with tools: random tools, requests for one of them, results. Standard library only.

A tool is made of a verb, an object and parameters, whose names and values come from tables or are
coined, so that only the given list tells what can be called and how.
"""

import json
from pathlib import Path

import names
import wording

VERBS = """get find list show create delete update send open close start stop read write check
fetch search add remove book cancel set convert compute translate rename move copy run build test
deploy restart count rate play pause lock unlock print scan order pay refund invite assign archive
restore download upload sort merge split measure notify schedule enable disable resize rotate sign
verify lookup query edit record block draw""".split()
OBJECTS = """weather file user order ticket invoice message mail event meeting room task note
record table image video song playlist light door window heating server service database backup
branch commit report account payment parcel flight train hotel recipe product stock price
exchange_rate currency translation word route map address contact customer project folder log
alarm timer reminder sensor device camera printer document page comment review vote score game
player team book article license key certificate job pipeline test container image_tag volume
network route_table subscription coupon warehouse shipment vehicle ride table_row dashboard metric
query calendar""".split()
# name: (type, kind of value, how a request says it, description)
PARAMETERS = {
    "city": ("string", "city", ["in {}", "for {}", "at {}"], "The city"),
    "name": ("string", "coined", ["named {}", "called {}", "with the name {}"], "The name"),
    "path": ("string", "path", ["{}", "at {}", "with the path {}"], "Path of the file"),
    "id": ("string", "code", ["{}", "with the id {}", "number {}"], "The id"),
    "date": ("string", "date", ["on {}", "for {}"], "The date"),
    "time": ("string", "time", ["at {}", "from {} on"], "The time"),
    "count": ("integer", "small", ["{} times", "with count {}", "for {} of them"], "How many"),
    "limit": ("integer", "small", ["at most {}", "limited to {}", "no more than {}"],
              "At most so many"),
    "amount": ("number", "decimal", ["of {}", "with the amount {}", "over {}"], "The amount"),
    "user": ("string", "person", ["for {}", "of {}", "by {}"], "Who it is for"),
    "query": ("string", "phrase", ["about {}", "for {}", "with {}"], "What is looked for"),
    "text": ("string", "phrase", ["saying \"{}\"", "with the text \"{}\"", "\"{}\""], "The text"),
    "colour": ("string", "colour", ["in {}", "with the colour {}"], "The colour"),
    "host": ("string", "host", ["on {}", "at {}"], "The machine"),
    "email": ("string", "mail", ["to {}", "for {}"], "The address"),
    "level": ("integer", "small", ["at level {}", "with level {}"], "The level"),
    "port": ("integer", "number", ["on port {}", "with port {}"], "The port"),
    "version": ("string", "version", ["in version {}", "with version {}"], "The version"),
    "title": ("string", "phrase", ["titled {}", "with the title {}"], "The title"),
    "unit": ("string", ["celsius", "fahrenheit", "kelvin"], ["in {}"], "The unit"),
    "format": ("string", ["json", "csv", "pdf", "xml", "text"], ["as {}", "in the format {}"],
               "The format"),
    "priority": ("string", ["low", "normal", "high", "urgent"], ["with {} priority"],
                 "The priority"),
    "language": ("string", ["en", "de", "fr", "es", "it", "nl"], ["into {}", "in {}"],
                 "The language"),
    "size": ("string", ["small", "medium", "large"], ["in size {}"], "The size"),
    "force": ("boolean", None, ["by force", "without asking"], "Do it without asking"),
    "recursive": ("boolean", None, ["with all subfolders", "recursively"], "With all below"),
    "dry_run": ("boolean", None, ["as a trial", "without changing anything"], "Only try"),
    "tags": ("array", "word", ["tagged {}", "with the tags {}"], "The tags"),
    "files": ("array", "path", ["for {}", "with {}"], "The files"),
}
DESCRIPTIONS = ["{V} {o}.", "{V} a {o}", "Use this to {v} a {o}.", "{V}s the {o} that is named.",
                "Tool to {v} {o}s.", "This function {v}s a {o}.", "{V} {o} and return the result."]
REQUESTS = ["{V} the {o}{p}.", "Please {v} the {o}{p}.", "Can you {v} the {o}{p}?",
            "I need you to {v} the {o}{p}.", "{V} a {o}{p}, please.", "Could you {v} a {o}{p}?",
            "I want to {v} the {o}{p}.", "{v} {o}{p}", "It would be nice if you could {v} the "
            "{o}{p}.", "Let's {v} the {o}{p}.", "Would you {v} the {o}{p}?", "Go and {v} the "
            "{o}{p} now.", "We have to {v} a {o}{p}.", "My boss says: {v} the {o}{p}."]
NONE_FITS = ["None of my tools can do that.", "I have no tool for that.",
             "I cannot do that with the tools that I have."]


def spelled(rng, verb, noun, style):
    words = [verb, *noun.split("_")]
    if style == "camel":
        return words[0] + "".join(w.capitalize() for w in words[1:])
    if style == "pascal":
        return "".join(w.capitalize() for w in words)
    if style == "kebab":
        return "-".join(words)
    if style == "object":
        return "_".join([*words[1:], words[0]])
    return "_".join(words)


class Tool:
    def __init__(self, rng, style):
        coined = rng.random() < 0.2
        self.verb = rng.choice(VERBS)
        self.object = names.word(rng) if coined else rng.choice(OBJECTS)
        self.name = spelled(rng, self.verb, self.object, style)
        chosen = rng.sample(sorted(PARAMETERS), rng.choice([0, 1, 1, 2, 2, 3, 4]))
        self.parameters = chosen
        self.required = [p for p in chosen if rng.random() < 0.7]
        self.description = self.put(rng.choice(DESCRIPTIONS))

    def put(self, text, parameters=""):
        return text.replace("{v}", self.verb).replace("{V}", self.verb.capitalize()) \
            .replace("{o}", self.object.replace("_", " ")).replace("{p}", parameters)

    def schema(self, rng):
        properties = {}
        for name in self.parameters:
            kind, values, _, description = PARAMETERS[name]
            entry = {"type": kind}
            if kind == "array":
                entry["items"] = {"type": "string"}
            if isinstance(values, list):
                entry["enum"] = values
            if rng.random() < 0.7:
                entry["description"] = description
            properties[name] = entry
        parameters = {"type": "object", "properties": properties}
        if self.required or rng.random() < 0.5:
            parameters["required"] = self.required
        if rng.random() < 0.15:
            parameters["additionalProperties"] = False
        return {"type": "function", "function": {"name": self.name,
                                                 "description": self.description,
                                                 "parameters": parameters}}

    def call(self, rng):
        """(arguments, how a request says them)."""
        arguments, phrases = {}, []
        for name in self.parameters:
            if name not in self.required and rng.random() < 0.5:
                continue
            kind, values, says, _ = PARAMETERS[name]
            arguments[name], said = value_of(rng, kind, values)
            phrases.append(rng.choice(says).replace("{}", said))
        spoken = list(phrases)
        rng.shuffle(spoken)
        return arguments, "".join(" " + phrase for phrase in spoken)


def value_of(rng, kind, values):
    """A value, and how it is said."""
    if kind == "boolean":
        return True, ""
    if isinstance(values, list):
        value = rng.choice(values)
        return value, value
    if kind == "array":
        items = [names.value(rng, values) for _ in range(rng.randint(1, 3))]
        return items, " and ".join(items) if len(items) < 3 else ", ".join(items[:-1]) + \
            " and " + items[-1]
    if values == "small":
        value = rng.randint(1, 99)
        return value, str(value)
    text = names.value(rng, values)
    if kind == "integer":
        return int(text), text
    if kind == "number":
        return float(text), str(float(text))
    return text, text


def toolbox(rng, count):
    style = rng.choice(["snake", "snake", "snake", "camel", "pascal", "kebab", "object"])
    tools, seen = [], set()
    while len(tools) < count:
        tool = Tool(rng, style)
        if tool.name not in seen:
            seen.add(tool.name)
            tools.append(tool)
    return tools


def call_message(tool, arguments, rng):
    return {"role": "assistant", "content": "",
            "tool_calls": [{"id": "call_" + names.string_of(rng, names.HEX, 8, 8),
                            "type": "function",
                            "function": {"name": tool.name, "arguments": arguments}}]}


def result_of(rng, tool):
    """A tool's result, and what is said of it."""
    form = rng.random()
    if form < 0.4:
        keys = rng.sample(["status", "result", "value", "id", "owner", "total", "state", "message",
                           "temperature", "count", "url", "time"], rng.randint(1, 4))
        kinds = ["word", "number", "code", "person", "date", "city"]
        values = {k: names.value(rng, rng.choice(kinds)) for k in keys}
        key = rng.choice(keys)
        return json.dumps(values), f"The {key} is {values[key]}.", key
    if form < 0.7:
        value = names.value(rng, rng.choice(["word", "number", "code", "phrase", "person"]))
        return value, f"The result is {value}.", None
    if form < 0.85:
        return rng.choice(["ok", "done", "success", '{"ok": true}', ""]), "Done.", None
    value = rng.choice(["not found", "permission denied", "timeout", "no such " + names.word(rng)])
    return f"error: {value}", f"That failed: {value}.", None


def conversation(rng, turns_without):
    """`turns_without(rng)`: turns that need no tool."""
    tools = toolbox(rng, rng.choice([1, 2, 2, 3, 3, 4, 5, 6, 8]))
    schemas = [tool.schema(rng) for tool in tools]
    messages = []
    if rng.random() < 0.35:
        messages.append({"role": "system", "content": rng.choice(SYSTEMS)})
    for _ in range(rng.choice([1, 1, 2, 3])):
        chance = rng.random()
        if chance < 0.12:
            messages += turns_without(rng)
        elif chance < 0.22:
            other = Tool(rng, "snake")
            if any(other.verb == t.verb or other.object == t.object for t in tools):
                continue
            _, phrases = other.call(rng)
            messages += [{"role": "user", "content": other.put(rng.choice(REQUESTS), phrases)},
                         {"role": "assistant", "content": wording.answer(rng, NONE_FITS)}]
        else:
            messages += called(rng, rng.choice(tools))
    if not any(m["role"] == "user" for m in messages):
        messages += called(rng, tools[0])
    return {"kind": "tools", "tools": schemas, "messages": messages}


def called(rng, tool):
    arguments, phrases = tool.call(rng)
    text = tool.put(rng.choice(REQUESTS), phrases)
    if rng.random() < 0.1:
        text = f"Use {tool.name}{phrases}."
    result, said, key = result_of(rng, tool)
    if key is not None and rng.random() < 0.5:
        text += rng.choice([f" What is the {key}?", f" Tell me the {key}.", f" I need the {key}."])
    else:
        said = said if key is None else f"The result: {result}"
    turns = [{"role": "user", "content": text}, call_message(tool, arguments, rng)]
    if rng.random() < 0.6:
        turns += [{"role": "tool", "content": result}, {"role": "assistant", "content": said}]
    return turns


SYSTEMS = [
    "You are a helpful assistant.", "You are a coding agent. Use the tools to do what is asked.",
    "You are a careful assistant with tools.", "Be brief.", "You are an agent that works in a "
    "repository. Read before you write, and never guess a path.", "You help with the command line.",
    "Answer in one sentence.", "You are kvgate's assistant.", "Use a tool when one fits; else "
    "answer.", "You are an interactive agent that helps users with software engineering tasks. "
    "Keep your answers short. Do not call a tool that is not listed.", "You are a bot in a chat.",
]


def read_archetypes(path=Path(__file__).parent / "tools.txt"):
    out = []
    for line in path.read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        name, parameters, description, requests = line.split(" | ")
        kinds = {}
        for parameter in parameters.split(", "):
            key, kind = parameter.split(":")
            kinds[key] = (kind.rstrip("?"), kind.endswith("?"))
        out.append((name, kinds, description, requests.split(" ; ")))
    return out


ARCHETYPES = read_archetypes()


class NamedTool:
    """A tool as people really have them, with requests in their words."""

    def __init__(self, rng, archetype):
        self.name, self.kinds, self.description, self.requests = archetype
        if rng.random() < 0.3:
            self.name = spelled(rng, self.name.split("_")[0], "_".join(self.name.split("_")[1:])
                                or "it", rng.choice(["camel", "pascal", "kebab"]))

    def schema(self, rng):
        properties = {}
        for key, (kind, _) in self.kinds.items():
            properties[key] = {"type": "integer" if kind == "int" else "string"}
            if "/" in kind:
                properties[key]["enum"] = kind.split("/")
            if rng.random() < 0.3:
                properties[key]["description"] = "The " + key
        required = [key for key, (_, optional) in self.kinds.items() if not optional]
        return {"type": "function", "function": {
            "name": self.name, "description": self.description + rng.choice(["", "."]),
            "parameters": {"type": "object", "properties": properties, "required": required}}}

    def ask(self, rng):
        """(request, arguments)."""
        request, arguments = rng.choice(self.requests), {}
        for key, (kind, _) in self.kinds.items():
            if "{" + key + "}" not in request:
                continue
            value = rng.randint(1, 200) if kind == "int" else \
                rng.choice(kind.split("/")) if "/" in kind else names.value(rng, kind)
            arguments[key] = value
            request = request.replace("{" + key + "}", str(value))
        return wording.vary(rng, request) if rng.random() < 0.3 else request, arguments


def named_conversation(rng, turns_without):
    """As `conversation`, with tools that people really have."""
    tools = [NamedTool(rng, a) for a in rng.sample(ARCHETYPES, rng.choice([1, 2, 3, 4, 6]))]
    schemas = [tool.schema(rng) for tool in tools]
    if rng.random() < 0.5:
        schemas += [tool.schema(rng) for tool in toolbox(rng, rng.choice([1, 2, 3]))]
        rng.shuffle(schemas)
    messages = []
    if rng.random() < 0.35:
        messages.append({"role": "system", "content": rng.choice(SYSTEMS)})
    for _ in range(rng.choice([1, 1, 2, 3])):
        if rng.random() < 0.12:
            messages += turns_without(rng)
        elif rng.random() < 0.1:
            present = {tool.name for tool in tools}
            other = rng.choice([a for a in ARCHETYPES if a[0] not in present])
            if len(present & {a[0] for a in ARCHETYPES}) == len(tools):
                messages += [{"role": "user", "content": NamedTool(rng, other).ask(rng)[0]},
                             {"role": "assistant", "content": wording.answer(rng, NONE_FITS)}]
        else:
            tool = rng.choice(tools)
            request, arguments = tool.ask(rng)
            messages += [{"role": "user", "content": request}, call_message(tool, arguments, rng)]
            if rng.random() < 0.6:
                messages += result_turns(rng, tool)
    if messages[-1:] and messages[-1]["role"] == "assistant":
        return {"kind": "tools", "tools": schemas, "messages": messages}
    return named_conversation(rng, turns_without)


def result_turns(rng, tool):
    """What a tool gave and what is said of it, where nothing of it was asked for by name."""
    result, said, key = result_of(rng, tool)
    if key is not None:
        said = f"The result: {result}"
    return [{"role": "tool", "content": result}, {"role": "assistant", "content": said}]
