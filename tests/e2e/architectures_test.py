#!/usr/bin/env python3
"""Every architecture, served: a cold prefill, a memory hit and a disk hit give the same answer."""

import unittest

from case import TINY, Case, text_of

# What each has beside the tiny shape. Prompts are longer than the windows and than the contexts
# that rope is scaled from.
WINDOW = dict(window=96)
SHAPES = {
    "llama": dict(rope_original=2048),
    "mistral": dict(arch="llama", **WINDOW),
    "mixtral": dict(arch="llama", experts=4),
    "qwen2": dict(),
    "qwen3": dict(rope_original=256),
    "gemma": dict(),
    "gemma2": dict(layers=4, **WINDOW),
    "gemma3": dict(layers=7, rope_original=1024, **WINDOW),
    "phi3": dict(rope_original=256, **WINDOW),
    "smollm3": dict(layers=4),
    "olmo2": dict(layers=4, rope_original=256, **WINDOW),
    "olmoe": dict(),
    "granite": dict(),
    "granitemoe": dict(),
    "qwen2moe": dict(),
    "qwen3moe": dict(experts=6, experts_used=3),
    "gpt-oss": dict(layers=4, rope_original=256, type="mxfp4", **WINDOW),
}


class ArchitecturesTest(Case):
    def serve_architecture(self, name):
        shape = dict(TINY, arch=name)
        shape.update(SHAPES[name])
        return self.serve(self.model(shape, f"architecture-{name}"),
                          data_dir=self.folder / f"data-{name}")

    def test_cold_memory_and_disk_after_kill_9_give_the_same_answer(self):
        for name in SHAPES:
            with self.subTest(name):
                running = self.serve_architecture(name)
                prompt = text_of(name, 400)
                cold = self.assert_ok(running.complete(prompt))
                memory = self.assert_ok(running.complete(prompt))
                running.wait_on_disk()
                whole_blocks = (cold.usage["prompt_tokens"] - 1) // 32 * 32
                # Where the disk seems slower than computing, the engine computes: try again.
                for _ in range(8):
                    running.kill()
                    running.restart()
                    disk = self.assert_ok(running.complete(prompt))
                    self.assertEqual(disk.answer, cold.answer)
                    if disk.tier("disk") >= whole_blocks:
                        break
                running.kill()

                self.assertGreater(whole_blocks, 300)
                self.assertEqual(cold.cached_tokens, 0)
                self.assertGreaterEqual(memory.tier("device"), whole_blocks)
                self.assertGreaterEqual(disk.tier("disk"), whole_blocks)
                self.assertTrue(cold.text)
                self.assertEqual(memory.answer, cold.answer)

    def test_a_turn_behind_the_window_reuses_what_decoding_wrote(self):
        for name in ("gemma3", "gpt-oss", "qwen3moe"):
            with self.subTest(name):
                running = self.serve_architecture(name)
                first = text_of(f"{name} turns", 200)
                said = self.assert_ok(running.complete(first, max_tokens=150)).text
                second = f"{first}{said} {text_of('more', 30)}"
                warm = self.assert_ok(running.complete(second))
                cold = self.assert_ok(
                    running.complete(second, headers={"Authorization": "Bearer nobody"}))
                self.assertEqual(cold.cached_tokens, 0)
                self.assertGreater(warm.cached_tokens, 150)
                self.assertEqual(warm.answer, cold.answer)
                running.kill()


if __name__ == "__main__":
    unittest.main()
