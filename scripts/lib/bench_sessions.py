"""scripts/bench sessions: what ways to keep a long conversation bounded cost.

One conversation of 200 turns, about 110 tokens each, in five ways: the full transcript; the newest
rounds only, a window that slides with every turn; a summary made anew with every turn, by the
client; a session with the hard window; a session with rolling summaries. The first three are sent
by a client that keeps its transcript. At the local engine, with a model of random weights, and at a
provider's simulated cache. Costs are in prices of uncached input (read 0.1, written 1.25, output
5), by turn, calls for summaries included.

    --windows 3000,6000,8000   tokens   --turns 200   --quick: one window, 60 turns
"""

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
for folder in ("tests/e2e", "tests/support"):
    sys.path.insert(0, str(ROOT / folder))
import server  # noqa: E402
from case import TINY, text_of  # noqa: E402
from provider_simulator import Simulator  # noqa: E402

SYSTEM = "You work in a repository. " + text_of("system", 60)
ASK = "Write a summary of the conversation so far: goals, decisions, facts, open ends, files."
KEY = "KVGATE_BENCH_KEY"
GROWTH = {"local": 112, "provider": 60}  # tokens of a round, of which a client knows about as much
FIXED = {"local": 260, "provider": 110}
READ, WRITE, OUTPUT = 0.1, 1.25, 5


class Place:
    """A gateway with one way to answer; `with` starts and ends it."""

    def __init__(self, kind, window, mode):
        self.kind, self.window, self.mode = kind, window, mode

    def __enter__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="kvgate-bench-"))
        arguments = ["--set", f"sessions.mode={self.mode}",
                     "--set", f"sessions.window_hard={self.window}"]
        model, self.provider = None, None
        if self.kind == "local":
            shape = {**TINY, "context": 32768}
            models = Path(os.environ.get("KVGATE_MODELS", server.binary_path().parent.parent
                                         / "test-models"))
            model = server.make_model(models / "tiny32k.gguf", **shape)
            arguments += ["--set", "engine.kv_memory=192MiB"]
        else:
            self.provider = Simulator().__enter__()
            os.environ[KEY] = "sk-bench"
            config = self.folder / "kvgate.toml"
            config.write_text(f'[[upstream]]\nname = "sim"\ndialect = "anthropic"\n'
                              f'base_url = "{self.provider.url}"\napi_key_env = "{KEY}"\n')
            arguments = ["--config", str(config), *arguments]
        self.running = server.Server(model, self.folder / "data", arguments).start()
        return self

    def __exit__(self, *_):
        self.running.__exit__()
        if self.provider:
            self.provider.__exit__()
        shutil.rmtree(self.folder, ignore_errors=True)

    def say(self, messages, words=8, session=None, stream=True):
        """The answer's text, and the seconds until its first word."""
        headers = {"x-kvgate-session": session} if session else {}
        body = {"model": "local", "max_tokens": words, "temperature": 0, "stream": stream}
        path = "/v1/chat/completions"
        if self.kind == "local":
            body["messages"] = [{"role": "system", "content": SYSTEM}, *messages]
        else:
            path = "/v1/messages"
            headers |= {"anthropic-version": "2023-06-01", "x-sim-words": str(words)}
            body |= {"model": "claude-opus-5-5", "max_tokens": 400, "system": SYSTEM * 3,
                     "messages": messages}
            body.pop("temperature")
        begin = time.monotonic()
        reply = self.running.send(path, body, headers)
        if reply.status != 200:
            raise RuntimeError(f"{reply.status}: {reply.body[:300]!r}")
        took = (reply.first_content_at - reply.sent_at if stream and reply.first_content_at
                else time.monotonic() - begin)
        return self.text_of(reply), took

    def text_of(self, reply):
        if self.kind == "local":
            return reply.text
        return "".join((event.get("delta") or {}).get("text") or "" for event in reply.objects) or \
            "".join(block.get("text", "") for event in reply.objects
                    for block in event.get("content", []))

    def settle(self):
        """As the time between two turns does."""
        while b"kvgate_session_folds_running 0" not in self.running.get("/metrics").body:
            time.sleep(0.005)


def turn_text(number):
    return f"turn {number}: {text_of(number, 25)}"


class Transcript:
    """A client that keeps its own messages."""

    def __init__(self, place):
        self.place, self.messages = place, []

    def turn(self, number):
        self.messages.append({"role": "user", "content": turn_text(number)})
        text, took = self.place.say(self.kept())
        self.messages.append({"role": "assistant", "content": text or "."})
        return took

    def kept(self):
        return self.messages


class LastRounds(Transcript):
    def kept(self):
        place = self.place
        rounds = max(2, int((place.window * 0.55 - FIXED[place.kind]) / GROWTH[place.kind]))
        return self.messages[-(2 * rounds - 1):]


class SummaryEveryTurn(Transcript):
    summary = ""

    def kept(self):
        newest = self.messages[-3:]
        return [{"role": "user", "content": f"<summary>\n{self.summary}\n</summary>\n\n"
                                            f"{newest[0]['content']}"}, *newest[1:]]

    def turn(self, number):
        took = super().turn(number)
        self.summary, _ = self.place.say([*self.kept(), {"role": "user", "content": ASK}],
                                         words=int(self.place.window / 8 / 2), stream=False)
        return took


class Session:
    def __init__(self, place):
        self.place = place

    def turn(self, number):
        _, took = self.place.say([{"role": "user", "content": turn_text(number)}], session="bench")
        self.place.settle()
        return took


WAYS = [("full transcript", Transcript, "off"), ("newest rounds, sliding", LastRounds, "off"),
        ("summary every turn", SummaryEveryTurn, "off"), ("session, hard window", Session, "hard"),
        ("session, rolling summary", Session, "summary")]


def measure(kind, window, way, mode, turns):
    with Place(kind, window, mode) as place:
        talker = way(place)
        times = [talker.turn(number) for number in range(turns)]
        totals = place.running.get("/kvgate/v1/stats").json["ledger"]["totals"]
    read, written = totals["cache_read_tokens"], totals["cache_write_tokens"]
    prompt = read + written + totals["uncached_tokens"]
    cost = READ * read + WRITE * written + totals["uncached_tokens"] + \
        OUTPUT * totals["output_tokens"]
    ordered = sorted(times)
    return {"prompt": prompt, "share": read / prompt, "cost": cost / turns,
            "p50": 1e3 * statistics.median(ordered),
            "p99": 1e3 * ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--windows", default="3000,6000,8000")
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    windows = [int(window) for window in args.windows.split(",")]
    turns = args.turns
    if args.quick:
        windows, turns = windows[:1], min(turns, 60)
    print(f"{'':40} {'Ktokens':>9} {'cached':>8} {'cost/turn':>10} {'TTFT p50':>9} {'p99 ms':>8}")
    for kind in ("local", "provider"):
        for window in windows:
            for title, way, mode in WAYS:
                found = measure(kind, window, way, mode, turns)
                print(f"{kind + ' ' + str(window) + ' ' + title:40} {found['prompt'] / 1e3:9.0f} "
                      f"{100 * found['share']:7.1f}% {found['cost']:10.0f} {found['p50']:9.1f} "
                      f"{found['p99']:8.1f}", flush=True)


if __name__ == "__main__":
    main()
