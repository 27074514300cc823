#!/usr/bin/env python3
"""Makes the default model from nothing: corpus, tokenizer, training, GGUF, evaluation.

    build.py --minutes 100 --out FILE.gguf --kvgate build/release/bin/kvgate

Each step leaves its result in the work folder (FILE.gguf.work) and is skipped when that is there;
training goes on from its checkpoint. So the same command, called again, goes on where it stopped.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
for folder in (HERE, HERE / "corpus"):
    sys.path.insert(0, str(folder))

import chat  # noqa: E402
import torch_python  # noqa: E402

VOCABULARY, CONTEXT = 2560, 8192
SMALL_VOCABULARY = 768
TOKENIZER_BYTES = 16e6  # of the corpus, from which the tokenizer is made
HELDOUT_SEED = 1_000_003  # apart from any seed of a training corpus


def say(text):
    print(f"[{time.strftime('%H:%M:%S')}] {text}", flush=True)


class Build:
    def __init__(self, args):
        self.args = args
        self.out = Path(args.out).resolve()
        self.work = Path(args.work or f"{self.out}.work").resolve()
        self.work.mkdir(parents=True, exist_ok=True)
        self.remember()

    def remember(self):
        """The options that the results in the work folder depend on; another set is refused."""
        asked = {"small": self.args.small, "seed": self.args.seed,
                 "megabytes": self.args.megabytes}
        noted = self.work / "options.json"
        if noted.exists() and json.loads(noted.read_text()) != asked:
            raise SystemExit(f"{self.work} was made with {noted.read_text()}: remove it, or give "
                             "another --work")
        noted.write_text(json.dumps(asked))

    def made(self, name, make):
        """The path of a result; `make(path)` writes it under another name first."""
        path = self.work / name
        if not path.exists():
            begin = time.monotonic()
            beside = path.with_name(path.name + ".new")
            make(beside)
            os.replace(beside, path)
            say(f"{name}: {path.stat().st_size / 1e6:.1f} MB, {time.monotonic() - begin:.0f} s")
        return path

    def corpus(self, name, megabytes, seed, part="train"):
        from generate import Corpus

        def write(path):
            corpus = Corpus(seed, 2000 if self.args.small else 16000, part)
            with open(path, "w", encoding="utf-8") as out:
                for made in corpus.conversations(megabytes * 1e6):
                    out.write(json.dumps(made, ensure_ascii=False) + "\n")
        return self.made(name + ".jsonl", write)

    def tokenizer(self, corpus):
        import bpe

        def texts():
            size = 0
            with open(corpus, encoding="utf-8") as lines:
                for line in lines:
                    text = chat.render(json.loads(line))
                    size += len(text)
                    yield text
                    if size > TOKENIZER_BYTES:
                        return
        path = self.made("tokenizer.json", lambda path: bpe.train(
            bpe.count_words(texts()),
            SMALL_VOCABULARY if self.args.small else VOCABULARY).save(path))
        return bpe.Tokenizer.load(path)

    def tokens(self, tokenizer, corpus, name):
        import data

        def write(path):
            context = 2048 if self.args.small else CONTEXT
            count, size = data.encode(tokenizer, corpus, self.work / name, context)
            path.write_text(json.dumps({"tokens": count, "bytes": size}))
            say(f"{name}: {count / 1e6:.2f} M tokens, {size / max(1, count):.2f} bytes a token")
        self.made(name + ".json", write)

    def train(self):
        command = [sys.executable, str(HERE / "train.py"), "--work", str(self.work), "--minutes",
                   str(self.args.minutes), "--seed", str(self.args.seed), "--threads",
                   str(self.args.threads), "--resume"]
        if self.args.small:
            command.append("--small")
        subprocess.run(command, check=True)

    def export(self):
        full = self.work / "model.f32.gguf"
        subprocess.run([sys.executable, str(HERE / "export.py"), "--work", str(self.work), "--out",
                        str(full), "--version", self.args.version], check=True)
        beside = Path(f"{self.out}.new")
        subprocess.run([self.args.kvgate, "quantize", str(full), str(beside), self.args.type],
                       check=True, stdout=subprocess.DEVNULL)
        os.replace(beside, self.out)
        say(f"{self.out}: {self.out.stat().st_size / 1e6:.2f} MB as {self.args.type}")

    def evaluate(self):
        import evaluate
        results = evaluate.of_model(self.args.kvgate, self.out, self.work / "data")
        (self.work / "evaluation.json").write_text(json.dumps(results, indent=1))

    def run(self):
        train = self.corpus("train", self.args.megabytes, self.args.seed)
        few = 0.2 if self.args.small else 1.0
        heldout = self.corpus("heldout", few, HELDOUT_SEED)
        unseen = self.corpus("unseen", few, HELDOUT_SEED, "unseen")
        tokenizer = self.tokenizer(train)
        self.tokens(tokenizer, train, "train")
        self.tokens(tokenizer, heldout, "heldout")
        self.tokens(tokenizer, unseen, "unseen")
        self.train()
        self.export()
        if not self.args.no_evaluation:
            self.evaluate()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--out", required=True, help="the GGUF file to write")
    parser.add_argument("--work", help="folder of the steps' results (default: OUT.work)")
    parser.add_argument("--minutes", type=float, default=100, help="of training")
    parser.add_argument("--megabytes", type=float, help="of the corpus (default: 100; small: 2)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=0, help="0: as many as there are cores")
    parser.add_argument("--type", default="q8_0", help="format of the matrices")
    parser.add_argument("--version", default="1", help="general.version of the file")
    parser.add_argument("--small", action="store_true", help="a tiny model, for tests")
    parser.add_argument("--no-evaluation", action="store_true")
    parser.add_argument("--kvgate", default="kvgate", help="the program")
    args = parser.parse_args()
    if args.megabytes is None:
        args.megabytes = 2 if args.small else 150
    torch_python.run_by_it()
    Build(args).run()


if __name__ == "__main__":
    main()
