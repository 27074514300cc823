"""kvgate from Python, over its C interface (kvgate.h): a gateway in this process, or a server.

    with kvgate.open(model="model.gguf") as client:
        for event in client.chat([{"role": "user", "content": "Hi"}]):
            if event.kind == "text":
                print(event.text, end="", flush=True)

A client may be used by several threads, a stream by one; a Cancel ends it from another. The library
is libkvgate.so.1, or what $KVGATE_LIBRARY names.
"""
from __future__ import annotations

import ctypes
import json
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Callable

_lib = ctypes.CDLL(os.environ.get("KVGATE_LIBRARY", "libkvgate.so.1"))
_END, _OK = 1, 0
_text, _size, _ptr, _code = ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int
_int, _unsigned, _count = ctypes.c_int32, ctypes.c_uint32, ctypes.c_int64
_KINDS = ("", "text", "reasoning", "tool_delta", "tool_call", "finish", "usage", "explain")
_COUNTS = ("prompt_tokens", "cached_tokens", "cache_write_tokens", "output_tokens",
           "reasoning_tokens")


class _Options(ctypes.Structure):
    def __init__(self, **values: Any) -> None:
        super().__init__(struct_size=ctypes.sizeof(self), **values)


class _Connect(_Options):
    _fields_ = [("struct_size", _size), ("url", _text), ("api_key", _text), ("ca_file", _text),
                ("connect_timeout_ms", _unsigned), ("retries", _unsigned), ("no_retries", _int)]


class _Open(_Options):
    _fields_ = [("struct_size", _size), ("config_file", _text), ("config_toml", _text),
                ("model", _text), ("data_dir", _text), ("api_key", _text),
                ("needs_disk", _int), ("while_loading", _ptr), ("user", _ptr)]


class _Header(ctypes.Structure):
    _fields_ = [("name", _text), ("value", _text)]


class _Call(_Options):
    _fields_ = [("struct_size", _size), ("timeout_ms", _unsigned), ("cancel", _ptr),
                ("headers", ctypes.POINTER(_Header)), ("num_headers", _size)]


class _Event(_Options):
    _fields_ = [("struct_size", _size), ("kind", _int), ("choice", _int), ("text", _ptr),
                ("text_size", _size), ("tool_index", _int), ("tool_id", _text),
                ("tool_name", _text), *((name, _count) for name in _COUNTS)]


_out, _call = ctypes.POINTER(_ptr), ctypes.POINTER(_Call)
for _name, _result, *_arguments in (
        ("version", _text), ("status_name", _text, _code),
        *((f"error_{name}", _text, _ptr) for name in ("message", "field", "code", "request_id")),
        ("error_http_status", _int, _ptr), ("error_retry_after_ms", _unsigned, _ptr),
        ("error_free", None, _ptr), ("cancel_new", _ptr), ("cancel_trigger", None, _ptr),
        ("cancel_free", None, _ptr), ("connect", _code, ctypes.POINTER(_Connect), _out, _out),
        ("open", _code, ctypes.POINTER(_Open), _out, _out), ("close", None, _ptr),
        ("call", _code, _ptr, _text, _text, _text, _size, _call, _out, _out),
        ("response_body", _ptr, _ptr, ctypes.POINTER(_size)), ("response_free", None, _ptr),
        ("chat", _code, _ptr, _text, _size, _call, _out, _out),
        ("stream_next", _code, _ptr, ctypes.POINTER(_Event), _out),
        ("stream_header", _text, _ptr, _text), ("stream_free", None, _ptr),
        ("listen", _code, _ptr, _text, _out, _out), ("server_url", _text, _ptr),
        ("server_close", None, _ptr, _unsigned)):
    _function = getattr(_lib, f"kvgate_{_name}")
    _function.restype, _function.argtypes = _result, _arguments


class Error(Exception):
    """Why a request failed: status "NOT_FOUND", message, field, code, http_status."""

    def __init__(self, status: int, error: ctypes.c_void_p) -> None:
        def said(name: str) -> str:
            text: bytes = getattr(_lib, f"kvgate_error_{name}")(error) if error else b""
            return text.decode(errors="replace")

        self.status: str = _lib.kvgate_status_name(status).decode()
        self.message, self.field, self.code = said("message"), said("field"), said("code")
        self.request_id = said("request_id")
        self.http_status: int = _lib.kvgate_error_http_status(error) if error else 0
        self.retry_after_ms: int = _lib.kvgate_error_retry_after_ms(error) if error else 0
        _lib.kvgate_error_free(error)
        super().__init__(f"{self.status}: {self.message}")


def _make(function: Callable[..., int], *arguments: Any) -> ctypes.c_void_p:
    """Calls a function that stores what it makes, and then an error, through its last arguments."""
    made, error = _ptr(), _ptr()
    status = function(*arguments, made, error)
    if status != _OK:
        raise Error(status, error)
    return made


@dataclass
class Event:
    """One event of an answer; usage has tokens by name, where they are known."""
    kind: str
    text: str = ""
    choice: int = 0
    tool_index: int = 0
    tool_id: str = ""
    tool_name: str = ""
    usage: dict[str, int] = field(default_factory=dict)


def _milliseconds(seconds: float) -> int:
    return min(math.ceil(seconds * 1000), 2**32 - 1)


def _options(headers: dict[str, str] | None, timeout: float, cancel: Cancel | None) -> _Call:
    pairs = [_Header(name.encode(), value.encode()) for name, value in (headers or {}).items()]
    return _Call(timeout_ms=_milliseconds(timeout), cancel=cancel.handle if cancel else None,
                 headers=(_Header * len(pairs))(*pairs), num_headers=len(pairs))


class Cancel:
    """Ends what it was given to, from any thread."""

    def __init__(self) -> None:
        self.handle = _lib.kvgate_cancel_new()

    def trigger(self) -> None:
        _lib.kvgate_cancel_trigger(self.handle)

    def __del__(self) -> None:
        _lib.kvgate_cancel_free(self.handle)


class Stream:
    """An answer on its way: iterate over it. Its end and that of its client cancel it."""

    def __init__(self, handle: ctypes.c_void_p, client: Client) -> None:
        self._handle: ctypes.c_void_p | None = handle
        self._client = client  # lives as long as its streams, unless it is closed

    def __iter__(self) -> Iterator[Event]:
        event, error = _Event(), _ptr()
        while self._handle:
            status = _lib.kvgate_stream_next(self._handle, event, error)
            if status == _END:
                return
            if status != _OK:
                raise Error(status, error)
            kind = _KINDS[event.kind] if event.kind < len(_KINDS) else str(event.kind)
            text = ctypes.string_at(event.text, event.text_size).decode(errors="replace")
            usage = {name: n for name in _COUNTS if (n := getattr(event, name)) >= 0}
            yield Event(kind, text, event.choice, event.tool_index, event.tool_id.decode(),
                        event.tool_name.decode(), usage if kind == "usage" else {})

    def text(self) -> str:
        """The rest of the answer's text."""
        return "".join(e.text for e in self if e.kind == "text" and e.choice == 0)

    def header(self, name: str) -> str | None:
        value = _lib.kvgate_stream_header(self._handle, name.encode()) if self._handle else None
        return str(value.decode()) if value else None

    def close(self) -> None:
        _lib.kvgate_stream_free(self._handle)
        self._handle = None

    __del__ = close


class Client:
    """Made by open() and connect()."""

    def __init__(self, handle: ctypes.c_void_p) -> None:
        self._handle: ctypes.c_void_p | None = handle
        self._server: ctypes.c_void_p | None = None

    def chat(self, messages: list[dict[str, Any]], *, model: str = "local",
             session: str | None = None, headers: dict[str, str] | None = None,
             timeout: float = 0, cancel: Cancel | None = None, **fields: Any) -> Stream:
        """Begins a chat completion; `fields` are others of its body, such as tools."""
        body = json.dumps({"model": model, "messages": messages, **fields}).encode()
        all_headers = {**(headers or {}), **({"x-kvgate-session": session} if session else {})}
        return Stream(_make(_lib.kvgate_chat, self._handle, body, len(body),
                            _options(all_headers, timeout, cancel)), self)

    def call(self, method: str, path: str, body: Any = None, *,
             headers: dict[str, str] | None = None, timeout: float = 0,
             cancel: Cancel | None = None) -> Any:
        """Any request of the HTTP interface; returns its JSON, or text that is none."""
        data = b"" if body is None else json.dumps(body).encode()
        made = _make(_lib.kvgate_call, self._handle, method.encode(), path.encode(), data,
                     len(data), _options(headers, timeout, cancel))
        size = _size()
        text = ctypes.string_at(_lib.kvgate_response_body(made, size), size.value)
        _lib.kvgate_response_free(made)
        try:
            return json.loads(text)
        except ValueError:
            return text.decode(errors="replace")

    def listen(self, address: str = "127.0.0.1:8080") -> str:
        """Serves the HTTP interface too; returns its URL. For clients of open()."""
        self._server = _make(_lib.kvgate_listen, self._handle, address.encode())
        return str(_lib.kvgate_server_url(self._server).decode())

    def close(self) -> None:
        """Ends what is under way with CANCELLED, and waits until all is on disk."""
        server, handle, self._server, self._handle = self._server, self._handle, None, None
        _lib.kvgate_server_close(server, 0)
        _lib.kvgate_close(handle)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    __del__ = close


def _bytes(text: str | None) -> bytes | None:
    return text.encode() if text else None


def open(*, model: str | None = None, data_dir: str | None = None,  # noqa: A001
         config_file: str | None = None, config_toml: str | None = None,
         api_key: str | None = None, needs_disk: bool = False) -> Client:
    """A gateway in this process; see kvgate_open_options for what is left out."""
    return Client(_make(_lib.kvgate_open, _Open(
        model=_bytes(model), data_dir=_bytes(data_dir), api_key=_bytes(api_key),
        config_file=_bytes(config_file), config_toml=_bytes(config_toml), needs_disk=needs_disk)))


def connect(url: str, *, api_key: str | None = None, ca_file: str | None = None,
            connect_timeout: float = 10, retries: int = 2) -> Client:
    """A client of a server; nothing is sent yet. Times are in seconds."""
    return Client(_make(_lib.kvgate_connect, _Connect(
        url=url.encode(), api_key=_bytes(api_key), ca_file=_bytes(ca_file), retries=retries,
        connect_timeout_ms=_milliseconds(connect_timeout), no_retries=retries <= 0)))


def version() -> str:
    return str(_lib.kvgate_version().decode())
