"""Completion for bash and zsh: commands, flags, and the values of flags that take certain words."""

import re

# A flag whose value is none of certain words: what is a file is completed as one.
FILES = re.compile(r"file|folder|director|model|where KV is kept|configuration", re.IGNORECASE)


def flags(command):
    for entries in command.sections.values():
        for item in entries:
            if item.head.startswith("-"):
                yield item


def takes_files(command):
    return any(not item.head.startswith("-") for item in command.sections.get("Positionals", []))


def bash(program):
    """One `case` over the command so far: its words, its flags with values, and their values."""
    lines = ["# bash completion for kvgate, made from its help texts.",
             "_kvgate() {",
             "  local word=\"${COMP_WORDS[COMP_CWORD]}\" previous=\"${COMP_WORDS[COMP_CWORD-1]}\"",
             "  local command=kvgate words='' files='' given",
             "  for given in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do",
             "    case \"$command $given\" in"]
    paths = [command.name for command in program.walk() if command.path]
    lines += [f"      {'|'.join(repr(path) for path in paths)}) command+=\" $given\" ;;",
              "    esac", "  done", "  case \"$command,$previous\" in"]
    for command in program.walk():
        for item in flags(command):
            if not item.value:
                continue
            labels = "|".join(f"'{command.name},{name}'" for name in item.names)
            words = " ".join(item.choices)
            how = f"words='{words}'" if words else "files=1" if FILES.search(item.meaning) \
                else "return"
            lines.append(f"    {labels}) {how} ;;")
    lines += ["    *) case \"$command\" in"]
    for command in program.walk():
        words = [name for item in flags(command) for name in item.names]
        words += [below.path[-1] for below in command.commands]
        files = " files=1" if takes_files(command) else ""
        lines.append(f"      '{command.name}') words='{' '.join(words)}'{files} ;;")
    lines += ["    esac ;;", "  esac",
              "  mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")",
              "  if [ -n \"$files\" ]; then",
              "    compopt -o filenames",
              "    mapfile -t -O \"${#COMPREPLY[@]}\" COMPREPLY < <(compgen -f -- \"$word\")",
              "  fi", "}", "complete -F _kvgate kvgate", ""]
    return "\n".join(lines)


def quoted(text):
    """A meaning as zsh's _arguments and _describe take it inside single quotes."""
    for char in "\\[]:":
        text = text.replace(char, "\\" + char)
    return text.replace("'", "'\\''")


def zsh_flag(item):
    action = ""
    if item.value:
        words = " ".join(item.choices)
        action = ":value:" + (f"({words})" if words else "_files" if FILES.search(item.meaning)
                              else "")
    return [f"'{name}[{quoted(item.meaning)}]{action}'" for name in item.names]


def zsh_function(command):
    name = "_" + "_".join(re.sub(r"\W", "_", word) for word in ("kvgate", *command.path))
    arguments = [flag for item in flags(command) for flag in zsh_flag(item)]
    lines = [f"{name}() {{"]
    if not command.commands:
        if takes_files(command):
            arguments.append("'*:file:_files'")
        return [*lines, "  _arguments -s \\", "    " + " \\\n    ".join(arguments), "}"]
    lines += ["  local -a commands", "  local state line", "  commands=("]
    lines += [f"    '{below.path[-1]}:{quoted(below.summary)}'" for below in command.commands]
    lines += ["  )", "  _arguments -C \\", "    " + " \\\n    ".join(arguments) + " \\",
              "    '1:command:->command' '*::argument:->argument'", "  case $state in",
              "    command) _describe command commands ;;", "    argument) case $line[1] in"]
    lines += [f"      {below.path[-1]}) {name}_{re.sub(chr(92) + 'W', '_', below.path[-1])} ;;"
              for below in command.commands]
    return [*lines, "    esac ;;", "  esac", "}"]


def zsh(program):
    lines = ["#compdef kvgate", "# zsh completion for kvgate, made from its help texts."]
    for command in program.walk():
        lines += zsh_function(command)
    return "\n".join([*lines, "_kvgate \"$@\"", ""])
