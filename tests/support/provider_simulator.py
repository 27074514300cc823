#!/usr/bin/env python3
"""A provider to test against: three dialects, their prompt caches, faults on demand, a recorder.

    with Simulator() as provider: … provider.url, provider.requests, provider.faults.append("rst")
    provider_simulator.py [--port N]      prints "listening on http://127.0.0.1:PORT"

Everything that can be asked of it stands in README.md beside this file.
"""

import argparse
import asyncio
import functools
import gzip
import json
import os
import ssl
import sys
import threading
import time
import zlib

import anthropic_dialect
import compactions
import context_edits
import gemini_service
import openai_dialect
import preserved_thinking
import prompt_cache
from prompt_cache import BadRequest
from wire import HEAD_BYTES_MAX, Answer, read_request, reset

JSON = [("content-type", "application/json")]
EVENTS = [("content-type", "text/event-stream; charset=utf-8"), ("cache-control", "no-cache")]
OPENAI = {"/v1/chat/completions": (openai_dialect.chat, openai_dialect.chat_events),
          "/v1/completions": (openai_dialect.completions, openai_dialect.completions_events),
          "/v1/responses": (compactions.response, compactions.response_events),
          "/v1/responses/compact": (compactions.compact, None),
          "/v1/embeddings": (openai_dialect.embeddings, None)}


def sse(name, data):
    return (f"event: {name}\n" if name else "") + f"data: {data}\n\n"


class Fault:
    """"NAME:ARGUMENT"; see README.md for the names."""

    def __init__(self, text):
        self.name, _, self.argument = text.partition(":")

    def is_(self, *names):
        return self.name in names

    def number(self, default=0.0):
        return float(self.argument) if self.argument else default


class Cut(Exception):
    """The answer ends here, by a fault."""


class Simulator:
    def __init__(self, port=0, tls=None):
        """tls: (certificate file, key file)."""
        self.requests, self.faults = [], []
        self.responses = {}
        self.clock_offset = 0.0
        self.system_turns = None  # Anthropic's: "", "plain" or "clear_at"; None: not looked at
        self.synonyms = None  # sets of words that mean the same to its models for embeddings
        self.thinks = False  # models that bind thinking to the prefix think, and refuse another one
        self.num_connections = 0
        self.num_open = 0
        self.port = port
        self._tls = tls
        self._store = prompt_cache.Store(self.now)
        self._gemini = gemini_service.Service(self._store, self.now)
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = None

    def now(self):
        return time.monotonic() + self.clock_offset

    @property
    def url(self):
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    def __enter__(self):
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self):
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(self.listen())
        self._ready.set()
        self._loop.run_forever()
        server.close()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.close()

    async def listen(self):
        context = None
        if self._tls:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(*self._tls)
        server = await asyncio.start_server(self._serve, "127.0.0.1", self.port,
                                            limit=HEAD_BYTES_MAX, ssl=context, backlog=1024)
        self.port = server.sockets[0].getsockname()[1]
        return server

    # --- one connection --------------------------------------------------------------------------

    async def _serve(self, reader, writer):
        self.num_connections += 1
        self.num_open += 1
        number = self.num_connections
        try:
            while (request := await read_request(reader, number)) is not None:
                if request.path.startswith("/sim/"):
                    await self._control(Answer(writer, request), request)
                    continue
                self.requests.append(request)
                await self._answer(writer, request)
                if request.header("connection").lower() == "close":
                    break
        except (Cut, ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError,
                ValueError):
            pass
        finally:
            self.num_open -= 1
            writer.close()

    def _fault_for(self, request):
        named = request.header("x-sim-fault")
        if named:
            return Fault(named)
        return Fault(self.faults.pop(0)) if self.faults else Fault("")

    async def _answer(self, writer, request):
        fault = self._fault_for(request)
        answer = Answer(writer, request, head_only=request.method == "HEAD")
        await self._fail_early(fault, answer, writer)
        if fault.is_("status"):
            code, _, after = fault.argument.partition(":")
            await self._refuse(answer, request, int(code), "Simulated failure.", after)
            return
        try:
            status, headers, body, events = self._compute(request)
        except BadRequest as error:
            await self._refuse(answer, request, error.status, str(error), details=error.details)
            return
        if events is not None:
            await self._stream(answer, headers, events, fault, writer)
            return
        if fault.is_("malformed") and fault.argument == "json":
            body = body[:-1]
        if request.header("x-sim-gzip"):
            body, headers = gzip.compress(body), headers + [("content-encoding", "gzip")]
        headers = headers + self._common_headers(request)
        if fault.is_("cut", "rst"):
            await answer.begin(status, headers, len(body))
            await answer.piece(body[:int(fault.number())])
            self._end_by(fault, writer)
        await answer.whole(status, headers, body, int(request.header("x-sim-chunk", "0")))

    async def _fail_early(self, fault, answer, writer):
        """What happens instead of a head, or in front of it."""
        if fault.is_("rst") and not fault.argument:
            reset(writer)
            raise Cut
        if fault.is_("close"):
            raise Cut
        if fault.is_("hang"):
            await asyncio.sleep(fault.number(3600))
            raise Cut
        if fault.is_("slow"):
            await asyncio.sleep(fault.number(1))
        if fault.is_("endless_headers"):
            await answer.write(b"HTTP/1.1 200 OK\r\n")
            for number in range(1 << 30):
                await answer.write(b"x-filler-%d: %s\r\n" % (number, b"a" * 1000))
                await asyncio.sleep(fault.number(0))
        broken = {"status": b"HTTP/1.1 banana\r\n\r\n",
                  "garbage": os.urandom(200),
                  "header": b"HTTP/1.1 200 OK\r\nno colon here\r\ncontent-length: 2\r\n\r\n{}",
                  "chunk": b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
                           b"transfer-encoding: chunked\r\n\r\nZZ\r\n{}\r\n0\r\n\r\n",
                  "both": b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
                          b"content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n"
                          b"2\r\n{}\r\n0\r\n\r\n",
                  "length": b"HTTP/1.1 200 OK\r\ncontent-length: -5\r\n\r\n{}"}
        if fault.is_("malformed") and fault.argument in broken:
            await answer.write(broken[fault.argument])
            raise Cut

    @staticmethod
    def _end_by(fault, writer):
        if fault.is_("rst"):
            reset(writer)
        raise Cut

    async def _stream(self, answer, headers, events, fault, writer):
        headers = headers + self._common_headers(answer.request)
        frame, end = sse, ""
        if self._is_gemini(answer.request):
            frame, end = gemini_service.framing(answer.request)
        packer = None
        if answer.request.header("x-sim-gzip"):
            packer = zlib.compressobj(wbits=31)
            headers = headers + [("content-encoding", "gzip")]
        await answer.begin(200, headers)
        step = int(answer.request.header("x-sim-chunk", "0"))
        for number, (name, data) in enumerate(events):
            if fault.is_("cut", "rst") and number == int(fault.number()):
                self._end_by(fault, writer)
            if fault.is_("error_event") and number == int(fault.number()):
                status = 503 if self._is_gemini(answer.request) else 529
                name, data = "error", self._error_text(answer.request, status, "Overloaded")
            raw = frame(name, data).encode()
            if packer:  # flushed, so that each event can be read when it comes
                raw = packer.compress(raw) + packer.flush(zlib.Z_SYNC_FLUSH)
            for at in range(0, len(raw), step or len(raw)):
                await answer.piece(raw[at:at + (step or len(raw))])
            if fault.is_("drip"):
                await asyncio.sleep(fault.number(0.1))
            if name == "error":
                break
        if packer:
            await answer.piece(packer.compress(end.encode()) + packer.flush())
        else:
            await answer.piece(end.encode())
        await answer.end()

    # --- what is answered ------------------------------------------------------------------------

    @staticmethod
    def _is_anthropic(request):
        return bool(request.header("anthropic-version")) or "/messages" in request.path

    @staticmethod
    def _is_gemini(request):
        return request.path.startswith("/v1beta/")

    def _common_headers(self, request):
        if self._is_gemini(request):  # Google sends no id of a request
            return [("server-timing", "gfet4t7; dur=7"), ("x-content-type-options", "nosniff")]
        found = anthropic_dialect.request_id(request.head)
        if self._is_anthropic(request):
            return [("request-id", found), ("anthropic-ratelimit-requests-remaining", "999"),
                    ("anthropic-organization-id", "org-simulated")]
        return [("x-request-id", found), ("openai-processing-ms", "7"),
                ("x-ratelimit-remaining-requests", "999")]

    def _error_text(self, request, status, message, details=None, retry_after=""):
        if self._is_gemini(request):
            return gemini_service.error_text(request, status, message, details, retry_after)
        if self._is_anthropic(request):
            return json.dumps(anthropic_dialect.error_body(status, message, details))
        return json.dumps(openai_dialect.error_body(status, message))

    async def _refuse(self, answer, request, status, message, retry_after="", details=None):
        headers = JSON + self._common_headers(request)
        if retry_after:
            headers += [("retry-after", retry_after), ("retry-after-ms", retry_after + "000"),
                        ("x-should-retry", "true" if status in (429, 529) else "false")]
        text = self._error_text(request, status, message, details, retry_after)
        await answer.whole(status, headers, text.encode())

    def _compute(self, request):
        """(status, headers, body, None), or (200, …, None, events)."""
        if self._is_gemini(request):
            return self._gemini.answer(request, self.thinks)
        credential = request.header("x-api-key") or request.header("authorization")
        if not credential:
            return 401, JSON, self._error_text(request, 401, "No credential.").encode(), None
        if request.method in ("GET", "HEAD", "DELETE"):
            return self._look_up(request)
        words = int(request.header("x-sim-words", "8"))
        known = request.path in OPENAI or request.path.startswith("/v1/messages")
        body = request.json() if known else None
        if body is None:  # another endpoint, or an encoding without a decoder here
            kind = [("content-type", request.header("content-type", "application/json"))]
            return 200, kind, request.body, None
        if request.path == "/v1/messages/count_tokens":
            return 200, JSON, json.dumps(context_edits.size(body)).encode(), None
        edits = None
        if request.path == "/v1/messages":
            anthropic_dialect.check(body)
            body, edits = context_edits.applied_to(body)
            if self.system_turns is not None:
                anthropic_dialect.check_system_turns(body, request.header("anthropic-beta"),
                                                     self.system_turns)
            thinks = self.thinks and preserved_thinking.binds(body["model"])
            thought = preserved_thinking.check(body) if thinks else None
            usage, keep = prompt_cache.anthropic_usage(self._store, anthropic_dialect.shown(body),
                                                       credential)
            make, make_events = compactions.message, compactions.message_events
        else:
            make, make_events = OPENAI[request.path]
            if make is openai_dialect.embeddings:
                make = functools.partial(make, synonyms=self.synonyms)
            prompt_cache.check_openai(body)
            *usage, keep = prompt_cache.openai_usage(self._store, body, credential)
            thought = None
        streams = body.get("stream") and make_events is not None
        answer = (make_events if streams else make)(body, usage, words)
        if edits is not None:
            answer = context_edits.said_in(answer, edits)
        # From here on the answer has begun, and what was written can be read.
        for key, ttl in keep:
            self._store.put(key, ttl)
        if streams:
            return 200, EVENTS, None, answer
        if request.path == "/v1/responses":
            self.responses[answer["id"]] = answer
        if thought:
            preserved_thinking.add_to(answer, *thought)
        return 200, JSON, json.dumps(answer, ensure_ascii=False).encode(), None

    def _look_up(self, request):
        if request.path == "/v1/models":
            found = anthropic_dialect.models() if self._is_anthropic(request) \
                else openai_dialect.models()
            return 200, JSON, json.dumps(found).encode(), None
        if request.path.startswith("/v1/models/"):
            listed = anthropic_dialect.models() if self._is_anthropic(request) \
                else openai_dialect.models()
            for model in listed["data"]:
                if model["id"] == request.path.removeprefix("/v1/models/"):
                    return 200, JSON, json.dumps(model).encode(), None
        found = self.responses.get(request.path.removeprefix("/v1/responses/"))
        if found is None:
            return 404, JSON, self._error_text(request, 404, "Not found.").encode(), None
        if request.method == "DELETE":
            del self.responses[found["id"]]
            found = {"id": found["id"], "object": "response", "deleted": True}
        return 200, JSON, json.dumps(found, ensure_ascii=False).encode(), None

    # --- control, for those who are another process ----------------------------------------------

    async def _control(self, answer, request):
        given = json.loads(request.body or b"{}")
        reply = {}
        if request.path == "/sim/requests" and request.method == "DELETE":
            self.requests.clear()
        elif request.path == "/sim/requests":
            reply = {"data": [found.as_json() for found in self.requests]}
        elif request.path == "/sim/faults":
            self.faults[:] = given.get("next", [])
        elif request.path == "/sim/clock":
            self.clock_offset += given.get("advance", 0)
        reply.update(connections=self.num_connections, open=self.num_open)
        await answer.whole(200, JSON, json.dumps(reply).encode())



def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=0)
    arguments = parser.parse_args()
    with Simulator(arguments.port) as simulator:
        print(f"listening on {simulator.url}", flush=True)
        try:
            sys.stdin.read()  # until whoever started it has gone
        except KeyboardInterrupt:
            pass


if __name__ == "__main__":
    main()
