#!/usr/bin/env python3
"""Asks a running server the held-out questions, and prints the share that was answered rightly.

    evaluate.py --url http://127.0.0.1:8080 [--kinds facts,reading,tools] [--show]

heldout.json is written apart from the corpus: other words, other kinds of texts, other tools.
  facts    the answer must have one wording of each keyword
  reading  the same, with a text of about so many tokens around the fact, the question before it or
           behind it in turn
  tools    with tool_choice auto: the right tool with these arguments, or no call where none fits
Greedy. Standard library only. --floor KIND=SHARE makes a lower share exit with 1.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request
from pathlib import Path

HELDOUT = Path(__file__).resolve().parent / "heldout.json"
READING_TOKENS = (200, 1000, 4000)
SECONDS_MAX = 300


class Server:
    def __init__(self, url, model="local"):
        self.url, self.model = url.rstrip("/").removesuffix("/v1"), model

    def post(self, path, body):
        request = urllib.request.Request(
            self.url + path, json.dumps({"model": self.model, **body}).encode(),
            {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=SECONDS_MAX) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise SystemExit(f"{path}: {error.code}: {error.read().decode()[:500]}") from error

    def chat(self, messages, tokens_max=96, **fields):
        """(message, prompt tokens)."""
        answer = self.post("/v1/chat/completions", {"messages": messages, "temperature": 0,
                                                    "max_tokens": tokens_max, **fields})
        return answer["choices"][0]["message"], answer["usage"]["prompt_tokens"]


def plain(text):
    """Small letters and single spaces: what is compared of an answer."""
    return re.sub(r"\s+", " ", text.lower().replace("`", "").replace("*", "")).strip()


def has_all(text, keywords):
    """`keywords`: each one is a list of wordings, one of which must stand in the text."""
    found = plain(text)

    def stands(word):
        word = plain(word)
        # A number must not be a part of another one, nor a word's beginning in its middle.
        return re.search(r"(?<![\w.])" + re.escape(word) + (r"(?!\w|\.\d)" if word[-1].isalnum()
                                                           else ""), found) is not None
    return all(any(stands(word) for word in words) for words in keywords)


def ask_facts(server, heldout):
    for item in heldout["facts"]:
        message, _ = server.chat([{"role": "user", "content": item["question"]}])
        text = message.get("content") or ""
        yield item["question"], text, has_all(text, item["keywords"]), {}


def passages(heldout, index, chars):
    """About so many characters of padding, another part of it for each question."""
    around, size, at = [], 0, index * 7
    while size < chars:
        around.append(heldout["padding"][at % len(heldout["padding"])])
        size += len(around[-1]) + 2
        at += 1
    return around


def reading_prompt(heldout, index, chars):
    item = heldout["reading"][index]
    around = passages(heldout, index, chars - len(item["text"]))
    # The fact stands at the front, in the middle and at the end in turn.
    around.insert(len(around) * (index % 5) // 4, item["text"])
    text = "\n\n".join(around)
    if index % 2 == 0:
        return f"{text}\n\n{item['question']}"
    return f"{item['question']}\n\n{text}"


def ask_reading(server, heldout, tokens):
    """Characters a token are counted on the first question, whatever the tokenizer is."""
    probe = reading_prompt(heldout, 0, 2000)
    _, used = server.chat([{"role": "user", "content": probe}], tokens_max=1)
    chars_per_token = len(probe) / max(1, used)
    for index, item in enumerate(heldout["reading"]):
        prompt = reading_prompt(heldout, index, int(tokens * chars_per_token))
        message, used = server.chat([{"role": "user", "content": prompt}], tokens_max=48)
        text = message.get("content") or ""
        yield item["question"], text, has_all(text, item["keywords"]), {"tokens": used}


def same(wanted, given):
    """Equal values, without regard to the case and the ends of texts."""
    if isinstance(wanted, str) and isinstance(given, str):
        return plain(wanted).strip(".!?\"'") == plain(given).strip(".!?\"'")
    if isinstance(wanted, bool) or isinstance(given, bool):
        return wanted is given
    if isinstance(wanted, (int, float)) and isinstance(given, (int, float)):
        return float(wanted) == float(given)
    if isinstance(wanted, list) and isinstance(given, list):
        return len(wanted) == len(given) and all(map(same, wanted, given))
    return wanted == given


def right_call(item, calls):
    if item["call"] is None:
        return not calls
    if len(calls) != 1:
        return False
    function = calls[0]["function"]
    try:
        arguments = json.loads(function["arguments"])
    except ValueError:
        return False
    wanted = item["call"]["arguments"]
    return (function["name"] == item["call"]["name"] and isinstance(arguments, dict)
            and set(arguments) == set(wanted)
            and all(same(wanted[key], arguments[key]) for key in wanted))


def ask_tools(server, heldout):
    for item in heldout["tools"]:
        offered = [heldout["toolbox"][name] for name in item["tools"]]
        message, _ = server.chat(
            [{"role": "user", "content": item["request"]}], tokens_max=160, tool_choice="auto",
            tools=[{"type": "function", "function": function} for function in offered])
        calls = message.get("tool_calls") or []
        said = message.get("content") or ""
        if calls:
            said += " ".join(f"{c['function']['name']}({c['function']['arguments']})"
                             for c in calls)
        yield item["request"], said, right_call(item, calls), {}


def kinds_of(server, heldout):
    yield "facts", lambda: ask_facts(server, heldout)
    for tokens in READING_TOKENS:
        yield f"reading_{tokens}", lambda tokens=tokens: ask_reading(server, heldout, tokens)
    yield "tools", lambda: ask_tools(server, heldout)


def evaluate(server, wanted=None, show=False):
    heldout, results = json.loads(HELDOUT.read_text()), {}
    for kind, ask in kinds_of(server, heldout):
        if wanted and not kind.startswith(tuple(wanted)):
            continue
        asked = right = 0
        wrong = []
        for question, answer, is_right, more in ask():
            asked += 1
            right += is_right
            if not is_right:
                wrong.append({"question": question, "answer": answer, **more})
            if show:
                verdict = "right" if is_right else "WRONG"
                print(f"{verdict}: {question!r} -> {answer!r} {more or ''}")
        results[kind] = {"asked": asked, "right": right, "share": right / asked, "wrong": wrong}
        print(f"{kind}: {right} of {asked} ({100 * right / asked:.1f} %)", flush=True)
    return results


def of_model(kvgate, model, data_dir, **options):
    """Evaluates a model file with a server of its own."""
    with tempfile.TemporaryFile("w+") as log, subprocess.Popen(
            [kvgate, "serve", "--model", str(model), "--listen", "127.0.0.1:0", "--no-disk",
             "--data-dir", str(data_dir)], stdout=subprocess.PIPE, stderr=log,
            text=True) as process:
        address, lines = [], iter(process.stdout)
        for line in lines:
            address = re.findall(r"listening on (http://\S+)", line)
            if address:
                break
        # What the server goes on to say must not fill its pipe.
        threading.Thread(target=lambda: list(lines), daemon=True).start()
        try:
            if not address:
                log.seek(0)
                raise SystemExit(f"kvgate serve did not listen: {log.read()[-2000:]}")
            return evaluate(Server(address[0]), **options)
        finally:
            process.terminate()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--url", default="http://127.0.0.1:8080")
    parser.add_argument("--model", default="local", help="its name at the server")
    parser.add_argument("--kinds", help="facts, reading, reading_200, tools, ...")
    parser.add_argument("--show", action="store_true", help="print each answer")
    parser.add_argument("--floor", action="append", default=[], metavar="KIND=SHARE")
    parser.add_argument("--json", help="file for all results")
    args = parser.parse_args()
    results = evaluate(Server(args.url, args.model), args.kinds and args.kinds.split(","),
                       args.show)
    if args.json:
        Path(args.json).write_text(json.dumps(results, indent=1))
    floors = dict(floor.split("=") for floor in args.floor)
    missed = [f"{kind} {results[kind]['share']:.3f} < {floor}" for kind, floor in floors.items()
              if results[kind]["share"] < float(floor)]
    if missed:
        sys.exit("below the floor: " + ", ".join(missed))


if __name__ == "__main__":
    main()
