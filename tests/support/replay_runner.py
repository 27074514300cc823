"""Runs `kvgate replay` on made-up traces and reads what it printed; and judges what was sent."""

import collections
import json
import subprocess
import tempfile
from pathlib import Path

import agent_sessions

MARKERS = ("cache_control", "prompt_cache_breakpoint")
ADDED = ("prompt_cache_key", "prompt_cache_options")


def run(binary, trace, *arguments, timeout=300):
    """(exit status, standard output, standard error) of `kvgate replay`."""
    done = subprocess.run([binary, "replay", trace, *arguments], capture_output=True, text=True,
                          timeout=timeout)
    return done.returncode, done.stdout, done.stderr


def json_lines(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def columns(binary, trace, modes=("pin", "stabilize"), arguments=()):
    """{column: its numbers} of a trace with one provider."""
    status, out, err = run(binary, trace, "--json", "--modes", ",".join(modes), *arguments)
    if status != 0:
        raise AssertionError(f"kvgate replay: {status}: {err}")
    (found,) = json.loads(out)["providers"].values()
    return found


class Trace:
    """A made-up trace in a file of its own; `with Trace(options) as path`."""

    def __init__(self, options):
        self.options = options

    def __enter__(self):
        self.file = tempfile.NamedTemporaryFile(prefix="kvgate-trace-", suffix=".jsonl")
        agent_sessions.write(self.file.name, self.options)
        return self.file.name

    def __exit__(self, *_):
        self.file.close()


def replayed(binary, options, modes=("pin", "stabilize"), arguments=()):
    with Trace(options) as path:
        return columns(binary, path, modes, arguments)


def sent_bodies(binary, options, modes=("pin", "stabilize"), arguments=()):
    """(the trace's lines, what was sent and answered line by line) of a replay."""
    with Trace(options) as path, tempfile.TemporaryDirectory() as folder:
        kept = Path(folder, "sent.jsonl")
        columns(binary, path, modes, ("--sent", str(kept), *arguments))
        return json_lines(path), json_lines(kept)


# --- meaning --------------------------------------------------------------------------------------

def meaning(value):
    """A value without cache markers; line ends and the order of keys do not count, a text that
    holds an object (a call's arguments) is that object, one part of text is the text."""
    if isinstance(value, list):
        made = [meaning(item) for item in value]
        is_text = len(made) == 1 and isinstance(made[0], dict) and set(made[0]) == {"type", "text"}
        return made[0]["text"] if is_text else made
    if isinstance(value, dict):
        return {key: meaning(item) for key, item in value.items() if key not in MARKERS}
    if isinstance(value, str):
        if value.startswith("{"):
            try:
                return meaning(json.loads(value))
            except ValueError:
                pass
        return value.replace("\r\n", "\n")
    return value


def meaning_of_body(text):
    """What a body asks for: tools are a set, cache keys are nothing."""
    body = meaning(json.loads(text))
    for name in ADDED:
        body.pop(name, None)
    if "tools" in body:
        body["tools"] = sorted(body["tools"], key=lambda tool: json.dumps(tool, sort_keys=True))
    return body


def system_of(body):
    """The system prompt of what `meaning_of_body` gave."""
    turns = [turn["content"] for turn in body.get("messages", [])[:1] if turn["role"] == "system"]
    return [body.get("system", []), body.get("instructions", []), turns]


def prompt_lines(body):
    """How often each line of text stands in what `meaning_of_body` gave."""
    lines = collections.Counter()

    def collect(value):
        if isinstance(value, str):
            lines.update(line.strip() for line in value.split("\n") if line.strip())
        elif isinstance(value, dict):
            for name, item in value.items():
                if name != "type":
                    collect(item)
        elif isinstance(value, list):
            for item in value:
                collect(item)

    collect(body)
    return lines


def with_edits(body, edits):
    """The bytes of `body` with the listed edits applied."""
    raw, out, at = body.encode(), b"", 0
    for edit in edits:
        out += raw[at:edit["begin"]] + edit["bytes"].encode()
        at = edit["end"]
    return (out + raw[at:]).decode()
