"""Rules of tidy.py about texts: READMEs, their pictures, comments and scripts."""

import re
import stat
from collections import namedtuple
from pathlib import Path

from tidy_tables import FOLDERS_WITHOUT_README, TEST_FOLDERS_WITH_README

README_LINES_MAX = 60

Finding = namedtuple("Finding", "path line what")


def check_readmes(tree):
    folders = {path.rsplit("/", 1)[0] for path in tree.code()
               if "/" in path and Path(path).name != "CMakeLists.txt"}
    for folder in sorted(folders):
        mirrored = folder.startswith("tests/") and folder not in TEST_FOLDERS_WITH_README
        if mirrored or folder in FOLDERS_WITHOUT_README or folder in (".ci", "cmake"):
            continue
        if folder + "/README.md" not in tree.known:
            yield Finding(folder, 1, "has sources and no README.md")
    for path in tree.files:
        if path.endswith("/README.md") and len(tree.lines(path)) > README_LINES_MAX:
            count = len(tree.lines(path))
            yield Finding(path, README_LINES_MAX, f"{count} lines, at most {README_LINES_MAX}")


PICTURE = re.compile(r"^```mermaid$(.*?)^```$", re.MULTILINE | re.DOTALL)
NAME_IN_PICTURE = re.compile(r"\b(?:[A-Za-z_]\w*::)+[A-Za-z_]\w*|\b[A-Z][a-z]+[A-Z]\w*")
IDENTIFIER = re.compile(r"\b[A-Za-z_]\w*")


def check_pictures(tree):
    """The classes and functions in a README's pictures are in the code."""
    headers = None
    for path in tree.files:
        if not path.endswith("README.md"):
            continue
        for picture in PICTURE.finditer(tree.text(path)):
            if headers is None:
                headers = [set(IDENTIFIER.findall(tree.text(header)))
                           for header in tree.with_suffix(".h")]
            line = tree.text(path).count("\n", 0, picture.start()) + 1
            for name in sorted(set(NAME_IN_PICTURE.findall(picture[1]))):
                parts = set(name.split("::"))
                if not any(parts <= header for header in headers):
                    yield Finding(path, line, f"a picture names {name}, which no header has")


CODE_IN_COMMENT = re.compile(r"^\s*//\s.*([;{}]|\)\s*\{)\s*$")


def check_commented_code(tree):
    """Two comment lines in a row that end like statements. One alone may be prose or an example."""
    for path in tree.with_suffix(".cc", ".cu"):
        lines = tree.lines(path)
        for index in range(1, len(lines)):
            if CODE_IN_COMMENT.match(lines[index]) and CODE_IN_COMMENT.match(lines[index - 1]):
                yield Finding(path, index + 1, "code that is commented out: git remembers it")


def check_scripts(tree):
    for path in tree.files:
        lines = tree.lines(path)
        if not lines or not lines[0].startswith("#!"):
            continue
        if not (tree.root / path).stat().st_mode & stat.S_IXUSR:
            yield Finding(path, 1, "starts with #! and is not executable")
        if "bash" in lines[0] and "set -euo pipefail" not in lines[:30]:
            yield Finding(path, 1, "a bash script needs set -euo pipefail")
