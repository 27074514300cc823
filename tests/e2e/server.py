"""Starts, asks and kills a real kvgate: what the end-to-end tests and scripts/{run,bench} share.

Standard library only. A Server is one process on one data directory; it listens on a port that the
kernel chose and reads it from the line `listening on http://ADDR:PORT`.
"""

import http.client
import json
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
import urllib.parse
from dataclasses import dataclass, field
from pathlib import Path

READY_SECONDS_MAX = 120
REQUEST_SECONDS_MAX = 300


class ServerError(Exception):
    """The process did not do what was asked; the message holds the end of its log."""


@dataclass
class Reply:
    """One HTTP response, read whole. For a stream: the joined text and the times of its parts."""
    status: int
    headers: dict
    body: bytes
    events: list = field(default_factory=list)
    sent_at: float = 0.0
    first_content_at: float = 0.0
    done: bool = False  # a stream ended with [DONE]

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def objects(self):
        return self.events if self.events else [self.json]

    @property
    def text(self):
        """What the model said, in either dialect's place, streamed or whole."""
        said = []
        for event in self.objects:
            for choice in event.get("choices", []):
                part = choice.get("delta") or choice.get("message") or choice
                said.append(part.get("content") or part.get("text") or "")
        return "".join(said)

    @property
    def explain(self):
        """The `kvgate` object that x-kvgate-explain asks for."""
        found = [event["kvgate"] for event in self.objects if event.get("kvgate")]
        if not found:
            raise ServerError(f"no kvgate object in the reply ({self.status}): {self.body[:500]!r}")
        return found[-1]

    @property
    def usage(self):
        found = [event["usage"] for event in self.objects if event.get("usage")]
        return found[-1] if found else None

    @property
    def cached_tokens(self):
        return self.explain["cached_tokens"]

    def tier(self, name):
        """Prefix tokens that came from a tier: "device" or "disk"."""
        return self.explain["tiers"].get(name, 0)

    @property
    def answer(self):
        """What must not differ between a cold prefill and any kind of hit."""
        return self.text, self.explain["logits_hash"]

    @property
    def ttft_ms(self):
        """Measured by the client: request sent to first content received."""
        return (self.first_content_at - self.sent_at) * 1000

    @property
    def error(self):
        return self.json["error"]


def binary_path():
    """The kvgate under test: $KVGATE_BIN, else the release build's."""
    root = Path(__file__).resolve().parent.parent.parent
    return Path(os.environ.get("KVGATE_BIN", root / "build/release/bin/kvgate"))


def make_model(path, **shape):
    """A random-weight model file, made once: make_model(p, arch="llama", kv_heads=2, ...)."""
    path = Path(path)
    wanted = json.dumps(shape, sort_keys=True)
    noted = path.with_suffix(".shape.json")
    if path.exists() and noted.exists() and noted.read_text() == wanted:
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    # Under a name of its own until it is whole: tests that run side by side share the file.
    partial = path.with_suffix(f".{os.getpid()}.partial")
    arguments = [f"--{key.replace('_', '-')}={value}" for key, value in shape.items()]
    made = subprocess.run([binary_path(), "make-model", *arguments, "--out", partial],
                          capture_output=True, text=True, timeout=600)
    if made.returncode != 0:
        raise ServerError(f"kvgate make-model failed: {made.stderr}{made.stdout}")
    os.replace(partial, path)
    noted.write_text(wanted)
    return path


class Server:
    """`with Server(model, data_dir) as server:` runs it; leaving stops it.

    Without a model (None) it serves the embedded default.
    """

    def __init__(self, model, data_dir, arguments=(), listen="127.0.0.1:0", log_path=None):
        self.model = None if model is None else Path(model)
        self.data_dir = Path(data_dir)
        self.arguments = list(arguments)
        self.listen = listen
        self.log_path = log_path
        self.process = None
        self.address = None
        self.tls = None  # the client's ssl.SSLContext, where the server speaks TLS
        self._owned_log = None
        self._reader = None

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        if self.process is not None:
            self.kill()
            if self.process.stdout is not None:
                self._reader.join()
                self.process.stdout.close()
        self.close_log()

    def command(self):
        model = [] if self.model is None else ["--model", str(self.model)]
        return [str(binary_path()), "serve", *model, "--listen", self.listen,
                "--data-dir", str(self.data_dir), *self.arguments]

    def start(self, detach=False):
        """Returns when the server listens. With detach it outlives this process."""
        if self.log_path is None:
            self._owned_log = tempfile.NamedTemporaryFile(prefix="kvgate-e2e-", suffix=".log")
            self.log_path = self._owned_log.name
        if detach:
            return self._start_detached()
        log = open(self.log_path, "ab")
        self.process = subprocess.Popen(self.command(), stdout=subprocess.PIPE, stderr=log)
        log.close()
        lines = []
        ready = threading.Event()
        stdout = self.process.stdout

        def read():
            for line in stdout:
                lines.append(line.decode(errors="replace"))
                found = re.search(r"listening on https?://(\S+)", lines[-1])
                if found:
                    self.address = found.group(1)
                    ready.set()
            ready.set()

        self._reader = threading.Thread(target=read, daemon=True)
        self._reader.start()
        if not ready.wait(READY_SECONDS_MAX) or self.address is None:
            self.kill()
            raise ServerError(f"kvgate serve did not listen: {''.join(lines)}{self.log()[-3000:]}")
        return self

    def _start_detached(self):
        with open(self.log_path, "ab") as log:
            begin = log.tell()
            self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, start_new_session=True)
        deadline = time.monotonic() + READY_SECONDS_MAX
        while time.monotonic() < deadline and self.process.poll() is None:
            fresh = self.log()[begin:]
            if "listening on http://" in fresh and "\n" in fresh.split("listening on http://")[1]:
                self.address = fresh.split("listening on http://")[1].split("\n")[0].strip()
                return self
            time.sleep(0.02)
        self.kill()
        raise ServerError(f"kvgate serve did not listen: {self.log()[begin:][-3000:]}")

    def log(self):
        return Path(self.log_path).read_bytes().decode(errors="replace")

    def close_log(self):
        if self._owned_log is not None:
            self._owned_log.close()
            self._owned_log, self.log_path = None, None

    def kill(self):
        """SIGKILL: no destructor, no flush."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def terminate(self, timeout=30):
        """SIGTERM; returns the exit status once it has drained."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout)

    def restart(self):
        """A new process on the same data directory; the old one must be gone."""
        self.address = None
        if self.process.stdout is not None:
            self._reader.join()
            self.process.stdout.close()
        return self.start()

    def connect(self, timeout=REQUEST_SECONDS_MAX):
        parsed = urllib.parse.urlsplit("http://" + self.address)
        if self.tls is not None:
            return http.client.HTTPSConnection(parsed.hostname, parsed.port, timeout=timeout,
                                               context=self.tls)
        return http.client.HTTPConnection(parsed.hostname, parsed.port, timeout=timeout)

    def get(self, path, headers=None):
        connection = self.connect()
        try:
            connection.request("GET", path, headers=headers or {})
            response = connection.getresponse()
            return Reply(response.status, dict(response.getheaders()), response.read())
        finally:
            connection.close()

    def send(self, path, body, headers=None):
        """POST of an object or of raw bytes, explained unless headers say otherwise."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        wanted = {"Content-Type": "application/json", "x-kvgate-explain": "1", **(headers or {})}
        connection = self.connect()
        try:
            sent_at = time.monotonic()
            connection.request("POST", path, raw, wanted)
            response = connection.getresponse()
            if "text/event-stream" in (response.getheader("content-type") or ""):
                return self._read_stream(response, sent_at)
            data = response.read()
            return Reply(response.status, dict(response.getheaders()), data, sent_at=sent_at)
        finally:
            connection.close()

    @staticmethod
    def _read_stream(response, sent_at):
        reply = Reply(response.status, dict(response.getheaders()), b"", sent_at=sent_at)
        for line in response:
            if not line.startswith(b"data:"):
                continue
            data = line[5:].strip()
            if data == b"[DONE]":
                reply.done = True
                continue
            event = json.loads(data)
            reply.events.append(event)
            if not reply.first_content_at and Reply(200, {}, b"", [event]).text:
                reply.first_content_at = time.monotonic()
        return reply

    def complete(self, prompt, max_tokens=32, headers=None, **fields):
        """/v1/completions, greedy, of exactly max_tokens unless told otherwise."""
        body = {"model": "local", "prompt": prompt, "max_tokens": max_tokens, "temperature": 0,
                "ignore_eos": True, **fields}
        return self.send("/v1/completions", body, headers)

    def chat(self, messages, max_tokens=32, headers=None, **fields):
        body = {"model": "local", "messages": messages, "max_tokens": max_tokens,
                "temperature": 0, "ignore_eos": True, **fields}
        return self.send("/v1/chat/completions", body, headers)

    def stats(self):
        return self.get("/kvgate/v1/stats").json

    def wait_for(self, what, condition, timeout):
        """Polls the stats until condition(stats); returns the seconds that took."""
        begin = time.monotonic()
        while True:
            stats = self.stats()
            if condition(stats):
                return time.monotonic() - begin
            if time.monotonic() - begin > timeout:
                raise ServerError(f"not within {timeout} s: {what}; stats: {json.dumps(stats)}")
            time.sleep(0.02)

    def wait_on_disk(self, timeout=10):
        """Until all KV computed so far would survive kill -9; returns the seconds that took."""
        return self.wait_for("all KV on disk", kv_is_on_disk, timeout)


def kv_is_on_disk(stats):
    engine, store = stats["engine"], stats["store"]
    return (engine["write_back_bytes_queued"] == 0 and store["records"] > 0
            and store["unflushed"] == 0)
