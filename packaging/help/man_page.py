"""Man pages: one for the program, one for each command with those below it, one for kvgate.toml."""

import re


def escape(text):
    """Text as troff takes it: a hyphen that can be copied, no request at the begin of a line."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    text = re.sub("`([^`]*)`", r"\\fB\1\\fR", text)
    return "\\&" + text if text[:1] in (".", "'") else text


def head(name, section, version, date):
    return f'.TH "{name.upper()}" "{section}" "{date}" "kvgate {version}" "kvgate"\n'


def name_section(name, summary):
    summary = summary[:1].lower() + summary[1:]
    return f".SH NAME\n{escape(name)} \\- {escape(summary)}\n"


def entry(item):
    names = ", ".join(f"\\fB{escape(name)}\\fR" for name in item.names)
    # A line may be broken behind each of the words that a value can be.
    value = escape(item.value).replace(",", ",\\:")
    value = f" \\fI{value}\\fR" if value else ""
    return f".TP\n{names}{value}\n{escape(item.meaning) or chr(92) + '&'}\n"


def sections(command, heading):
    text = ""
    for title, entries in command.sections.items():
        text += f'.{heading} "{title.upper()}"\n' + "".join(map(entry, entries))
    return text


def below(command):
    """A command that has no page of its own, as a part of its parent's."""
    text = f'.SH "{escape(command.name)}"\n{escape(command.summary)}.\n'
    text += f".PP\n\\fB{escape(command.usage)}\\fR\n" + sections(command, "SS")
    return text + paragraphs(command) + "".join(map(below, command.commands))


def paragraphs(command):
    return "".join(f".PP\n{escape(line)}\n" for line in command.footer)


def see_also(others):
    listed = ", ".join(f"\\fB{escape(name)}\\fR({section})" for name, section in others)
    return f".SH SEE ALSO\n{listed}\n"


def command_page(command, version, date, others):
    name = "-".join(("kvgate", *command.path))
    text = head(name, 1, version, date) + name_section(name, command.summary)
    text += f".SH SYNOPSIS\n\\fB{escape(command.usage)}\\fR\n" + sections(command, "SH")
    if command.footer:
        text += ".SH NOTES\n" + paragraphs(command).removeprefix(".PP\n")
    if command.path:
        text += "".join(map(below, command.commands))
    return text + see_also(others)


def configuration_page(keys, version, date):
    """kvgate.toml(5), from what `kvgate config keys` prints."""
    text = head("kvgate.toml", 5, version, date)
    text += name_section("kvgate.toml", "the configuration of kvgate")
    text += (".SH DESCRIPTION\nTOML. Every key has a default; one that is not known is an error.\n"
             "\\fBkvgate config check\\fR \\fIFILE\\fR says what is wrong and where.\n"
             "\\fBupstream\\fR, \\fBroute\\fR, \\fBkey\\fR and \\fBprompt\\fR are lists:\n"
             "\\fB[[upstream]]\\fR.\n")
    table = ""
    for line in keys.splitlines():
        if line.startswith(" "):
            text += escape(line.strip()) + "\n"
            continue
        name, _, default = line.partition(" = ")
        if name.split(".")[0] != table:
            table = name.split(".")[0]
            text += f'.SH "{escape(table).upper()}"\n'
        text += f".TP\n\\fB{escape(name)}\\fR = {escape(default)}\n"
    return text + see_also([("kvgate", 1), ("kvgate-serve", 1), ("kvgate-config", 1)])


def pages(program, keys, version, date):
    """File name -> text."""
    made = {"kvgate.toml.5": configuration_page(keys, version, date)}
    names = [("kvgate-" + command.path[0], 1) for command in program.commands]
    made["kvgate.1"] = command_page(program, version, date, [*names, ("kvgate.toml", 5)])
    for command in program.commands:
        page = command_page(command, version, date, [("kvgate", 1), ("kvgate.toml", 5)])
        made[f"kvgate-{command.path[0]}.1"] = page
    return made
