"""A real Redis-protocol server on loopback, and a relay in front of it that can be slow.

Where the program is missing, a test that needs it skips by name."""

import os
import shutil
import signal
import socket
import subprocess
import threading
import time
import unittest


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


class RedisServer:
    """redis-server in memory alone; `cli(...)` returns what redis-cli prints."""

    def __init__(self, folder, *settings, password=None):
        self.program = shutil.which("redis-server")
        if self.program is None:
            raise unittest.SkipTest("redis-server is not installed")
        self.folder, self.settings, self.password = folder, list(settings), password
        self.port = free_port()
        self.process = None

    def start(self):
        self.folder.mkdir(exist_ok=True)
        secret = ["--requirepass", self.password] if self.password else []
        self.process = subprocess.Popen(
            [self.program, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "",
             "--appendonly", "no", "--dir", str(self.folder), *secret, *self.settings],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 30
        while "PONG" not in self.cli("PING"):
            if self.process.poll() is not None or time.monotonic() > end:
                raise AssertionError("redis-server did not start")
            time.sleep(0.02)
        return self

    def cli(self, *words, stdin=None):
        environment = {**os.environ, **({"REDISCLI_AUTH": self.password} if self.password else {})}
        done = subprocess.run(["redis-cli", "-p", str(self.port), *map(str, words)], input=stdin,
                              capture_output=True, env=environment, timeout=30)
        return done.stdout.decode(errors="replace").strip()

    def keys(self, pattern="*"):
        return [key for key in self.cli("--scan", "--pattern", pattern).splitlines() if key]

    def hang(self):
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()


class SlowRelay:
    """Passes bytes on to a port; while `seconds_per_byte` is set, each byte of an answer waits."""

    def __init__(self, port):
        self.target = port
        self.seconds_per_byte = 0
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        self.ended = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self.ended.set()
        self.listening.close()

    def _accept(self):
        while not self.ended.is_set():
            try:
                client, _ = self.listening.accept()
            except OSError:
                continue
            try:
                server = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                client.close()
                continue
            threading.Thread(target=self._pass, args=(client, server, False), daemon=True).start()
            threading.Thread(target=self._pass, args=(server, client, True), daemon=True).start()

    def _pass(self, source, sink, is_answer):
        try:
            while data := source.recv(65536):
                while is_answer and self.seconds_per_byte and data and not self.ended.is_set():
                    sink.sendall(data[:1])
                    data = data[1:]
                    time.sleep(self.seconds_per_byte)
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            end.close()
