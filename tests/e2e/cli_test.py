#!/usr/bin/env python3
"""The commands beside serve: what they print, and that they find the server that holds a folder."""

import json
import shlex
import signal
import subprocess
import time
import unittest

import server
from case import TINY, Case, text_of


class CliTest(Case):
    def kvgate(self, *arguments, stdin="", code=0):
        made = subprocess.run([server.binary_path(), *map(str, arguments)], input=stdin,
                              capture_output=True, text=True, timeout=120)
        self.assertEqual(made.returncode, code, made.stdout + made.stderr)
        return made.stdout if code == 0 else made.stderr

    def test_version_help_and_an_unknown_command(self):
        self.assertRegex(self.kvgate("--version"), r"^kvgate \d+\.\d+\.\d+( \(CUDA\))?\n$")
        self.assertIn("serve", self.kvgate("--help"))
        self.assertIn("there is no command 'dance'", self.kvgate("dance", code=2))
        self.assertIn("subcommand", self.kvgate(code=2))

    def test_what_may_have_been_meant_is_asked(self):
        for arguments, meant in ((["serv"], "'serve'"), (["cache", "stat"], "'stats'"),
                                 (["serve", "--lissten", "x"], "'--listen'"),
                                 (["serve", "--set", "engine.kvdtype=f16"], "'engine.kv_dtype'"),
                                 (["serve", "--set", "engin.kv_dtype=f16"], "[engine]"),
                                 (["serve", "--kv-dtype", "fp16"], "'f16'")):
            with self.subTest(arguments):
                said = self.kvgate(*arguments, code=2)
                self.assertIn(meant, said)
                self.assertEqual(len(said.splitlines()), 1)

    def test_every_key_of_the_configuration_is_explained(self):
        shown = self.kvgate("config", "keys")
        self.assertIn("engine.kv_dtype = \"f16\"\n", shown)
        self.assertIn("upstream.base_url = required\n", shown)
        self.assertLessEqual(max(map(len, shown.splitlines())), 80)
        self.assertIn("ttft_slo_ms", self.kvgate("config", "keys", "slo"))
        self.assertIn("did you mean 'engine.kv_dtype'", self.kvgate("config", "keys",
                                                                    "engine.kvdtyp", code=2))

    def test_make_model_gives_equal_bytes_for_equal_options_and_names_a_bad_one(self):
        shape = [f"--{key.replace('_', '-')}={value}" for key, value in TINY.items()]
        one, two, other = (self.folder / f"{n}.gguf" for n in ("one", "two", "other"))
        self.kvgate("make-model", *shape, "--out", one)
        self.kvgate("make-model", *shape, "--out", two)
        self.kvgate("make-model", *shape[:-1], "--seed=8", "--out", other)
        self.assertEqual(one.read_bytes(), two.read_bytes())
        self.assertNotEqual(one.read_bytes(), other.read_bytes())
        self.assertIn("heads", self.kvgate("make-model", "--heads=7", "--out", one, code=2))

    def test_tokenize_prints_the_references_ids_on_one_line(self):
        model = self.shared_model("stories260K.gguf")
        reference = json.loads(model.with_suffix(".reference.json").read_text())
        for expected in reference["prompts"]:
            for flags, key in (["--no-special"], "tokens"), ([], "tokens_add_special"):
                printed = self.kvgate("tokenize", "--model", model, *flags,
                                      stdin=expected["prompt"])
                self.assertEqual(printed, " ".join(map(str, expected[key])) + "\n")

    def test_tokenize_takes_a_tokenizer_json_or_its_folder(self):
        vocab = {"\u2581": 0, "h": 1, "i": 2, "hi": 3, "\u2581hi": 4, "<s>": 5}
        metaspace = {"type": "Metaspace", "replacement": "\u2581"}
        template = {"type": "TemplateProcessing",
                    "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}],
                    "special_tokens": {"<s>": {"ids": [5]}}}
        file = self.folder / "tokenizer.json"
        file.write_text(json.dumps({
            "added_tokens": [{"id": 5, "content": "<s>", "special": True}],
            "pre_tokenizer": metaspace, "decoder": metaspace, "post_processor": template,
            "model": {"type": "BPE", "vocab": vocab, "merges": ["h i", ["\u2581", "hi"]]}}))
        self.assertEqual(self.kvgate("tokenize", "--model", file, stdin="hi hi"), "5 4 4\n")
        self.assertEqual(self.kvgate("tokenize", "--model", self.folder, "--no-special",
                                     stdin="hi"), "4\n")
        file.write_text('{"model": {"type": "WordPiece"}}')
        self.assertIn("model.type 'WordPiece' is not supported",
                      self.kvgate("tokenize", "--model", file, code=1))

    def test_render_prints_exactly_what_the_template_writes(self):
        chat = self.folder / "chat.jinja"
        chat.write_text("{{ bos_token }}{% for m in messages %}\n<{{ m.role }}>{{ m.content }}"
                        "{% endfor %}\n\n{% if add_generation_prompt %}<assistant>{% endif %}\n"
                        "{{ tools is none }} {{ strftime_now('%d %b') }} {{ extra }}\n")
        given = {"messages": [{"role": "user", "content": "h\u00e9"}], "bos_token": "<s>",
                 "add_generation_prompt": True, "now": "2026-03-14 09:26:53", "extra": [1]}
        expected = "<s><user>h\u00e9\n<assistant>True 14 Mar [1]"
        input_file = self.folder / "input.json"
        input_file.write_text(json.dumps(given))
        self.assertEqual(self.kvgate("render", "--template", chat, input_file), expected)
        self.assertEqual(self.kvgate("render", "--template", chat, "-", stdin=json.dumps(given)),
                         expected)

    def test_render_says_where_a_template_fails(self):
        chat = self.folder / "chat.jinja"
        run = ("render", "--template", chat, "-")
        chat.write_text("one\n {{ raise_exception('no system role') }}")
        self.assertIn("chat.jinja:2:20: no system role", self.kvgate(*run, stdin="{}", code=1))
        chat.write_text("one\n {% for %}")
        self.assertIn("chat.jinja:2:9: ", self.kvgate(*run, stdin="{}", code=2))
        chat.write_text("one")
        self.assertIn("JSON", self.kvgate(*run, stdin="[]", code=2))
        self.assertIn("now", self.kvgate(*run, stdin='{"now": "today"}', code=2))
        self.assertIn("cannot be read", self.kvgate(*run[:2], self.folder, "-", code=1))

    def test_plan_spells_the_formula_out_and_sets_attentions_side_by_side(self):
        text = self.kvgate("plan", "--model", "llama-2-7b", "--context", 4096, "--sequences", 4,
                           "--kv-dtype", "f16", "--memory", "24GiB")
        self.assertIn("KV per token  512 KiB", text)
        self.assertIn("2 (K and V) x 32 layers x 32 KV heads x 128 head_dim x 2 bytes (f16)", text)
        self.assertIn("one sequence  2 GiB", text)
        self.assertIn("peak KV       8 GiB", text)
        self.assertIn("sequences that fit into 24 GiB: 5", text)
        for line in r"MHA \(its own\) +32 ", r"GQA +4 +64 KiB", r"MQA +1 +16 KiB":
            self.assertRegex(text, line)
        text = self.kvgate("plan", "--model", "llama-2-7b", "--kv-dtype", "fp8_e4m3")
        self.assertIn("KV per token  256 KiB", text)
        self.assertIn("x 128 head_dim x 1 bytes (fp8_e4m3)", text)
        text = self.kvgate("plan", "--model", "gpt-3", "--context", 4096)
        self.assertIn("4.5 MiB (4.72 MB)", text)
        self.assertIn("18 GiB (19.33 GB)", text)

    def test_plan_of_a_file_counts_the_file_and_json_says_the_same(self):
        model = self.shared_model("stories260K.gguf")
        plan = json.loads(self.kvgate("plan", "--model", model, "--memory", "64MiB", "--json"))
        self.assertEqual(plan["weight_bytes"], model.stat().st_size)
        self.assertEqual(plan["sequence_bytes"],
                         plan["kv_token_bytes"] * plan["context_tokens"])
        self.assertEqual(plan["total_bytes"], plan["weight_bytes"] + plan["overhead_bytes"]
                         + plan["peak_kv_bytes"])
        self.assertEqual([v["attention"] for v in plan["variants"]], ["MHA", "GQA", "MQA"])

    def test_plan_says_which_names_it_knows_and_explains_70b_in_its_help(self):
        self.assertIn("qwen3-8b", self.kvgate("plan", "--model", "no-such", code=1))
        self.assertIn("2.5 GB", self.kvgate("plan", "--help"))
        self.assertIn("kv-dtype", self.kvgate("plan", "--model", "gpt-2", "--kv-dtype", "f8",
                                              code=2))

    def test_plan_of_a_device_keeps_a_reserve_and_takes_its_steps(self):
        how = ["plan", "--model", "llama-3.1-8b", "--context", 20000, "--memory", "80GiB", "--json"]
        host = json.loads(self.kvgate(*how))
        device = json.loads(self.kvgate(*how, "--device", "cuda"))
        left = (80 << 30) - device["weight_bytes"] - device["overhead_bytes"]
        self.assertAlmostEqual(device["kv_memory_bytes"], (left - (512 << 20)) * 0.9, delta=16)
        activations = host["overhead_bytes"] - host["program_bytes"]
        self.assertEqual(device["program_bytes"], 0, "it is in the host's memory")
        self.assertGreater(device["overhead_bytes"], 3 * activations)
        self.assertEqual(host["kv_memory_bytes"],
                         (80 << 30) - host["weight_bytes"] - host["overhead_bytes"])

    def test_plan_predicts_speed_by_roofline(self):
        how = ["plan", "--model", "llama-3.1-8b", "--context", 8192, "--machine", "h100-sxm",
               "--prompt", 4096, "--output", 512]
        plan = json.loads(self.kvgate(*how, "--json"))
        speed = plan["speed"]
        self.assertEqual(plan["memory_bytes"], 80 << 30)
        # 7.5e9 parameters of 2 bytes are read for each token; 2 operations of each for a prompt's.
        self.assertAlmostEqual(speed["tpot_seconds"], 15.01e9 / 3.35e12, delta=0.0005)
        self.assertAlmostEqual(speed["cold_ttft_seconds"], 2 * 7.5e9 * 4096 / 989e12, delta=0.006)
        self.assertEqual((speed["prefill_limit"], speed["decode_limit"]), ("arithmetic", "memory"))
        self.assertLess(speed["warm_ttft_seconds"], speed["cold_ttft_seconds"] / 8)
        twice = json.loads(self.kvgate(*how, "--bandwidth", 6700, "--json"))["speed"]
        self.assertAlmostEqual(twice["tpot_seconds"] * 2, speed["tpot_seconds"], delta=1e-6)
        self.assertIn("reading memory is the limit", self.kvgate(*how))
        self.assertIn("h200", self.kvgate("plan", "--model", "gpt-2", "--machine", "h999", code=2))

    def test_plan_measures_this_cpu_where_no_machine_is_named(self):
        plan = json.loads(self.kvgate("plan", "--model", "smollm2-135m", "--weights", "q8_0",
                                      "--json"))
        self.assertIn("measured now", plan["speed"]["machine_source"])
        self.assertGreater(plan["speed"]["operations_per_second"], 1e8)
        self.assertGreater(plan["speed"]["bytes_per_second"], 1e8)

    def test_plan_shows_batches_by_contexts_and_models_side_by_side(self):
        grid = json.loads(self.kvgate("plan", "--model", "llama-2-7b", "--machine", "rtx-4090",
                                      "--grid", "--json"))["grid"]
        at = {(cell["context_tokens"], cell["num_sequences"]): cell for cell in grid}
        self.assertEqual(set(at), {(c, n) for c in (1024, 4096) for n in (1, 4, 16, 64)})
        self.assertTrue(at[4096, 1]["fits"])
        self.assertFalse(at[4096, 16]["fits"])
        self.assertGreater(at[1024, 16]["tokens_per_second"], at[1024, 1]["tokens_per_second"])
        self.assertIn("TOKENS/S", self.kvgate("plan", "--model", "llama-2-7b", "--machine", "l4",
                                              "--grid"))
        how = ["plan", "--machine", "a100-80gb", "--context", 4096, "--sequences", 16, "--compare"]
        both = json.loads(self.kvgate(*how, "mistral-7b", "llama-2-7b", "--json"))["models"]
        self.assertEqual([model["num_kv_heads"] for model in both], [32, 8])
        self.assertEqual(both[0]["kv_token_bytes"], 4 * both[1]["kv_token_bytes"])
        self.assertGreater(both[1]["tokens_per_second"], both[0]["tokens_per_second"])
        self.assertRegex(self.kvgate(*how, "mistral-7b", "gpt-2"), "mistral-7b +8 +GQA")
        self.assertIn("--compare", self.kvgate("plan", code=2))

    def test_plan_says_what_would_fit_and_what_was_not_trained(self):
        text = self.kvgate("plan", "--model", "llama-2-7b", "--machine", "l4", "--context", 65536)
        self.assertIn("trained for 4,096 tokens", text)
        self.assertIn("sequences that fit into 24 GiB: 0", text)
        self.assertIn("one sequence needs", text)
        self.assertIn("--context 16384 fits", text)
        text = self.kvgate("plan", "--model", "llama-2-7b", "--machine", "l4", "--context", 20000)
        self.assertIn("--kv-dtype q8_0 fits", text)
        text = self.kvgate("plan", "--model", "llama-2-70b", "--machine", "l4")
        self.assertIn("not even the weights fit", text)
        self.assertNotIn("trained for", text)

    def test_cuda_without_a_device_is_refused_and_fast_needs_cuda(self):
        serve = ["serve", "--listen", "127.0.0.1:0", "--data-dir", self.folder / "data"]
        self.assertIn("engine.numerics", self.kvgate(*serve, "--device", "cpu", "--numerics",
                                                     "fast", code=2))
        self.assertIn("fast", self.kvgate(*serve, "--numerics", "quick", code=2))
        found = json.loads(self.kvgate("doctor", "--json", "--listen", "127.0.0.1:0",
                                       "--data-dir", self.folder / "data", "--kv-memory",
                                       "64MiB", "--disk-cache", "1MiB"))["checks"]
        if any(check["check"] == "CUDA" for check in found):
            self.skipTest("there is a device")
        message = self.kvgate(*serve, "--device", "cuda", code=1)
        self.assertIn("engine.device is cuda, and", message)
        self.assertIn("engine.device auto or cpu", message)
        self.assertIn("on the CPU", next(check["detail"] for check in found
                                         if check["check"] == "device"))

    def test_config_check_says_ok_or_names_the_line(self):
        file = self.folder / "kvgate.toml"
        file.write_text('[server]\nlisten = "127.0.0.1:0"\n')
        said = self.kvgate("config", "check", file)
        self.assertRegex(said, r"^ok\n  listens on 127.0.0.1:0: only programs of this machine ")
        self.assertRegex(said, r"\n  tier disk: at most 16 GiB of KV in /\S+\n"
                              r"  version [0-9a-f]{12}, as servers that run it report it\n$")
        file.write_text("[server]\nlissten = 1\n")
        message = self.kvgate("config", "check", file, code=1)
        self.assertIn(f"{file}:2", message)
        self.assertIn("lissten", message)

    def cache(self, *arguments):
        return self.kvgate("cache", *arguments, "--data-dir", self.folder / "data")

    def test_cache_commands_say_the_same_with_and_without_a_server(self):
        running = self.serve()
        self.assert_ok(running.complete(text_of("cache", 200)))
        running.wait_on_disk()
        listed = self.cache("ls")
        # The header, one prefix, and of what: its model and its first words.
        self.assertEqual(len(listed.splitlines()), 3)
        self.assertRegex(listed.splitlines()[2], r"^  \S+: \S")
        told = self.cache("stats")
        self.assertRegex(told, r"on disk +[0-9.]+ [KM]iB of 16.0 GiB \(.* %\) in [1-9]\d* records")
        self.assertLessEqual(max(map(len, (told + listed).splitlines())), 80, told)
        records = json.loads(self.cache("stats", "--json"))["store"]["records"]
        self.assertIn(f"in {records} records", told)
        checked = self.cache("verify")
        self.assertRegex(checked, r"checked [1-9]\d* records: 0 damaged")
        self.assertEqual(running.terminate(), 0)
        # Without an engine nobody can read it, and its KV is on disk alone.
        header, row = self.cache("ls").splitlines()
        self.assertEqual(header, listed.splitlines()[0])
        self.assertEqual(row.split()[:4], listed.splitlines()[1].split()[:4])
        self.assertRegex(row, r" disk +- +- ")
        self.assertRegex(listed.splitlines()[1], r" device +0 +0 ")
        self.assertEqual(json.loads(self.cache("stats", "--json"))["store"]["records"], records)
        self.assertEqual(self.cache("verify"), checked)

    def test_cache_rm_removes_a_prefix_so_that_it_is_cold_after_a_restart(self):
        running = self.serve()
        kept, removed = text_of("kept", 150), text_of("removed", 250)
        self.assert_ok(running.complete(kept))
        self.assert_ok(running.complete(removed))
        running.wait_on_disk()
        rows = [line.split() for line in self.cache("ls").splitlines()[1:] if line[0] != " "]
        longest = max(rows, key=lambda row: int(row[1]))
        self.assertIn("removed", self.cache("rm", longest[0]))
        running.kill()
        running.restart()
        self.assertEqual(self.assert_ok(running.complete(removed)).tier("disk"), 0)
        self.assertGreater(self.assert_ok(running.complete(kept)).tier("disk"), 0)
        self.cache("rm", "--all")
        self.assertEqual(self.cache("ls"), "nothing is stored\n")

    def test_chat_answers_from_a_server_and_from_a_model_of_its_own(self):
        running = self.serve()
        said = ["--temperature", "0", "--max-tokens", "8"]
        remote = self.kvgate("chat", "--url", f"http://{running.address}", *said, stdin="Hello\n")
        local = self.kvgate("chat", "--model", self.tiny(), "--no-disk", "--kv-memory", "64MiB",
                            *said, stdin="Hello\n")
        self.assertTrue(remote.strip())
        self.assertEqual(remote, local)

    def test_chat_has_a_model_of_its_own_where_the_configuration_only_forwards(self):
        config = self.folder / "forward.toml"
        config.write_text('[[upstream]]\nname = "one"\nbase_url = "http://127.0.0.1:9/v1"\n')
        answer = self.kvgate("chat", "--config", config, "--data-dir", self.folder / "own",
                             "--kv-memory", "64MiB", "--max-tokens", "4", stdin="Hello\n")
        self.assertNotEqual(answer.strip(), "")

    def test_chat_at_a_terminal_says_what_was_cached_and_how_fast_and_nothing_of_its_start(self):
        command = " ".join(map(shlex.quote, map(str, [
            server.binary_path(), "chat", "--model", self.tiny(), "--no-disk", "--kv-memory",
            "64MiB", "--temperature", "0", "--max-tokens", "8"])))
        told = subprocess.run(["script", "-qec", command, "/dev/null"], capture_output=True,
                              input=b"Hello\nAgain\n\x04", timeout=120).stdout.decode()
        self.assertNotRegex(told, r"\binfo\b")
        self.assertIn("Ctrl-C stops an answer", told)
        self.assertRegex(told, r"\[\d+ prompt tokens, \d+ cached \(\d+ %\); \d+ tokens in .* s")

    def test_stats_say_hit_rate_saving_and_latency_in_80_columns(self):
        running = self.serve()
        for _ in range(3):
            self.assert_ok(running.complete(text_of("stats", 300)))
        told = self.kvgate("stats", "--url", f"http://{running.address}")
        self.assertRegex(told, r"hit rate +\d+\.\d %: [1-9]\d* of \d+ input tokens")
        self.assertRegex(told, r"answer +p50 \S+ m?s, p95 \S+ m?s")
        self.assertLessEqual(max(map(len, told.splitlines())), 80, told)
        running.terminate()
        kept = self.kvgate("stats", "--data-dir", self.folder / "data")
        self.assertEqual(kept.splitlines()[1:3], told.splitlines()[1:3])

    def test_chat_ends_at_ctrl_c_and_refuses_empty_input(self):
        url = f"http://{self.serve().address}"
        process = subprocess.Popen([server.binary_path(), "chat", "--url", url],
                                   stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        self.addCleanup(process.kill)
        self.addCleanup(process.stdin.close)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=10), 130)
        self.assertIn("input", self.kvgate("chat", "--url", url, stdin="", code=2))


if __name__ == "__main__":
    unittest.main()
