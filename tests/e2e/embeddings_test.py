#!/usr/bin/env python3
"""Embeddings of a local model: OpenAI's contract, beside a chat model and alone, by keys."""

import base64
import hashlib
import json
import math
import struct
import sys
import threading
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

from case import Case, text_of, wait_until  # noqa: E402
from provider_simulator import Simulator  # noqa: E402

# A small encoder, and a decoder whose file states a pooling.
ENCODER = dict(arch="bert", layers=2, hidden=64, heads=2, kv_heads=2, ffn=96, vocab=1000,
               context=128, type="f32", seed=3, name="tiny-bert")
DECODER = dict(arch="qwen3", layers=2, hidden=64, heads=2, kv_heads=2, ffn=96, vocab=512,
               context=256, type="f16", seed=3, name="tiny-qwen-embedding", pooling="last")


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b)) / math.hypot(*a) / math.hypot(*b)


class EmbeddingsTest(Case):
    def encoder(self):
        return self.model(ENCODER, "tiny-bert")

    def serve_both(self, arguments=()):
        return self.serve(arguments=["--embedding-model", str(self.encoder()), *arguments])

    def embed(self, running, status=200, headers=None, **fields):
        reply = running.send("/v1/embeddings", fields, headers)
        self.assertEqual(reply.status, status, reply.body)
        return reply

    def vectors(self, running, **fields):
        return [one["embedding"] for one in self.embed(running, **fields).json["data"]]

    def test_beside_a_chat_model_each_answers_what_names_it(self):
        running = self.serve_both()
        listed = {model["id"] for model in running.get("/v1/models").json["data"]}
        self.assertTrue({"tiny-bert", "tiny-bert.gguf", "local", "tiny"} <= listed, listed)
        self.assertEqual(running.get("/v1/models/tiny-bert").json["id"], "tiny-bert")
        for name in ("tiny-bert", "tiny-bert.gguf", "local"):
            self.assertEqual(self.embed(running, model=name, input="a").json["model"], name)
        self.assert_ok(running.complete("a b c", max_tokens=2))  # "local" generates text here
        reply = running.send("/v1/chat/completions", {
            "model": "tiny-bert", "messages": [{"role": "user", "content": "a"}]})
        self.assertEqual(reply.status, 400, reply.body)
        self.assertIn("makes embeddings", reply.json["error"]["message"])
        self.assertEqual(reply.json["error"]["param"], "model")
        refused = self.embed(running, 400, model="tiny", input="a").json["error"]
        self.assertIn("generates text and makes no embeddings", refused["message"])
        self.assertEqual(self.embed(running, 404, model="gone", input="a").json["error"]["param"],
                         "model")

    def test_the_contract_of_openai(self):
        running = self.serve_both()
        answer = self.embed(running, model="tiny-bert", input=["baba bebe", "x"], user="u").json
        self.assertEqual(answer["object"], "list")
        self.assertEqual([(one["object"], one["index"]) for one in answer["data"]],
                         [("embedding", 0), ("embedding", 1)])
        self.assertEqual(answer["usage"]["prompt_tokens"], answer["usage"]["total_tokens"])
        first = answer["data"][0]["embedding"]
        self.assertEqual(len(first), 64)
        self.assertAlmostEqual(math.hypot(*first), 1, places=5)
        coded = self.embed(running, model="tiny-bert", input="baba bebe",
                           encoding_format="base64").json["data"][0]["embedding"]
        unpacked = struct.unpack("<64f", base64.b64decode(coded))
        self.assertEqual([struct.pack("<f", x) for x in first],
                         [struct.pack("<f", x) for x in unpacked])
        fewer = self.vectors(running, model="tiny-bert", input="baba bebe", dimensions=8)[0]
        scale = math.hypot(*first[:8])
        for got, want in zip(fewer, first):
            self.assertAlmostEqual(got, want / scale, places=5)
        # Tokens as they are: [CLS], a piece of the text and [SEP] give what the text gives.
        tokens = self.vectors(running, model="tiny-bert", input=[2, 5, 3])
        self.assertEqual(tokens, self.vectors(running, model="tiny-bert", input="!"))
        self.assertEqual(len(self.vectors(running, model="tiny-bert", input=[[2, 5, 3], [9]])), 2)

        def param(**fields):
            return self.embed(running, 400, model="tiny-bert", **fields).json["error"]["param"]

        self.assertEqual(param(), "input")
        self.assertEqual(param(input=""), "input")
        self.assertEqual(param(input=["a", ""]), "input[1]")
        self.assertEqual(param(input=["a", 3]), "input[1]")
        self.assertEqual(param(input=[1000]), "input")
        self.assertEqual(param(input="a", encoding_format="hex"), "encoding_format")
        self.assertEqual(param(input="a", dimensions=65), "dimensions")
        self.assertEqual(param(input=["a"] * 2049), "input")
        self.assertEqual(param(input=["a", "a " * 127]), "input[1]")

    def test_a_vector_does_not_depend_on_its_company(self):
        running = self.serve_both()
        texts = [text_of(i, 1 + 7 * i % 30) for i in range(40)]
        together = self.vectors(running, model="tiny-bert", input=texts)
        results = {}

        def one(i):
            results[i] = self.vectors(running, model="tiny-bert", input=texts[i])[0]

        threads = [threading.Thread(target=one, args=(i,)) for i in range(0, 40, 3)]
        for thread in threads:
            thread.start()
        self.assert_ok(running.complete(text_of(1, 300), max_tokens=20))
        for thread in threads:
            thread.join()
        for i, vector in results.items():
            self.assertEqual(vector, together[i])
        self.assertLess(cosine(together[0], together[1]), 0.9999)

    def test_a_model_for_embeddings_alone_refuses_chats(self):
        for shape, name in ((ENCODER, "tiny-bert"), (DECODER, "tiny-qwen-embedding")):
            with self.subTest(name):
                running = self.serve(self.model(shape, name), self.folder / name)
                self.assertEqual(running.get("/ready").status, 200)
                names = [model["id"] for model in running.get("/v1/models").json["data"]]
                self.assertEqual(names[0], name)
                self.assertEqual(len(self.vectors(running, model="local", input="a b")[0]), 64)
                for model in (name, "local", "gpt-5"):
                    reply = running.send("/v1/chat/completions", {
                        "model": model, "messages": [{"role": "user", "content": "a"}]})
                    self.assertEqual(reply.status, 404 if model == "gpt-5" else 400, reply.body)
                    self.assertEqual(reply.json["error"]["param"], "model")
                running.kill()

    def test_other_models_go_to_the_upstream(self):
        with Simulator() as provider:
            running = self.serve_both(self.upstreams(provider.url, {"one": ("openai", "*", "")}))
            self.assertEqual(self.embed(running, model="tiny-bert", input="a").json["model"],
                             "tiny-bert")
            self.embed(running, headers={"authorization": "Bearer sk-test"},
                       model="text-embedding-3-small", input="a")
            self.assertEqual([request.path for request in provider.requests],
                             ["/v1/embeddings"])

    def test_requests_are_recorded_counted_and_limited_by_keys(self):
        keys = self.folder / "keys.toml"
        keys.write_text(f"""
[[key]]
name = "root"
sha256 = "{hashlib.sha256(b"root").hexdigest()}"
role = "admin"
[[key]]
name = "ann"
sha256 = "{hashlib.sha256(b"ann").hexdigest()}"
models = ["tiny-bert"]
prompt_tokens_max = 10
""")
        running = self.serve_both(["--config", str(keys)])
        root = {"authorization": "Bearer root"}
        ann = {"authorization": "Bearer ann"}
        reply = self.embed(running, headers=ann, model="tiny-bert", input=["a", "b c"])
        record = self.record_of(running, reply.headers["x-request-id"], root)
        said = [record[name] for name in ("endpoint", "model", "upstream", "status")]
        self.assertEqual(said, ["embeddings", "tiny-bert", "local", 200])
        self.assertEqual(record["usage"]["prompt_tokens"] if "prompt_tokens" in record["usage"]
                         else record["usage"]["input_tokens"], 7)
        self.embed(running, 403, headers=ann, model="local", input="a")
        refused = self.embed(running, 400, headers=ann, model="tiny-bert", input="a " * 20)
        self.assertIn("10", refused.json["error"]["message"])
        self.embed(running, 401, model="tiny-bert", input="a")
        self.assertEqual(self.record_of(running, refused.headers["x-request-id"], root)["outcome"],
                         "refused")
        metrics = running.get("/metrics", root).body.decode()
        self.assertIn("kvgate_embedding_texts_total 2\n", metrics)
        self.assertIn("kvgate_embedding_tokens_total 7\n", metrics)

    def test_a_client_that_leaves_gives_up_its_place(self):
        running = self.serve_both()
        connection = running.connect()
        self.addCleanup(connection.close)
        body = json.dumps({"model": "tiny-bert", "input": ["baba bebe bibi " * 41] * 2000})
        connection.request("POST", "/v1/embeddings", body, {"content-type": "application/json"})

        def waiting():
            text = running.get("/metrics").body.decode()
            line = next(line for line in text.splitlines()
                        if line.startswith("kvgate_embedding_requests_waiting"))
            return int(line.split()[1])

        wait_until(lambda: waiting() == 1, "the request begins")
        connection.close()
        wait_until(lambda: waiting() == 0, "its place is free")
        self.assertEqual(len(self.vectors(running, model="tiny-bert", input="a")), 1)


if __name__ == "__main__":
    unittest.main()
