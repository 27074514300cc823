#!/usr/bin/env python3
"""Watching a server from a terminal: top, requests, context; the server is a stand-in."""

import fcntl
import http.server
import json
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import threading
import time
import unittest
import urllib.parse

import server

ENTER, LEAVE = b"\x1b[?1049h", b"\x1b[?1049l"
RECORD = {"id": "00ab", "time_us": 1_700_000_000_000_000, "model": "gpt-6-sol",
          "upstream": "openai", "status": 200, "outcome": "complete",
          "usage": {"input_tokens": 1000, "cache_read_tokens": 900, "output_tokens": 12},
          "cost": {"nanodollars": 1_230_000, "uncached_nanodollars": 9_000_000},
          "timings": {"ttft_us": 310_000}, "edits": [],
          "attribution": {"tools": {"cached": 900, "written": 0, "uncached": 100,
                                    "nanodollars": 5}}}
HOSTILE = "gpt\x1b[2J\r\u202e"
STATS = {"requests_running": 1, "requests_waiting": 0, "connections": 2,
         "minute": {"requests": 1, "cached_tokens": 900, "uncached_tokens": 100}}


class StandIn(http.server.BaseHTTPRequestHandler):
    """Answers as the outside contract says; events go on until the connection ends."""

    protocol_version = "HTTP/1.1"
    seen = []
    events = [("stats", STATS), ("request", RECORD), ("stats", STATS)]
    ends = False

    def log_message(self, *_):
        pass

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        self.seen.append((url.path, urllib.parse.parse_qsl(url.query),
                          self.headers.get("Authorization")))
        if url.path == "/kvgate/v1/events":
            self.stream()
            return
        answer = {"/kvgate/v1/stats": {"ledger": {"totals": {
                      "since_us": 1, "requests": 1, "by_model": {HOSTILE: {"requests": 1}}}},
                      "data": [{"name": HOSTILE, "requests": 1}]},
                  "/kvgate/v1/sessions": {"data": [{"key": HOSTILE, "model": HOSTILE}]},
                  "/kvgate/v1/advice": {"data": [{"title": "a", "what": HOSTILE, "fix": "b",
                                                  "where": {"model": HOSTILE, "path": HOSTILE},
                                                  "evidence": [HOSTILE, 7]}]},
                  "/kvgate/v1/requests": {"data": [RECORD, dict(RECORD, model="older")],
                                          "has_more": False},
                  "/kvgate/v1/requests/00ab": RECORD}.get(url.path)
        status = 404 if answer is None else 200
        if answer is None:
            answer = {"error": {"message": "There is no such record."}}
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def stream(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        try:
            for name, data in self.events:
                self.wfile.write(f"event: {name}\ndata: {json.dumps(data)}\n\n".encode())
            while not self.ends:
                self.wfile.write(b": still here\n\n")
                time.sleep(0.05)
        except (BrokenPipeError, ConnectionResetError):
            pass


class TerminalTest(unittest.TestCase):
    def setUp(self):
        self.handler = type("Handler", (StandIn,), {"seen": []})
        web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self.handler)
        web.daemon_threads = True
        threading.Thread(target=web.serve_forever, daemon=True).start()
        self.addCleanup(web.server_close)
        self.addCleanup(web.shutdown)
        self.url = f"http://127.0.0.1:{web.server_port}"

    def run_kvgate(self, *arguments, **options):
        return subprocess.run([server.binary_path(), *arguments, "--url", self.url],
                              capture_output=True, text=True, timeout=60, **options)

    def test_requests_are_listed_with_the_newest_last(self):
        made = self.run_kvgate("requests", "ls", "-n", "2", "--model", "gpt 6&7", "--break", "any")
        self.assertEqual(made.returncode, 0, made.stderr)
        lines = made.stdout.splitlines()
        self.assertEqual(len(lines), 3)
        self.assertIn("older", lines[1])
        self.assertIn("gpt-6-sol", lines[2])
        self.assertNotIn("\x1b", made.stdout, "no colours in a pipe")
        self.assertEqual(self.handler.seen[0][1],
                         [("model", "gpt 6&7"), ("break", "any"), ("limit", "2")])

    def test_json_is_as_the_server_gave_it(self):
        made = self.run_kvgate("requests", "ls", "--json")
        self.assertEqual(json.loads(made.stdout.splitlines()[1]), RECORD)
        made = self.run_kvgate("context", "00ab", "--json")
        self.assertEqual(json.loads(made.stdout), RECORD)
        made = self.run_kvgate("top", "--once", "--json")
        self.assertEqual(json.loads(made.stdout.splitlines()[0]),
                         {"event": "stats", "data": STATS})

    def test_tail_prints_each_request_until_the_server_ends(self):
        self.handler.ends = True
        environment = dict(os.environ, KVGATE_TEST_KEY="sk-1")
        made = self.run_kvgate("requests", "tail", "--key-env", "KVGATE_TEST_KEY", env=environment)
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertEqual(len(made.stdout.splitlines()), 2, made.stdout)
        self.assertIn("gpt-6-sol", made.stdout)
        self.assertEqual(self.handler.seen[0][2], "Bearer sk-1")

    def test_context_shows_the_prompt_by_source(self):
        made = self.run_kvgate("context", "00ab")
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertIn("900 of them read from a cache (90.0 %)", made.stdout)
        self.assertIn("T tools", made.stdout)
        self.assertIn("█", made.stdout)

    def test_what_is_not_there_is_said(self):
        made = self.run_kvgate("context", "nothing/here")
        self.assertEqual(made.returncode, 1)
        self.assertIn("There is no such record.", made.stderr)
        self.assertEqual(self.handler.seen[0][0], "/kvgate/v1/requests/nothing%2Fhere")

    def test_names_of_others_cannot_move_the_cursor(self):
        for command in (["stats"], ["stats", "--by", "model"], ["advise"],
                        ["sessions", "ls"]):
            with self.subTest(command=command):
                made = self.run_kvgate(*command)
                self.assertEqual(made.returncode, 0, made.stderr)
                self.assertIn("gpt?[2J??", made.stdout)
                for odd in "\x1b\r\u202e":
                    self.assertNotIn(odd, made.stdout)

    def test_top_without_a_terminal_prints_one_page(self):
        made = self.run_kvgate("top")
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertIn("90.0 %", made.stdout)
        self.assertIn("older", made.stdout, "what has ended before is there")
        self.assertNotIn("\x1b", made.stdout)

    def open_top(self):
        """Starts `kvgate top` on a terminal of its own; returns its process and the terminal."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
        before = termios.tcgetattr(theirs)
        environment = dict(os.environ, TERM="xterm-256color")
        environment.pop("NO_COLOR", None)
        process = subprocess.Popen([server.binary_path(), "top", "--url", self.url], stdin=theirs,
                                   stdout=theirs, stderr=subprocess.PIPE, env=environment)
        self.addCleanup(process.stderr.close)
        self.addCleanup(os.close, ours)
        self.addCleanup(os.close, theirs)
        self.addCleanup(process.kill)
        return process, ours, theirs, before

    def read_until(self, terminal, what):
        got = b""
        deadline = time.monotonic() + 60
        while what not in got:
            self.assertGreater(deadline, time.monotonic(), got)
            if select.select([terminal], [], [], 1)[0]:
                got += os.read(terminal, 65536)
        return got

    def check_given_back(self, process, ours, theirs, before):
        self.read_until(ours, LEAVE)
        self.assertEqual(process.wait(60), 0)
        self.assertEqual(termios.tcgetattr(theirs), before, "the terminal is as it was")

    def test_top_fills_the_terminal_and_gives_it_back(self):
        for end in ("key", "signal"):
            with self.subTest(end=end):
                process, ours, theirs, before = self.open_top()
                page = self.read_until(ours, b"gpt-6-sol")
                self.assertIn(ENTER, page)
                if end == "key":
                    os.write(ours, b"q")
                else:
                    process.send_signal(signal.SIGTERM)
                self.check_given_back(process, ours, theirs, before)

    def test_top_ends_with_its_server(self):
        process, ours, theirs, before = self.open_top()
        self.read_until(ours, b"gpt-6-sol")
        self.handler.ends = True
        self.check_given_back(process, ours, theirs, before)
        self.assertIn(b"the server has ended", process.stderr.read())


if __name__ == "__main__":
    unittest.main(verbosity=2)
