#!/usr/bin/env python3
"""Writes the corpus: one conversation a line, as JSON. The same seed gives the same bytes.

Usage: generate.py --out FILE [--megabytes 60] [--seed 1] [--longest 16000]
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
import names  # noqa: E402
import needles  # noqa: E402
import reading  # noqa: E402
import summaries  # noqa: E402
import talk  # noqa: E402
import tools  # noqa: E402

# Conversations of a hundred, by maker.
SHARES = {"knowledge": 42, "reading": 16, "needle": 12, "copying": 12, "tools": 6,
          "named_tools": 6, "summary": 4, "after_summary": 2}
# Facts that people ask for first are said more often.
WEIGHTS = {"kvgate": 3.0, "caching": 3.0, "providers": 2.5, "sessions": 2.5, "terms": 1.5,
           "commands": 1.5, "causes": 1.5, "headers": 1.5, "endpoints": 1.2, "errors": 1.5}


class Corpus:
    def __init__(self, seed, longest=16000):
        self.rng = random.Random(seed)
        self.longest = longest
        self.facts = facts.load()
        self.weights = [WEIGHTS.get(fact.name.split(":")[0], 0.8) *
                        (0.6 if fact.name.endswith(":reverse") else 1) for fact in self.facts]
        self.known = [fact.answers[0] for fact in self.facts if len(fact.answers[0]) > 40]

    def fact_turns(self, rng):
        return facts.turns(rng, rng.choices(self.facts, self.weights)[0])

    def any_turns(self, rng):
        chance = rng.random()
        if chance < 0.84:
            return self.fact_turns(rng)
        return talk.unknown(rng) if chance < 0.92 else talk.small(rng)

    def knowledge(self):
        """Questions one after the other; sometimes something said in passing is asked for later."""
        rng, messages, later = self.rng, [], None
        if rng.random() < 0.25:
            messages.append({"role": "system", "content": rng.choice(tools.SYSTEMS)})
        for index in range(rng.choice([1, 1, 1, 2, 2, 3, 4, 6])):
            if index == 0 and rng.random() < 0.15:
                said, later = needles.remembered(rng)
                messages += said
            messages += self.any_turns(rng)
        messages += later or []
        return {"kind": "knowledge", "messages": messages}

    def make(self):
        rng = self.rng
        maker = rng.choices(list(SHARES), list(SHARES.values()))[0]
        made = {
            "knowledge": self.knowledge,
            "reading": lambda: reading.conversation(rng, self.longest),
            "needle": lambda: needles.conversation(rng, self.known, self.longest),
            "copying": lambda: reading.copying(rng),
            "tools": lambda: tools.conversation(rng, self.any_turns),
            "named_tools": lambda: tools.named_conversation(rng, self.any_turns),
            "summary": lambda: summaries.conversation(rng),
            "after_summary": lambda: summaries.after(rng),
        }[maker]()
        if made["kind"] in ("reading", "needle", "copying") and rng.random() < 0.15:
            made["messages"] += self.any_turns(rng)
        check(made)
        return made

    def conversations(self, bytes_max):
        size = 0
        while size < bytes_max:
            made = self.make()
            size += len(chat.render(made).encode())
            yield made


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
    parser.add_argument("--longest", type=int, default=16000, help="characters of a text")
    args = parser.parse_args()
    corpus = Corpus(args.seed, args.longest)
    with open(args.out, "w", encoding="utf-8") as out:
        for made in corpus.conversations(args.megabytes * 1e6):
            out.write(json.dumps(made, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
