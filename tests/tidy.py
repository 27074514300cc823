#!/usr/bin/env python3
"""Checks that the tree follows the house rules; prints FILE:LINE: WHAT and exits 1 where not.

Rules are functions from a Tree to findings, listed in RULES. What is allowed by exception stands in
the tables below with its reason; an exception that no longer matches a file is itself a finding.
Usage: tidy.py [ROOT]
"""

import ast
import os
import re
import stat
import sys
from collections import namedtuple
from pathlib import Path

COLUMNS_MAX = 100
FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 700
README_LINES_MAX = 60
BLOB_BYTES_MAX = 300 * 1024

SKIPPED_FOLDERS = {".git", "build", "node_modules", ".cache", ".ccache", "__pycache__"}
LIBRARY_FOLDERS = ("sdk", "kernels", "store", "engine", "gateway")
CPP_SUFFIXES = {".cc", ".h", ".cu", ".cuh"}
CODE_SUFFIXES = CPP_SUFFIXES | {".py", ".sh", ".mjs", ".js", ".cmake"}
GENERATED = {"tests/clients/package-lock.json", "LICENSE"}

# Which top folders a folder's files may include, beside itself and <kvgate/...>.
MAY_INCLUDE = {
    "sdk/include": set(),
    "sdk/leaf": set(),
    "sdk/src": {"gateway"},
    "kernels": set(),
    "store": set(),
    "engine": {"kernels", "store"},
    "gateway": {"engine", "kernels", "store"},
}
# Inside a top folder: who must not include whom, and why.
MUST_NOT_INCLUDE = [
    ("kernels/reference", ("kernels/cpu", "kernels/cuda"), "the specification depends on nobody"),
    ("kernels/cpu", ("kernels/reference", "kernels/cuda"), "backends do not know each other"),
    ("kernels/cuda", ("kernels/reference", "kernels/cpu"), "backends do not know each other"),
    ("gateway/protocol", ("gateway/http", "gateway/service"), "dialects know no sockets"),
    ("gateway/service", ("gateway/http", "gateway/cli"), "the life of a request has no sockets"),
    ("gateway/provider", ("gateway/http", "gateway/cli"), "providers yield events, not HTTP"),
    ("gateway/ledger", ("gateway/http", "gateway/cli", "gateway/service"),
     "accounts know no sockets"),
    ("gateway/upstream", ("gateway/http", "gateway/service"), "upstreams know no clients"),
    ("gateway/prompt", ("gateway/http", "gateway/service"), "prompts know no sockets"),
    ("gateway/translate", ("gateway/http", "gateway/service"), "translation knows no sockets"),
    ("gateway/replay", ("gateway/http", "gateway/service"), "traces know no sockets"),
    ("engine/grammar", ("engine/sample", "engine/schedule", "engine/kv"),
     "a grammar knows no requests"),
    ("engine/jinja", ("engine/template", "engine/tokenizer", "engine/model"),
     "a language knows no models"),
    ("engine/tokenizer", ("engine/schedule", "engine/kv"), "text knows no KV"),
    ("engine/kv", ("engine/schedule",), "blocks do not know who uses them"),
]
# Third-party headers that belong to one place: (pattern, path prefixes, its name).
THIRD_PARTY = [
    (r"boost/", ("gateway/", "sdk/src/"), "Boost"),
    (r"rocksdb/", ("store/rocks_",), "RocksDB"),
    (r"hwy/", ("kernels/cpu/",), "Highway"),
    (r"(immintrin|x86intrin|arm_neon)\.h", ("kernels/cpu/",), "intrinsics"),
    (r"(cuda|cublas|cuda_\w+|cublas\w+)\.h|cooperative_groups|cub/", ("kernels/cuda/",), "CUDA"),
]
# Tests that mirror no single file: path -> reason.
TESTS_WITHOUT_SOURCE = {
    "tests/complexity/bodies_complexity_test.cc": "the same of bodies, answers and replies",
    "tests/complexity/complexity_test.cc": "how cost grows with input, over several folders",
    "tests/engine/grammar/mask_memory_test.cc": "allocations of masks that fail",
    "tests/engine/kv/eviction_trace_test.cc": "pool and prefix cache together, on traces",
    "tests/engine/engine_device_test.cc": "the engine where KV lies in a device's memory",
    "tests/engine/engine_bounded_promise_test.cc": "the same under every context policy",
    "tests/engine/engine_promise_test.cc": "the promise of the product over the whole engine",
    "tests/store/rocks_data_directory_faults_test.cc": "whole data directories under faults",
    "tests/engine/engine_windows_test.cc": "the same where layers have windows",
    "tests/engine/simulation/engine_memory_test.cc": "allocations of the engine's thread that fail",
    "tests/engine/simulation/simulation_test.cc": "the engine on one simulated clock and disk",
    "tests/engine/model/architecture_formats_test.cc": "every architecture in every weight format",
    "tests/gateway/prompt/break_generator_test.cc": "breaks planted at random are named",
    "tests/gateway/protocol/client_needs_test.cc": "what clients need of every encoder",
    "tests/gateway/provider/round_trip_test.cc": "calls, from a template's text to the parser's",
    "tests/kernels/conformance_attention_invariance_test.cc": "one suite for all backends",
    "tests/kernels/conformance_attention_test.cc": "one suite for all backends",
    "tests/kernels/conformance_experts_test.cc": "one suite for all backends",
    "tests/kernels/conformance_invariance_test.cc": "one suite for all backends",
    "tests/kernels/conformance_kv_test.cc": "one suite for all backends",
    "tests/kernels/conformance_matmul_test.cc": "one suite for all backends",
    "tests/kernels/conformance_rows_test.cc": "one suite for all backends",
    "tests/kernels/conformance_sampling_test.cc": "one suite for all backends",
}
# Library sources that another test than their mirror's shows to work: path -> that test.
TESTED_ELSEWHERE = {
    "engine/engine_loop.cc": "tests/engine/engine_test.cc",
    "engine/step_runner.cc": "tests/engine/engine_test.cc",
    "engine/write_backs.cc": "tests/engine/engine_test.cc",
    "engine/grammar/schema_arguments.cc": "tests/engine/reply/reply_grammar_test.cc",
    "engine/grammar/schema_collections.cc": "tests/engine/grammar/json_schema_test.cc",
    "engine/grammar/schema_names.cc": "tests/engine/grammar/json_schema_test.cc",
    "engine/grammar/schema_values.cc": "tests/engine/grammar/json_schema_test.cc",
    "engine/jinja/collection_methods.cc": "tests/engine/jinja/expressions_test.cc",
    "engine/jinja/expression_parser.cc": "tests/engine/jinja/parser_test.cc",
    "engine/jinja/function.cc": "tests/engine/jinja/parser_test.cc",
    "engine/jinja/globals.cc": "tests/engine/jinja/expressions_test.cc",
    "engine/jinja/heap.cc": "tests/engine/jinja/limits_test.cc",
    "engine/jinja/number_format.cc": "tests/engine/jinja/formatting_test.cc",
    "engine/jinja/operators.cc": "tests/engine/jinja/expressions_test.cc",
    "engine/jinja/printing.cc": "tests/engine/jinja/expressions_test.cc",
    "engine/jinja/runtime.cc": "tests/engine/jinja/expressions_test.cc",
    "engine/jinja/scopes.cc": "tests/engine/jinja/evaluator_test.cc",
    "engine/jinja/unicode_tables.cc": "tests/engine/jinja/unicode_test.cc",
    "engine/model/metadata.cc": "tests/engine/model/model_config_test.cc",
    "engine/model/model_file.cc": "tests/engine/model/gguf_test.cc",
    "engine/model/model_file.cc": "tests/engine/model/gguf_test.cc",
    "engine/reply/call_body.cc": "tests/engine/reply/tag_parser_test.cc",
    "engine/reply/object_body.cc": "tests/engine/reply/tag_parser_test.cc",
    "engine/schedule/bounded_context.cc": "tests/engine/schedule/scheduler_test.cc",
    "engine/schedule/restorer.cc": "tests/engine/schedule/scheduler_test.cc",
    "engine/schedule/step_plan.cc": "tests/engine/schedule/scheduler_test.cc",
    "engine/schedule/windowed_admission.cc": "tests/engine/schedule/window_groups_test.cc",
    "engine/tokenizer/special_matcher.cc": "tests/engine/tokenizer/tokenizer_test.cc",
    "engine/tokenizer/word_table.cc": "tests/engine/tokenizer/bpe_tokenizer_test.cc",
    "gateway/cli/bench.cc": "tests/gateway/cli/bench_engine_test.cc",
    "gateway/cli/cache.cc": "tests/e2e/cli_test.py",
    "gateway/cli/chat.cc": "tests/e2e/cli_test.py",
    "gateway/cli/doctor.cc": "tests/e2e/doctor_test.py",
    "gateway/cli/explain.cc": "tests/e2e/modes_test.py",
    "gateway/cli/local_engine.cc": "tests/e2e/main_path_test.py",
    "gateway/cli/main.cc": "tests/e2e/main_path_test.py",
    "gateway/cli/plan.cc": "tests/e2e/cli_test.py",
    "gateway/cli/record.cc": "tests/e2e/replay_test.py",
    "gateway/cli/render.cc": "tests/e2e/cli_test.py",
    "gateway/cli/replay.cc": "tests/e2e/replay_test.py",
    "gateway/cli/serve.cc": "tests/e2e/lifecycle_test.py",
    "gateway/cli/stats.cc": "tests/e2e/ledger_test.py",
    "gateway/cli/tools.cc": "tests/e2e/cli_test.py",
    "gateway/cli/warm.cc": "tests/e2e/pin_test.py",
    "gateway/http/connection_access.cc": "tests/e2e/forward_test.py",
    "gateway/http/connection_completions.cc": "tests/gateway/http/connection_test.cc",
    "gateway/http/connection_explain.cc": "tests/e2e/modes_test.py",
    "gateway/http/connection_group.cc": "tests/gateway/http/server_test.cc",
    "gateway/http/connection_models.cc": "tests/e2e/forward_test.py",
    "gateway/http/connection_calls.cc": "tests/e2e/hanging_disk_test.py",
    "gateway/http/connection_work.cc": "tests/e2e/hanging_disk_test.py",
    "gateway/http/service_call.cc": "tests/e2e/responses_test.py",
    "gateway/http/forwarding.cc": "tests/e2e/forward_test.py",
    "gateway/http/routing.cc": "tests/e2e/route_test.py",
    "gateway/http/translated_answer.cc": "tests/e2e/translate_test.py",
    "gateway/prompt/draft.cc": "tests/gateway/prompt/pin_test.cc",
    "gateway/prompt/edit.cc": "tests/gateway/prompt/optimizer_test.cc",
    "gateway/prompt/element_reader.cc": "tests/gateway/prompt/outline_test.cc",
    "gateway/prompt/markers.cc": "tests/gateway/prompt/optimizer_test.cc",
    "gateway/prompt/past_volatile.cc": "tests/gateway/prompt/stabilize_test.cc",
    "gateway/prompt/recognition.cc": "tests/gateway/prompt/optimizer_test.cc",
    "gateway/prompt/segment_text.cc": "tests/gateway/prompt/outline_test.cc",
    "gateway/prompt/sources.cc": "tests/gateway/prompt/outline_test.cc",
    "gateway/prompt/turn_memo.cc": "tests/gateway/prompt/outline_test.cc",
    "gateway/prompt/volatile_values.cc": "tests/gateway/prompt/volatile_text_test.cc",
    "gateway/protocol/json_value.cc": "tests/gateway/protocol/chat_completions_test.cc",
    "gateway/protocol/messages_encoder.cc": "tests/gateway/protocol/messages_test.cc",
    "gateway/protocol/responses_encoder.cc": "tests/gateway/protocol/responses_test.cc",
    "gateway/protocol/tools.cc": "tests/gateway/protocol/chat_completions_test.cc",
    "gateway/replay/cache_model.cc": "tests/gateway/replay/openai_cache_test.cc",
    "gateway/replay/columns.cc": "tests/gateway/replay/replay_test.cc",
    "gateway/service/conversation_store.cc": "tests/gateway/service/conversations_test.cc",
    "gateway/service/kept_items.cc": "tests/gateway/service/conversations_test.cc",
    "gateway/service/response_store.cc": "tests/gateway/service/responses_test.cc",
    "gateway/translate/chat_reply.cc": "tests/gateway/translate/reply_translator_test.cc",
    "gateway/translate/chat_request.cc": "tests/gateway/translate/request_translator_test.cc",
    "gateway/translate/dialect_fields.cc": "tests/gateway/translate/request_translator_test.cc",
    "gateway/translate/messages_reply.cc": "tests/gateway/translate/reply_translator_test.cc",
    "gateway/translate/messages_request.cc": "tests/gateway/translate/request_translator_test.cc",
    "gateway/translate/reply_writer.cc": "tests/gateway/translate/reply_translator_test.cc",
    "gateway/translate/responses_reply.cc": "tests/gateway/translate/reply_translator_test.cc",
    "gateway/translate/responses_request.cc": "tests/gateway/translate/request_translator_test.cc",
    "gateway/upstream/channel.cc": "tests/gateway/upstream/exchange_test.cc",
    "kernels/cpu/attention.cc": "tests/kernels/conformance_attention_test.cc",
    "kernels/cpu/attention_kernels.cc": "tests/kernels/conformance_attention_test.cc",
    "kernels/cpu/matmul_kernels.cc": "tests/kernels/conformance_matmul_test.cc",
    "kernels/cpu/matmul_plane_kernels.cc": "tests/kernels/conformance_matmul_test.cc",
    "kernels/cpu/matmul_quant_kernels.cc": "tests/kernels/conformance_matmul_test.cc",
    "kernels/cpu/simd_target.cc": "tests/kernels/conformance_invariance_test.cc",
    "kernels/cuda/cublas_lt.cc": "tests/kernels/cuda/matmul_test.cc",
    "kernels/cuda/matmul_few.cu": "tests/kernels/cuda/matmul_test.cc",
    "kernels/cuda/matmul_many.cu": "tests/kernels/cuda/matmul_test.cc",
    "kernels/cuda/matmul_warpgroup.cu": "tests/kernels/cuda/matmul_test.cc",
    "kernels/cuda/matmul_rows.cu": "tests/kernels/cuda/matmul_test.cc",
    "kernels/cuda/embedding_tables.cu": "tests/kernels/conformance_rows_test.cc",
    "kernels/cuda/row_kernels.cu": "tests/kernels/conformance_rows_test.cc",
    "kernels/experts.cc": "tests/kernels/conformance_experts_test.cc",
    "kernels/reference/reference_memory.cc": "tests/kernels/reference/reference_backend_test.cc",
    "sdk/leaf/ids.cc": "tests/sdk/leaf/digest_test.cc",
    "store/rocks_common.cc": "tests/store/rocks_kv_database_test.cc",
    "kernels/cuda/attention_bf16.cu": "tests/kernels/cuda/attention_test.cc",
    "kernels/cuda/attention_float.cu": "tests/kernels/cuda/attention_test.cc",
    "kernels/cuda/attention_e4m3.cu": "tests/kernels/cuda/attention_test.cc",
    "kernels/cuda/attention_half.cu": "tests/kernels/cuda/attention_test.cc",
    "kernels/cuda/attention_quant.cu": "tests/kernels/cuda/attention_test.cc",
    "kernels/cuda/kv_kernels.cu": "tests/kernels/cuda/device_kv_arena_test.cc",
}
# Library sources without any test: path -> reason.
SOURCES_WITHOUT_TEST = {
    "kernels/cuda/no_cuda_backend.cc": "three constants, under the names the tests link otherwise",
    "sdk/leaf/check.cc": "prints and aborts; each KVGATE_CHECK death test runs it",
    "sdk/leaf/log.cc": "formatting of lines for people; its callers' output is tested end to end",
    "sdk/leaf/result.cc": "names for messages; every error test reads them",
}
# Folders whose sources are described one level up.
FOLDERS_WITHOUT_README = {
    "sdk/include/kvgate": "sdk/README.md",
    "sdk/leaf": "sdk/README.md",
    "scripts/lib": "scripts/README.md",
}
# Folders under tests/ that are more than the mirror of a library folder.
TEST_FOLDERS_WITH_README = ("tests", "tests/e2e", "tests/clients", "tests/support")

Finding = namedtuple("Finding", "path line what")


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


def layer_of(path):
    """The key of MAY_INCLUDE that governs a path; a test is governed like what it tests."""
    parts = path.split("/")
    if parts[0] == "tests":
        parts = parts[1:]
    if len(parts) > 1 and parts[0] == "sdk":
        return "/".join(parts[:2])
    return parts[0] if parts and parts[0] in MAY_INCLUDE else None


def check_include_direction(tree):
    for path in tree.cpp():
        layer = layer_of(path)
        if layer is None:
            continue
        own = layer.split("/")[0]
        allowed = MAY_INCLUDE.get(layer, set()) | {own}
        if path.startswith("tests/"):
            allowed = allowed | {"tests"}
        for line, quote, included in includes(tree, path):
            top = included.split("/")[0]
            if top == "sdk" and quote == '"' and own != "sdk":
                yield Finding(path, line, f'"{included}": public headers are <kvgate/...>')
            elif top in LIBRARY_FOLDERS and top not in allowed:
                yield Finding(path, line, f"{layer} must not include {top}/ ({included})")
            elif quote == '"' and ("/" not in included or included.startswith(".")):
                yield Finding(path, line, f'"{included}": includes are rooted at the repository')
            if path.startswith("tests/"):
                continue
            for folder, banned, why in MUST_NOT_INCLUDE:
                if path.startswith(folder + "/") and included.startswith(
                        tuple(b + "/" for b in banned)):
                    yield Finding(path, line, f"{folder} must not include {included}: {why}")


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
            public = "sdk/include/kvgate/" + Path(source).name + ".h"
            there = {source + s for s in CPP_SUFFIXES} & tree.known or public in tree.known
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
                yield Finding("tests/tidy.py", 1, f"the exception for {path} is no longer needed")


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
        elif path.startswith("sdk/") and f"sdk/include/kvgate/{Path(stem).name}.h" in tree.known:
            own = (f"kvgate/{Path(stem).name}.h", "<")
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


MACHINE_PATH = re.compile(r"(?<![\w.\-/$}~])/(work|root|home|Users)/[\w.]")


def check_machine_paths(tree):
    for path in tree.files:
        if path in GENERATED:
            continue
        for number, line in enumerate(tree.lines(path), 1):
            match = MACHINE_PATH.search(line)
            if match:
                yield Finding(path, number, f"a path of one machine: /{match.group(1)}/...")


def check_blobs(tree):
    for path in tree.files:
        size = (tree.root / path).stat().st_size
        if size > BLOB_BYTES_MAX:
            yield Finding(path, 1, f"{size} bytes, at most {BLOB_BYTES_MAX}")


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


RULES = [check_include_direction, check_third_party, check_mirror, check_columns,
         check_file_length, check_function_length, check_headers, check_stray_marks,
         check_machine_paths, check_one_definition, check_blobs, check_readmes,
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
