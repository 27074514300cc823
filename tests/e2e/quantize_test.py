#!/usr/bin/env python3
"""`kvgate quantize`: every type it makes is served; what cannot be made leaves nothing behind."""

import resource
import subprocess
import unittest

from case import TINY, Case, text_of
import server

TYPES = ("f16", "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1")


class QuantizeTest(Case):
    def setUp(self):
        super().setUp()
        self.made = self.model({**TINY, "type": "f16"}, "tiny-f16")
        self.out = self.folder / "out.gguf"

    def quantize(self, model, out, kind, **more):
        return subprocess.run([server.binary_path(), "quantize", model, out, kind], text=True,
                              capture_output=True, timeout=120, check=False, **more)

    def answer(self, model, name):
        running = self.serve(model, self.folder / name)
        try:
            return self.assert_ok(running.complete(text_of("quantize", 100))).answer
        finally:
            running.kill()

    def assert_refused(self, ended, *words):
        self.assertNotEqual(ended.returncode, 0)
        for word in words:
            self.assertIn(word, ended.stderr)
        self.assertEqual(list(self.folder.glob("out.gguf*")), [])

    def test_every_type_is_served_and_is_the_model_made_in_it(self):
        f32 = self.model(TINY, "tiny")
        answers = {"made f16": self.answer(self.made, "made")}
        for kind in TYPES:
            with self.subTest(type=kind):
                ended = self.quantize(self.made, self.out, kind)
                self.assertEqual(ended.returncode, 0, ended.stderr)
                self.assertEqual(ended.stdout.strip(), str(self.out))
                answers[kind] = self.answer(self.out, kind)
                made = self.model({**TINY, "type": kind}, f"tiny-{kind}")
                self.assertEqual(self.out.stat().st_size, made.stat().st_size)
                # From the same F32 the encoders of both commands make the same file.
                self.assertEqual(self.quantize(f32, self.out, kind).returncode, 0)
                self.assertEqual(self.answer(self.out, kind + " of f32"),
                                 self.answer(made, kind + " made"))
        self.assertEqual(answers["made f16"], answers["f16"])
        self.assertEqual(len({logits for _, logits in answers.values()}), len(TYPES))

    def test_an_unknown_type_is_refused_with_those_there_are(self):
        self.assert_refused(self.quantize(self.made, self.out, "q9_9"), "q9_9", *TYPES)
        # A type that files may have, and that only its own tools make well.
        self.assert_refused(self.quantize(self.made, self.out, "q4_k"), "q4_k", *TYPES)

    def test_what_is_quantized_already_is_refused(self):
        q8_0 = self.model({**TINY, "type": "q8_0"}, "tiny-q8_0")
        self.assert_refused(self.quantize(q8_0, self.out, "q4_0"), "is Q8_0 already")

    def test_the_input_is_not_the_output(self):
        before = self.made.read_bytes()
        for out in (self.made, self.folder / "link.gguf"):
            if out != self.made:
                out.symlink_to(self.made)
            ended = self.quantize(self.made, out, "q8_0")
            self.assertNotEqual(ended.returncode, 0)
            self.assertIn("is the file to read", ended.stderr)
        self.assertEqual(self.made.read_bytes(), before)

    def test_a_disk_that_takes_no_more_leaves_no_half_file(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))

        # Python ignores the signal of that limit, and so does the child: the write fails instead.
        ended = self.quantize(self.made, self.out, "q8_0", preexec_fn=limit, restore_signals=False)
        self.assert_refused(ended, "out.gguf", "File too large")

    def test_a_folder_that_is_not_there_is_named(self):
        out = self.folder / "nowhere" / "out.gguf"
        self.assert_refused(self.quantize(self.made, out, "q8_0"), "nowhere/out.gguf")
        self.assert_refused(self.quantize(self.folder / "none.gguf", self.out, "q8_0"), "none.gguf")


if __name__ == "__main__":
    unittest.main()
