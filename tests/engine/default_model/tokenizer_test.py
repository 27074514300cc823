#!/usr/bin/env python3
"""The tokenizer: any bytes come back, training is repeatable, and the engine gives the same ids."""

import random
import re
import subprocess
import unittest

from model_case import ModelCase, program

import bpe  # noqa: E402
import chat  # noqa: E402
import generate  # noqa: E402
import gguf  # noqa: E402

STRANGE = ["", " ", "\n", "a\n\n b", "  two", "tab\t\tx", "don't WE'LL i'm", "x'S", "100,000.5",
           "naïve façade", "日本語 text", "🙂🙃 ok", "\u00a0nbsp", "e\u0301", "½ ²", "a\r\nb\r\n",
           "{\"a\": [1, 2]}", "<|im_start|>user\nhi<|im_end|>\n", "<tool_call>\n{}\n</tool_call>",
           "<tools", "snake_case camelCase", "\u2028x", "\x00\x1f\x7f", "-----", "a  b   c    "]


class TokenizerTest(ModelCase):
    @classmethod
    def setUpClass(cls):
        made = list(generate.Corpus(3).conversations(4e5))
        cls.texts = [chat.render(conversation) for conversation in made]
        cls.tokenizer = bpe.train(bpe.count_words(cls.texts), 1024)

    def test_any_text_comes_back(self):
        for text in STRANGE + self.texts[:50]:
            self.assertEqual(self.tokenizer.decode(self.tokenizer.encode(text)), text)

    def test_random_characters_come_back(self):
        rng = random.Random(1)
        for _ in range(300):
            text = "".join(chr(rng.choice([rng.randrange(0x80), rng.randrange(0xD800),
                                           rng.randrange(0xE000, 0x110000)]))
                           for _ in range(rng.randrange(30)))
            self.assertEqual(self.tokenizer.decode(self.tokenizer.encode(text)), text)

    def test_training_is_repeatable_and_gives_the_size_asked_for(self):
        counts = bpe.count_words(self.texts[:200])
        shuffled = dict(sorted(counts.items(), key=lambda item: hash(item[0])))
        first, second = bpe.train(counts, 600), bpe.train(shuffled, 600)
        self.assertEqual(first.merges, second.merges)
        self.assertEqual(len(first), 600)
        self.assertEqual(len(set(first.texts)), 600)

    def test_merges_follow_the_counts(self):
        tokenizer = bpe.train({"aaab": 10, "ab": 5, "xy": 3}, 7 + 256 + 2)
        # aa: 20, ab: 15; after aa, the words are [aa, a, b] and [a, b].
        self.assertEqual(tokenizer.merges, [("a", "a"), ("a", "b")])
        self.assertEqual([tokenizer.texts[i] for i in tokenizer.encode("aaab")], ["aa", "ab"])

    def test_digits_stand_alone(self):
        self.assertEqual(len(self.tokenizer.encode("9283746")), 7)

    def test_a_word_is_the_same_tokens_behind_any_sign(self):
        words = sorted(set(re.findall(r"[A-Za-z]{3,}", " ".join(self.texts))))
        self.assertGreater(len(words), 500)
        for word in words:
            alone = self.tokenizer.encode(word)
            for sign in " ", '"', "'", "(", "_", "/", "-", "\t":
                if (sign + word).lower().startswith(bpe.CONTRACTIONS):
                    continue
                self.assertEqual(self.tokenizer.encode(sign + word)[1:], alone, sign + word)

    def test_text_that_is_too_poor_for_a_vocabulary_is_refused(self):
        with self.assertRaises(ValueError):
            bpe.train({"ab": 4}, 1024)

    def test_a_saved_tokenizer_is_the_same(self):
        self.tokenizer.save(self.folder / "t.json")
        loaded = bpe.Tokenizer.load(self.folder / "t.json")
        self.assertEqual(loaded.texts, self.tokenizer.texts)
        self.assertEqual(loaded.encode(self.texts[0]), self.tokenizer.encode(self.texts[0]))

    def test_pieces_of_a_conversation_can_be_encoded_alone(self):
        for conversation in list(generate.Corpus(8).conversations(3e5)):
            pieces = [i for text, _ in chat.segments(conversation)
                      for i in self.tokenizer.encode(text)]
            self.assertEqual(pieces, self.tokenizer.encode(chat.render(conversation)))

    def test_the_engine_gives_the_same_ids(self):
        kvgate = program()
        model = self.folder / "vocabulary.gguf"
        gguf.write(model, {"general.architecture": "llama", **self.tokenizer.metadata()}, [])
        lines = [line for text in self.texts for line in text.split("\n") if line]
        lines = random.Random(2).sample(lines, 1000)
        # Forty runs of the program: each has 25 lines, or one of the strange texts.
        runs = ["\n".join(lines[i:i + 25]) for i in range(0, 1000, 25)] + STRANGE[1:]
        for text in runs:
            out = subprocess.run([kvgate, "tokenize", "--model", model], input=text.encode(),
                                 capture_output=True, check=True).stdout
            self.assertEqual(list(map(int, out.split())), self.tokenizer.encode(text), text[:200])


if __name__ == "__main__":
    unittest.main()
