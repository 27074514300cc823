#!/usr/bin/env python3
"""A server without configuration passes requests with a known provider's credential on to it, and
serves the local model beside. The providers' hosts are reached through a tunnel to a stand-in here,
whose certificate is the only one that is trusted."""

import http.client
import json
import os
import socket
import ssl
import subprocess
import threading
import unittest
import unittest.mock

from case import Case
from forward_test import Upstream, answer, pump

HOSTS = ("api.anthropic.com", "api.openai.com", "api.deepseek.com", "api.x.ai", "openrouter.ai")
ANTHROPIC = "sk-ant-api03-" + "a" * 80
OPENAI = "sk-proj-" + "b" * 80
SHARED = "sk-" + "e" * 48  # as keys of several providers look
JSON = b"Content-Type: application/json\r\n"


def chat(model):
    return {"model": model, "max_tokens": 16, "messages": [{"role": "user", "content": "Hi."}]}


class KnownProvidersTest(Case):
    def setUp(self):
        super().setUp()
        self.asked = []  # hosts and ports that a tunnel was asked to
        self.pages = []  # (request line, fields, body) that a provider got
        certificate, context = self.certificate()
        self.provider = Upstream(self.answer, context)
        self.proxy = Upstream(self.tunnel)
        self.addCleanup(self.provider.close)
        self.addCleanup(self.proxy.close)
        variables = {"HTTPS_PROXY": f"http://127.0.0.1:{self.proxy.port}", "NO_PROXY": "",
                     "SSL_CERT_FILE": str(certificate), "SSL_CERT_DIR": str(self.folder / "none")}
        patch = unittest.mock.patch.dict(os.environ, variables)
        patch.start()
        self.addCleanup(patch.stop)

    def certificate(self):
        path, key = self.folder / "providers.pem", self.folder / "providers.key"
        names = ",".join(f"DNS:{host}" for host in HOSTS)
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                        "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
                        "/CN=providers", "-addext", f"subjectAltName={names}", "-keyout", key,
                        "-out", path], check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path, key)
        return path, context

    def tunnel(self, connection, head, _body):
        self.asked.append(head.split(b" ")[1].decode())
        with socket.create_connection(("127.0.0.1", self.provider.port)) as onward:
            connection.sendall(b"HTTP/1.1 200 Tunnel\r\n\r\n")
            pump(connection, onward)
        return "close"

    def answer(self, connection, head, body):
        line, *fields = head.decode().split("\r\n")
        self.pages.append((line, {name.lower(): value for name, _, value in
                                  (field.partition(": ") for field in fields if field)}, body))
        if "/messages" in line:
            made = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x",
                    "content": [{"type": "text", "text": "Far."}], "stop_reason": "end_turn",
                    "usage": {"input_tokens": 3, "output_tokens": 2}}
        elif line.startswith("GET"):
            made = {"object": "list", "data": [{"id": "gpt-far", "object": "model",
                                                "created": 1, "owned_by": "x"}]}
        else:
            made = {"id": "c1", "object": "chat.completion", "created": 1, "model": "far",
                    "choices": [{"index": 0, "finish_reason": "stop",
                                 "message": {"role": "assistant", "content": "Far."}}],
                    "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}}
        connection.sendall(answer(json.dumps(made).encode(), headers=JSON))

    def bearer(self, key):
        return {"Authorization": f"Bearer {key}"}

    def test_a_credential_and_a_model_name_choose_the_provider(self):
        running = self.serve()
        reply = running.send("/v1/messages", chat("claude-sonnet-5"), {"x-api-key": ANTHROPIC})
        self.assertEqual(self.assert_ok(reply).json["content"][0]["text"], "Far.")
        self.assertEqual(self.asked, ["api.anthropic.com:443"])
        line, fields, _ = self.pages[-1]
        self.assertEqual(line, "POST /v1/messages HTTP/1.1")
        self.assertEqual((fields["host"], fields["x-api-key"]), ("api.anthropic.com", ANTHROPIC))
        for model, key, host, path in (
                ("gpt-5.5", OPENAI, "api.openai.com", "/v1/chat/completions"),
                ("deepseek-chat", SHARED, "api.deepseek.com", "/v1/chat/completions"),
                ("gpt-5.5", SHARED, "api.openai.com", "/v1/chat/completions"),
                ("grok-5", "xai-" + "c" * 80, "api.x.ai", "/v1/chat/completions"),
                ("vendor/model", "sk-or-v1-" + "d" * 64, "openrouter.ai",
                 "/api/v1/chat/completions")):
            reply = running.send("/v1/chat/completions", chat(model), self.bearer(key))
            self.assertEqual(self.assert_ok(reply).json["choices"][0]["message"]["content"], "Far.")
            self.assertEqual(self.asked[-1], f"{host}:443")
            line, fields, body = self.pages[-1]
            self.assertEqual(line, f"POST {path} HTTP/1.1")
            self.assertEqual(fields["authorization"], f"Bearer {key}")
            self.assertEqual(json.loads(body)["model"], model)
        record = self.record_of(running, reply.headers["x-kvgate-request-id"])
        self.assertEqual(record["upstream"], "openrouter")

    def test_the_local_model_answers_beside_them_and_is_listed_first(self):
        running = self.serve()
        for headers in ({}, self.bearer(OPENAI), {"x-api-key": ANTHROPIC}):
            reply = running.chat([{"role": "user", "content": "Hi."}], 4, headers)
            self.assertEqual(self.assert_ok(reply).usage["completion_tokens"], 4)
        self.assertEqual((self.asked, self.pages), ([], []), "nothing has left the machine")
        ids = [model["id"] for model in running.get("/v1/models").json["data"]]
        self.assertIn("local", ids)
        self.assertEqual(self.asked, [])
        more = [model["id"] for model in
                running.get("/v1/models", self.bearer(OPENAI)).json["data"]]
        self.assertEqual(more[:len(ids)], ids)
        self.assertIn("gpt-far", more)
        self.assertEqual(self.asked, ["api.openai.com:443"])

    def test_a_key_of_one_provider_is_shown_to_no_other(self):
        running = self.serve()
        # Whose it is shows by the model alone.
        listed = self.assert_ok(running.get("/v1/models", self.bearer(SHARED))).json["data"]
        self.assertIn("local", [model["id"] for model in listed])
        reply = running.get("/v1/responses/resp_1", self.bearer(SHARED))
        self.assertGreaterEqual(reply.status, 400)
        reply = running.send("/v1/embeddings", {"input": "x"}, self.bearer(SHARED))
        self.assertGreaterEqual(reply.status, 400)
        # This one says whose it is.
        for model, key in (("deepseek-chat", OPENAI), ("grok-5", OPENAI), ("gpt-5.5", ANTHROPIC),
                           ("vendor/model", OPENAI)):
            reply = running.send("/v1/chat/completions", chat(model), self.bearer(key))
            self.assertEqual(reply.status, 404, reply.body)
        self.assertEqual((self.asked, self.pages), ([], []))

    def test_without_a_providers_credential_nothing_leaves_the_machine(self):
        running = self.serve()
        for headers in ({}, self.bearer("local"), self.bearer("sk-no-key-required"),
                        {"x-api-key": "sk-ant-dummy"}, self.bearer("f" * 40)):
            for path, model in (("/v1/chat/completions", "gpt-5.5"),
                                ("/v1/messages", "claude-sonnet-5")):
                reply = running.send(path, chat(model), headers)
                self.assertEqual(reply.status, 404, reply.body)
                self.assertIn("does not exist here", reply.body.decode())
        # A model that its provider does not have, and what must stay here.
        self.assertEqual(running.send("/v1/chat/completions", chat("llama-9"),
                                      self.bearer(OPENAI)).status, 404)
        private = {**self.bearer(OPENAI), "x-kvgate-private": "1"}
        self.assertEqual(running.send("/v1/chat/completions", chat("gpt-5.5"), private).status, 403)
        self.assertEqual(running.get("/v1/files", self.bearer(OPENAI)).status, 404)
        self.assertEqual((self.asked, self.pages), ([], []))

    def test_it_can_be_switched_off_and_an_upstream_or_a_key_ends_it(self):
        off = self.serve(arguments=["--set", "server.known_providers=false"])
        reply = off.send("/v1/chat/completions", chat("gpt-5.5"), self.bearer(OPENAI))
        self.assertEqual(reply.status, 404, reply.body)
        config = self.folder / "upstream.toml"
        config.write_text('[[upstream]]\nname = "own"\nmodels = ["own-*"]\n'
                          'base_url = "http://127.0.0.1:1/v1"\n')
        own = self.serve(data_dir=self.folder / "own", arguments=["--config", str(config)])
        reply = own.send("/v1/chat/completions", chat("gpt-5.5"), self.bearer(OPENAI))
        self.assertEqual(reply.status, 404, reply.body)
        self.assertEqual(self.asked, [])

    def test_many_first_requests_at_once_are_all_answered(self):
        running = self.serve()
        statuses = []

        def ask():
            connection = running.connect()
            connection.request("POST", "/v1/chat/completions", json.dumps(chat("gpt-5.5")),
                               {"Content-Type": "application/json", **self.bearer(OPENAI)})
            statuses.append(connection.getresponse().status)
            connection.close()

        threads = [threading.Thread(target=ask) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(statuses, [http.client.OK] * 16)


if __name__ == "__main__":
    unittest.main()
