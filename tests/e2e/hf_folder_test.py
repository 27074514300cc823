#!/usr/bin/env python3
"""A Hugging Face folder through the real binary: the answers of the GGUF file with its weights,
cold, from memory and from disk; its chat template and end tokens; every command that takes one."""

import json
import subprocess
import unittest

from case import TINY, Case, text_of
from hf_writer import write_hf_folder
import server

TEMPLATE = ("{{ bos_token }}{% for message in messages %}<{{ message.role }}> {{ message.content }}"
            "{{ eos_token }}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}")
MESSAGES = [{"role": "user", "content": "read the file"}]


class HfFolderTest(Case):
    def made(self, arch):
        return self.model({**TINY, "arch": arch, "vocab": 640}, f"hf-{arch}")

    def hf_folder(self, arch="llama", name="Tiny-1.5B", **options):
        return write_hf_folder(self.made(arch), self.folder / name, **options)

    def kvgate(self, *arguments, stdin=""):
        return subprocess.run([server.binary_path(), *arguments], input=stdin, text=True,
                              capture_output=True, timeout=120, check=False)

    def edit(self, path, **changes):
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    def complete(self, model, prompt, name):
        running = self.serve(model, self.folder / name)
        try:
            return self.assert_ok(running.complete(prompt, logprobs=5))
        finally:
            running.kill()

    def test_the_answers_are_those_of_the_gguf_file(self):
        prompt = text_of("hf", 300)
        for arch, shards in (("llama", 1), ("llama", 3), ("qwen2", 1), ("qwen2", 2)):
            with self.subTest(arch=arch, shards=shards):
                folder = self.hf_folder(arch, f"{arch}-{shards}", shards=shards)
                gguf = self.complete(self.made(arch), prompt, f"gguf-{arch}-{shards}")
                own = self.complete(folder, prompt, f"hf-{arch}-{shards}")
                self.assertEqual(own.usage, gguf.usage)
                self.assertEqual(own.text, gguf.text)
                if arch == "qwen2":  # the same sums in the same order
                    self.assertEqual(own.answer, gguf.answer)
                both = [reply.json["choices"][0]["logprobs"]["token_logprobs"]
                        for reply in (own, gguf)]
                for one, other in zip(*both):
                    self.assertAlmostEqual(one, other, delta=1e-4)

    def test_cold_memory_and_disk_give_one_answer(self):
        prompt = text_of("hf hits", 400)
        running = self.serve(self.hf_folder(shards=2))
        cold = self.assert_ok(running.complete(prompt))
        memory = self.assert_ok(running.complete(prompt))
        running.wait_on_disk()
        running.kill()
        running.restart()
        disk = self.assert_ok(running.complete(prompt))
        self.assertEqual(cold.cached_tokens, 0)
        self.assertGreater(memory.tier("device"), 300)
        self.assertGreater(disk.tier("disk"), 300)
        for hit in (memory, disk):
            self.assertEqual(hit.answer, cold.answer)

    def test_the_models_name_is_the_folders(self):
        running = self.serve(f"{self.hf_folder()}/")
        names = [model["id"] for model in running.get("/v1/models").json["data"]]
        self.assertIn("Tiny-1.5B", names)
        self.assertNotIn("Tiny-1", names)

    def prompt_tokens(self, running):
        return self.assert_ok(running.chat(MESSAGES, max_tokens=1)).usage["prompt_tokens"]

    def test_the_chat_template_is_the_folders(self):
        plain = {"name": "default", "template": TEMPLATE}
        tools = {"name": "tool_use", "template": "TOOLS OF A MODEL " + TEMPLATE}
        folder = self.hf_folder(chat_template=[tools, plain])
        running = self.serve(folder)
        text = "<user> read the file</s><assistant>"  # BOS is the tokenizer's own
        counted = self.kvgate("tokenize", "--model", folder, stdin=text)
        self.assertEqual(self.prompt_tokens(running), len(counted.stdout.split()))
        running.kill()
        (folder / "chat_template.jinja").write_text("a file of its own " + TEMPLATE)
        own = self.serve(folder, self.folder / "own")
        self.assertGreater(self.prompt_tokens(own), len(counted.stdout.split()))

    def test_an_end_token_of_generation_config_ends_the_answer(self):
        folder = self.hf_folder()
        prompt = text_of("ends", 50)
        running = self.serve(folder)
        goes_on = self.assert_ok(running.complete(prompt, 8, ignore_eos=False, logprobs=0))
        running.kill()
        self.assertEqual(goes_on.json["choices"][0]["finish_reason"], "length")
        said = goes_on.json["choices"][0]["logprobs"]["tokens"]
        tokens = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
        end = tokens[said[3].replace(" ", "\u2581")]
        (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [2, end]}))
        running = self.serve(folder, self.folder / "ending")
        ended = self.assert_ok(running.complete(prompt, 8, ignore_eos=False))
        self.assertEqual(ended.json["choices"][0]["finish_reason"], "stop")
        self.assertEqual(ended.usage["completion_tokens"], said.index(said[3]) + 1)

    def test_every_command_takes_the_folder(self):
        folder = self.hf_folder()
        text = "Read the file, then think."
        own = self.kvgate("tokenize", "--model", folder, stdin=text)
        self.assertEqual(own.stdout, self.kvgate("tokenize", "--model", self.made("llama"),
                                                 stdin=text).stdout)
        self.assertIn("KV heads", self.kvgate("plan", "--model", folder).stdout)
        doctor = self.kvgate("doctor", "--model", folder, "--data-dir", self.folder / "data")
        self.assertRegex(doctor.stdout, r"ok +model .*Tiny-1\.5B: llama, 2 layers")
        bench = self.kvgate("bench", "kv-cache", "--model", folder, "--tokens", "8")
        self.assertEqual(bench.returncode, 0, bench.stderr)

    def test_what_quantize_makes_of_a_folder_answers_alike(self):
        folder, out = self.hf_folder(), self.folder / "made.gguf"
        made = self.kvgate("quantize", folder, out, "f16")
        self.assertEqual(made.returncode, 0, made.stderr)
        reference = self.folder / "reference.gguf"
        self.kvgate("quantize", self.made("llama"), reference, "f16")
        prompt = text_of("quantized", 100)
        self.assertEqual(self.complete(out, prompt, "a").answer,
                         self.complete(reference, prompt, "b").answer)

    def test_what_cannot_be_served_is_named(self):
        def refused(folder, *words):
            ended = self.kvgate("serve", "--model", folder, "--listen", "127.0.0.1:0",
                                "--data-dir", self.folder / "none")
            self.assertEqual(ended.returncode, 1, ended.stderr)
            for word in words:
                self.assertIn(word, ended.stderr)

        folder = self.hf_folder(shards=2)
        self.edit(folder / "config.json", quantization_config={"quant_method": "fp8"})
        refused(folder, "Tiny-1.5B/config.json: quantization_config is \"fp8\"", "BF16")
        self.edit(folder / "config.json", quantization_config=None, architectures=["BertModel"])
        refused(folder, "config.json: architectures is [\"BertModel\"]", "Qwen2ForCausalLM")
        self.edit(folder / "config.json", architectures=["LlamaForCausalLM"], hidden_size=64)
        refused(folder, "token_embd.weight")
        self.edit(folder / "config.json", hidden_size=TINY["hidden"])
        shard = folder / "model-00002-of-00002.safetensors"
        whole = shard.read_bytes()
        shard.write_bytes(whole[:-1])
        refused(folder, "model-00002-of-00002.safetensors: tensor '")
        shard.unlink()
        refused(folder, "model-00002-of-00002.safetensors is missing")
        refused(self.folder, "config.json is missing")


if __name__ == "__main__":
    unittest.main()
