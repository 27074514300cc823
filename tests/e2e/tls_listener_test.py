#!/usr/bin/env python3
"""A listener that speaks TLS: what works over plain HTTP works over it, byte for byte; a client
that leaves is noticed as soon; handshakes that stall, break or are none harm nobody."""

import http.client
import json
import os
import random
import re
import shutil
import socket
import ssl
import subprocess
import threading
import time
import unittest
from pathlib import Path

import server
from case import SLOW, slowness, wait_until
from forward_test import (ForwardCase, Upstream, answer, chunked, odd_body, read_answer)

STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def make_certificate(folder, name):
    """A self-signed one for localhost and 127.0.0.1: (certificate, key)."""
    path, key = Path(folder, f"{name}.pem"), Path(folder, f"{name}.key")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", key, "-out",
                    path], check=True, capture_output=True)
    return path, key


def text_of_config(certificate, key, more=""):
    return f'[server]\ntls_cert = "{certificate}"\ntls_key = "{key}"\n{more}'


@unittest.skipUnless(shutil.which("openssl"), "the openssl command is not installed")
class TlsCase(ForwardCase):
    def setUp(self):
        super().setUp()
        self.certificate, self.key = make_certificate(self.folder, "own")
        self.client = ssl.create_default_context(cafile=self.certificate)

    def secure_gateway(self, upstreams=(), more="", arguments=()):
        running = self.gateway(upstreams, text_of_config(self.certificate, self.key, more),
                               arguments)
        running.tls = self.client
        return running

    def secure(self, running, context=None, session=None):
        raw = self.connect(running)
        wrapped = (context or self.client).wrap_socket(raw, server_hostname="localhost",
                                                       session=session)
        self.addCleanup(wrapped.close)
        return wrapped

    def metric(self, running, name):
        found = re.search(rf"(?m)^{name} (\d+)", running.get("/metrics").body.decode())
        self.assertIsNotNone(found, name)
        return int(found.group(1))


class ForwardingTest(TlsCase):
    def test_bytes_through_tls_equal_those_through_plain_http(self):
        rng = random.Random(9)
        replies = {}

        def script(connection, head, body):
            connection.sendall(replies[body])

        with Upstream(script) as upstream:
            upstreams = [("u", "openai", upstream.port)]
            got = []
            rounds = []
            for index in range(40):
                body = odd_body(rng, rng.choice([0, 5_000, 1_000_000]) if index % 8 == 0 else 0)
                reply = odd_body(rng, rng.choice([0, 0, 20_000, 300_000]))
                wire = answer(reply)
                if rng.random() < 0.5:
                    size = rng.choice([10, 5_000, 40_000])
                    wire = STREAM + chunked([reply[i:i + size]
                                             for i in range(0, len(reply), size)])
                replies[body] = wire
                rounds.append((body, reply))
            for secure in (False, True):
                make = self.secure_gateway if secure else self.gateway
                with make(upstreams) as running:
                    one = self.secure(running) if secure else self.connect(running)
                    answers = []
                    for body, reply in rounds:
                        head, text, complete, rest = self.post(one, body)
                        self.assertEqual((text, complete, rest), (reply, True, b""))
                        head = re.sub(rb"(?i)\r\nx-kvgate-request-id: \w+", b"", head)
                        answers.append((head, text))
                    got.append(answers)
                    self.assertEqual([body for _, body in upstream.requests],
                                     [body for body, _ in rounds])
                    upstream.requests.clear()
            self.assertEqual(got[0], got[1])

    def test_a_client_that_leaves_frees_the_upstream_within_a_second(self):
        left = threading.Event()

        def script(connection, head, body):
            if b"before" not in body:
                connection.sendall(STREAM + b"3\r\nabc\r\n")
            connection.settimeout(10)
            try:
                while connection.recv(100):
                    pass
            except ConnectionResetError:
                pass
            left.set()
            return "close"

        with Upstream(script) as upstream, \
                self.secure_gateway([("u", "openai", upstream.port)]) as running:
            for body, reset in ((b'{"model":"m"}', False), (b'{"model":"before"}', False),
                                (b'{"model":"before"}', True)):
                left.clear()
                client = self.secure(running)
                client.sendall(b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                               b"application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                if b"before" not in body:
                    pieces = b""
                    while b"abc" not in pieces:
                        piece = client.recv(1000)
                        self.assertTrue(piece, f"the answer ends with {pieces}")
                        pieces += piece
                else:
                    wait_until(lambda: upstream.requests, "the upstream has the request")
                upstream.requests.clear()
                time.sleep(0.3)
                if reset:
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                client.close()
                begin = time.monotonic()
                self.assertTrue(left.wait(30), body)
                took = time.monotonic() - begin
                self.assertLess(took, slowness(running), body)

    def test_a_client_that_only_stops_sending_gets_its_answer(self):
        def script(connection, head, body):
            time.sleep(1)
            connection.sendall(answer(b"late"))

        with Upstream(script) as upstream, \
                self.secure_gateway([("u", "openai", upstream.port)]) as running:
            client = self.secure(running)
            client.sendall(b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                           b"application/json\r\nContent-Length: 2\r\n\r\n{}")
            # Of the socket below: TLS goes on the other way.
            socket.socket.shutdown(client, socket.SHUT_WR)
            got = b""
            while not got.endswith(b"late"):
                piece = client.recv(1000)
                self.assertTrue(piece, got)
                got += piece
            self.assertTrue(got.startswith(b"HTTP/1.1 100 Continue\r\n"), got)
            self.assertIn(b"HTTP/1.1 200 OK\r\n", got)

    def test_a_cut_answer_is_a_cut_and_not_an_end(self):
        def script(connection, head, body):
            connection.sendall(b"HTTP/1.1 200 OK\r\n\r\nabc" if b"close" in body else
                               b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc")
            return "close"

        with Upstream(script) as upstream, \
                self.secure_gateway([("u", "openai", upstream.port)]) as running:
            for version, body in ((b"1.1", b'{"a":"cut"}'), (b"1.0", b'{"a":"close"}')):
                client = self.secure(running)
                client.sendall(b"POST /v1/embeddings HTTP/" + version + b"\r\nHost: localhost\r\n"
                               b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                               % len(body) + body)
                if version == b"1.1":
                    self.assertEqual(read_answer(client)[2], False)
                    continue
                whole = b""
                while piece := client.recv(1000):  # no exception: TLS says that this is all
                    whole += piece
                self.assertTrue(whole.endswith(b"\r\n\r\nabc"), whole)


class LocalTest(TlsCase):
    def test_the_commands_and_a_chat_stream(self):
        model = self.tiny()
        config = self.folder / "kvgate.toml"
        config.write_text(text_of_config(self.certificate, self.key))
        data = self.folder / "data"
        running = server.Server(model, data, ["--config", str(config), "--kv-memory", "64MiB"])
        running.tls = self.client
        with running:
            reply = running.chat([{"role": "user", "content": "hello"}], stream=True)
            self.assert_ok(reply)
            self.assertTrue(reply.done)
            again = running.chat([{"role": "user", "content": "hello"}])
            self.assertEqual(again.text, reply.text)
            connection = running.connect()
            for _ in range(20):
                connection.request("GET", "/health")
                self.assertEqual(connection.getresponse().read(), b'{"status":"ok"}')
            connection.close()
            info = json.loads((data / "server.json").read_text())
            self.assertTrue(info["address"].startswith("https://127.0.0.1:"))
            request = self.folder / "request.json"
            request.write_text(json.dumps({"model": "local", "prompt": "so " * 100}))
            for arguments in (["stats"], ["cache", "ls"], ["cache", "stats"],
                              ["warm", str(request)], ["doctor"]):
                done = self.command(*arguments, "--data-dir", str(data))
                self.assertEqual(done.returncode, 0, (arguments, done.stdout, done.stderr))
            url = f"https://{running.address}"
            stranger = self.command("stats", "--url", url)
            self.assertEqual(stranger.returncode, 1)
            self.assertIn("certificate is not trusted", stranger.stderr)
            trusted = self.command("stats", "--url", url, SSL_CERT_FILE=str(self.certificate))
            self.assertEqual(trusted.returncode, 0, trusted.stderr)
            info["certificate_sha256"] = "0" * 64
            (data / "server.json").write_text(json.dumps(info))
            other = self.command("stats", "--data-dir", str(data))
            self.assertEqual(other.returncode, 1)
            self.assertIn("shows another certificate", other.stderr)
            self.assertEqual(running.terminate(), 0)

    def command(self, *arguments, **environment):
        return subprocess.run([str(server.binary_path()), *arguments], capture_output=True,
                              text=True, timeout=60, env={**os.environ, **environment},
                              stdin=subprocess.DEVNULL)

    def test_a_client_that_leaves_ends_the_work_and_a_drain_waits_for_who_stays(self):
        config = self.folder / "kvgate.toml"
        config.write_text(text_of_config(self.certificate, self.key))
        running = server.Server(self.model(SLOW, "slow"), self.folder / "data",
                                ["--config", str(config), "--kv-memory", "256MiB"])
        running.tls = self.client
        with running:
            for stream in (True, False):
                connection = running.connect()
                connection.request("POST", "/v1/completions", json.dumps(
                    {"model": "local", "prompt": "abc", "max_tokens": 4000, "ignore_eos": True,
                     "stream": stream}), {"Content-Type": "application/json"})
                running.wait_for("it runs", lambda s: s["engine"]["running"] == 1, 10)
                connection.sock.close()
                connection.close()
                took = running.wait_for("cancelled", lambda s: s["engine"]["running"] == 0, 10)
                self.assertLess(took, slowness(running))
            connection = running.connect()
            connection.request("POST", "/v1/completions", json.dumps(
                {"model": "local", "prompt": "abc", "max_tokens": 60, "ignore_eos": True,
                 "stream": True}), {"Content-Type": "application/json"})
            response = connection.getresponse()
            idle = self.secure(running)  # and one in the middle of nothing
            silent = self.connect(running)
            running.process.terminate()
            self.assertTrue(response.read().endswith(b"data: [DONE]\n\n"))
            connection.close()
            self.assertEqual(idle.recv(10), b"", "the farewell of TLS, not a cut")
            try:
                self.assertEqual(silent.recv(10), b"")
            except ConnectionResetError:
                pass  # it had not been accepted yet
            self.assertEqual(running.process.wait(10), 0)


class HandshakeTest(TlsCase):
    def test_versions_protocols_and_resumption(self):
        with self.secure_gateway() as running:
            one = self.secure(running)
            self.assertEqual(one.version(), "TLSv1.3")
            for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
                context = ssl.create_default_context(cafile=self.certificate)
                context.maximum_version = version
                context.set_alpn_protocols(["h2", "http/1.1"])
                first = self.secure(running, context)
                self.assertEqual(first.selected_alpn_protocol(), "http/1.1")
                self.assertIn("GCM" if version == ssl.TLSVersion.TLSv1_2 else "TLS_",
                              first.cipher()[0])
                self.assertIsNone(first.compression())
                self.assertEqual(self.ask(first), b"200")  # reads the tickets of TLS 1.3, too
                again = self.secure(running, context, first.session)
                self.assertTrue(again.session_reused)
                self.assertEqual(self.ask(again), b"200")
            only_h2 = ssl.create_default_context(cafile=self.certificate)
            only_h2.set_alpn_protocols(["h2"])
            with self.assertRaises(ssl.SSLError):
                self.secure(running, only_h2)
            old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            old.load_verify_locations(self.certificate)
            old.set_ciphers("ALL:@SECLEVEL=0")
            old.minimum_version = ssl.TLSVersion.TLSv1
            old.maximum_version = ssl.TLSVersion.TLSv1_1
            with self.assertRaises((ssl.SSLError, ConnectionError)):
                self.secure(running, old)
            self.assertEqual(self.metric(running, "kvgate_tls_handshake_failures_total"), 2)
        with self.secure_gateway(arguments=["--set", "server.tls_min_version=1.3"]) as running:
            context = ssl.create_default_context(cafile=self.certificate)
            context.maximum_version = ssl.TLSVersion.TLSv1_2
            with self.assertRaises(ssl.SSLError):
                self.secure(running, context)
            self.assertEqual(self.ask(self.secure(running)), b"200")

    def ask(self, connection):
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        return read_answer(connection)[0].split(b" ")[1]

    def test_plain_http_gets_a_400_in_plain_text(self):
        with self.secure_gateway() as running:
            client = self.connect(running)
            client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
                           b"Content-Length: 100000\r\n\r\n" + b"x" * 50_000)
            head, body, complete, _ = read_answer(client)
            self.assertTrue(head.startswith(b"HTTP/1.1 400 Bad Request\r\n"), head)
            self.assertIn(b"content-type: text/plain", head)
            self.assertIn(b"HTTPS", body)
            self.assertTrue(complete)
            self.assertEqual(self.ask(self.secure(running)), b"200")

    def test_what_is_no_handshake_is_closed_without_a_word_in_the_log(self):
        more = "\n[limits]\nheader_timeout_seconds = 1\n"
        with self.secure_gateway(more=more) as running:
            hello = self.client_hello()
            rng = random.Random(3)
            junk = [b"\x16\x03\x01\x40\x00" + rng.randbytes(5000), b"\x16\x03\x01\x00\x04\1\0\0\0",
                    b"\x16", b"\x80\x2e\x01\x03\x01", b"\0" * 100, rng.randbytes(3000),
                    hello[:50], hello[:-1], hello + b"\x17\x03\x03\x00\x05hello",
                    hello[:5] + bytes(len(hello) - 5), b"", b"\x15\x03\x01\x00\x02\x02\x28"]
            clients = []
            for bytes_ in junk * 4:
                client = self.connect(running)
                client.sendall(bytes_)
                clients.append(client)
            begin = time.monotonic()
            for client in clients:
                try:
                    while client.recv(5000):
                        pass
                except ConnectionResetError:
                    pass
            self.assertLess(time.monotonic() - begin, 5 * slowness(running))
            # A request in which TLS breaks off or turns to noise: closed as well.
            for tail in (b"\x17\x03\x03\x00\x20" + b"n" * 32, b"\x17\x03\x03\x40\x00cut", b""):
                one = self.secure(running)
                one.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                            b"application/json\r\nContent-Length: 900\r\n\r\n{")
                raw = socket.socket(fileno=os.dup(one.fileno()))
                raw.sendall(tail)
                raw.shutdown(socket.SHUT_WR)
                raw.settimeout(5)
                try:
                    while raw.recv(5000):
                        pass
                except ConnectionResetError:
                    pass
                raw.close()
            self.assertEqual(self.ask(self.secure(running)), b"200")
            wait_until(lambda: self.metric(running, "kvgate_connections") <= 2, "all closed")
            log = running.log()
            self.assertNotIn("exception", log)
            self.assertLess(len(log.splitlines()), 10, log[-3000:])

    def client_hello(self):
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        one = self.client.wrap_bio(incoming, outgoing, server_hostname="localhost")
        with self.assertRaises(ssl.SSLWantReadError):
            one.do_handshake()
        return outgoing.read()

    def test_a_handshake_that_drips_is_bounded(self):
        with self.secure_gateway(more="\n[limits]\nheader_timeout_seconds = 2\n") as running:
            hello = self.client_hello()
            client = self.connect(running)
            begin = time.monotonic()
            with self.assertRaises(OSError):
                for byte in hello * 100:
                    client.sendall(bytes([byte]))
                    time.sleep(0.05)
            self.assertLess(time.monotonic() - begin, 4 * slowness(running))

    def test_a_full_house_is_refused_over_tls(self):
        with self.secure_gateway(more="\n[limits]\nconnections = 3\n") as running:
            kept = [self.secure(running) for _ in range(3)]
            refused = self.secure(running)
            head, body, _, _ = read_answer(refused)
            self.assertIn(b" 503 ", head.split(b"\r\n")[0])
            self.assertIn(b"All 3 connections are in use", body)
            self.assertEqual(self.ask(kept[0]), b"200")


class ConfigTest(TlsCase):
    def problems(self, text):
        path = self.folder / "check.toml"
        path.write_text(text)
        check = subprocess.run([str(server.binary_path()), "config", "check", str(path)],
                               capture_output=True, text=True, timeout=20)
        serve = subprocess.run([str(server.binary_path()), "serve", "--config", str(path),
                                "--listen", "127.0.0.1:0", "--data-dir", str(self.folder / "d")],
                               capture_output=True, text=True, timeout=20)
        doctor = subprocess.run([str(server.binary_path()), "doctor", "--config", str(path),
                                 "--data-dir", str(self.folder / "d")],
                                capture_output=True, text=True, timeout=60)
        self.assertEqual((check.returncode, serve.returncode), (1, 2), check.stderr)
        self.assertEqual(doctor.returncode, 1, doctor.stdout)
        return check.stderr, serve.stderr, doctor.stdout

    def test_each_wrong_file_is_named_by_check_and_by_serve(self):
        _, other_key = make_certificate(self.folder, "other")
        locked = self.folder / "locked.key"
        subprocess.run(["openssl", "pkey", "-in", self.key, "-aes128", "-passout", "pass:secret",
                        "-out", locked], check=True, capture_output=True)
        empty = self.folder / "empty.pem"
        empty.touch()
        missing = self.folder / "missing.pem"
        cases = [
            (text_of_config(self.certificate, other_key), "server.tls_key: the key in", "not that"),
            (text_of_config(missing, self.key), "server.tls_cert:", "No such file"),
            (text_of_config(self.certificate, missing), "server.tls_key:", "No such file"),
            (text_of_config(self.key, self.key), "server.tls_cert:", "no PEM certificate"),
            (text_of_config(empty, self.key), "server.tls_cert:", "empty"),
            (text_of_config(self.folder, self.key), "server.tls_cert:", "cannot be read"),
            (text_of_config(self.certificate, self.certificate), "server.tls_key:", "private key"),
            (text_of_config(self.certificate, locked), "server.tls_key:", "unencrypted"),
            (f'[server]\ntls_cert = "{self.certificate}"\n', "server.tls_key:", "missing"),
            (f'[server]\ntls_key = "{self.key}"\n', "server.tls_cert:", "missing"),
        ]
        for text, *wanted in cases:
            for said in self.problems(text):
                for part in wanted:
                    self.assertIn(part, said, text)
        listens = text_of_config(self.certificate, self.key, 'listen = "0.0.0.0:0"\n')
        path = self.folder / "open.toml"
        path.write_text(listens)
        refused = subprocess.run([str(server.binary_path()), "serve", "--config", str(path)],
                                 capture_output=True, text=True, timeout=20)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("needs a [[key]]", refused.stderr)


if __name__ == "__main__":
    unittest.main()
