#!/usr/bin/env python3
"""Makes man pages and completions of what a kvgate says about itself.

Usage: make_help.py KVGATE OUTPUT VERSION DATE
"""

import gzip
import sys
from pathlib import Path

import completion
import help_model
import man_page


def main():
    binary, output, version, date = sys.argv[1:]
    program = help_model.read(binary)
    keys = help_model.ask(binary, "config", "keys")
    folder = Path(output)
    (folder / "man").mkdir(parents=True, exist_ok=True)
    for old in (folder / "man").iterdir():
        old.unlink()
    for name, text in man_page.pages(program, keys, version, date).items():
        # Equal bytes for equal pages: no time of the packing stands in them.
        (folder / "man" / f"{name}.gz").write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    (folder / "kvgate.bash").write_text(completion.bash(program))
    (folder / "_kvgate").write_text(completion.zsh(program))


if __name__ == "__main__":
    main()
