#!/usr/bin/env python3
"""Every bound of the contract, with its error; and clients that are slow, broken or too many."""

import hashlib
import json
import random
import socket
import subprocess
import threading
import time
import unittest
from pathlib import Path

import raw_http
import server
from case import Case, slowness, text_of, wait_until

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"


def post(body, more=""):
    data = json.dumps(body).encode()
    return (f"POST {TEXT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(data)}\r\n{more}\r\n").encode() + data


def request(**fields):
    return {"model": "local", "prompt": "limits", "max_tokens": 4, "temperature": 0,
            "ignore_eos": True, **fields}


def read_all(connection):
    """What comes until the server closes; a reset is an end too."""
    got = b""
    try:
        while piece := connection.recv(1 << 16):
            got += piece
    except ConnectionError:
        pass
    return got


def rss_mib(running):
    status = Path(f"/proc/{running.process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def idle(stats):
    engine = stats["engine"]
    return engine["running"] == 0 and engine["waiting"] == 0 and engine["blocks_used"] == 0


class KeyTest(Case):
    def serve_a_key(self, *limits):
        """The server, and the header of its one key."""
        config = self.folder / "kvgate.toml"
        digest = hashlib.sha256(b"gate").hexdigest()
        config.write_text("\n".join(["[[key]]", 'name = "team"', f'sha256 = "{digest}"', *limits]))
        return self.serve(arguments=["--config", str(config)]), {"Authorization": "Bearer gate"}

    def test_local_requests_count_against_a_keys_tokens_and_bear_its_name(self):
        running, key = self.serve_a_key("tokens_per_minute = 300")
        for stream in (False, True):
            reply = self.assert_ok(running.complete([7] * 150, max_tokens=10, headers=key,
                                                    stream=stream))
        late = running.complete("more", headers=key)
        self.assertEqual(late.status, 429, late.body)
        self.assertIn("tokens per minute", late.error["message"])
        self.assertGreaterEqual(int(late.headers["retry-after"]), 1)
        request_id = reply.headers["x-kvgate-request-id"]
        found = self.record_of(running, request_id, key)
        self.assertEqual((found["tenant"], found["upstream"]), ("team", "local"))

    def test_a_keys_bound_on_answers_holds_on_the_local_engine_in_every_dialect(self):
        running, key = self.serve_a_key("default_max_tokens = 20", "output_tokens_max = 30")
        turn = [{"role": "user", "content": "Go on"}]
        for path, name, body in (
                ("/v1/chat/completions", "max_tokens", {"messages": turn}),
                ("/v1/completions", "max_tokens", {"prompt": "Go on"}),
                ("/v1/responses", "max_output_tokens", {"input": "Go on"}),
                ("/v1/messages", "max_tokens", {"messages": turn})):
            for named, expected in ((None, 20), (5, 5), (100_000, 30)):
                if named is None and path == "/v1/messages":
                    continue  # which must name one
                asked = {"model": "local", "ignore_eos": True, **body}
                asked.update({} if named is None else {name: named})
                reply = running.send(path, asked, key)
                self.assertEqual(reply.status, 200, reply.body[:300])
                usage = json.loads(reply.body)["usage"]
                self.assertEqual(usage.get("completion_tokens", usage.get("output_tokens")),
                                 expected, (path, named))

    def test_an_answer_that_nobody_bounds_ends_at_the_servers_default(self):
        running = self.serve(arguments=["--set", "engine.default_max_tokens=40"])
        reply = running.send(CHAT, {"model": "local", "ignore_eos": True,
                                    "messages": [{"role": "user", "content": "Go on"}]})
        self.assertEqual(json.loads(reply.body)["usage"]["completion_tokens"], 40)
        self.assertEqual(json.loads(reply.body)["choices"][0]["finish_reason"], "length")


class BoundsTest(Case):
    def serve_with(self, *settings):
        return self.serve(arguments=[part for each in settings for part in ("--set", each)])

    def refused(self, reply, status, names, retry=False):
        self.assertEqual(reply.status, status, reply.body[:500])
        error = reply.error
        self.assertIn(names, f"{error['message']} {error['param']} {error['code']}")
        self.assertEqual("retry-after" in reply.headers, retry, reply.headers)

    def test_bodies_heads_and_nesting_have_the_configured_bounds(self):
        running = self.serve_with("limits.body=64KiB", "limits.headers=8KiB", "limits.json_depth=8")
        self.refused(running.send(TEXT, b" " * 65537), 413, "65536")
        self.assertEqual(running.send(TEXT, b" " * 65536).status, 400)  # empty, not too large
        reply = running.get("/health", {"X-Long": "y" * 9000})
        self.refused(reply, 431, "8192")
        self.assertEqual(running.get("/health", {"X-Long": "y" * 6000}).status, 200)
        deep = b'{"model":"local","prompt":"a","metadata":' + b"[" * 8 + b"]" * 8 + b"}"
        self.refused(running.send(TEXT, deep), 400, "at most 8")
        shallow = deep.replace(b"[" * 8, b"[" * 6).replace(b"]" * 8, b"]" * 6)
        self.assert_ok(running.send(TEXT, shallow))

    def test_a_chunked_body_that_never_ends_is_cut_at_the_bound(self):
        running = self.serve_with("limits.body=64KiB")
        with raw_http.connect(running.address) as connection:
            connection.sendall(f"POST {TEXT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                               "application/json\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
            try:
                for _ in range(1000):
                    connection.sendall(b"1000\r\n" + b" " * 4096 + b"\r\n")
            except ConnectionError:
                pass
            self.assertTrue(read_all(connection).startswith(b"HTTP/1.1 413"))

    def test_stop_strings_have_a_number_and_a_length(self):
        running = self.serve()
        good = ["s" * 4096] * 16
        self.assert_ok(running.complete("stop", max_tokens=1, stop=good[:4]))
        for bad in (["s"] * 17, ["s" * 4097], [""]):
            self.refused(running.complete("stop", max_tokens=1, stop=bad), 400, "stop")

    def test_what_cannot_fit_is_refused_at_once_and_what_fits_exactly_is_served(self):
        # 1 MiB holds 64 blocks of the tiny model: 2048 tokens, less than its context.
        running = self.serve(arguments=["--set", "engine.context=8192"])
        self.refused(running.complete([20] * 8192, max_tokens=1), 400, "8192")
        running = server.Server(self.tiny(), self.folder / "small", ["--kv-memory", "1MiB"])
        self.addCleanup(running.__exit__)
        running.start()
        for stream in (False, True):
            begin = time.monotonic()
            self.refused(running.complete([20] * 4000, stream=stream), 400, "2048")
            self.assertLess(time.monotonic() - begin, 5 * slowness(running))
            # The second time all but its last token is a hit that holds the whole pool.
            whole = self.assert_ok(running.complete([20] * 2047, max_tokens=5, stream=stream,
                                                    stream_options={"include_usage": True}
                                                    if stream else None))
            self.assertEqual(whole.usage["completion_tokens"], 1)
        endless = self.assert_ok(running.complete([21] * 1900, max_tokens=10**9))
        self.assertEqual(endless.usage["total_tokens"], 2048)
        running.wait_for("no block in use", idle, timeout=10)

    def test_a_prompt_beyond_a_tenants_share_is_told_so_in_words_that_clients_compact_on(self):
        # 1 MiB holds 2048 tokens of the tiny model, a quarter of it 512.
        running = server.Server(self.tiny(), self.folder / "share", [
            "--kv-memory", "1MiB", "--set", "engine.tenant_kv_share=0.25"])
        self.addCleanup(running.__exit__)
        running.start()
        turn = [{"role": "user", "content": text_of("share", 500)}]
        for path, body, words in (
                ("/v1/messages", {"messages": turn, "max_tokens": 4},
                 r"^prompt is too long: \d+ tokens > 512 maximum$"),
                (CHAT, {"messages": turn}, r"maximum context length is 512 tokens"),
                ("/v1/responses", {"input": turn}, r"exceeds the context window.*at most 512")):
            refused = running.send(path, {"model": "local", **body})
            self.assertEqual(refused.status, 400, refused.body)
            self.assertRegex(refused.json["error"]["message"], words)
            if path != "/v1/messages":
                self.assertEqual(refused.error["code"], "context_length_exceeded")
        shortened = running.send("/v1/responses", {
            "model": "local", "truncation": "auto", "max_output_tokens": 4,
            "input": [*turn, {"role": "user", "content": "short"}]})
        self.assert_ok(shortened)
        self.assert_ok(running.complete([20] * 512, max_tokens=4))

    def test_connections_over_the_limit_get_503_and_those_inside_are_served(self):
        running = self.serve_with("limits.connections=4")
        held = [raw_http.connect(running.address) for _ in range(4)]
        with raw_http.connect(running.address) as late:
            answer = read_all(late)
        self.assertTrue(answer.startswith(b"HTTP/1.1 503"), answer[:200])
        self.assertIn(b"retry-after: 1\r\n", answer)
        self.assertIn(b'"code":"overloaded"', answer)
        held[0].sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        self.assertTrue(held[0].recv(1000).startswith(b"HTTP/1.1 200"))
        for connection in held:
            connection.close()

    def test_a_full_queue_is_503_with_retry_after_also_for_streams(self):
        running = self.serve(model=self.slow(), arguments=[
            "--set", "engine.sequences=1", "--set", "engine.queue=2"])
        clients, replies = [], []
        for index in range(12):
            clients.append(threading.Thread(target=lambda i=index: replies.append(
                running.complete(text_of(i, 40), max_tokens=20, stream=i % 2 == 0))))
            clients[-1].start()
        for client in clients:
            client.join()
        refused = [reply for reply in replies if reply.status != 200]
        self.assertEqual(len(replies), 12)
        self.assertTrue(refused, "the queue never filled: the test showed nothing")
        self.assertLess(len(refused), 12)
        for reply in refused:
            self.assertEqual(reply.status, 503)
            self.assertEqual(reply.headers["retry-after"], "1")
        running.wait_for("no block in use", idle, timeout=10)


class SlowClientsTest(Case):
    def serve_impatient(self):
        settings = ("header_timeout_seconds", "body_timeout_seconds", "idle_timeout_seconds",
                    "write_timeout_seconds")
        return self.serve(arguments=[part for each in settings
                                     for part in ("--set", f"limits.{each}=1")])

    def closed_within(self, connection, seconds, dribble=None):
        """Sends `dribble` byte by byte, slowly, until the server closes."""
        begin = time.monotonic()
        connection.settimeout(0.2)
        at = 0
        while time.monotonic() - begin < seconds:
            try:
                if dribble:
                    connection.send(dribble[at % len(dribble):][:1])
                    at += 1
                if connection.recv(1000) == b"":
                    return True
            except socket.timeout:
                continue
            except ConnectionError:
                return True
        return False

    def test_slow_loris_heads_and_stalled_bodies_are_closed_and_idle_ones_too(self):
        running = self.serve_impatient()
        loris = raw_http.connect(running.address)
        loris.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n")
        stalled = raw_http.connect(running.address)
        stalled.sendall(post(request())[:-5])
        idle_one = raw_http.connect(running.address)
        self.assertEqual(running.get("/health").status, 200)
        # A byte now and then does not help: the whole head has one deadline.
        self.assertTrue(self.closed_within(loris, 5, b"X-A: b\r\n"))
        self.assertTrue(self.closed_within(stalled, 5))
        self.assertTrue(self.closed_within(idle_one, 5))
        for connection in (loris, stalled, idle_one):
            connection.close()

    def test_a_body_that_drips_is_closed_and_one_that_flows_is_not(self):
        settings = ("body_timeout_seconds=1", "body_bytes_per_second_min=2000")
        running = self.serve(arguments=[part for each in settings
                                        for part in ("--set", f"limits.{each}")])
        # Both send a piece every 0.2 s, so that no single wait is long.
        with raw_http.connect(running.address) as dripping:
            dripping.sendall(post(request(prompt="a" * 3000))[:-2000])
            self.assertTrue(self.closed_within(dripping, 15, b"aaaa"))
        with raw_http.connect(running.address) as flowing:
            message = post(request(prompt="b " * 4000, max_tokens=1))
            for at in range(0, len(message), 800):
                flowing.sendall(message[at:at + 800])
                time.sleep(0.2)
            flowing.shutdown(socket.SHUT_WR)
            self.assertIn(b" 200 OK", read_all(flowing))

    def test_a_half_closed_client_gets_its_whole_answer(self):
        running = self.serve()
        for stream in (False, True):
            with raw_http.connect(running.address) as connection:
                connection.sendall(post(request(stream=stream, max_tokens=50)))
                connection.shutdown(socket.SHUT_WR)
                answer = read_all(connection)
            self.assertIn(b" 200 OK", answer)
            self.assertIn(b"[DONE]" if stream else b'"finish_reason":"length"', answer)

    def test_memory_stays_flat_while_clients_do_not_read_long_answers(self):
        running = self.serve(arguments=["--set", "limits.write_timeout_seconds=3"])
        body = request(prompt=text_of("unread", 20), max_tokens=6000, stream=True, logprobs=20)
        self.assert_ok(running.complete("warm", max_tokens=50, logprobs=20, stream=True))
        before = rss_mib(running)
        stuck = [raw_http.connect(running.address, receive_bytes=4096) for _ in range(4)]
        for connection in stuck:
            connection.sendall(post(body))
        running.wait_for("the stuck ones to run", lambda s: s["engine"]["running"] > 0, timeout=20)
        most = before
        deadline = time.monotonic() + 120
        while not idle(running.stats()) and time.monotonic() < deadline:
            most = max(most, rss_mib(running))
            time.sleep(0.1)
        self.assertTrue(idle(running.stats()), "a client that does not read holds the engine")
        # Each answer is some 15 MB of events; what nobody has read is kept in a smaller form,
        # 16 MiB at most, until the write times out.
        self.assertLess(most - before, 4 * 24, f"{before:.0f} MiB grew to {most:.0f} MiB")
        for connection in stuck:
            connection.close()
        self.assert_ok(running.complete("after", max_tokens=2))


class FloodTest(Case):
    def test_a_flood_of_connections_ends_with_a_server_that_serves(self):
        running = self.serve(arguments=["--set", "limits.connections=32"])
        opened = []
        for _ in range(400):
            try:
                opened.append(raw_http.connect(running.address, timeout=2))
            except OSError:
                pass
        for connection in opened:
            connection.close()

        def serves():
            try:
                return running.get("/health").status == 200
            except OSError:
                return False

        wait_until(serves, "it serves again after the flood")
        self.assert_ok(running.complete("after the flood", max_tokens=2))

    def test_pipelined_requests_are_answered_in_order(self):
        running = self.serve()
        with raw_http.connect(running.address) as connection:
            wanted = 100
            many = b"".join(
                post(request(prompt=f"p{i}", max_tokens=1)) if i % 10 == 0 else
                f"GET /nothing/{i} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
                for i in range(wanted))
            connection.sendall(many + b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
                                      b"Connection: close\r\n\r\n")
            answer = read_all(connection)
        self.assertEqual(answer.count(b"HTTP/1.1 "), wanted + 1)
        seen = [answer.find(f"/nothing/{i} ".encode()) for i in range(wanted) if i % 10]
        self.assertNotIn(-1, seen)
        self.assertEqual(seen, sorted(seen))

    def test_garbage_ends_its_connection_only(self):
        running = self.serve()
        good = self.assert_ok(running.complete("garbage", max_tokens=8)).answer
        rng = random.Random(5)
        whole = post(request(stream=True))
        for index in range(150):
            junk = bytearray(whole)
            for _ in range(rng.choice((1, 3, 30))):
                junk[rng.randrange(len(junk))] = rng.randrange(256)
            if index % 3 == 0:
                junk = rng.randbytes(rng.randrange(1, 3000))
            with raw_http.connect(running.address, timeout=5) as connection:
                try:
                    connection.sendall(bytes(junk[:rng.randrange(1, len(junk) + 1)]))
                    connection.shutdown(socket.SHUT_WR)
                except ConnectionError:
                    continue
                read_all(connection)
        running.wait_for("no block in use", idle, timeout=10)
        self.assertEqual(self.assert_ok(running.complete("garbage", max_tokens=8)).answer, good)

    def test_clients_that_are_killed_leave_no_work_behind(self):
        running = self.serve(model=self.slow())
        load = subprocess.Popen(
            [server.binary_path(), "bench", "serve", "--url", f"http://{running.address}",
             "--clients", "16", "--seconds", "60", "--output-tokens", "500",
             "--prompt-tokens", "50:1000"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            running.wait_for("many to run", lambda s: s["engine"]["running"] >= 8, timeout=30)
        finally:
            load.kill()
            load.wait()
        # Within a second, and the step that was under way.
        running.wait_for("all work to end", lambda s: s["engine"]["running"] == 0, timeout=3)
        running.wait_for("no block in use", idle, timeout=10)
        self.assert_ok(running.complete("after", max_tokens=2))


class EndTest(Case):
    def drain(self, drain_seconds, max_tokens):
        """SIGTERM while 16 clients wait for answers; the exit code, the seconds, the replies.

        The seconds are those that it would have taken on an idle machine.
        """
        running = self.serve(model=self.slow(),
                             arguments=["--drain-seconds", str(drain_seconds)])
        slow = slowness(running)
        replies, problems = [], []

        def client(index):
            try:
                replies.append(running.complete(text_of(index, 60), max_tokens=max_tokens,
                                                stream=index % 2 == 0))
            except Exception as problem:  # an answer that was cut off
                problems.append(problem)

        clients = [threading.Thread(target=client, args=(i,)) for i in range(16)]
        for each in clients:
            each.start()
        running.wait_for("all to run", lambda s: s["engine"]["running"] == 16, timeout=60)
        begin = time.monotonic()
        code = running.terminate(timeout=drain_seconds + 60)
        seconds = (time.monotonic() - begin) / slow
        for each in clients:
            each.join()
        self.assertEqual(problems, [], running.log()[-2000:])
        self.assertEqual(len(replies), 16)
        return code, seconds, replies

    def test_sigterm_under_load_finishes_every_answer(self):
        code, seconds, replies = self.drain(240, max_tokens=10)
        self.assertEqual(code, 0)
        self.assertLess(seconds, 240)
        for reply in replies:
            self.assert_ok(reply)
            self.assertTrue(reply.done or reply.json["choices"], reply.body)

    def test_answers_that_outlive_the_drain_are_told_so(self):
        code, seconds, replies = self.drain(1, max_tokens=4000)
        self.assertEqual(code, 0)
        self.assertLess(seconds, 1 + 2 + 10)
        for reply in replies:
            if reply.status == 200:
                self.assertIn("cancelled", reply.events[-1]["error"]["message"])
            else:
                self.assertEqual(reply.status, 503)
                self.assertIn("cancelled", reply.error["message"])


if __name__ == "__main__":
    unittest.main()
