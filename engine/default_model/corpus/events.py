"""Sentences on who did what, where, when and how much, and questions for each part of them.

A grammar of verbs, roles and measures makes far more forms than one could list, so that a question
is understood by its words and not by its template. Standard library only.
"""

import names

# base, past, participle
VERBS = [line.split() for line in """find found found
lose lost lost
buy bought bought
sell sold sold
repair repaired repaired
paint painted painted
steal stole stolen
bring brought brought
hide hid hidden
build built built
break broke broken
clean cleaned cleaned
invent invented invented
write wrote written
draw drew drawn
move moved moved
open opened opened
close closed closed
rent rented rented
lend lent lent
borrow borrowed borrowed
test tested tested
describe described described
discover discovered discovered
finish finished finished
carry carried carried
choose chose chosen
deliver delivered delivered
inspect inspected inspected
replace replaced replaced
measure measured measured
photograph photographed photographed
design designed designed
translate translated translated
review reviewed reviewed
report reported reported
order ordered ordered
catch caught caught
feed fed fed
wash washed washed
install installed installed
remove removed removed
rename renamed renamed
deploy deployed deployed
restart restarted restarted
fix fixed fixed
donate donated donated
collect collected collected
restore restored restored
explain explained explained
plan planned planned
visit visited visited
win won won
cancel cancelled cancelled
approve approved approved
reject rejected rejected
sign signed signed
announce announced announced
start started started
stop stopped stopped
copy copied copied
print printed printed
send sent sent
keep kept kept
show showed shown
teach taught taught
plant planted planted
cook cooked cooked
mark marked marked
check checked checked
release released released
publish published published
lead led led
found founded founded""".split("\n")]
ROLES = """mayor captain director teacher doctor chair secretary manager editor owner pilot gardener
cook guard judge librarian mechanic nurse driver painter professor singer speaker sponsor tailor
trainer translator witness winner author curator engineer farmer guide heir host inspector keeper
landlord lawyer maintainer mentor messenger miller minister musician neighbour operator organiser
president reviewer sailor scout sculptor shepherd successor superintendent surgeon trustee
vet warden""".split()
PLACES = """school harbour museum club theatre library hospital factory farm station choir village
castle bakery bank garden market mill office orchestra park port prison restaurant shop stadium
tower university zoo newspaper company council department team project""".split()
# what is measured: (verb with it in the sentence, question)
MEASURES = [
    ("weighs {n} kilograms", "How much does the {t} weigh?"),
    ("costs {m}", "How much does the {t} cost?"), ("costs {m}", "What is the price of the {t}?"),
    ("is {n} meters long", "How long is the {t}?"), ("is {n} meters high", "How high is the {t}?"),
    ("is {n} years old", "How old is the {t}?"), ("has {n} parts", "How many parts does the {t} "
                                                                   "have?"),
    ("holds {n} liters", "How many liters does the {t} hold?"),
    ("was made in {c}", "Where was the {t} made?"), ("was made in {c}", "In which city was the {t} "
                                                                        "made?"),
    ("comes from {c}", "Where does the {t} come from?"),
    ("belongs to {p}", "Whose {t} is it?"), ("belongs to {p}", "To whom does the {t} belong?"),
    ("belongs to {p}", "Who owns the {t}?"), ("is made of {w}", "What is the {t} made of?"),
    ("is called {x}", "What is the {t} called?"), ("is called {x}", "What is the name of the {t}?"),
    ("is painted {k}", "What colour is the {t}?"), ("is {k}", "Which colour does the {t} have?"),
    ("opens at {h}", "At what time does the {t} open?"),
    ("opens at {h}", "When does the {t} open?"),
    ("has the number {n}", "Which number does the {t} have?"),
    ("has the code {s}", "What is the code of the {t}?"),
    ("must be returned by {d}", "By when must the {t} be returned?"),
    ("was insured for {m}", "For how much was the {t} insured?"),
    ("stands in room {n}", "In which room does the {t} stand?"),
    ("is kept in {c}", "Where is the {t} kept?"), ("lasts {n} minutes", "How many minutes does the "
                                                                        "{t} last?"),
    ("goes to gate {n}", "To which gate does the {t} go?"),
    ("takes {n} seconds", "How many seconds does the {t} take?"),
    ("was left to {p}", "To whom was the {t} left?"), ("was a gift of {p}", "Who gave the {t}?"),
]
OPENINGS = ["", "", "", "", "Yesterday ", "Last year ", "In the end ", "According to the report, ",
            "As we know, ", "Note: ", "News: ", "After a long debate ", "Minutes: ", "In short, "]
HEADINGS = ["", "", "", "", "Notice: ", "Memo: ", "From the diary: ", "Report: ", "Letter: ",
            "Log: ", "Bulletin: ", "Card: ", "Label: ", "Chat: ", "Page 3: ", "Entry: "]


def thing(rng):
    if rng.random() < 0.25:
        return names.word(rng)
    return rng.choice(names.THINGS)


def deed(rng):
    """Somebody did something to a thing, with some of place, time and tool."""
    base, past, participle = rng.choice(VERBS)
    who, what = names.person(rng), thing(rng)
    adjective = rng.choice([rng.choice(names.COLOURS), "old", "new", "second", "small", "last"])
    full = rng.choice([what, what, f"{adjective} {what}"])
    place, time = names.city(rng), rng.choice([names.date, names.time])(rng)
    words = time.split()
    is_month = words[0] in names.MONTHS and len(words[-1]) == 4  # "May 1990"
    at = "at" if ":" in time else "in" if is_month else "on"
    parts, questions = [], []
    if rng.random() < 0.5:
        parts.append(f"in {place}")
        questions += [(f"Where did {who} {base} the {what}?", place),
                      (f"Where was the {what} {participle}?", place),
                      (f"In which city was the {what} {participle}?", place)]
    if rng.random() < 0.5:
        parts.append(f"{at} {time}")
        questions += [(f"When did {who} {base} the {what}?", time),
                      (f"When was the {what} {participle}?", time)]
    if rng.random() < 0.2:
        tool = names.word(rng)
        parts.append(f"with the {tool}")
        questions += [(f"With what did {who} {base} the {what}?", tool),
                      (f"What did {who} use?", tool)]
    rng.shuffle(parts)
    rest = "".join(" " + part for part in parts)
    if rng.random() < 0.6:
        sentence = f"{who} {past} the {full}{rest}."
    else:
        sentence = f"the {full} was {participle} by {who}{rest}."
    questions += [(f"Who {past} the {what}?", who), (f"By whom was the {what} {participle}?", who),
                  (f"What did {who} {base}?", full), (f"What was {participle} by {who}?", full)]
    return sentence, questions


def office(rng):
    """Somebody is or became something."""
    role, place, who = rng.choice(ROLES), rng.choice(PLACES), names.person(rng)
    where = rng.choice([f"of the {place}", f"of {names.coined(rng)}", f"in {names.city(rng)}"])
    verb = rng.choice(["is", "became", "was elected", "was appointed", "works as", "will be",
                       "was chosen as", "is now", "was", "retired as"])
    article = "" if verb in ("was elected", "was appointed") else "the "
    sentence = f"{who} {verb} {article}{role} {where}."
    if rng.random() < 0.3:
        sentence = f"the {role} {where} is {who}."
        verb = "is"
    asked = {"works as": "is", "was chosen as": "is", "is now": "is", "retired as": "was"}
    question = f"Who {asked.get(verb, verb)} {article}{role} {where}?"
    return sentence, [(question, who), (f"Who is the {role} {where}?", who),
                      (f"Who {asked.get(verb, verb)} {article}{role}?", who),
                      (f"What is the name of the {role}?", who),
                      (f"Which office does {who} have?", role), (f"What is {who}?", role)]


def measure(rng):
    """Something is so large, so dear, made of, called."""
    statement, question = rng.choice(MEASURES)
    value = {"{n}": names.number, "{m}": names.money, "{c}": names.city, "{p}": names.person,
             "{w}": names.word, "{x}": names.coined, "{k}": lambda r: r.choice(names.COLOURS),
             "{h}": names.time, "{s}": names.code, "{d}": names.date}
    slot = next(slot for slot in value if slot in statement)
    said = value[slot](rng)
    what = thing(rng)
    sentence = f"the {what} {statement.replace(slot, said)}."
    return sentence, [(question.replace("{t}", what), said)]


def change(rng):
    """Something has another value than before."""
    what, old, new = thing(rng), *(names.value(rng, rng.choice(["number", "time", "coined", "code",
                                                                "date", "host"])) for _ in "ab")
    form = rng.randrange(4)
    sentence = [f"the {what} is now {new} instead of {old}.",
                f"we use {new} for the {what}, because {old} was taken.",
                f"the {what} was changed from {old} to {new}.",
                f"{old} was removed; use {new} for the {what} instead."][form]
    questions = [(f"What is the {what} now?", new), (f"What replaces {old}?", new),
                 (f"What was the {what} before?", old), (f"What do we use for the {what}?", new),
                 (f"Which {what} is it now?", new), (f"What is used instead of {old}?", new)]
    return sentence, questions


def make(rng):
    """(sentence, [(question, answer)])."""
    sentence, questions = rng.choice([deed, deed, deed, office, measure, measure, change])(rng)
    if rng.random() < 0.25:
        words = rng.choice(["and nobody knew why", "which surprised us all", "as it had been "
                            "planned", "although it rained", "because the other one was missing"])
        sentence = f"{sentence[:-1]}, {words}."
    opening = rng.choice(HEADINGS) + rng.choice(OPENINGS)
    sentence = opening + sentence
    return sentence[:1].upper() + sentence[1:], questions
