"""Words of the language by class, and the forms of nouns and verbs. Standard library only."""

from pathlib import Path

HERE = Path(__file__).resolve().parent
IRREGULAR = {"child": "children", "man": "men", "mouse": "mice", "goose": "geese",
             "knife": "knives",
             "shelf": "shelves", "wolf": "wolves", "leaf": "leaves", "ox": "oxen"}


def sections(path):
    """class -> lines of a file that "[class]" lines divide; comments and empty lines are left."""
    out, current = {}, None
    for line in path.read_text().splitlines():
        if line.startswith("[") and line.endswith("]"):
            current = out.setdefault(line[1:-1], [])
        elif line.strip() and not line.startswith("# "):
            current.append(line)
    return out


WORDS = {name: [word.strip() for line in lines for word in line.split(",")]
         for name, lines in sections(HERE / "words.txt").items()}


def plural(noun):
    head, _, last = noun.rpartition(" ")
    if last in IRREGULAR:
        last = IRREGULAR[last]
    elif last.endswith(("s", "x", "ch", "sh")):
        last += "es"
    elif last.endswith("y") and last[-2] not in "aeiou":
        last = last[:-1] + "ies"
    else:
        last += "s"
    return f"{head} {last}".strip()


def article(words):
    """"a" or "an" in front of words."""
    lower = words.lower()
    if lower.startswith(("uni", "use", "eu", "one", "u-", "ukulele")):
        return "a"
    return "an" if lower[0] in "aeiou" or lower.startswith(("hour", "honest")) else "a"


def a(words):
    return f"{article(words)} {words}"


def third(verb):
    """The form with he or she."""
    if verb.endswith(("s", "x", "z", "ch", "sh", "o")):
        return verb + "es"
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return verb[:-1] + "ies"
    return verb + "s"


def past(verb):
    """The past of a regular verb, which is its participle as well."""
    if verb.endswith("e"):
        return verb + "d"
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return verb[:-1] + "ied"
    return verb + "ed"


def upper(text):
    return text[:1].upper() + text[1:]
