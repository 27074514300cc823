"""HTTP as bytes on sockets, for tests about what is no HTTP: a client that sends what it is given,
an upstream that keeps what it was sent and reads it more strictly than any real one.
"""

import json
import re
import socket
import struct
import threading

# Within this whatever was sent must have been answered or cut off.
DEADLINE_SECONDS = 20

FIELD = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+: ?[\t\x20-\x7e\x80-\xff]*")
LINE = re.compile(rb"[0-9A-Za-z!#$%&'*+.^_`|~-]+ /[\x21\x22\x24-\x7e\x80-\xff]* HTTP/1\.1")


class NotHttp(Exception):
    pass


def connect(address, timeout=DEADLINE_SECONDS, receive_bytes=None):
    """A socket to "HOST:PORT"; a small receive buffer makes a slow reader's window small."""
    host, port = address.rsplit(":", 1)
    connection = socket.socket()
    if receive_bytes:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    connection.settimeout(timeout)
    connection.connect((host, int(port)))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def reset(connection):
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


class Wire:
    """Reads messages off a connection; what is no message raises NotHttp."""

    def __init__(self, connection):
        self.connection, self.pending, self.ended = connection, b"", False

    def fill(self):
        """False: there is no more."""
        if self.ended:
            return False
        try:
            piece = self.connection.recv(1 << 16)
        except ConnectionError:
            piece = b""
        self.pending += piece
        self.ended = not piece
        return not self.ended

    def take(self, size):
        while len(self.pending) < size:
            if not self.fill():
                raise NotHttp(f"cut: {self.pending[:200]!r}")
        taken, self.pending = self.pending[:size], self.pending[size:]
        return taken

    def until(self, mark):
        while mark not in self.pending:
            if not self.fill():
                raise NotHttp(f"cut: {self.pending[:200]!r}")
        taken, self.pending = self.pending.split(mark, 1)
        return taken

    def at_end(self):
        """Whether the other side has closed, with nothing more to say."""
        while not self.pending and self.fill():
            pass
        return not self.pending

    def request(self):
        """(line, [(name, value)], body) by the letter of RFC 9112; None at a clean end."""
        if self.at_end():
            return None
        line, *lines = self.until(b"\r\n\r\n").split(b"\r\n")
        if LINE.fullmatch(line) is None:
            raise NotHttp(f"request line {line!r}")
        fields = self.fields(lines)
        names = [name for name, _ in fields]
        for name, most in ((b"content-length", 1), (b"transfer-encoding", 0), (b"host", 1),
                           (b"connection", 0), (b"upgrade", 0)):
            if names.count(name) > most:
                raise NotHttp(f"{name} too often: {fields}")
        length = dict(fields).get(b"content-length", b"0")
        if re.fullmatch(rb"0|[1-9][0-9]{0,9}", length) is None:
            raise NotHttp(f"content-length {length!r}")
        return line, fields, self.take(int(length))

    def answer(self, head_only=False):
        """(status, {name: value}, body); interim ones are passed over; None at a clean end."""
        if self.at_end():
            return None
        line, *lines = self.until(b"\r\n\r\n").split(b"\r\n")
        found = re.fullmatch(rb"HTTP/1\.[01] (\d{3}) [\t\x20-\x7e\x80-\xff]*", line)
        if found is None:
            raise NotHttp(f"status line {line!r}")
        status, pairs = int(found.group(1)), self.fields(lines)
        fields = dict(pairs)
        if len(fields) != len(pairs):
            raise NotHttp(f"a header twice: {pairs}")
        if status < 200:
            return self.answer(head_only)
        if head_only or status in (204, 304):
            return status, fields, b""
        if fields.get(b"transfer-encoding") == b"chunked":
            if b"content-length" in fields:
                raise NotHttp(f"two framings: {fields}")
            return status, fields, self.chunks()
        if b"content-length" in fields:
            return status, fields, self.take(int(fields[b"content-length"]))
        while self.fill():
            pass
        body, self.pending = self.pending, b""
        return status, fields, body

    def chunks(self):
        body = b""
        while True:
            line = self.until(b"\r\n")
            if re.fullmatch(rb"[0-9a-f]{1,8}", line) is None:
                raise NotHttp(f"chunk {line!r}")
            size = int(line, 16)
            body += self.take(size)
            if self.take(2) != b"\r\n":
                raise NotHttp("a chunk without its end")
            if size == 0:
                return body

    @staticmethod
    def fields(lines):
        for line in lines:
            if FIELD.fullmatch(line) is None:
                raise NotHttp(f"header {line!r}")
        return [(name.lower(), value.strip()) for name, _, value in
                (line.partition(b":") for line in lines)]


class RecordingUpstream:
    """Answers every request it can read; `faults` says what it could not. `raw` is every byte."""

    def __init__(self, script=None):
        self.script = script  # script(connection, number of the connection): instead of answering
        self.requests, self.faults, self.raw = [], [], b""
        self.num_connections = self.num_closed = 0
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def clear(self):
        self.requests, self.faults, self.raw = [], [], b""

    def recv(self, connection, size):
        piece = connection.recv(size)
        self.raw += piece
        return piece

    def _accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.num_connections += 1
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with connection:
            wire = Wire(Recorded(self, connection))
            try:
                while (request := wire.request()) is not None:
                    self.requests.append(request)
                    if self.script is not None:
                        if self.script(connection, request) == "close":
                            return
                        continue
                    body = json.dumps({"id": len(self.requests)}).encode()
                    connection.sendall(
                        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                        b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
            except NotHttp as fault:
                self.faults.append(str(fault))
            except OSError:
                pass
            finally:
                connection.close()
                self.num_closed += 1


class Recorded:
    def __init__(self, upstream, connection):
        self.upstream, self.connection = upstream, connection

    def recv(self, size):
        return self.upstream.recv(self.connection, size)


def send(connection, data):
    """Whether all went out; whoever is refused may find the connection closed."""
    try:
        connection.sendall(data)
        return True
    except (ConnectionError, BrokenPipeError):
        return False
