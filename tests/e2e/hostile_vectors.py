"""Requests that must not be misread, as data: (name, bytes, outcome).

In the bytes @H@ stands for a right head without its framing and end, @P@ for the path, @B@ for the
body, @N@ for its length, @C@ for it in chunks, @S@ for a whole second request that would be served
if anyone took it for one. Outcomes: "ok": served once, and the connection goes on; a tuple of
statuses: refused with one of them, and then closed; "refused": 400; "kept": any answer that is no
2xx, and the connection may go on; "close": cut off without an answer.

Disputed cases are decided by RFC 9112 (messages) and RFC 9110 (semantics), named in the comments.
"""

HEAD = b"POST @P@ HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
CL, END = b"Content-Length: @N@\r\n", b"\r\n"
TE = b"Transfer-Encoding: chunked\r\n"


def lengths():
    """Content-Length, alone and in company (RFC 9112, 6.2 and 6.3)."""
    def one(name, line, outcome="refused", body=b"@B@"):
        return f"length {name}", b"@H@" + line + END + body, outcome

    yield one("right", CL, "ok")
    yield one("in mixed case", b"cOnTeNt-LeNgTh:@N@\r\n", "ok")
    yield one("in spaces and tabs", b"Content-Length: \t @N@ \t\r\n", "ok")
    yield one("with leading zeros", b"Content-Length: 0000@N@\r\n", "ok")
    yield one("twice, equal", CL + CL)
    yield one("twice, different", CL + b"Content-Length: 0\r\n", body=b"@S@")
    yield one("twice, the larger last", b"Content-Length: 0\r\n" + CL, body=b"@S@")
    yield one("as a list of equals", b"Content-Length: @N@, @N@\r\n")
    yield one("as a list of others", b"Content-Length: @N@, 0\r\n")
    for bad in (b"+@N@", b"-@N@", b"-1", b"0x@N@", b"@N@.0", b"1e3", b"@N@ 0", b"", b" ", b"@N@;",
                b"five", b"\xb2", b"@N@\x0b", b"'@N@'", b"9" * 19 + b"9", b"1" + b"0" * 40,
                b"18446744073709551616", b"18446744073709551621"):
        yield one(f"{bad[:24]!r}", b"Content-Length: " + bad + END, "refused")
    yield one("of more than the limit", b"Content-Length: 99999999999\r\n", (413,))
    yield one("of 2^64 - 1", b"Content-Length: 18446744073709551615\r\n", (400, 413))
    yield one("folded", b"Content-Length: @N@\r\n 0\r\n")
    yield one("with a space before the colon", b"Content-Length : @N@\r\n")
    yield one("too short", b"Content-Length: 3\r\n", "kept", b"@B@")
    yield ("length in HTTP/1.0 with keep-alive",
           HEAD.replace(b"1.1", b"1.0") + b"Connection: keep-alive\r\n" + CL + END + b"@B@", "ok")
    yield ("length named in Connection", b"@H@Connection: keep-alive, Content-Length\r\n" + CL +
           END + b"@B@", "ok")


def codings():
    """Transfer-Encoding: CL.TE, TE.CL, TE.TE (RFC 9112, 6.1 and 6.3)."""
    def one(name, lines, outcome="refused", body=b"@C@"):
        return f"coding {name}", b"@H@" + lines + END + body, outcome

    yield one("right", TE, "ok")
    yield one("in mixed case", b"tRANSFER-eNCODING: ChUnKeD\r\n", "ok")
    yield one("in tabs", b"Transfer-Encoding:\tchunked\t\r\n", "ok")
    yield one("folded", b"Transfer-Encoding:\r\n chunked\r\n", "ok")  # 5.2: a fold is a space
    yield one("CL.TE", CL + TE, body=b"0\r\n\r\n@S@")
    yield one("TE.CL", TE + b"Content-Length: 4\r\n", body=b"5c\r\n@S@")
    yield one("CL.0 behind TE", TE + b"Content-Length: 0\r\n")
    yield one("xchunked beside CL", b"Transfer-Encoding: xchunked\r\n" + CL, body=b"@B@@S@")
    yield one("CL beside xchunked", CL + b"Transfer-Encoding: xchunked\r\n", body=b"@B@@S@")
    yield one("twice", TE + TE)
    yield one("chunked and identity", TE + b"Transfer-Encoding: identity\r\n")
    yield one("identity and chunked", b"Transfer-Encoding: identity\r\n" + TE)
    yield one("chunked and x", TE + b"Transfer-encoding: x\r\n")
    for bad in (b"xchunked", b"chunkedx", b"chunked, identity", b"identity", b"",
                b"x", b"\x0bchunked", b"chunked\x0b", b"\x00chunked", b"chunked\x00",
                b"'chunked'", b'"chunked"', b"chunked;q=1", b"chunked, gzip", b", chunked;",
                b"chu nked", b"c\thunked", b"chunked\r\n x", b"\xffchunked", b"chunked,,",
                b"gzip chunked"):
        yield one(f"{bad!r}", b"Transfer-Encoding: " + bad + END, "refused")
    yield one("gzip, chunked", b"Transfer-Encoding: gzip, chunked\r\n", (501,))
    yield one("chunked, chunked", b"Transfer-Encoding: chunked, chunked\r\n", (501, 400))
    yield one("identity, chunked", b"Transfer-Encoding: identity, chunked\r\n", (501, 400))
    yield one("with a space before the colon", b"Transfer-Encoding : chunked\r\n")
    yield one("with a tab before the colon", b"Transfer-Encoding\t: chunked\r\n")
    yield one("behind a vertical tab", b"\x0bTransfer-Encoding: chunked\r\n")
    yield one("behind a space", b" Transfer-Encoding: chunked\r\n", "kept")
    yield one("behind a bare LF", b"X: y\nTransfer-Encoding: chunked\r\n")
    yield one("behind a bare CR", b"X: y\rTransfer-Encoding: chunked\r\n")
    yield one("with underscore", b"Transfer_Encoding: chunked\r\n" + CL, "ok", b"@B@")
    yield ("coding in HTTP/1.0", HEAD.replace(b"1.1", b"1.0") + TE + END + b"@C@", "refused")
    yield ("coding in HTTP/1.0 beside a length", HEAD.replace(b"1.1", b"1.0") +
           b"Connection: keep-alive\r\n" + TE + CL + END + b"@B@", "refused")
    yield one("named in Connection", b"Connection: Transfer-Encoding\r\n" + TE, "ok")


def chunks():
    """What stands in a chunked body (RFC 9112, 7.1)."""
    def one(name, body, outcome="refused"):
        return f"chunk {name}", b"@H@" + TE + END + body, outcome

    last = b"0\r\n\r\n"
    yield one("sizes with leading zeros", b"00000000@X@\r\n@B@\r\n" + last, "ok")
    yield one("size in capitals", b"@X@\r\n@B@\r\n000\r\n\r\n", "ok")
    yield one("extension", b"@X@;a=b;c\r\n@B@\r\n0;last\r\n\r\n", "ok")
    yield one("extension with quotes", b'@X@;a="b;c\\"d"\r\n@B@\r\n' + last, "ok")
    yield one("extension of 8 KiB", b"@X@;a=" + b"y" * 8000 + b"\r\n@B@\r\n" + last, "ok")
    yield one("extension without end", b"@X@;a=" + b"y" * 400_000, (400, 431))
    yield one("extension with a bare LF", b"@X@;a\nb\r\n@B@\r\n" + last)
    yield one("extension with a bare CR", b"@X@;a\rb\r\n@B@\r\n" + last)
    yield one("extension with an open quote", b'@X@;a="b\r\n@B@\r\n' + last)
    yield one("extension with a line in quotes", b'@X@;a="\r\n0\r\n\r\n@S@"\r\n@B@\r\n' + last)
    for bad in (b"-1", b"+@X@", b"0x@X@", b"", b" ", b"g", b"@X@ ;a;;=", b"@X@h", b"\xb2", b"1.0",
                b"_1", b"@X@\x00", b"1" + b"0" * 16, b"1000000000000000f", b"ffffffffffffffffff"):
        yield one(f"size {bad!r}", bad + b"\r\n@B@\r\n" + last, "refused")
    yield one("size of 2^63", b"8000000000000000\r\n@B@\r\n" + last, (413, 400))
    yield one("size of 2^64 - 1", b"ffffffffffffffff\r\n@B@\r\n" + last, (413, 400))
    yield one("size 2^64 + right one", b"100000000000000@X@\r\n@B@\r\n" + last, (413, 400))
    yield one("too short", b"3\r\n@B@\r\n" + last)
    yield one("without its CRLF", b"@X@\r\n@B@" + last)
    yield one("with LF behind", b"@X@\r\n@B@\n" + last)
    yield one("with LF behind its size", b"@X@\n@B@\r\n" + last)
    yield one("with CR behind its size", b"@X@\r@B@\r\n" + last)
    yield one("with two bytes for CRLF", b"@X@\r\n@B@xx" + last)
    yield one("of none, then a request", last + b"@S@", "kept-then-second")


def trailers():
    """Fields behind a chunked body are dropped, never taken for headers (RFC 9110, 6.5.1)."""
    def one(name, lines, outcome="ok"):
        return f"trailer {name}", b"@H@" + TE + b"Trailer: x\r\n\r\n@X@\r\n@B@\r\n0\r\n" + lines + \
            b"\r\n", outcome

    yield one("plain", b"X-Checksum: abc\r\n")
    yield one("credential", b"Authorization: Bearer evil\r\nx-api-key: evil\r\n")
    yield one("host", b"Host: evil.example\r\n")
    yield one("of ours", b"x-kvgate-upstream: other\r\nx-kvgate-key: evil\r\n")
    yield one("connection", b"Expect: 100-continue\r\nUpgrade: websocket\r\nOrigin: http://e\r\n")
    yield one("encoding", b"Content-Encoding: gzip\r\n")
    yield one("length", b"Content-Length: 3\r\n", "refused")
    yield one("coding", TE, "refused")
    yield one("bare LF", b"A: b\nC: d\r\n", "refused")
    yield one("no colon", b"nonsense\r\n", "refused")
    yield one("without an end", b"".join(b"X-%d: %s\r\n" % (i, b"y" * 900) for i in range(400)),
              (400, 413, 431))


def headers():
    """Field names and values (RFC 9112, 5.1; RFC 9110, 5.5)."""
    def one(name, line, outcome="refused"):
        return f"header {name}", b"@H@" + line + END + CL + END + b"@B@", outcome

    for byte in [*range(0, 9), *range(10, 32), 127]:
        yield one(f"value with byte {byte}", b"X-A: a" + bytes([byte]) + b"b")
    for byte in [*range(0, 33), 127, 128, 255, *b'"(),/:;<=>?@[\\]{}']:
        if byte == 58:  # a colon ends the name: "X: A: b"
            continue
        yield one(f"name with byte {byte}", b"X" + bytes([byte]) + b"A: b")
    yield one("value with a tab", b"X-A: a\tb", "ok")
    yield one("value with obs-text", b"X-A: \xc3\xa9\xff", "ok")
    yield one("value that is empty", b"X-A:", "ok")
    yield one("value that is folded", b"X-A: a\r\n b\r\n\tc", "ok")
    yield one("value with bare CR, then a header", b"X-A: a\rX-Evil: 1")
    yield one("value with bare LF, then a header", b"X-A: a\nX-Evil: 1")
    yield one("name that is empty", b": b")
    yield one("without a colon", b"nonsense")
    yield one("with spaces before its colon", b"X-A  : b")
    yield one("first of all folded", b" X-A: b", "kept")
    yield one("two of one name", b"X-A: 1\r\nX-A: 2", "ok")
    yield one("echo of an id", b"x-kvgate-request-id: a\\r\\nb\"\r\nX-Request-Id: c", "ok")
    yield one("of a forged framing in percent", b"X-A: %0d%0aTransfer-Encoding:%20chunked", "ok")
    yield ("headers with bare LFs only", HEAD.replace(b"\r", b"") + b"Content-Length: @N@\n\n@B@",
           "refused")
    yield "header of 64 KiB", b"@H@X-A: " + b"y" * 65536 + END + CL + END + b"@B@", (431,)
    yield ("headers of 64 KiB in all", b"@H@" + b"X-A: y\r\n" * 8300 + CL + END + b"@B@", (431,))
    yield ("headers without an end", b"@H@" + b"".join(b"X-%d: y\r\n" % i for i in range(30_000)),
           (431,))
    yield "header of 60 KiB", b"@H@X-A: " + b"y" * 60_000 + END + CL + END + b"@B@", "ok"
    yield "headers by the thousand", b"@H@" + b"A: \r\n" * 5000 + CL + END + b"@B@", "ok"


def request_lines():
    """RFC 9112, 3."""
    def line(text, outcome="refused", rest=b"@R@"):
        return f"line {text[:60]!r}", text + END + rest, outcome

    for text in (b"POST  @P@ HTTP/1.1", b"POST @P@  HTTP/1.1", b"POST\t@P@ HTTP/1.1",
                 b"POST @P@\tHTTP/1.1", b" POST @P@ HTTP/1.1", b"POST @P@ HTTP/1.1 ",
                 b"POST @P@", b"POST", b"@P@ HTTP/1.1", b"POST @P@ HTTP/1.2", b"POST @P@ HTTP/2.0",
                 b"POST @P@ HTTP/0.9", b"POST @P@ HTTP/1.10", b"POST @P@ HTTP/1.", b"POST @P@ HTTP",
                 b"POST @P@ http/1.1", b"POST @P@ HTTPS/1.1", b"POST @P@ HTTP/1.1\x00",
                 b"POST @P@\x00 HTTP/1.1", b"POST @P@ x HTTP/1.1", b"POST @P@\x01 HTTP/1.1",
                 b"PO(ST @P@ HTTP/1.1", b"\x00POST @P@ HTTP/1.1", b"\xff\xfePOST @P@ HTTP/1.1",
                 b"POST @P@#f HTTP/1.1", b"POST #@P@ HTTP/1.1", b"POST @P@?a#b HTTP/1.1",
                 b"POST http://evil.example@P@ HTTP/1.1", b"POST http:@P@ HTTP/1.1",
                 b"POST http://localhost@evil.example@P@ HTTP/1.1", b"POST ://@P@ HTTP/1.1",
                 b"POST http://evil.example:80@P@ HTTP/1.1", b"POST ftp://localhost@P@ HTTP/1.1",
                 b"POST localhost:80 HTTP/1.1", b"POST * HTTP/1.1", b"GET * HTTP/1.1",
                 b"POST /v1/../v1/completions HTTP/1.1", b"POST /v1/./completions HTTP/1.1",
                 b"POST /v1/%2e%2e/v1/completions HTTP/1.1", b"POST /v1/%2E./admin HTTP/1.1",
                 b"POST /v1/..%2fadmin HTTP/1.1", b"POST /v1/..%5cadmin HTTP/1.1",
                 b"POST /v1/..\\admin HTTP/1.1", b"POST /.. HTTP/1.1", b"POST /v1/.. HTTP/1.1"):
        yield line(text)
    yield line(b"CONNECT localhost:80 HTTP/1.1", (501,))
    yield line(b"CONNECT @P@ HTTP/1.1", (501,))
    yield line(b"TRACE /v1/anything HTTP/1.1", (501,))
    yield line(b"POST @P@" + b"x" * 70_000 + b" HTTP/1.1", (431,))
    yield line(b"P" * 70_000 + b" @P@ HTTP/1.1", (431, 400))
    yield line(b"POST http://localhost@P@ HTTP/1.1", "ok")
    yield line(b"POST HTTP://LOCALHOST@P@ HTTP/1.1", "ok")
    yield line(b"POST @P@? HTTP/1.1", "ok")
    yield line(b"POST @P@?a=%00&b=%0d%0a HTTP/1.1", "ok")
    # Other methods are the upstream's to judge.
    yield line(b"post @P@ HTTP/1.1", "any")
    yield line(b"DELETE @P@ HTTP/1.1", "any")
    yield line(b"OPTIONS * HTTP/1.1", "kept")
    yield line(b"POST /@P@ HTTP/1.1", "kept")
    yield line(b"POST /x:/@P@ HTTP/1.1", "kept")
    yield line(b"POST /x://y@P@ HTTP/1.1", "kept")
    yield line(b"POST /V1/completions HTTP/1.1", "kept")
    yield line(b"POST /%76%31/completions HTTP/1.1", "kept")
    yield line(b"POST /\xff\xfe\" HTTP/1.1", "kept")
    yield line(b"GET /kvgate/v1/requests/%0d%0aSet-Cookie:%20a=b HTTP/1.1", "kept")
    yield "line, none at all", b"\r\n\r\n\r\n\r\n", "refused"
    yield "line behind an empty one", b"\r\n@H@" + CL + END + b"@B@", "ok-or-refused"
    yield "HTTP/0.9", b"GET /\r\n\r\n", "refused"
    yield "HTTP/2 preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "refused"
    yield "HTTP/2 frames", bytes(3) + b"\x04" + bytes(5) + b"\x00" * 40 + b"\r\n\r\n", "refused"
    yield "a TLS hello", (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)) * 2 +
                          b"\r\n\r\n"), "refused"
    yield "a SOCKS hello", b"\x05\x01\x00" + b"\r\n\r\n", "refused"
    yield "an SMTP greeting", b"EHLO localhost\r\n\r\n", "refused"


def hosts():
    """RFC 9112, 3.2."""
    def one(name, lines, outcome="refused"):
        return (f"host {name}", b"POST @P@ HTTP/1.1\r\nContent-Type: application/json\r\n" + CL +
                lines + END + b"@B@", outcome)

    yield one("missing", b"", "kept")
    yield one("empty", b"Host:\r\n", "kept")
    yield one("twice, equal", b"Host: localhost\r\nHost: localhost\r\n")
    yield one("twice, different", b"Host: localhost\r\nHost: evil.example\r\n")
    for bad in (b"localhost@evil.example", b"evil@localhost", b"localhost:80@evil.example",
                b"localhost:x", b"localhost/", b"localhost, evil.example", b"localhost evil",
                b"[::1", b"[::1]x", b"localhost#", b"localhost?", b"localhost:80:90",
                b"localhost\\evil"):
        yield one(f"{bad!r}", b"Host: " + bad + END)
    yield one("of somebody else", b"Host: evil.example\r\n", "kept")
    yield one("that only begins right", b"Host: localhost.evil.example\r\n", "kept")
    yield one("with a port", b"Host: localhost:8080\r\n", "ok")
    yield one("with an empty port", b"Host: localhost:\r\n", "ok")
    yield one("in capitals", b"Host: LOCALHOST\r\n", "ok")
    yield one("as an address", b"Host: [::1]:80\r\n", "ok")


def semantics():
    """Expect, Upgrade, Connection (RFC 9110, 7.6.1, 7.8, 10.1.1)."""
    def one(name, lines, outcome="ok", body=b"@B@"):
        return name, b"@H@" + CL + lines + END + body, outcome

    yield one("Expect in mixed case", b"Expect: 100-Continue\r\n")
    yield one("Expect something else", b"Expect: 200-ok\r\n", (417,))
    yield one("Expect in HTTP/1.0 is passed over", b"", "ok")
    yield one("Upgrade: websocket", b"Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n"
              b"Sec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n")
    yield one("Upgrade: h2c", b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
              b"HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n")
    yield one("Connection names essentials", b"Connection: keep-alive, host, content-type\r\n")
    yield one("Connection names a credential", b"Connection: keep-alive, authorization\r\n")
    yield one("Connection is no list", b"Connection: a b\r\n", "refused")
    yield one("Proxy-Connection and TE", b"Proxy-Connection: keep-alive\r\nTE: trailers\r\n")
    yield one("a proxy's credential", b"Proxy-Authorization: Basic eDp5\r\n")
    yield one("Max-Forwards", b"Max-Forwards: 0\r\n")


def pipelines():
    yield "pipeline of three", b"@G@@G@@G@", "three"
    yield "pipeline behind a refused one", b"@H@" + CL + TE + END + b"0\r\n\r\n@S@", "refused"
    yield ("pipeline behind a body that is too short", b"@H@Content-Length: 3\r\n\r\n@B@@S@",
           "kept")


def everything():
    for family in (lengths, codings, chunks, trailers, headers, request_lines, hosts, semantics,
                   pipelines):
        yield from family()
