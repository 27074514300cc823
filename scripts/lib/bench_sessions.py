"""scripts/bench sessions: what ways to keep a long conversation bounded cost.

One conversation of 200 turns, about 110 tokens each, in five ways: the full transcript; a session
with rolling summaries; a session with the hard window; the newest rounds only, a window that slides
with every turn; a summary made anew with every turn, by the client. Transcripts and the last two
are sent by a client that keeps them. At the local engine, with a model of random weights, and at a
provider's simulated cache. Costs are in prices of uncached input (read 0.1, written 1.25, output
5), by turn, calls for summaries included.

Ways that keep more of the conversation cost more, so the last three keep as much as the rolling
summaries did: the hard window drops as few rounds, and the client keeps as many, that a mean prompt
has about as many tokens ("kept"), never beyond the window. The cheapest of the bounded ones has an
asterisk.

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

    def __init__(self, kind, window, mode, kept=0, low=0):
        self.kind, self.window, self.mode = kind, window, mode
        self.kept = kept  # tokens of a mean prompt that a client aims at; 0: as its way has it
        self.low = low  # of the session's window; 0: by default
        self.prompts = []  # tokens of the turns' prompts

    def __enter__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="kvgate-bench-"))
        arguments = ["--set", f"sessions.mode={self.mode}",
                     "--set", f"sessions.window_hard={self.window}",
                     "--set", f"sessions.window_low={self.low}"]
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
        if stream and self.kind == "local":
            body["stream_options"] = {"include_usage": True}
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
        if stream:
            self.prompts.append(self.prompt_tokens(reply))
        took = (reply.first_content_at - reply.sent_at if stream and reply.first_content_at
                else time.monotonic() - begin)
        return self.text_of(reply), took

    def prompt_tokens(self, reply):
        if self.kind == "local":
            return reply.usage["prompt_tokens"]
        usage = next(event["message"]["usage"] for event in reply.objects if event.get("message"))
        return sum(usage.get(name) or 0 for name in (
            "input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"))

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
    def rounds(self, beside=0):
        """As many as fit what is to be kept, beside other tokens."""
        place = self.place
        room = place.kept - FIXED[place.kind] - beside
        return max(2, round(room / GROWTH[place.kind]))

    def kept(self):
        return self.messages[-(2 * self.rounds() - 1):]


class SummaryEveryTurn(LastRounds):
    summary = ""

    def kept(self):
        newest = self.messages[-(2 * self.rounds(self.place.window / 8) - 1):]
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


def measure(kind, window, way, mode, turns, kept=0, low=0):
    with Place(kind, window, mode, kept, low) as place:
        talker = way(place)
        times = [talker.turn(number) for number in range(turns)]
        totals = place.running.get("/kvgate/v1/stats").json["ledger"]["totals"]
        prompts = place.prompts
    read, written = totals["cache_read_tokens"], totals["cache_write_tokens"]
    prompt = read + written + totals["uncached_tokens"]
    cost = READ * read + WRITE * written + totals["uncached_tokens"] + \
        OUTPUT * totals["output_tokens"]
    ordered = sorted(times)
    return {"prompt": prompt, "share": read / prompt, "cost": cost / turns,
            "kept": statistics.mean(prompts), "longest": max(prompts),
            "p50": 1e3 * statistics.median(ordered),
            "p99": 1e3 * ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]}


def compare(kind, window, turns):
    """The ways by their titles; those that are bounded keep as much as the rolling summaries."""
    found = {"full transcript": measure(kind, window, Transcript, "off", turns)}
    ours = measure(kind, window, Session, "summary", turns)
    kept = ours["kept"]
    found["session, rolling summary"] = ours
    # A prompt grows from `low` to `high`, which is 0.8 of the window.
    low = max(1, int(2 * kept - 0.8 * window))
    found["session, hard window"] = measure(kind, window, Session, "hard", turns, low=low)
    found["newest rounds, sliding"] = measure(kind, window, LastRounds, "off", turns, kept)
    found["summary every turn"] = measure(kind, window, SummaryEveryTurn, "off", turns, kept)
    return found


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
    print(f"{'':40} {'kept':>6} {'longest':>8} {'Ktokens':>8} {'cached':>7} {'cost/turn':>10} "
          f"{'TTFT p50':>9} {'p99 ms':>7}")
    for kind in ("local", "provider"):
        for window in windows:
            found = compare(kind, window, turns)
            cheapest = min((row["cost"], title) for title, row in found.items()
                           if title != "full transcript")[1]
            for title, row in found.items():
                name = f"{kind} {window} {title}{' *' if title == cheapest else ''}"
                print(f"{name:40} {row['kept']:6.0f} {row['longest']:8} "
                      f"{row['prompt'] / 1e3:8.0f} {100 * row['share']:6.1f}% {row['cost']:10.0f} "
                      f"{row['p50']:9.1f} {row['p99']:7.1f}", flush=True)


if __name__ == "__main__":
    main()
