#!/usr/bin/env python3
"""Writes the corpus: one conversation a line, as JSON. The same seed gives the same bytes.

Usage: generate.py --out FILE [--megabytes 60] [--seed 1] [--part train] [--longest 16000]
Standard library only.
"""

import argparse
import json
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import chat  # noqa: E402
import facts  # noqa: E402
import reading  # noqa: E402
import recall  # noqa: E402
import summaries  # noqa: E402
import talk  # noqa: E402
import tools  # noqa: E402
from draw import Draw  # noqa: E402

# Bytes of a hundred, by maker.
SHARES = {"knowledge": 26, "reading": 38, "recall": 7, "tools": 24, "summary": 4,
          "after_summary": 1}
# Facts that people ask for first are said more often.
WEIGHTS = {"kvgate": 3.0, "caching": 3.0, "providers": 2.5, "sessions": 2.5, "agents": 2.5,
           "engine": 2.5, "operations": 2.5, "settings_asked": 1.5, "terms": 1.5, "commands": 1.5,
           "causes": 1.5, "headers": 1.5, "endpoints": 1.2, "errors": 1.5,
           "causes_and_codes": 1.5}


class Corpus:
    """`part` is "train", or "unseen" for texts of patterns that "train" has none of (draw.py)."""

    def __init__(self, seed, longest=16000, part="train"):
        self.rng = Draw.of(seed, part)
        self.longest = longest
        self.facts = facts.load()
        self.weights = [WEIGHTS.get(fact.name.split(":")[0], 0.5) *
                        (0.6 if fact.name.endswith(":reverse") else 1) for fact in self.facts]
        self.size = dict.fromkeys(SHARES, 0)

    def fact_turns(self, rng):
        return facts.turns(rng, rng.choices(self.facts, self.weights)[0])

    def any_turns(self, rng):
        chance = rng.random()
        if chance < 0.86:
            return self.fact_turns(rng)
        return talk.unknown(rng) if chance < 0.94 else talk.small(rng)

    def knowledge(self):
        """Questions one after the other; sometimes something said in passing is asked for later."""
        rng, messages, later = self.rng, [], None
        if rng.chance(0.12):
            messages.append({"role": "system", "content": rng.pick(tools.SYSTEMS)})
        for index in range(rng.choice([1, 1, 1, 2, 2, 3, 4])):
            if index == 0 and rng.chance(0.12):
                said, later = reading.said_before(rng)
                messages += said
            messages += self.any_turns(rng)
        messages += later or []
        return {"kind": "knowledge", "messages": messages}

    def make(self):
        """The next conversation, by the maker that is farthest behind its share."""
        rng, total = self.rng, sum(self.size.values())
        maker = min(SHARES, key=lambda name: self.size[name] - SHARES[name] / 100 * (total + 1))
        made = {
            "knowledge": self.knowledge,
            "reading": lambda: reading.conversation(rng, self.longest),
            "recall": lambda: recall.conversation(rng),
            "tools": lambda: tools.conversation(rng, self.any_turns),
            "summary": lambda: summaries.conversation(rng),
            "after_summary": lambda: summaries.after(rng),
        }[maker]()
        if made["kind"] in ("reading", "recall") and rng.chance(0.06):
            made["messages"] += self.any_turns(rng)
        check(made)
        self.size[maker] += len(chat.render(made).encode())
        return made

    def conversations(self, bytes_max):
        while sum(self.size.values()) < bytes_max:
            yield self.make()


def check(conversation):
    """What `chat.segments` and training rely on."""
    messages = conversation["messages"]
    if messages[-1]["role"] != "assistant":
        raise ValueError(f"the last turn is {messages[-1]['role']}'s")
    for message in messages:
        body = chat.body_of(message)
        if body != body.strip() or not body and message["role"] != "tool":
            message["content"] = (message["content"] or "").strip()
            if not chat.body_of(message) and message["role"] != "tool":
                raise ValueError(f"an empty turn in {conversation['kind']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--out", required=True)
    parser.add_argument("--megabytes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--part", choices=["train", "unseen"], default="train",
                        help="unseen: of the patterns that train has none of")
    parser.add_argument("--longest", type=int, default=16000, help="characters of a text")
    args = parser.parse_args()
    corpus = Corpus(args.seed, args.longest, args.part)
    with open(args.out, "w", encoding="utf-8") as out:
        for made in corpus.conversations(args.megabytes * 1e6):
            out.write(json.dumps(made, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
