#!/usr/bin/env python3
"""Checks that the tree follows the house rules; prints FILE:LINE: WHAT and exits 1 where not.

Rules are functions from a Tree to findings, listed in RULES. What is allowed by exception stands in
tidy_tables.py with its reason; an exception that no longer matches a file is itself a finding.
Usage: tidy.py [ROOT]
"""

import ast
import os
import re
import sys
from pathlib import Path

from tidy_tables import (CLASSES_IN_MANY_SOURCES, CLASSES_OF_MANY_METHODS, LARGER_BLOBS,
                         NAMESPACES_OF_OTHERS, PARTS, SOURCES_WITHOUT_TEST, TESTED_ELSEWHERE,
                         TESTS_WITHOUT_SOURCE, THIRD_PARTY)
from tidy_texts import (Finding, check_commented_code, check_pictures, check_readmes,
                        check_scripts)

COLUMNS_MAX = 100
FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 700
CLASS_METHODS_MAX = 25  # public and private, without constructors, destructors and operators
BLOB_BYTES_MAX = 300 * 1024

SKIPPED_FOLDERS = {".git", "build", "node_modules", ".cache", ".ccache", "__pycache__"}
LIBRARY_FOLDERS = ("base", "kernels", "store", "engine", "gateway", "sdk")
FOLDER_FILES_MAX = 30  # of a library folder
CPP_SUFFIXES = {".cc", ".h", ".cu", ".cuh"}
CODE_SUFFIXES = CPP_SUFFIXES | {".py", ".sh", ".mjs", ".js", ".ts", ".tsx", ".css", ".cmake"}
GENERATED = {"gateway/dashboard/web/package-lock.json", "tests/clients/package-lock.json",
             "tests/dashboard/package-lock.json", "LICENSE"}


class Tree:
    """The files of a checkout, read once."""

    def __init__(self, root):
        self.root = Path(root)
        self.files = []
        self._lines = {}
        for folder, folders, names in os.walk(self.root):
            folders[:] = sorted(f for f in folders if f not in SKIPPED_FOLDERS)
            for name in sorted(names):
                path = Path(folder, name)
                if path.is_file() and not path.is_symlink() and name != ".git":
                    self.files.append(path.relative_to(self.root).as_posix())
        self.known = set(self.files)

    def lines(self, path):
        """The lines of a text file; an empty list for a binary one."""
        if path not in self._lines:
            data = (self.root / path).read_bytes()
            try:
                text = "" if b"\0" in data else data.decode()
            except UnicodeDecodeError:
                text = ""
            self._lines[path] = text.split("\n")[:-1] if text.endswith("\n") else text.split("\n")
        return self._lines[path]

    def text(self, path):
        return "\n".join(self.lines(path)) + "\n"

    def with_suffix(self, *suffixes):
        return [f for f in self.files if Path(f).suffix in suffixes]

    def cpp(self):
        return self.with_suffix(*CPP_SUFFIXES)

    def code(self):
        """Sources of any language, with CMake lists and scripts that have no suffix."""
        return [f for f in self.files
                if Path(f).suffix in CODE_SUFFIXES or Path(f).name == "CMakeLists.txt"
                or (self.lines(f) and self.lines(f)[0].startswith("#!"))]


INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def includes(tree, path):
    """Yields (line, opening quote, included path)."""
    for number, line in enumerate(tree.lines(path), 1):
        match = INCLUDE.match(line)
        if match:
            yield number, match.group(1), match.group(2)


def part_of(path):
    """The key of PARTS that governs a path; None if there is none."""
    folder = path
    while "/" in folder:
        folder = folder.rsplit("/", 1)[0]
        if folder in PARTS:
            return folder
    return None


def check_include_direction(tree):
    for path in tree.cpp():
        is_test = path.startswith("tests/")
        part = part_of(path.removeprefix("tests/"))
        if part is None and path.split("/")[0] in LIBRARY_FOLDERS:
            yield Finding(path, 1, "its folder is no part of the tree: add it to PARTS")
        allowed = set(PARTS[part].split()) | {part} if part else set()
        # A test may set up what it tests with anything that its top folder stands on.
        tops = {name.split("/")[0] for key in PARTS if part and key.startswith(part.split("/")[0])
                for name in [key, *PARTS[key].split()]}
        for line, quote, included in includes(tree, path):
            top = included.split("/")[0]
            other = part_of(included) or (top if top in LIBRARY_FOLDERS else None)
            if path.startswith("examples/"):
                # Programs of others: what is installed, and the files beside them.
                if quote == '"' and f"examples/{included}" not in tree.known:
                    yield Finding(path, line, f'"{included}": examples include <kvgate/...>')
            elif quote == '"' and ("/" not in included or included.startswith(".")):
                yield Finding(path, line, f'"{included}": includes are rooted at the repository')
            elif part is None or other is None or other in allowed:
                continue
            elif not is_test or other.split("/")[0] not in tops:
                yield Finding(path, line, f"{part} must not include {other} ({included})")


def check_circles(tree):
    """No folder includes, directly or by others, one that includes it."""
    arrows = {}
    for path in tree.cpp():
        folder = path.rsplit("/", 1)[0]
        if path.split("/")[0] in LIBRARY_FOLDERS:
            for line, quote, included in includes(tree, path):
                other = included.rsplit("/", 1)[0]
                if quote == '"' and other != folder:
                    arrows.setdefault(folder, {}).setdefault(other, (path, line))
    done, trail = set(), []

    def visit(folder):
        if folder in trail:
            circle = trail[trail.index(folder):] + [folder]
            where = arrows[circle[-2]][folder]
            yield Finding(*where, "folders in a circle: " + " -> ".join(circle))
        elif folder not in done:
            done.add(folder)
            trail.append(folder)
            for other in sorted(arrows.get(folder, {})):
                yield from visit(other)
            trail.pop()

    for folder in sorted(arrows):
        yield from visit(folder)


def check_folder_size(tree):
    counts = {}
    for path in tree.files:
        if path.split("/")[0] in LIBRARY_FOLDERS and "/" in path:
            folder = path.rsplit("/", 1)[0]
            counts[folder] = counts.get(folder, 0) + 1
    for folder, count in sorted(counts.items()):
        if count > FOLDER_FILES_MAX:
            yield Finding(folder, 1, f"{count} files in a folder, at most {FOLDER_FILES_MAX}")


def check_third_party(tree):
    for path in tree.cpp():
        governed = path.removeprefix("tests/")
        for line, _, included in includes(tree, path):
            for pattern, places, name in THIRD_PARTY:
                # A test may look at the files of what it tests, so its folder is enough.
                prefixes = tuple(p[:p.rindex("/") + 1] for p in places) if governed != path \
                    else places
                if re.match(pattern, included) and not governed.startswith(prefixes):
                    yield Finding(path, line, f"{name} only in {', '.join(places)}*: {included}")
        if Path(path).suffix in (".cu", ".cuh") and not governed.startswith("kernels/cuda/"):
            yield Finding(path, 1, "CUDA sources only in kernels/cuda/")


def check_mirror(tree):
    for path in tree.with_suffix(".cc", ".cu"):
        top = path.split("/")[0]
        stem = path.rsplit(".", 1)[0]
        if top == "tests" and stem.endswith("_test"):
            source = stem.removeprefix("tests/").removesuffix("_test")
            there = {source + s for s in CPP_SUFFIXES} & tree.known
            if not there and path not in TESTS_WITHOUT_SOURCE:
                yield Finding(path, 1, f"mirrors no file: expected {source}.cc or {source}.h")
        elif top in LIBRARY_FOLDERS:
            test = f"tests/{stem}_test.cc"
            if test not in tree.known and path not in SOURCES_WITHOUT_TEST \
                    and TESTED_ELSEWHERE.get(path) not in tree.known:
                yield Finding(path, 1, f"has no test: expected {test}")
    yield from check_exceptions(tree)


def check_exceptions(tree):
    """An exception must still be one: its file is there, and without a mirror of its own."""
    for table in (TESTS_WITHOUT_SOURCE, TESTED_ELSEWHERE, SOURCES_WITHOUT_TEST):
        for path in table:
            test = f"tests/{path.rsplit('.', 1)[0]}_test.cc"
            if path not in tree.known or (table is not TESTS_WITHOUT_SOURCE and test in tree.known):
                yield Finding("tests/tidy_tables.py", 1,
                              f"the exception for {path} is no longer needed")


def check_columns(tree):
    markdown = tree.with_suffix(".md")
    for path in tree.code() + markdown:
        if path in GENERATED:
            continue
        for number, line in enumerate(tree.lines(path), 1):
            if path in markdown and (line.lstrip().startswith("|") or "://" in line):
                continue  # a table row or an address cannot be broken
            if len(line) > COLUMNS_MAX:
                yield Finding(path, number, f"{len(line)} columns, at most {COLUMNS_MAX}")
            if line != line.rstrip() and path not in markdown:
                yield Finding(path, number, "space at the end of the line")


def check_file_length(tree):
    for path in tree.code():
        count = len(tree.lines(path))
        if count > FILE_LINES_MAX:
            yield Finding(path, FILE_LINES_MAX, f"{count} lines, at most {FILE_LINES_MAX}")


CPP_TOKEN = re.compile(
    r'//[^\n]*(?:\\\n[^\n]*)*'               # line comment
    r'|/\*.*?\*/'                            # block comment
    r'|(?:u8|[uUL])?R"([^()\\ ]{0,16})\(.*?\)\1"'  # raw string
    r'|(?<![0-9a-fA-F])\'(?:\\.|[^\\\'\n])+\''     # character; not a digit separator
    r'|"(?:\\.|[^"\\\n])*"',                 # string
    re.DOTALL)


def blank(text):
    """Spaces for everything but newlines, so that offsets and lines stay."""
    return re.sub(r"[^\n]", " ", text)


def strip_cpp(text):
    """C++ without comments, literals, directives and #else branches; offsets are kept."""
    def replace(match):
        token = match.group(0)
        return blank(token) if token.startswith(("//", "/*")) else '"' + blank(token)[2:] + '"'

    lines = CPP_TOKEN.sub(replace, text).split("\n")
    skipping = []  # per open #if: whether its current branch is left out
    continued = False
    for index, line in enumerate(lines):
        directive = re.match(r"\s*#\s*(\w+)", line)
        word = directive.group(1) if directive else ""
        if word in ("if", "ifdef", "ifndef"):
            skipping.append(False)
        elif word in ("else", "elif") and skipping:
            skipping[-1] = True
        elif word == "endif" and skipping:
            skipping.pop()
        is_directive = directive is not None or continued
        continued = is_directive and line.rstrip().endswith("\\")
        if is_directive or any(skipping):
            lines[index] = " " * len(line)
    return "\n".join(lines)


SCOPE_HEAD = re.compile(r"(inline\s+)?namespace\b|extern\s*\"\s*\"\s*$")
CLASS_HEAD = re.compile(r"(template\s*<.*>\s*)?(typedef\s+)?(class|struct|union)\b")
ENUM_HEAD = re.compile(r"(typedef\s+)?enum\b")
LAMBDA_HEAD = re.compile(r"\)\s*(mutable|noexcept)?\s*(->[^()]*)?$")


def match_brace(code, start):
    """The offset of the brace that closes the one at start, or -1."""
    depth = 0
    for match in re.compile(r"[{}]").finditer(code, start):
        depth += 1 if match.group(0) == "{" else -1
        if depth == 0:
            return match.start()
    return -1


def is_class(head):
    if not CLASS_HEAD.match(head):
        return False
    # struct Foo Make() { is a function: its parenthesis stands at the end, before any base list.
    return not re.search(r"\)\s*(const|noexcept|override|final)?\s*$", head)


def cpp_functions(text):
    """Yields (first line, number of lines) of each function at namespace or class scope."""
    code = strip_cpp(text)
    position, head_start, depth = 0, None, 0
    while position < len(code):
        char = code[position]
        if head_start is None and not char.isspace() and char not in ";}{":
            head_start = position
        if char == ";" and depth == 0:
            head_start = None
        elif char in "()":
            depth += 1 if char == "(" else -1
        elif char == "}":
            head_start = None
        elif char == "{":
            head = code[head_start:position].strip() if head_start is not None else ""
            head = re.sub(r"^((public|private|protected)\s*:\s*)+|\[\[.*?\]\]\s*", "", head)
            if SCOPE_HEAD.match(head) or is_class(head):
                head_start = None
            else:
                end = match_brace(code, position)
                if end < 0:
                    yield code.count("\n", 0, position) + 1, -1
                    return
                after = code[end + 1:end + 200].lstrip()[:1]
                goes_on = depth > 0 or (after != "" and after in ",{;)(.") and not (
                    after == ";" and LAMBDA_HEAD.search(head))
                if "(" in head and not goes_on and not ENUM_HEAD.match(head) \
                        and not head.endswith("="):
                    first = code.count("\n", 0, head_start)
                    yield first + 1, code.count("\n", 0, end) - first + 1
                if not goes_on:
                    head_start = None
                position = end
        position += 1


NAMESPACE_HEAD = re.compile(r"(inline\s+)?namespace\b\s*([\w:]*)")
TYPE_NAME = re.compile(r"(?:template\s*<.*>\s*)?"
                       r"(?:class|struct|union|enum(?:\s+(?:class|struct))?)\s+"
                       r"(?:alignas\s*\([^)]*\)\s*)?(\w+)\s*(?:final\s*)?(?::[^:]|$)", re.DOTALL)


def cpp_types(text):
    """Yields (line, qualified name) of each type that is defined at the scope of a named namespace.

    What stands in an unnamed namespace, in a class or in a function is nobody else's.
    """
    code = strip_cpp(text)
    spaces, ends, position, head_start = [], [], 0, 0
    while position < len(code):
        char = code[position]
        if ends and position == ends[-1]:
            ends.pop()
            spaces.pop()
            head_start = position + 1
        elif char == ";":
            head_start = position + 1
        elif char == "{":
            end = match_brace(code, position)
            if end < 0:
                return
            head = re.sub(r"\[\[.*?\]\]", "", code[head_start:position]).strip()
            namespace = NAMESPACE_HEAD.match(head)
            if namespace:
                spaces.append(namespace.group(2))
                ends.append(end)
            else:
                type_name = TYPE_NAME.match(head + " ")
                is_type = ENUM_HEAD.match(head) or is_class(head)
                if type_name and is_type and all(spaces):
                    line = code.count("\n", 0, head_start + len(code[head_start:position])) + 1
                    yield line, "::".join([*spaces, type_name.group(1)])
                position = end
            head_start = position + 1
        position += 1


def check_one_definition(tree):
    """Two types of one qualified name in one program are one type to the linker, at random."""
    seen = {}  # (program, name) -> where
    for path in tree.cpp():
        # Each folder of tests is a program of its own; all other folders are linked into one.
        program = path.rsplit("/", 1)[0] if path.startswith("tests/") else ""
        for line, name in cpp_types(tree.text(path)):
            first = seen.setdefault((program, name), path)
            if first != path:
                yield Finding(path, line, f"{name} is defined in {first} too: rename one")


def namespace_of(folder):
    """The namespace of a library folder's code; None for a folder that is no library."""
    words = folder.split("/")
    if words[0] not in LIBRARY_FOLDERS:
        return None
    if words[0] == "base":
        words = []
    elif words[:2] == ["engine", "text"]:
        words = words[2:]
    elif words[0] in ("engine", "gateway") and len(words) > 1:
        words = words[1:]
    elif words[0] == "sdk":
        words = ["sdk", *words[2:]] if words[1:2] == ["src"] else []
    return "::".join(["kvgate", *words])


def outer_namespaces(code):
    """Yields (line, name, text inside) of each namespace that stands in no other one."""
    position = 0
    while (match := re.compile(r"\bnamespace\b\s*([\w:]*)\s*\{").search(code, position)):
        end = match_brace(code, match.end() - 1)
        if end < 0:
            return
        yield code.count("\n", 0, match.start()) + 1, match.group(1), code[match.end():end]
        position = end


def check_namespaces(tree):
    folders = {path.rsplit("/", 1)[0] for path in tree.cpp()}
    for path in tree.cpp():
        folder = path.rsplit("/", 1)[0].removeprefix("tests/")
        own = namespace_of(folder)
        # Helpers of tests may stand beside what they replace; tests stand with what they test.
        if own is None or folder not in folders or \
                (path.startswith("tests/") and "_test." not in path):
            continue
        for line, name, inside in outer_namespaces(strip_cpp(tree.text(path))):
            # Another room's classes and functions may be declared, but nothing is defined there.
            declares_only = not path.startswith("tests/") and "{" not in inside
            if name.startswith("kvgate") and name != own and not declares_only \
                    and NAMESPACES_OF_OTHERS.get(path, ("",))[0] != name:
                yield Finding(path, line, f"namespace {name}: the code of {folder} stands in {own}")
    for path, (name, _) in NAMESPACES_OF_OTHERS.items():
        opened = [n for _, n, _ in outer_namespaces(strip_cpp(tree.text(path)))] \
            if path in tree.known else []
        if name not in opened:
            yield Finding("tests/tidy_tables.py", 1, f"the exception for {path} is not needed")


CLASS_NAME = re.compile(r"(?:template\s*<.*>\s*)?(?:class|struct|union)\s+"
                        r"(?:alignas\s*\([^)]*\)\s*)?([\w:]+)", re.DOTALL)


def cpp_scopes(code, begin=0, end=None, names=()):
    """Yields (offset, kind, names around, head, body) of the classes and functions in a file."""
    end = len(code) if end is None else end
    position, head_start, depth = begin, begin, 0
    while position < end:
        char = code[position]
        if char in "()":
            depth += 1 if char == "(" else -1
        elif char == ";" and depth == 0:
            head_start = position + 1
        elif char == "{":
            close = match_brace(code, position)
            if close < 0:
                return
            head = re.sub(r"^((public|private|protected)\s*:\s*)+|\[\[.*?\]\]\s*", "",
                          code[head_start:position].strip())
            namespace = NAMESPACE_HEAD.match(head)
            body = (position + 1, close)
            if namespace:
                inner = [n for n in namespace.group(2).split("::") if n]
                yield from cpp_scopes(code, *body, (*names, *inner))
            elif is_class(head) and (name := CLASS_NAME.match(head)):
                yield position, "class", names, name.group(1), code[slice(*body)]
                yield from cpp_scopes(code, *body, (*names, name.group(1)))
            elif "(" in head:
                yield position, "function", names, head, ""
            if namespace or is_class(head) or code[close + 1:].lstrip()[:1] not in tuple(",;({)"):
                head_start = close + 1
            position = close
        position += 1


def class_methods(body):
    """The names of the methods that a class's body declares."""
    flat, depth = [], 0
    for char in body:
        depth += (char == "{") - (char == "}")
        if char == "}" and depth == 0:
            flat.append("{}")
        elif depth == 0:
            flat.append(char)
    text = re.sub(r"\[\[.*?\]\]|\b(public|private|protected)\s*:(?!:)", "", "".join(flat),
                  flags=re.DOTALL)
    for statement in re.split(r";|\{\}(?!\s*[,;({)])", text):
        if re.match(r"\s*(using|friend|static_assert|typedef|enum)\b|.*\boperator\b", statement,
                    re.DOTALL):
            continue
        while statement != (shorter := re.sub(r"<[^<>]*>|\b(alignas|decltype|noexcept|explicit)"
                                              r"\s*\([^()]*\)", "", statement)):
            statement = shorter
        name = re.search(r"(~?\w+)\s*\((?!\s*\*)", statement.split("=")[0])
        if name:
            yield name.group(1)


def library_classes(tree):
    """Yields (path, line, qualified name, body) of each class of a library."""
    for path in tree.cpp():
        if path.split("/")[0] in LIBRARY_FOLDERS:
            code = strip_cpp(tree.text(path))
            for offset, kind, names, name, body in cpp_scopes(code):
                if kind == "class":
                    line = code.count("\n", 0, offset) + 1
                    yield path, line, "::".join([*names, name]), body


def check_class_size(tree):
    seen = {}
    for path, line, name, body in library_classes(tree):
        last = name.rsplit("::", 1)[-1]
        count = sum(method.lstrip("~") != last for method in class_methods(body))
        bound = CLASSES_OF_MANY_METHODS.get(name, (CLASS_METHODS_MAX,))[0]
        seen[name] = max(count, seen.get(name, 0))
        if count > bound:
            yield Finding(path, line, f"{name} has {count} methods, at most {bound}: divide it")
    for name, (bound, _) in CLASSES_OF_MANY_METHODS.items():
        if seen.get(name, 0) < bound:
            yield Finding("tests/tidy_tables.py", 1, f"{name} has {seen.get(name, 0)} methods: "
                                                     f"lower its bound of {bound}")


def check_class_sources(tree):
    """A class is defined in one source: what needs several is too big, not too long."""
    classes = {}  # simple name -> [(path, qualified name)]
    for path, _, name, _ in library_classes(tree):
        classes.setdefault(name.rsplit("::", 1)[-1], []).append((path, name))
    sources = {}  # qualified name -> paths
    for path in tree.with_suffix(".cc", ".cu"):
        if path.split("/")[0] not in LIBRARY_FOLDERS:
            continue
        for _, kind, names, head, _ in cpp_scopes(strip_cpp(tree.text(path))):
            while head != (shorter := re.sub(r"<[^<>]*>", "", head)):
                head = shorter
            method = re.search(r"((?:\w+::)+)(?:~?\w+|operator[^(]*)\s*$", head.split("(")[0])
            if kind != "function" or not method:
                continue
            owner = next((w for w in method.group(1).split("::") if w[:1].isupper()), "")
            here = "::".join(names)
            known = classes.get(owner, ())
            found = [n for _, n in known if n.startswith(here + "::")]
            # A class that stands in a source is that source's own.
            if found and path not in [p for p, _ in known]:
                sources.setdefault(found[0], set()).add(path)
    for name, paths in sorted(sources.items()):
        if len(paths) > 1 and name not in CLASSES_IN_MANY_SOURCES:
            yield Finding(max(paths), 1, f"{name} is defined in {', '.join(sorted(paths))}: "
                                         "divide the class")
    for name in CLASSES_IN_MANY_SOURCES:
        if len(sources.get(name, ())) < 2:
            yield Finding("tests/tidy_tables.py", 1, f"the exception for {name} is not needed")


def check_function_length(tree):
    for path in tree.cpp():
        for line, count in cpp_functions(tree.text(path)):
            if count < 0:
                yield Finding(path, line, "the braces that open here never close")
            elif count > FUNCTION_LINES_MAX:
                yield Finding(path, line,
                              f"function of {count} lines, at most {FUNCTION_LINES_MAX}")
    for path in tree.code():
        if Path(path).suffix != ".py" and "python3" not in (tree.lines(path) or [""])[0]:
            continue
        try:
            module = ast.parse(tree.text(path))
        except SyntaxError as error:
            yield Finding(path, error.lineno or 1, f"does not parse: {error.msg}")
            continue
        for node in ast.walk(module):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                count = node.end_lineno - node.lineno + 1
                if count > FUNCTION_LINES_MAX:
                    yield Finding(path, node.lineno,
                                  f"function of {count} lines, at most {FUNCTION_LINES_MAX}")


def check_headers(tree):
    for path in tree.with_suffix(".h", ".cuh"):
        # Highway's -inl.h files are meant to be included once per SIMD target.
        if not path.endswith("-inl.h") and "#pragma once" not in tree.lines(path):
            yield Finding(path, 1, "a header needs #pragma once")
    for path in tree.with_suffix(".cc", ".cu"):
        stem = path.rsplit(".", 1)[0]
        if stem + ".h" in tree.known:
            own = (stem + ".h", '"')
        else:
            continue
        first = next(includes(tree, path), (1, "", ""))
        if (first[2], first[1]) != own:
            yield Finding(path, first[0], f"the first include must be its own header, {own[0]}")


STRAY = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "X" * 3, "HA" + "CK"]) + r")\b")


def check_stray_marks(tree):
    for path in tree.files:
        if path in GENERATED:
            continue
        for number, line in enumerate(tree.lines(path), 1):
            match = STRAY.search(line)
            if match:
                yield Finding(path, number, f"stray {match.group(1)}: do it, or open an issue")


TEMP_FOLDER = "tests/base/temp_folder.h"
TEMPORARY_PLACE = re.compile(r"temp_directory_path\(|TempDir\(|mkdtemp\(")
MACHINE_PATH = re.compile(r"(?<![\w.\-/$}~])/(work|root|home|Users)/[\w.]")


def check_machine_paths(tree):
    for path in tree.files:
        if path in GENERATED:
            continue
        for number, line in enumerate(tree.lines(path), 1):
            match = MACHINE_PATH.search(line)
            if match:
                yield Finding(path, number, f"a path of one machine: /{match.group(1)}/...")


def check_temporary_places(tree):
    """Tests run beside each other: what two of them write under one fixed name, both may read."""
    for path in tree.with_suffix(".cc", ".h"):
        if not path.startswith("tests/") or path == TEMP_FOLDER:
            continue
        for number, line in enumerate(tree.lines(path), 1):
            if TEMPORARY_PLACE.search(line):
                yield Finding(path, number, f"a temporary place of its own making: {TEMP_FOLDER}")


def check_blobs(tree):
    for path in tree.files:
        size = (tree.root / path).stat().st_size
        largest = LARGER_BLOBS.get(path, BLOB_BYTES_MAX)
        if size > largest:
            yield Finding(path, 1, f"{size} bytes, at most {largest}")


RULES = [check_include_direction, check_circles, check_folder_size, check_third_party,
         check_mirror, check_columns,
         check_file_length, check_function_length, check_headers, check_stray_marks,
         check_machine_paths, check_temporary_places, check_one_definition, check_namespaces,
         check_class_size, check_class_sources, check_blobs, check_readmes, check_pictures,
         check_commented_code, check_scripts]


def findings(root):
    tree = Tree(root)
    return sorted({finding for rule in RULES for finding in rule(tree)})


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    found = findings(root)
    for finding in found:
        print(f"{finding.path}:{finding.line}: {finding.what}")
    print(f"tidy: {len(Tree(root).files)} files, {len(found)} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
