#!/usr/bin/env python3
"""Ends of all kinds: SIGTERM drains, a client that leaves cancels, a stuck client hurts nobody."""

import json
import signal
import threading
import time
import unittest

import raw_http
from case import Case, text_of, wait_until


def open_stream(running, body):
    """A raw socket with a streaming request sent; the caller reads or leaves."""
    connection = raw_http.connect(running.address, timeout=60)
    data = json.dumps(body).encode()
    connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: %s\r\nContent-Type: "
                       b"application/json\r\nContent-Length: %d\r\n\r\n%s"
                       % (running.address.encode(), len(data), data))
    return connection


def long_request(**fields):
    return {"model": "local", "prompt": text_of("long", 50), "max_tokens": 4000,
            "ignore_eos": True, "temperature": 0, **fields}


def num_running(stats):
    return stats["engine"]["running"]


class LifecycleTest(Case):
    def test_sigterm_finishes_what_runs_flushes_and_exits_with_0(self):
        running = self.serve(model=self.slow())
        replies = []
        prompt = text_of("drain", 200)
        client = threading.Thread(target=lambda: replies.append(
            running.complete(prompt, max_tokens=100, stream=True)))
        client.start()
        running.wait_for("a request to run", lambda s: num_running(s) == 1, timeout=20)
        self.assertEqual(running.terminate(timeout=60), 0, running.log()[-2000:])
        client.join()
        self.assertTrue(replies and replies[0].done, "the answer was cut off")
        self.assertEqual(replies[0].events[-1].get("error"), None)
        # What was computed is on disk without waiting for the flush timer.
        running.restart()
        again = self.assert_ok(running.complete(prompt, max_tokens=100))
        self.assertGreater(again.tier("disk"), 0)
        self.assertEqual(again.answer, replies[0].answer)

    def test_before_the_port_closes_it_says_that_it_is_not_ready_and_serves(self):
        running = self.serve(arguments=["--set", "server.unready_seconds=3000",
                                        "--set", "server.drain_seconds=3000"])
        kept = running.connect()
        self.addCleanup(kept.close)
        kept.request("GET", "/health")
        first = kept.getresponse()
        first.read()
        self.assertIsNone(first.getheader("connection"))
        running.process.send_signal(signal.SIGTERM)
        wait_until(lambda: running.get("/ready").status == 503, "it to say that it is not ready")
        # New connections are served, and one that was kept for one request more.
        self.assert_ok(running.complete(text_of("late", 20), max_tokens=4))
        self.assertEqual(running.get("/health").status, 200)
        kept.request("GET", "/health")
        last = kept.getresponse()
        last.read()
        self.assertEqual((last.status, last.getheader("connection")), (200, "close"))
        # A second signal ends this time, and no connection is left to wait for.
        self.assertEqual(running.terminate(timeout=60), 0, running.log()[-2000:])

    def test_a_client_that_leaves_a_stream_cancels_its_work_within_a_second(self):
        running = self.serve(model=self.slow())
        connection = open_stream(running, long_request(stream=True))
        self.assertTrue(connection.recv(100))
        running.wait_for("the request to run", lambda s: num_running(s) == 1, timeout=20)
        connection.close()
        running.wait_for("the engine to stop", lambda s: num_running(s) == 0, timeout=1.0)

    def test_a_client_that_leaves_before_its_whole_reply_cancels_it_too(self):
        running = self.serve(model=self.slow())
        connection = open_stream(running, long_request())
        running.wait_for("the request to run", lambda s: num_running(s) == 1, timeout=20)
        connection.close()
        running.wait_for("the engine to stop", lambda s: num_running(s) == 0, timeout=1.0)

    def test_a_client_that_leaves_cancels_all_answers_of_its_request(self):
        for stream in (True, False):
            running = self.serve(model=self.slow(), data_dir=self.folder / str(stream))
            connection = open_stream(running, long_request(n=4, stream=stream))
            running.wait_for("four to run", lambda s: num_running(s) == 4, timeout=20)
            connection.close()
            running.wait_for("the engine to stop", lambda s: num_running(s) == 0, timeout=1.0)

    def test_without_a_client_that_leaves_the_long_request_keeps_running(self):
        # The control for the two above: what they wait for does not happen by itself.
        running = self.serve(model=self.slow())
        connection = open_stream(running, long_request(stream=True))
        running.wait_for("the request to run", lambda s: num_running(s) == 1, timeout=20)
        time.sleep(1.5)
        self.assertEqual(num_running(running.stats()), 1)
        connection.close()

    def test_clients_that_never_read_do_not_stop_others(self):
        running = self.serve()
        stuck = [open_stream(running, long_request(stream=True)) for _ in range(4)]
        reply = self.assert_ok(running.complete(text_of("others", 100), max_tokens=16))
        self.assertEqual(reply.usage["completion_tokens"], 16)
        for connection in stuck:
            connection.close()
        running.wait_for("the stuck ones to end", lambda s: num_running(s) == 0, timeout=10)

    def test_one_connection_serves_many_requests(self):
        running = self.serve()
        connection = running.connect()
        for index in range(5):
            body = json.dumps(long_request(prompt=f"again {index}", max_tokens=2))
            connection.request("POST", "/v1/completions", body,
                               {"Content-Type": "application/json"})
            response = connection.getresponse()
            self.assertEqual(response.status, 200)
            response.read()
        connection.close()

    def test_health_says_whether_it_can_serve(self):
        running = self.serve()
        self.assertEqual(running.get("/health").status, 200)
        self.assertEqual(running.get("/ready").status, 200)


if __name__ == "__main__":
    unittest.main()
