"""kvgate from Python, over its C interface (kvgate.h): a gateway in this process, or a server.

    with kvgate.open(model="model.gguf") as client:
        for event in client.chat([{"role": "user", "content": "Hi"}]):
            if event.kind == "text":
                print(event.text, end="", flush=True)

A client may be used by several threads. The library is libkvgate.so.1, or what $KVGATE_LIBRARY
names.
"""
from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Callable

_lib = ctypes.CDLL(os.environ.get("KVGATE_LIBRARY", "libkvgate.so.1"))
_END, _OK = 1, 0
_text, _size, _ptr = ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p
_LOADING = ctypes.CFUNCTYPE(None, _ptr)


class _Options(ctypes.Structure):
    """Begins with its size, so that a library of a later version takes it too."""

    def __init__(self, **values: Any) -> None:
        super().__init__(struct_size=ctypes.sizeof(self), **values)


class _Connect(_Options):
    _fields_ = [("struct_size", _size), ("url", _text), ("api_key", _text), ("ca_file", _text),
                ("connect_timeout_ms", ctypes.c_uint32), ("retries", ctypes.c_uint32),
                ("no_retries", ctypes.c_int32)]


class _Open(_Options):
    _fields_ = [("struct_size", _size), ("config_file", _text), ("config_toml", _text),
                ("model", _text), ("data_dir", _text), ("api_key", _text),
                ("needs_disk", ctypes.c_int32), ("while_loading", _LOADING), ("user", _ptr)]


class _Header(ctypes.Structure):
    _fields_ = [("name", _text), ("value", _text)]


class _Call(_Options):
    _fields_ = [("struct_size", _size), ("timeout_ms", ctypes.c_uint32), ("cancel", _ptr),
                ("headers", ctypes.POINTER(_Header)), ("num_headers", _size)]


class _Event(_Options):
    _fields_ = [("struct_size", _size), ("kind", ctypes.c_int32), ("choice", ctypes.c_int32),
                ("text", _ptr), ("text_size", _size), ("tool_index", ctypes.c_int32),
                ("tool_id", _text), ("tool_name", _text)] + [
                    (name, ctypes.c_int64) for name in (
                        "prompt_tokens", "cached_tokens", "cache_write_tokens", "output_tokens",
                        "reasoning_tokens")]


def _declare(name: str, result: Any, *arguments: Any) -> None:
    function = getattr(_lib, name)
    function.restype, function.argtypes = result, arguments


_out = ctypes.POINTER(_ptr)
_declare("kvgate_version", _text)
_declare("kvgate_status_name", _text, ctypes.c_int)
for _name in ("message", "field", "code", "request_id"):
    _declare(f"kvgate_error_{_name}", _text, _ptr)
_declare("kvgate_error_http_status", ctypes.c_int32, _ptr)
_declare("kvgate_error_retry_after_ms", ctypes.c_uint32, _ptr)
_declare("kvgate_cancel_new", _ptr)
for _name in ("error_free", "cancel_trigger", "cancel_free", "close", "response_free",
              "stream_free"):
    _declare(f"kvgate_{_name}", None, _ptr)
_declare("kvgate_connect", ctypes.c_int, ctypes.POINTER(_Connect), _out, _out)
_declare("kvgate_open", ctypes.c_int, ctypes.POINTER(_Open), _out, _out)
_declare("kvgate_call", ctypes.c_int, _ptr, _text, _text, _text, _size, ctypes.POINTER(_Call),
         _out, _out)
_declare("kvgate_response_body", _ptr, _ptr, ctypes.POINTER(_size))
_declare("kvgate_chat", ctypes.c_int, _ptr, _text, _size, ctypes.POINTER(_Call), _out, _out)
_declare("kvgate_stream_next", ctypes.c_int, _ptr, ctypes.POINTER(_Event), _out)
_declare("kvgate_stream_header", _text, _ptr, _text)
_declare("kvgate_listen", ctypes.c_int, _ptr, _text, _out, _out)
_declare("kvgate_server_url", _text, _ptr)
_declare("kvgate_server_close", None, _ptr, ctypes.c_uint32)


class Error(Exception):
    """Why a request failed: status "NOT_FOUND", message, field, code, http_status."""

    def __init__(self, status: int, error: ctypes.c_void_p) -> None:
        def said(name: str) -> str:
            text: bytes = getattr(_lib, f"kvgate_error_{name}")(error) if error else b""
            return text.decode(errors="replace")

        self.status = _lib.kvgate_status_name(status).decode()
        self.message, self.field, self.code = said("message"), said("field"), said("code")
        self.request_id = said("request_id")
        self.http_status: int = _lib.kvgate_error_http_status(error) if error else 0
        self.retry_after_ms: int = _lib.kvgate_error_retry_after_ms(error) if error else 0
        _lib.kvgate_error_free(error)
        super().__init__(f"{self.status}: {self.message}")


def _make(function: Callable[..., int], *arguments: Any) -> ctypes.c_void_p:
    """Calls a function that stores what it makes, and then an error, through its last arguments."""
    made, error = _ptr(), _ptr()
    status = function(*arguments, ctypes.byref(made), ctypes.byref(error))
    if status != _OK:
        raise Error(status, error)
    return made


_KINDS = {1: "text", 2: "reasoning", 3: "tool_delta", 4: "tool_call", 5: "finish", 6: "usage",
          7: "explain"}


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


def _options(headers: dict[str, str] | None, timeout: float, cancel: Cancel | None) -> _Call:
    pairs = [_Header(name.encode(), value.encode()) for name, value in (headers or {}).items()]
    return _Call(timeout_ms=int(timeout * 1000), cancel=cancel.handle if cancel else None,
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
    """An answer on its way: iterate over it. Leaving the loop early and close() end it."""

    def __init__(self, handle: ctypes.c_void_p, client: Client) -> None:
        self._handle: ctypes.c_void_p | None = handle
        self._client = client  # lives as long as its streams

    def __iter__(self) -> Iterator[Event]:
        event, error = _Event(), _ptr()
        while self._handle:
            status = _lib.kvgate_stream_next(self._handle, ctypes.byref(event),
                                             ctypes.byref(error))
            if status == _END:
                return
            if status != _OK:
                raise Error(status, error)
            counts = {name: getattr(event, name) for name, _ in _Event._fields_[8:]}
            yield Event(_KINDS.get(event.kind, str(event.kind)),
                        ctypes.string_at(event.text, event.text_size).decode(errors="replace"),
                        event.choice, event.tool_index, event.tool_id.decode(),
                        event.tool_name.decode(), {k: v for k, v in counts.items() if v >= 0})

    def text(self) -> str:
        """The rest of the answer's text."""
        return "".join(e.text for e in self if e.kind == "text" and e.choice == 0)

    def header(self, name: str) -> str | None:
        value = _lib.kvgate_stream_header(self._handle, name.encode()) if self._handle else None
        return value.decode() if value else None

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
                            ctypes.byref(_options(all_headers, timeout, cancel))), self)

    def call(self, method: str, path: str, body: Any = None, *,
             headers: dict[str, str] | None = None, timeout: float = 0,
             cancel: Cancel | None = None) -> Any:
        """Any request of the HTTP interface; returns its JSON, or text that is none."""
        data = b"" if body is None else json.dumps(body).encode()
        made = _make(_lib.kvgate_call, self._handle, method.encode(), path.encode(), data,
                     len(data), ctypes.byref(_options(headers, timeout, cancel)))
        size = _size()
        text = ctypes.string_at(_lib.kvgate_response_body(made, ctypes.byref(size)), size.value)
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
        _lib.kvgate_server_close(self._server, 0)
        _lib.kvgate_close(self._handle)
        self._handle = self._server = None

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    __del__ = close


def _bytes(values: dict[str, Any]) -> dict[str, Any]:
    return {k: v.encode() if isinstance(v, str) else v for k, v in values.items()}


def open(**options: Any) -> Client:  # noqa: A001
    """A gateway in this process: model, data_dir, config_file, config_toml, api_key, needs_disk."""
    return Client(_make(_lib.kvgate_open, ctypes.byref(_Open(**_bytes(options)))))


def connect(url: str, **options: Any) -> Client:
    """A client of a server: api_key, ca_file, connect_timeout_ms, retries, no_retries."""
    return Client(_make(_lib.kvgate_connect, ctypes.byref(_Connect(url=url.encode(),
                                                                   **_bytes(options)))))


def version() -> str:
    return str(_lib.kvgate_version().decode())
