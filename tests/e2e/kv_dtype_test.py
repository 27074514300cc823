#!/usr/bin/env python3
"""The promise for every KV dtype: cold, memory and disk hits answer the same, bit for bit."""

import subprocess
import unittest

from case import TINY, Case, tenant, text_of

import server

KV_DTYPES = ("f32", "f16", "bf16", "fp8_e4m3", "q8_0", "q4_0")


class KvDtypeTest(Case):
    def test_cold_memory_and_disk_give_one_answer_for_every_dtype(self):
        prompt = text_of("kv dtype", 400)
        answers = {}
        for kv_dtype in KV_DTYPES:
            with self.subTest(kv_dtype=kv_dtype):
                running = self.serve(data_dir=self.folder / kv_dtype,
                                     arguments=["--kv-dtype", kv_dtype])
                cold = self.assert_ok(running.complete(prompt, headers=tenant("a")))
                self.assertEqual(cold.cached_tokens, 0)
                other = self.assert_ok(running.complete(prompt, headers=tenant("b")))
                self.assertEqual(other.cached_tokens, 0)
                memory = self.assert_ok(running.complete(prompt, headers=tenant("a")))
                self.assertGreater(memory.tier("device"), 300)
                running.wait_on_disk()
                running.kill()
                running.restart()
                disk = self.assert_ok(running.complete(prompt, headers=tenant("a")))
                self.assertGreater(disk.tier("disk"), 300)
                for reply in (other, memory, disk):
                    self.assertEqual(reply.answer, cold.answer)
                answers[kv_dtype] = cold.answer
                running.kill()
        # The logits differ, so each dtype did read its own rounding.
        self.assertEqual(len({logits for _, logits in answers.values()}), len(KV_DTYPES))

    def test_a_head_that_is_no_multiple_of_32_is_refused_by_name(self):
        narrow = self.model({**TINY, "heads": 8}, "narrow-heads")  # 16 dimensions each
        command = server.Server(narrow, self.folder / "data", ["--kv-dtype", "q8_0"]).command()
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
        self.assertEqual(ended.returncode, 2)
        self.assertIn("kv_dtype q8_0", ended.stderr)
        self.assertIn("head_dim is 16", ended.stderr)


if __name__ == "__main__":
    unittest.main()
