"""What `kvgate --help` and the help of each command say, as data."""

import re
import subprocess
from dataclasses import dataclass, field

# CLI11 writes names into the first 30 columns and what they mean behind them.
NAME_COLUMNS = 30


@dataclass
class Entry:
    head: str  # "--key-env,--api-key-env TEXT"
    meaning: str = ""

    @property
    def names(self):
        """The names of a flag or a subcommand, without the form of its value."""
        return self.head.split(" ")[0].split(",")

    @property
    def value(self):
        return self.head.partition(" ")[2]

    @property
    def choices(self):
        """The words of a value like TEXT:{f32,f16}=f16; empty if it may be anything."""
        found = re.search(r"\{([^}]*)\}", self.value)
        return found.group(1).split(",") if found else []


@dataclass
class Command:
    path: tuple  # ("cache", "ls"); empty for the program
    summary: str = ""
    usage: str = ""
    sections: dict = field(default_factory=dict)  # "Options" -> entries
    footer: list = field(default_factory=list)
    commands: list = field(default_factory=list)

    @property
    def name(self):
        return " ".join(("kvgate", *self.path))

    def walk(self):
        yield self
        for command in self.commands:
            yield from command.walk()


def parse_entry(line, entries):
    """A line of a section: a new entry, or what the entry before means."""
    if line[:NAME_COLUMNS].strip() == "":
        entries[-1].meaning = f"{entries[-1].meaning} {line.strip()}".strip()
    elif line[NAME_COLUMNS - 1:NAME_COLUMNS] in (" ", ""):
        entries.append(Entry(line[:NAME_COLUMNS].strip(), line[NAME_COLUMNS:].strip()))
    else:
        entries.append(Entry(line.strip()))


def parse(path, text):
    command, entries = Command(path), None
    for line in text.splitlines():
        if not line.strip():
            continue
        if line.startswith("Usage: "):
            # The program is named as it was called: by a path of the machine that builds.
            command.usage = re.sub(r"^Usage: \S*kvgate", "kvgate", line)
        elif re.fullmatch(r"[A-Z][\w ]*:", line):
            entries = command.sections.setdefault(line[:-1], [])
        elif line.startswith("  ") and entries is not None:
            parse_entry(line, entries)
        elif not command.usage:
            command.summary = f"{command.summary} {line.strip()}".strip()
        else:
            command.footer.append(line.strip())
    if not command.usage:
        raise ValueError(f"the help of {command.name} has no usage line")
    return command


def ask(binary, *arguments):
    return subprocess.run([binary, *arguments], capture_output=True, text=True, check=True,
                          timeout=60).stdout


def read(binary, path=()):
    """The command at `path` with all below it."""
    command = parse(path, ask(binary, *path, "--help"))
    if not path:
        command.summary = command.summary.removeprefix("kvgate: ")
    for entry in command.sections.get("Subcommands", []):
        command.commands.append(read(binary, (*path, entry.names[0])))
    return command
