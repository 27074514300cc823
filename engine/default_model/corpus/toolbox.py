"""Random tools: names, descriptions and parameters, and requests that mean one of them.

A tool is a verb, an object and parameters from toolwords.txt, all of them with other names in other
tools, or coined. A request says the same in other words. Which of the tools is meant, and which
value goes where, follows from the definitions alone. Standard library only.
"""

from pathlib import Path

import lexicon
import names
from draw import Patterns
from lexicon import WORDS, upper

HERE = Path(__file__).resolve().parent


EXAMPLES = Patterns(["{d}, for example {v}", "{d}, like {v}", "{d} (e.g. {v})", "{d}: {v} or so",
                     "{d}, such as \"{v}\"", "{d}. Example: {v}"])
MORE = Patterns(["{d}", "{d}", "{d}", "{d}.", "{d} of the request", "{d}, as the user says it",
                 "{d}, in words", "Say here: {l}", "{d} (text)", "{d} that is meant"])


def described(rng, text, kind, enum):
    """A parameter's description, sometimes with an example, which is no value of the request."""
    if kind and not enum and rng.chance(0.15):
        value = names.value(rng, kind).replace('"', "")
        return rng.pick(EXAMPLES).replace("{d}", text).replace("{v}", value)
    if enum and rng.chance(0.15):
        return f"{text}: {' or '.join(enum)}"
    return rng.pick(MORE).replace("{d}", text).replace("{l}", text[:1].lower() + text[1:])


class Parameter:
    """One of a tool: its name there, its type, and how requests say its value."""

    def __init__(self, rng, words, type_, kind, says, descriptions):
        self.name, self.type, self.kind, self.says = words, type_, kind, says
        self.description = descriptions
        self.enum = kind.split("/") if kind and "/" in kind else None

    def schema(self, rng):
        entry = {"type": self.type}
        if self.type == "array":
            entry["items"] = {"type": "integer" if self.kind == "int" else "string"}
        if self.enum:
            entry["enum"] = self.enum
        if rng.chance(0.6):
            entry["description"] = described(rng, self.description, self.kind, self.enum)
        if self.type == "integer" and rng.chance(0.06):
            entry["minimum"] = rng.choice([0, 1])
        if self.type == "boolean" and rng.chance(0.15):
            entry["default"] = False
        return entry

    def value(self, rng):
        """(value, how a request says it)."""
        if self.type == "boolean":
            yes, no = self.says
            value = rng.chance(0.7) or not no
            return value, rng.choice(yes if value else no)
        if self.type == "array":
            items = [names.value(rng, self.kind) for _ in range(rng.randint(1, 3))]
            said = items[0] if len(items) == 1 else ", ".join(items[:-1]) + " and " + items[-1]
            value = [int(i) for i in items] if self.kind == "int" else items
            return value, self.put(rng, said)
        if self.enum:
            value = rng.choice(self.enum)
            said = value.upper() if self.enum[0] == "usd" and rng.chance(0.6) else value
            return value, self.put(rng, said)
        text = names.value(rng, self.kind).replace('"', "")
        if self.type == "integer":
            value = int(text.replace(",", ""))
            said = names.spelled(value) if value < 100 and rng.chance(0.2) else str(value)
            return value, self.put(rng, said)
        if self.type == "number":
            value = float(text)
            value = int(value) if value == int(value) else value
            return value, self.put(rng, str(value))
        return text, self.put(rng, text)

    def put(self, rng, said):
        return rng.choice(self.says).replace("{}", said)


def read(path=HERE / "toolwords.txt"):
    found = lexicon.sections(path)
    verbs = [tuple(part.split(sep) for part, sep in zip(line.split(" | "), (", ", " ; ")))
             for line in found["verbs"]]
    objects = [tuple(part.split(", ") for part in line.split(" | ")) for line in found["objects"]]
    return verbs, objects, [line.split(" | ") for line in found["parameters"]]


VERBS, OBJECTS, _PARAMETERS = read()
VERBS, OBJECTS = (Patterns([(tuple(a), tuple(b)) for a, b in each]) for each in (VERBS, OBJECTS))
PARAMETERS = Patterns(tuple(line) for line in _PARAMETERS)
COINED_SAYS = ["with {name} {{}}", "{name} {{}}", "with a {name} of {{}}", ", {name}: {{}}",
               "({name} {{}})", "and {name} {{}}", "with {{}} as {name}", "where {name} is {{}}",
               "setting {name} to {{}}", "{{}} as the {name}"]
DESCRIPTIONS = Patterns([
    "{V} {o}.", "{V} {ao}", "Use this to {v} {ao}.", "{Vs} the {o} that is named.",
    "Tool to {v} {os}.", "This function {vs} {ao}.", "{V} {o} and return the result.",
    "{V} the given {o}", "Can {v} {os}", "Call it to {v} {ao}.", "{Vs} {os}.", "For those who "
    "want to {v} {ao}", "{V} one {o}.", "{O}: {v}.", "Lets you {v} {os}."])
REQUESTS = Patterns([
    "{R}{p}.", "Please {r}{p}.", "Can you {r}{p}?", "I need you to {r}{p}.", "{R}{p}, please.",
    "Could you {r}{p}?", "I want you to {r}{p}.", "{r}{p}", "It would be nice if you could {r}{p}.",
    "Let's {r}{p}.", "Would you {r}{p}?", "Go and {r}{p}.", "We have to {r}{p}.",
    "My boss says: {r}{p}.", "{R}{p} now.", "Hi! Please {r}{p}.", "Next: {r}{p}.",
    "Do me a favour and {r}{p}.", "Time to {r}{p}.", "I'd like you to {r}{p}.",
    "Somebody has to {r}{p}.", "Help me to {r}{p}.", "Be so kind as to {r}{p}.",
    "{R}{p}. Thanks!", "You should {r}{p}.", "Next thing to do: {r}{p}.", "Would you mind? {R}{p}.",
    "If you can, {r}{p}.", "Quickly {r}{p}.", "I wonder if you could {r}{p}.", "ok, {r}{p}",
    "Try to {r}{p}.", "And now {r}{p}.", "Make sure to {r}{p}."])
# Whole sentences that are no command.
SENTENCES = ("I ", "where ", "we ", "how many ", "{} ")
STYLES = ["snake", "snake", "snake", "snake", "camel", "pascal", "kebab", "object", "dotted"]


def spelled(words, style):
    """A name of words in a style of names."""
    if style == "camel":
        return words[0] + "".join(w.capitalize() for w in words[1:])
    if style == "pascal":
        return "".join(w.capitalize() for w in words)
    if style == "kebab":
        return "-".join(words)
    if style == "object":
        return "_".join([*words[1:], words[0]])
    return "_".join(words)


def parameter_of(rng, taken):
    """A parameter whose kind of value no other one of the tool has."""
    while True:
        words, type_, kind, says, described = rng.pick(PARAMETERS)
        if type_ == "boolean":
            says = [part.split(" ; ") for part in kind.split(" # ")]
            kind = None
        else:
            says = says.split(" ; ")
        sort = words if type_ == "boolean" else (type_ == "array", kind)
        if sort in taken:
            continue
        taken.add(sort)
        return Parameter(rng, rng.choice(words.split(", ")), type_, kind, says,
                         rng.choice(described.split(" ; ")))


def coined_parameter(rng, taken):
    """One with a name that nobody has heard, which the request says."""
    while True:
        type_, kind = rng.choice([("string", "word"), ("string", "code"), ("string", "coined"),
                                  ("integer", "small"), ("integer", "int"), ("number", "decimal"),
                                  ("string", "phrase"), ("string", "person"), ("enum", None)])
        words = [rng.choice([names.word(rng), rng.choice(WORDS["things"]).split()[-1],
                             rng.choice(WORDS["topics"]).split()[-1]])]
        if rng.chance(0.3):
            words.append(rng.choice(["name", "code", "mode", "level", "value", "kind", "limit"]))
        if words[0] in taken:
            continue
        taken.add(words[0])
        if type_ == "enum":
            type_ = "string"
            kind = "/".join(dict.fromkeys(rng.choice([names.word(rng),
                                                      rng.choice(WORDS["adjectives"])])
                                          for _ in range(rng.randint(2, 4))))
            if "/" not in kind:
                continue
        says = [form.format(name=" ".join(words)) for form in rng.sample(COINED_SAYS, 3)]
        return Parameter(rng, "_".join(words), type_, kind, says,
                         "The " + " ".join(words))


class Tool:
    """A tool; `verb` and `object` may be given, so that tools are alike in one of them."""

    def __init__(self, rng, style, verb=None, thing=None):
        self.action = verb or rng.pick(VERBS)
        self.thing = thing or rng.pick(OBJECTS)
        self.coined = thing is None and rng.chance(0.15)
        self.verb = rng.choice(self.action[0])
        if self.coined:
            word = names.word(rng)
            self.thing = ((word,), ("the " + word,))
        self.object = rng.choice(self.thing[0])
        self.name = spelled([*self.verb.split("_"), *self.object.split("_")], style)
        taken, self.parameters = set(), []
        for _ in range(rng.choice([0, 1, 1, 1, 2, 2, 2, 3, 3, 4])):
            make = coined_parameter if rng.chance(0.2) else parameter_of
            made = make(rng, taken)
            if made.name not in [p.name for p in self.parameters]:
                self.parameters.append(made)
        self.required = [p.name for p in self.parameters if rng.chance(0.65)]
        verb, noun = self.verb.replace("_", " "), self.object.replace("_", " ")
        text = rng.pick(DESCRIPTIONS)
        for slot, value in (("{vs}", lexicon.third(verb) if " " not in verb else verb),
                            ("{v}", verb), ("{ao}", lexicon.a(noun)),
                            ("{os}", lexicon.plural(noun)), ("{o}", noun)):
            text = text.replace(slot, value).replace(slot[0] + slot[1].upper() + slot[2:],
                                                     upper(value))
        self.description = text
        # Sometimes only the description says what a tool is for.
        if rng.chance(0.06):
            self.name = names.word(rng)

    def schema(self, rng):
        parameters = {"type": "object",
                      "properties": {p.name: p.schema(rng) for p in self.parameters}}
        if self.required or rng.chance(0.5):
            parameters["required"] = self.required
        if rng.chance(0.12):
            parameters["additionalProperties"] = False
        return {"type": "function", "function": {
            "name": self.name, "description": self.description, "parameters": parameters}}

    def ask(self, rng):
        """(request, arguments)."""
        arguments, said = {}, []
        for parameter in self.parameters:
            if parameter.name not in self.required and rng.chance(0.5):
                continue
            arguments[parameter.name], phrase = parameter.value(rng)
            said.append(phrase)
        rng.shuffle(said)
        tail = "".join((" " if not phrase.startswith((",", ":")) else "") + phrase
                       for phrase in said)
        noun = rng.choice(self.thing[1]) if rng.chance(0.6) else \
            "the " + self.object.replace("_", " ")
        if rng.chance(0.25):
            noun = lexicon.a(noun.removeprefix("the "))
        form = rng.choice(self.action[1]) if rng.chance(0.6) else \
            self.verb.replace("_", " ") + " {}"
        doing = form.replace("{}", noun)
        if form.startswith(SENTENCES):
            text = upper(doing) + tail + ("?" if form.startswith(("where", "how many")) else ".")
        else:
            text = rng.pick(REQUESTS).replace("{R}", upper(doing)).replace("{r}", doing) \
                .replace("{p}", tail)
        if rng.chance(0.05):
            text = rng.choice([f"Use {self.name}{tail}.", f"Call {self.name}{tail}.",
                               f"{self.name}{tail}"])
        return text, arguments


def shared(first, second):
    """Whether two verbs, or two objects, have a word in common by which requests name them."""
    return bool(set(first[0] + first[1]) & set(second[0] + second[1]))


def alike(first, second):
    return shared(first.action, second.action) and shared(first.thing, second.thing)


def toolbox(rng, count, apart=()):
    """Tools, many of which have the verb or the object of another one; none says a text of `apart`
    (in small letters)."""
    style, tools = rng.choice(STYLES), []
    for _ in range(4 * count):
        other = rng.choice(tools) if tools else None
        chance = rng.random()
        verb = other.action if other and chance < 0.3 else None
        thing = other.thing if other and 0.3 <= chance < 0.6 and not other.coined else None
        tool = Tool(rng, style, verb, thing)
        if any(text in tool.description.lower() for text in apart):
            continue
        # Two tools that do the same to the same could not be told apart.
        if not any(alike(tool, t) or tool.name == t.name or tool.description == t.description
                   for t in tools):
            tools.append(tool)
        if len(tools) == count:
            break
    return tools
