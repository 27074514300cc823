"""Paraphrase grammars: how one question is asked in many ways. Standard library only.

A grammar is a text with groups `[a|b|]`, of which one alternative is taken, and `{s}` for the
subject. `vary` adds what people add to any question: a greeting, a request to be brief, another
case, a slip of the finger.
"""

import re
from pathlib import Path

from draw import Patterns

# A word that means something by its capitals or digits.
NAME = re.compile(r"\w*[0-9A-Z]\w*[A-Z0-9]|(?<=\S )[A-Z]|[0-9]")
GROUP = re.compile(r"\[([^\[\]]*)\]")

# Kinds of questions by what their subject is.
KINDS = {
    "what": [  # a noun
        "What is {s}?", "What's {s}?", "What does {s} mean?", "Explain {s}[|.| to me.| briefly.]",
        "Can you [explain|describe|tell me] what {s} is?", "Tell me about {s}.",
        "[Please define|Define] {s}.", "What [exactly|really] is {s}?", "{s}?", "{s}",
        "I keep reading about {s}[.|;] What is it?", "How would you [describe|explain] {s}?",
        "[In short|In a sentence|Briefly]: what is {s}?", "What do you know about {s}?",
        "What is meant by {s}?", "I do not understand {s}.", "Describe {s}.",
        "[Could|Would] you explain {s}?", "What should I know about {s}?", "definition of {s}",
        "[Somebody|A colleague|My boss] [asked me|wants to know] what {s} is.", "meaning of {s}?",
        "I have never heard of {s}.", "What do people mean by {s}?", "what is {s} in simple words",
        "I'd like to understand {s}.", "Help me understand {s}.", "Give me an idea of {s}.",
        "How does {s} work?", "What is the point of {s}?", "What does one call {s}?",
        "{s}: what is that?", "What sort of thing is {s}?", "Say what {s} is.",
        "The docs mention {s}. What is that?", "Sum up {s} for me.", "{s} explained",
        "What kind of thing is {s}?", "Why would I care about {s}?", "What is {s} good for?",
    ],
    "how": [  # a verb phrase
        "How do I {s}?", "How can I {s}?", "How [should|would|could] I {s}?", "How to {s}?",
        "What [do|must|should] I do to {s}?", "I want to {s}[.|. How?|. What do I do?]",
        "I['d| would] like to {s}.", "Is there a way to {s}?", "What is the way to {s}?",
        "Tell me how to {s}.", "[Please show|Show] me how to {s}.", "Can [I|you|one] {s}?",
        "How does one {s}?", "I need to {s}. [How?|What is the command?|]", "how to {s}",
        "What's the [best|easiest|right] way to {s}?", "[We have|I have] to {s}[, how?|. How?]",
        "Which command or setting lets me {s}?", "{s}: how?", "Explain how to {s}.", "{s}",
        "What do I type to {s}?", "Is it possible to {s}?", "How might somebody {s}?",
        "Where do I start if I want to {s}?", "I am trying to {s}.", "Steps to {s}?",
        "I can't find out how to {s}.", "Could you tell me how to {s}?", "My boss wants me to {s}.",
        "How would you {s}?", "What is needed to {s}?", "Does kvgate let me {s}?",
        "Do you know how to {s}?", "I was asked to {s}. How?", "What lets me {s}?",
        "How can we {s}?", "Give me the [command|way] to {s}.", "Any way to {s}?",
        "Is there a command to {s}?", "In which way can I {s}?", "Suppose I want to {s}. How?",
    ],
    "why": [  # a question without its why
        "Why {s}?", "Why exactly {s}?", "Tell me why: {s}?", "I wonder why. {s}?",
        "[Can you explain|Do you know] the reason: why {s}?", "What is the reason? Why {s}?",
        "For what reason {s}?", "How come? Why {s}?", "Why on earth {s}?", "Say, why {s}?",
        "Explain why. {s}?", "What makes it so? Why {s}?", "why {s}",
        "Please explain: why {s}?", "I do not see why. {s}?", "Can you tell me why {s}?",
        "Somebody asked me why. {s}?", "Is there a reason? Why {s}?",
    ],
    "is": [  # a question that yes or no answers
        "{s}?", "Tell me: {s}?", "I wonder: {s}?", "[Do you know|Can you tell me]: {s}?",
        "Is it true? {s}?", "One question: {s}?", "Yes or no: {s}?", "Say, {s}?", "{s}",
        "My question: {s}?", "Please tell me: {s}?", "Just checking: {s}?", "True or false: {s}?",
        "I'd like to know: {s}?", "Somebody asked me: {s}?", "In general, {s}?",
    ],
    "q": ["{s}"],  # a whole question
}
KINDS = {kind: Patterns(forms) for kind, forms in KINDS.items()}

# Of a table's rows: by name `{k}`, by what it does `{v}` (a verb phrase in the third person).
TABLES = {
    "commands": (
        ["What does {k} do?", "What is {k} [for|good for]?", "What happens when I run {k}?",
         "Explain [the command |]{k}.", "When would I use {k}?", "Tell me about {k}.", "{k}?",
         "What do I use {k} for?", "Can you [explain|describe] {k}?"],
        ["Which command {v}?", "What command {v}?", "Is there a command that {v}?",
         "Name the command that {v}.", "I need the command that {v}.",
         "What is the command called that {v}?", "What do I run that {v}?"],
        ["{k} {v}.", "It {v}: {k}."], ["{k}", "Use {k}: it {v}.", "{k} {v}."]),
    "causes": (
        ["What does the cause {k} mean?", "What does {k} mean?", "My prefix broke with {k}. Why?",
         "Explain the break cause {k}.", "kvgate says {k}. What [is that|now|should I do]?",
         "What can I do about {k}?", "Why do I see {k}?", "The miss has the cause {k}.",
         "How do I avoid {k}?"],
        ["Which cause {v}?", "Which break cause {v}?", "What is the cause called that {v}?",
         "Name the miss cause that {v}."],
        ["{k} {v}. {m}"], ["{k}", "{k}. {m}"]),
    "rules": (
        ["What does the rule {k} do?", "What is the rule {k}?", "Explain the rule {k}.",
         "Tell me about the rule {k} of the modes.", "What changes with {k}?"],
        ["Which rule {v}?", "What is the rule called that {v}?", "Name the rule that {v}."],
        ["The rule {k} {v}."], ["{k}", "The rule {k}."]),
    "headers": (
        ["What does the header {k} do?", "What is {k} [for|good for]?", "Explain {k}.",
         "When do I send {k}?", "What is the meaning of the header {k}?", "{k}?",
         "What happens with {k}?"],
        ["Which header {v}?", "What header {v}?", "Is there a header that {v}?",
         "Name the header that {v}."],
        ["{k} {v}.", "The header {k} {v}."], ["{k}", "The header {k}."]),
    "endpoints": (
        ["What does {k} do?", "What is {k}?", "What is the endpoint {k} for?", "Explain {k}.",
         "What do I get from {k}?", "What happens at {k}?"],
        ["Which endpoint {v}?", "Which path {v}?", "What URL {v}?", "Name the endpoint that {v}."],
        ["{k} {v}.", "The endpoint {k} {v}."], ["{k}", "{k} {v}."]),
    "errors": (
        ["What does status {k} mean?", "What does a {k} mean?", "I get a {k}. [Why?|What now?|]",
         "Why does kvgate answer {k}?", "Explain the error {k}.", "What is a {k}?",
         "My request failed with {k}."],
        ["Which status {v}?", "Which error {v}?", "What HTTP status {v}?"],
        ["{k} {v}.", "A {k} {v}."], ["{k}", "Status {k}."]),
    "metrics": (
        ["What does {k} [show|measure|tell]?", "What is {k}?", "Explain the metric {k}."],
        ["Which metric {v}?", "What metric {v}?", "Name the metric that {v}."],
        ["{k} {v}."], ["{k}", "The metric {k}."]),
    "terms": (
        None,  # the kind "what"
        ["What {v}?", "What is it called that {v}?", "Which thing {v}?", "Name what {v}."],
        ["{K} {v}.", "{K} {v}."], ["{K}.", "{K} {v}."]),
    "dtypes": (
        ["What is the KV dtype {k}?", "What about {k} for KV?", "Tell me about --kv-dtype {k}.",
         "How much memory does KV in {k} take?", "What do I get with KV in {k}?"],
        ["Which KV dtype {v}?", "What KV dtype {v}?"],
        ["{k} {v}."], ["{k}", "The KV dtype {k}."]),
    "folders": (
        ["What is in [the folder |]{k}?", "What does the folder {k} hold?",
         "What is the folder {k} [of the source |]for?"],
        ["Which folder {v}?", "What folder {v}?", "In which folder is the code that {v}?"],
        ["{k} {v}.", "The folder {k} {v}."], ["{k}", "The folder {k}."]),
    "settings": (
        ["What does {k} do?", "What is {k}?", "Explain [the setting |the key |]{k}.",
         "What is the meaning of {k}?", "What is {k} for?", "Tell me about {k}.",
         "What does the setting {k} mean?", "{k}?", "What do I set with {k}?"],
        None,
        ["{k}: {v} (default {d}).", "{k} is: {v}. The default is {d}."], None),
    "defaults": (
        ["What is the default of {k}?", "Which value does {k} have by default?",
         "What is {k} by default?", "Default of {k}?", "How is {k} set by default?",
         "What's the default value of {k}?", "Without a configuration, what is {k}?"],
        None,
        ["The default of {k} is {d}.", "{d}"], None),
    "which_setting": (
        None,
        ["Which setting is for this: {v}?", "Which key of the configuration: {v}?",
         "What is the setting called: {v}?", "Where do I set: {v}?"],
        None, ["{k}", "{k}, default {d}."]),
}

OPENINGS = ["", "", "", "", "", "", "", "Hi. ", "Hello! ", "Hey, ", "Quick question: ", "Please: ",
            "Sorry, ", "I am new here. ", "A question: ", "Ok. ", "Good morning. ", "Next: ",
            "Now tell me: ", "And ", "So, ", "About kvgate: ", "Another one: ", "Thanks. "]
CLOSINGS = ["", "", "", "", "", "", "", "", "", " Thanks!", " Please be brief.", " Please.",
            " Thank you.", " Short answer please.", " I'm not sure.", " Just wondering."]
SAME = [("do I", "does one"), ("kvgate", "this gateway"), ("kvgate", "KVGate"), ("How can", "how"),
        ("Which", "What"), ("What is", "what's"), ("a way", "any way"), ("Explain", "explain"),
        ("a prompt", "my prompt"), ("the cache", "caching"), ("the server", "kvgate"),
        ("prompt", "request"), ("configuration", "config"), ("settings", "options")]


SMALL = {"a", "an", "the", "of", "to", "in", "that", "is", "its", "with", "for", "by", "all", "as"}


def expand(rng, text):
    while (match := GROUP.search(text)):
        text = text[:match.start()] + rng.choice(match.group(1).split("|")) + text[match.end():]
    return text


def slip(rng, text):
    """One slip of the finger in a word of letters; names and paths stay as they are."""
    words = text.split(" ")
    long = [i for i, word in enumerate(words) if word.isalpha() and len(word) > 4]
    if not long:
        return text
    at = rng.choice(long)
    word, place = words[at], rng.randrange(1, len(words[at]) - 1)
    if rng.random() < 0.5:
        word = word[:place] + word[place + 1:]
    else:
        word = word[:place] + word[place + 1] + word[place] + word[place + 2:]
    words[at] = word
    return " ".join(words)


def read_synonyms(path=Path(__file__).parent / "synonyms.txt"):
    """word -> what may stand for it; a phrase of several words is only put in, never replaced."""
    out = {}
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            group = [word.strip() for word in line.split(",")]
            for word in group:
                if " " not in word:
                    out.setdefault(word, []).extend(other for other in group if other != word)
    return out


SYNONYMS = read_synonyms()


def replaced(rng, text, share):
    """A text in which a share of the words that have synonyms are replaced by one."""
    words = text.split(" ")
    for index, word in enumerate(words):
        bare = word.rstrip("?.!,:")
        others = SYNONYMS.get(bare.lower())
        if others and rng.random() < share:
            other = rng.choice(others)
            if bare[:1].isupper():
                other = other[:1].upper() + other[1:]
            words[index] = other + word[len(bare):]
    return " ".join(words)


def loosen(rng, meaning):
    """A meaning in part or with words left out, as somebody says it who looks for it."""
    if rng.random() < 0.4:
        return meaning
    if rng.random() < 0.5:
        meaning = re.split(r"[,;:] | and | or ", meaning)[0] if len(meaning) > 40 else meaning
    words = meaning.split(" ")
    kept = [word for index, word in enumerate(words)
            if index < 2 or rng.random() > (0.3 if word in SMALL else 0.1)]
    return " ".join(kept if len(kept) > 2 else words)


def careless(rng, question):
    """As people type who are in a hurry."""
    chance = rng.random()
    if chance < 0.4:
        return question.lower() if question.isascii() and not NAME.search(question) else \
            question.rstrip("?.!")
    if chance < 0.8:
        return question.rstrip("?.!")
    return slip(rng, question)


def lower_first(text):
    return text[:1].lower() + text[1:] if text[1:2].islower() else text


def around(rng, request, as_it_is=False):
    """A request with a greeting or thanks; its own words stay, and with `as_it_is` its first
    letter."""
    opening = rng.choice(OPENINGS)
    if opening and not as_it_is and not opening.rstrip().endswith((".", "!")):
        request = lower_first(request)
    return opening + request + rng.choice(CLOSINGS)


CONTEXTS = Patterns([
    "I am setting up kvgate. {q}", "We use Claude Code through kvgate. {q}", "With kvgate, {q}",
    "I run kvgate at work. {q}", "About prompt caching: {q}", "Regarding kvgate: {q}",
    "I just installed it. {q}", "I read the docs but did not find it. {q}", "{q} (kvgate)",
    "kvgate: {q}", "We have many agents. {q}", "On my laptop: {q}", "My team wants to know: {q}",
    "In kvgate, {q}", "Before I start: {q}", "Our bill is too high. {q}", "Two minutes? {q}",
    "For the local engine: {q}", "For a friend: {q}", "I'm writing documentation. {q}",
    "{q} I use it with an agent.", "{q} I could not find it.", "{q} We run it on a server.",
    "I have looked everywhere. {q}", "Maybe a silly question: {q}", "Just a detail: {q}"])
DROPPED = set("""a an the is are do does did i my me of to in it its be can could would should
please you for with that there on""".split())


def terse(question):
    """A question as words for a search."""
    words = re.sub(r"[?.!,;:](?= |$)", "", question).split()
    kept = [word for word in words if word.lower() not in DROPPED]
    return " ".join(kept if len(kept) > 1 else words)


def vary(rng, question):
    """A question with what people write around it."""
    question = question[:1].upper() + question[1:]
    if rng.chance(0.25):
        old, new = rng.choice(SAME)
        question = question.replace(old, new, 1)
    if rng.chance(0.3):
        question = replaced(rng, question, rng.choice([0.2, 0.4]))
    chance = rng.random()
    if chance < 0.12:
        return terse(question).lower() if rng.chance(0.6) else terse(question)
    if chance < 0.24:
        context = rng.pick(CONTEXTS)
        begins = re.search(r"[.)?] \{q\}|^\{q\}", context)
        inner = question if begins else lower_first(question)
        question = context.replace("{q}", inner)
    elif chance < 0.55:
        question = around(rng, question)
    chance = rng.random()
    if chance < 0.10:
        question = question.lower()
    elif chance < 0.20:
        question = question.rstrip("?.!")
    elif chance < 0.30:
        question = slip(rng, question)
    if rng.chance(0.03):
        question = slip(rng, question)
    return question


WHAT_IS = Patterns([
    "What's {s}?", "Tell me {s}.", "{s}?", "Do you know {s}?", "Can you tell me {s}?", "Name {s}.",
    "I need to know {s}.", "Please tell me {s}.", "{s}, what is it?", "I am looking for {s}.",
    "What would be {s}?", "Could you say what {s} is?", "I wonder what {s} is.", "Say {s}.",
    "Remind me of {s}.", "What exactly is {s}?", "I forgot {s}.", "Give me {s}."])
WHICH = Patterns([
    "Tell me which {n} {r}.", "Do you know which {n} {r}?", "I wonder which {n} {r}.",
    "What {n} {r}?", "Can you say which {n} {r}?", "I am looking for the {n} that {r}.",
    "Is there any {n} that {r}?", "Which {n} {r}, please?", "I need to know which {n} {r}.",
    "Please tell me which {n} {r}.", "Which is the {n} that {r}?", "Name the {n} that {r}."])
HELPERS = "do does did can could should must may is are will would has have".split()


def recast(rng, question):
    """A whole question in another form of its kind; as it is, if its kind is not known."""
    bare = question.rstrip("?.")
    if (found := re.match(r"How (?:do|can|could|should) (?:I|we|you) (.+)", bare)):
        return ask(rng, "how", found.group(1))
    if (found := re.match(r"What(?: is|'s) ((?:the|a|an|my|your) .+(?<! for))$", bare)):
        return expand(rng, rng.pick(WHAT_IS)).replace("{s}", found.group(1))
    if (found := re.match(r"Why (.+)", bare)):
        return ask(rng, "why", found.group(1))
    if (found := re.match(r"Which (\w+) ((\w+s) .+)", bare)) and \
            not set(found.group(2).split()) & set(HELPERS):
        return rng.pick(WHICH).replace("{n}", found.group(1)).replace("{r}", found.group(2))
    if question.endswith("?") and bare.split()[0].lower() in HELPERS:
        return ask(rng, "is", bare[:1].lower() + bare[1:])
    return question


def ask(rng, kind, subject):
    """A question of a kind about a subject."""
    if kind == "q":
        return recast(rng, subject) if rng.chance(0.45) else subject
    return expand(rng, rng.pick(KINDS[kind])).replace("{s}", subject)


def answer(rng, answers):
    """One of a fact's answers, mostly the first, so that it is learnt as the answer."""
    return answers[0] if len(answers) == 1 or rng.random() < 0.85 else rng.choice(answers[1:])
