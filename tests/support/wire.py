"""HTTP/1.1 by hand, so that requests are recorded as the bytes they were and answers can be wrong.

Knows no dialect: reads a Request, writes heads and pieces.
"""

import asyncio
import base64
import gzip
import hashlib
import json
import socket
import struct

HEAD_BYTES_MAX = 1 << 20


class Request:
    def __init__(self, head, body, connection, trailer=b""):
        self.head, self.body, self.connection, self.trailer = head, body, connection, trailer
        lines = head.decode("latin-1").split("\r\n")
        self.method, self.target, self.version = (lines[0].split(" ", 2) + ["", ""])[:3]
        self.path, _, self.query = self.target.partition("?")
        # As sent: order, case and repetitions.
        self.headers = [tuple(part.strip() for part in line.split(":", 1))
                        for line in lines[1:] if ":" in line]
        self.response = b""  # the body that was written, without chunk framing
        self.status = 0
        self.cut = False     # the client was gone before the answer was written

    def header(self, name, default=""):
        for key, value in self.headers:
            if key.lower() == name.lower():
                return value
        return default

    def decoded(self):
        """The body without its content-encoding; None where there is no decoder for it."""
        encoding = self.header("content-encoding", "identity").lower()
        if encoding == "gzip":
            return gzip.decompress(self.body)
        return self.body if encoding == "identity" else None

    def json(self):
        raw = self.decoded()
        return None if raw is None else json.loads(raw)

    def as_json(self):
        return {"method": self.method, "target": self.target, "headers": self.headers,
                "head": base64.b64encode(self.head).decode(),
                "body": base64.b64encode(self.body).decode(),
                "body_sha256": hashlib.sha256(self.body).hexdigest(),
                "response": base64.b64encode(self.response).decode(),
                "status": self.status, "connection": self.connection, "cut": self.cut}


async def read_request(reader, connection):
    """The next request of a connection; None at its end."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return None
    request = Request(head[:-4], b"", connection)
    if "chunked" in request.header("transfer-encoding").lower():
        pieces = []
        while True:
            size = int((await reader.readline()).split(b";")[0], 16)
            if size == 0:
                while (line := await reader.readline()) not in (b"\r\n", b""):
                    request.trailer += line
                break
            pieces.append(await reader.readexactly(size))
            await reader.readexactly(2)
        request.body = b"".join(pieces)
    else:
        request.body = await reader.readexactly(int(request.header("content-length", "0")))
    return request


def reset(writer):
    """Closes with a RST, as a process does that dies with unread bytes."""
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


class Answer:
    """Writes one response and remembers what its body was."""

    def __init__(self, writer, request, head_only=False):
        self.writer, self.request, self.head_only = writer, request, head_only
        self._chunked = False

    async def write(self, data):
        self.writer.write(data)
        try:
            await self.writer.drain()
        except ConnectionError:
            self.request.cut = True
            raise

    async def begin(self, status, headers, length=None):
        """length None: chunked."""
        self.request.status = status
        self._chunked = length is None
        lines = [f"HTTP/1.1 {status} Simulated"]
        lines += [f"{name}: {value}" for name, value in headers]
        lines.append("transfer-encoding: chunked" if self._chunked else f"content-length: {length}")
        await self.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))

    async def piece(self, data):
        if self.head_only or not data:
            return
        self.request.response += data
        framed = b"%x\r\n%s\r\n" % (len(data), data) if self._chunked else data
        await self.write(framed)

    async def end(self):
        if self._chunked and not self.head_only:
            await self.write(b"0\r\n\r\n")

    async def whole(self, status, headers, body, chunk_bytes=0):
        """With chunk_bytes in chunks of that size, else with a length."""
        await self.begin(status, headers, None if chunk_bytes else len(body))
        step = chunk_bytes or max(1, len(body))
        for at in range(0, len(body), step):
            await self.piece(body[at:at + step])
        await self.end()
