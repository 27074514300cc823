"""Forms of texts: letters, logs, minutes, tables, files of settings. Standard library only.

A form of PROSE makes a text of sentences, one of RECORDS of rows of facts (world.Fact). What is
asked stands in the sentences and rows; names, dates and headings around them are the form's own.
"""

import json
import re

import names
from draw import Patterns
from lexicon import WORDS, upper


def groups(rng, sentences, low=1, high=6):
    out, at = [], 0
    while at < len(sentences):
        step = rng.randint(low, high)
        out.append(sentences[at:at + step])
        at += step
    return out


def chunks(rng, sentences, low=1, high=6):
    return [" ".join(group) for group in groups(rng, sentences, low, high)]


def heading(rng):
    return rng.choice([
        rng.choice(WORDS["topics"]).capitalize(), upper(rng.choice(WORDS["documents"])),
        f"About the {rng.choice(WORDS['places'])}", f"The {rng.choice(WORDS['events'])}",
        upper(rng.choice(WORDS["events"])), f"Notes on {rng.choice(WORDS['topics'])}",
        f"News from the {rng.choice(WORDS['groups'])}", "Summary", "Background", "Details",
        "Overview", "What happened", "Introduction", "Remarks", "General", "Next steps", "Other",
        f"{upper(rng.choice(WORDS['adjectives']))} {rng.choice(WORDS['things'])}"])


def clock(rng, state):
    state[0] += rng.randint(1, 9)
    return f"{state[0] // 60 % 24:02}:{state[0] % 60:02}"


def people(rng, count):
    return [rng.choice(names.FIRST) for _ in range(count)]


def paragraph(rng, lines):
    return " ".join(lines)


def paragraphs(rng, lines):
    return "\n\n".join(chunks(rng, lines))


def titled(rng, lines):
    return rng.choice(["{}\n\n", "# {}\n\n", "*{}*\n\n", "{}\n---\n", "== {} ==\n", "[{}]\n"]) \
        .format(heading(rng)) + paragraphs(rng, lines)


def plain_lines(rng, lines):
    return "\n".join(lines)


def bullets(rng, lines):
    mark = rng.choice(["- ", "* ", "• ", "+ ", "– ", "> ", "[ ] ", "[x] ", "-> "])
    return "\n".join(mark + line for line in lines)


def numbered(rng, lines):
    form = rng.choice(["{}. ", "{}) ", "({}) ", "#{} ", "Step {}: ", "{}: ", "No. {}: ", "§ {} "])
    return "\n".join(form.format(n + 1) + line for n, line in enumerate(lines))


def letter(rng, lines):
    hello = rng.choice(["Dear {},", "Hi {},", "Hello {}!", "Dear {}!", "{},", "To {}"])
    end = rng.choice(["Best", "Regards", "Yours", "Kind regards", "Love", "See you soon", "Cheers",
                      "With best wishes"])
    return hello.format(rng.choice(names.FIRST)) + "\n\n" + paragraphs(rng, lines) + \
        f"\n\n{end},\n{rng.choice(names.FIRST)}"


def mail(rng, lines):
    head = f"From: {rng.choice(names.FIRST)}\nTo: {rng.choice(names.FIRST)}\n" + \
        rng.choice(["", f"Date: {rng.choice(names.WEEKDAYS)}\n"]) + f"Subject: {heading(rng)}\n\n"
    return head + letter(rng, lines)


def thread(rng, lines):
    parts, depth = chunks(rng, lines, 1, 4), 0
    out = []
    for part in reversed(parts):
        mark = "> " * depth
        out.append(mark + part)
        depth = min(3, depth + 1)
    return "\n\n".join(out)


def chat(rng, lines):
    who, state = people(rng, rng.randint(2, 4)), [rng.randint(0, 1200)]
    form = rng.choice(["{w}: {t}", "[{c}] {w}: {t}", "{c} {w}: {t}", "<{w}> {t}", "{w} ({c}): {t}",
                       "{w} > {t}", "{c} - {w} - {t}", "@{w} {t}"])
    return "\n".join(form.format(w=rng.choice(who), c=clock(rng, state), t=line) for line in lines)


def dialogue(rng, lines):
    who = people(rng, 2)
    said = rng.choice([['"{t}" said {w}.', '"{t}" {w} said.', '{w} said: "{t}"',
                        '"{t}" {w} answered.', '{w} nodded. "{t}"', '{w} asked around. "{t}"'],
                       ["- {t}"], ["{w}. - {t}"], ["“{t}”", "“{t}” {w} looked up."]])
    return rng.choice(["\n", "\n\n", " "]).join(
        rng.choice(said).format(t=line, w=who[n % 2]) for n, line in enumerate(lines))


def diary(rng, lines):
    day, month = rng.randint(1, 20), rng.choice(names.MONTHS)
    out = []
    for part in chunks(rng, lines, 1, 4):
        out.append(rng.choice([f"{day} {month}. ", f"{month} {day}\n", f"({day} {month}) "]) + part)
        day += 1
    return "\n\n".join(out)


def minutes(rng, lines):
    head = f"{rng.choice(['Minutes', 'Protocol', 'Notes'])} of the " \
        f"{rng.choice(WORDS['events'])}\n" \
        f"Present: {', '.join(people(rng, rng.randint(2, 4)))}\n\n"
    out = [f"{n + 1}. {heading(rng)}\n{part}" for n, part in enumerate(chunks(rng, lines, 1, 4))]
    return head + "\n\n".join(out)


def log(rng, lines):
    state, level = [rng.randint(0, 1200)], ["INFO", "WARN", "DEBUG", "NOTICE", "info", "ERROR"]
    form = rng.choice(["{c} {l} {t}", "[{c}] {l}: {t}", "{l} {c} | {t}", "{c} [{l}] {t}",
                       "2031-04-02T{c}:09Z {l} {t}", "<{l}> {t} ({c})"])
    return "\n".join(form.format(c=clock(rng, state), l=rng.choice(level), t=line)
                     for line in lines)


def news(rng, lines):
    return f"{heading(rng).upper()}\n\n{rng.choice(names.CITIES).upper()} - " + \
        paragraphs(rng, lines)


def sections(rng, lines):
    mark = rng.choice(["## {}", "### {}", "{}:", "{}\n" + "-" * 8, "== {} ==", "**{}**", "[{}]",
                       "Chapter: {}", "<h2>{}</h2>"])
    return "\n\n".join(mark.format(heading(rng)) + "\n" + part
                       for part in chunks(rng, lines, 1, 5))


def faq(rng, lines):
    asked = ["What else should one know?", "Anything new?", "Is there more?", "And then?",
             "What about the rest?", "Can you say more?", "What happened?", "Tell us more."]
    form = rng.choice(["Q: {q}\nA: {t}", "**{q}**\n{t}", "Question: {q}\nAnswer: {t}",
                       "{q}\n- {t}"])
    return "\n\n".join(form.format(q=rng.choice(asked), t=part)
                       for part in chunks(rng, lines, 1, 3))


def ticket(rng, lines):
    who = people(rng, 3)
    out = [f"Ticket: {heading(rng)}\nReporter: {who[0]}\nAssignee: {who[1]}\n"]
    out += [f"Comment by {rng.choice(who)}:\n{part}" for part in chunks(rng, lines, 1, 3)]
    return "\n\n".join(out)


def changes(rng, lines):
    out = []
    for part in groups(rng, lines, 2, 6):
        name = rng.choice(["Changes", "Release", "Update"])
        out.append(f"{name} {chr(65 + len(out) % 26)}\n" +
                   "\n".join("- " + line for line in part))
    return "\n\n".join(out)


def transcript(rng, lines):
    state = [0]
    return "\n".join(f"{clock(rng, state)} SPEAKER {rng.randint(1, 3)}: {line}" for line in lines)


def html(rng, lines):
    tag = rng.choice(["p", "li", "td", "div", "span"])
    return "\n".join(f"<{tag}>{part}</{tag}>" for part in chunks(rng, lines, 1, 3))


def comments(rng, lines):
    mark = rng.choice(["# ", "// ", "-- ", "; ", " * ", "% "])
    return "\n".join(mark + line for line in lines)


def clauses(rng, lines):
    return "\n".join(f"§ {n // 3 + 1} ({n % 3 + 1}) {line}" for n, line in enumerate(lines))


def notes_table(rng, lines):
    return "| no | note |\n|---|---|\n" + "\n".join(f"| {n + 1} | {line} |"
                                                    for n, line in enumerate(lines))


def notes_csv(rng, lines):
    rows = ["from,text"]
    for line in lines:
        rows.append(f"{rng.choice(names.FIRST).lower()},\"{line}\"")
    return "\n".join(rows)


def messages_json(rng, lines):
    key = rng.choice(["text", "body", "message", "content", "note"])
    return json.dumps([{"from": rng.choice(names.FIRST), key: line} for line in lines],
                      ensure_ascii=False, indent=rng.choice([None, 1]))


def slides(rng, lines):
    return "\n\n".join(f"Slide {n + 1}: {heading(rng)}\n" + "\n".join(
        "- " + line for line in part) for n, part in enumerate(groups(rng, lines, 1, 4)))


def forum(rng, lines):
    return "\n\n".join(f"{names.word(rng)}{rng.randint(1, 99)} wrote:\n{part}"
                       for part in chunks(rng, lines, 1, 3))


def small_ads(rng, lines):
    return rng.choice(["\n---\n", " *** ", "\n\n~\n\n", " // ", "\n* * *\n"]) \
        .join(chunks(rng, lines, 1, 2))


def commits(rng, lines):
    return "\n\n".join(f"commit {names.string_of(rng, names.HEX, 7, 7)}\n"
                       f"Author: {rng.choice(names.FIRST)}\n\n    {part}"
                       for part in chunks(rng, lines, 1, 2))


def postcards(rng, lines):
    return " ".join(line if rng.chance(0.8) else f"P.S. {line}" for line in lines) + \
        rng.choice(["", " Bye!", " Kisses.", " More soon.", " - " + rng.choice(names.FIRST)])


def report(rng, lines):
    return f"Title: {heading(rng)}\nAuthor: {rng.choice(names.FIRST)}\nAbstract: " + \
        paragraphs(rng, lines)


def run_on(rng, lines):
    return rng.choice(["; ", " ... ", " / ", " + ", " | "]).join(
        re.sub(r"(?<!\.m)(?<!Inc)\.$", "", line) for line in lines)


PROSE = Patterns([paragraph, paragraphs, titled, plain_lines, bullets, numbered, letter, mail,
                  thread, chat, dialogue, diary, minutes, log, news, sections, faq, ticket, changes,
                  transcript, html, comments, clauses, notes_table, notes_csv, messages_json,
                  slides, forum, small_ads, commits, postcards, report, run_on])


def keyed(rng, name, style):
    """An attribute's name as a key of data."""
    words = re.findall(r"\w+", name)
    if style == "camel":
        return words[0].lower() + "".join(w.capitalize() for w in words[1:])
    return {"snake": "_".join(words).lower(), "kebab": "-".join(words).lower(),
            "upper": "_".join(words).upper(), "title": name.title(),
            "capital": upper(name)}.get(style, name)


class Rows:
    """What a form of RECORDS has: entities, each with (key, value) pairs."""

    def __init__(self, rng, rows, styles):
        style = rng.choice(styles)
        self.rng = rng
        self.rows = [(row[0].entity.long.replace('"', ""),
                      [(keyed(rng, f.name, style), f.value) for f in row]) for row in rows]
        self.keys = list(dict.fromkeys(k for _, pairs in self.rows for k, _ in pairs))


WORDED, CODED = ["plain", "title", "capital"], ["snake", "snake", "camel", "kebab", "plain"]


def blocks(rng, rows):
    r = Rows(rng, rows, WORDED)
    mark = rng.choice(["{}:", "## {}", "[{}]", "{}", "- {}", "* {}", "{}\n" + "=" * 6, "<{}>",
                       "*** {} ***", "Entry: {}", "> {}", "{} ->"])
    sign = rng.choice([": ", " = ", " - ", " is ", ".....", " -> ", ":\t", " | ", " := "])
    indent = rng.choice(["", "  ", "- ", "  - ", "\t", "* "])
    return rng.choice(["\n", "\n\n"]).join(
        mark.format(e) + "\n" + "\n".join(f"{indent}{k}{sign}{v}" for k, v in pairs)
        for e, pairs in r.rows)


def inline(rng, rows):
    r = Rows(rng, rows, WORDED)
    sign, gap = rng.choice([": ", " ", " = ", " - "]), rng.choice([", ", "; ", " / ", " | "])
    mark = rng.choice(["{e}: {p}", "{e} ({p})", "{e} - {p}", "- {e}, {p}", "{e}; {p}.",
                       "{e} [{p}]"])
    return rng.choice(["\n", "\n", "; "]).join(
        mark.format(e=e, p=gap.join(f"{k}{sign}{v}" for k, v in pairs)) for e, pairs in r.rows)


def as_json(rng, rows):
    r = Rows(rng, rows, CODED)
    form = rng.randrange(3)
    if form == 0:
        value = {e: dict(pairs) for e, pairs in r.rows}
    else:
        name = rng.choice(["name", "id", "title", "who", "item"])
        value = [{name: e, **dict(pairs)} for e, pairs in r.rows]
        if form == 2:
            value = {names.word(rng): value, "count": len(r.rows)}
    return json.dumps(value, ensure_ascii=False, indent=rng.choice([None, None, 1, 2]))


def as_lines_of_json(rng, rows):
    r = Rows(rng, rows, CODED)
    return "\n".join(json.dumps({"name": e, **dict(p)}, ensure_ascii=False) for e, p in r.rows)


def as_yaml(rng, rows):
    r = Rows(rng, rows, CODED)
    if rng.chance(0.5):
        return "\n".join(f"{e}:\n" + "\n".join(f"  {k}: {v}" for k, v in p) for e, p in r.rows)
    return "\n".join(f"- name: {e}\n" + "\n".join(f"  {k}: {v}" for k, v in p) for e, p in r.rows)


def as_toml(rng, rows):
    r = Rows(rng, rows, ["snake", "kebab"])
    quote = rng.choice(['"{}"', '"{}"', "{}", "'{}'"])
    return "\n\n".join(f"[{e}]\n" + "\n".join(f"{k} = {quote.format(v)}" for k, v in p)
                       for e, p in r.rows)


def as_python(rng, rows):
    r = Rows(rng, rows, ["snake"])
    return "\n".join(f"{names.word(rng)} = {{'name': {e!r}, " + ", ".join(
        f"{k!r}: {v!r}" for k, v in p) + "}" for e, p in r.rows)


def as_sql(rng, rows):
    r = Rows(rng, rows, ["snake"])
    table = names.word(rng)
    return "\n".join(f"INSERT INTO {table} (name, {', '.join(k for k, _ in p)}) VALUES ('{e}', " +
                     ", ".join(f"'{v}'" for _, v in p) + ");" for e, p in r.rows)


def as_xml(rng, rows):
    r = Rows(rng, rows, ["camel", "kebab", "snake"])
    tag = names.word(rng)
    if rng.chance(0.5):
        return "\n".join(f"<{tag} name=\"{e}\" " + " ".join(f'{k}="{v}"' for k, v in p) + "/>"
                         for e, p in r.rows)
    return "\n".join(f"<{tag}>\n <name>{e}</name>\n" + "\n".join(
        f" <{k}>{v}</{k}>" for k, v in p) + f"\n</{tag}>" for e, p in r.rows)


def as_html(rng, rows):
    r = Rows(rng, rows, WORDED)
    return "\n".join(f"<h3>{e}</h3>\n<dl>" + "".join(f"<dt>{k}</dt><dd>{v}</dd>" for k, v in p) +
                     "</dl>" for e, p in r.rows)


def _cells(r):
    for entity, pairs in r.rows:
        found = dict(pairs)
        yield [entity, *(found.get(k, "-") for k in r.keys)]


def as_table(rng, rows):
    r = Rows(rng, rows, WORDED)
    first = rng.choice(["name", "", "who or what", "item", rows[0][0].entity.noun])
    lines = ["| " + " | ".join([first, *r.keys]) + " |", "|" + "---|" * (len(r.keys) + 1)]
    return "\n".join(lines + ["| " + " | ".join(c) + " |" for c in _cells(r)])


def as_csv(rng, rows):
    r = Rows(rng, rows, CODED + WORDED)
    gap = rng.choice([",", ";", "\t", ", ", " | ", "|"])
    return "\n".join(gap.join(c) for c in [["name", *r.keys], *_cells(r)])


def as_columns(rng, rows):
    r = Rows(rng, rows, WORDED)
    lines = [["NAME", *(k.upper() for k in r.keys)], *_cells(r)]
    width = [max(len(line[i]) for line in lines) + 2 for i in range(len(lines[0]))]
    return "\n".join("".join(c.ljust(w) for c, w in zip(line, width)).rstrip() for line in lines)


def turned_table(rng, rows):
    r = Rows(rng, rows, WORDED)
    cells = list(zip(*[["", *r.keys], *_cells(r)]))
    return "\n".join("| " + " | ".join(c) + " |" for c in cells)


def triples(rng, rows):
    r = Rows(rng, rows, WORDED)
    form = rng.choice(["{e} {k}: {v}", "{k} of {e}: {v}", "{e} -> {k} -> {v}", "{e} / {k} / {v}",
                       "({e}, {k}, {v})", "{v} ({k} of {e})", "{e}'s {k} = {v}", "{k}[{e}] = {v}",
                       "{e}\t{k}\t{v}", "* {e}, {k}: {v}", "{k} ({e}): {v}"])
    lines = [form.format(e=e, k=k, v=v) for e, p in r.rows for k, v in p]
    if rng.chance(0.4):
        rng.shuffle(lines)
    return "\n".join(lines)


def dotted(rng, rows):
    r = Rows(rng, rows, ["snake", "camel"])
    sign = rng.choice(["=", " = ", ": "])
    return "\n".join((f'"{e}"' if " " in e else e) + f".{k}{sign}{v}"
                     for e, p in r.rows for k, v in p)


def by_attribute(rng, rows):
    r = Rows(rng, rows, WORDED)
    out = []
    for key in r.keys:
        out.append(f"{key}:\n" + "\n".join(f"  {e}: {dict(p)[key]}" for e, p in r.rows
                                           if key in dict(p)))
    return "\n".join(out)


def events_log(rng, rows):
    r, state = Rows(rng, rows, ["snake", "plain"]), [rng.randint(0, 1200)]
    form = rng.choice(["{c} {e}: {k}={v}", "[{c}] {k} of {e} is {v}", "{c} set {k} of {e} to {v}",
                       "{c} INFO {e} {k} {v}", "{c} | {e} | {k} | {v}"])
    return "\n".join(form.format(c=clock(rng, state), e=e, k=k, v=v) for e, p in r.rows
                     for k, v in p)


def card(rng, rows):
    r = Rows(rng, rows, WORDED)
    line = rng.choice(["-", "=", "*", "~"]) * rng.randint(8, 20)
    return "\n".join(f"{line}\n{e}\n" + "\n".join(f"{k}: {v}" for k, v in p) for e, p in r.rows) + \
        "\n" + line


def lisp(rng, rows):
    r = Rows(rng, rows, ["kebab"])
    return "\n".join(f'("{e}" ' + " ".join(f':{k} "{v}"' for k, v in p) + ")" for e, p in r.rows)


RECORDS = Patterns([blocks, blocks, inline, inline, as_json, as_json, as_lines_of_json, as_yaml,
                    as_toml, as_python, as_sql, as_xml, as_html, as_table, as_csv, as_columns,
                    turned_table, triples, triples, dotted, by_attribute, events_log, card, lisp])
