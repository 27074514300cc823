"""An OpenTelemetry collector to test against: OTLP over HTTP in JSON.

    with Collector() as collector: … collector.url, collector.spans(), collector.metrics()

`collector.behave(NAME)` says what becomes of the next requests: "take" (200), "hang" (read, and
never answered), a status such as 500, "partial" (200 that rejects one span of each request), or
"garbage" (an answer that is no HTTP).
"""

import http.server
import json
import threading


class Collector:
    def __init__(self):
        self.requests = []  # (path, headers, body as an object), of those that were taken
        self.num_asked = 0
        self._behaviour = "take"
        self._lock = threading.Lock()
        self._released = threading.Event()
        self._server = None

    @property
    def url(self):
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def behave(self, name):
        with self._lock:
            self._behaviour = name

    def __enter__(self):
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                collector.answer(self, body)

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.handle_error = lambda *_: None  # a client that goes is no news
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self._released.set()
        self._server.shutdown()
        self._server.server_close()

    def answer(self, handler, body):
        with self._lock:
            behaviour = self._behaviour
            self.num_asked += 1
        if behaviour == "hang":
            self._released.wait(600)
            handler.close_connection = True
            return
        if behaviour == "garbage":
            handler.wfile.write(b"what?\r\n\r\n")
            handler.close_connection = True
            return
        status, answer = (200, {}) if isinstance(behaviour, str) else (behaviour, {"code": 13})
        if behaviour == "partial" and handler.path.endswith("/v1/traces"):
            answer = {"partialSuccess": {"rejectedSpans": "1", "errorMessage": "too long"}}
        if status == 200:
            with self._lock:
                self.requests.append((handler.path, dict(handler.headers), json.loads(body)))
        data = json.dumps(answer).encode()
        handler.send_response(status)
        handler.send_header("content-type", "application/json")
        handler.send_header("content-length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    def spans(self):
        """All spans that were taken, each with its attributes as a dictionary."""
        with self._lock:
            taken = [body for path, _, body in self.requests if path.endswith("/v1/traces")]
        found = []
        for body in taken:
            for resource in body["resourceSpans"]:
                for scope in resource["scopeSpans"]:
                    for span in scope["spans"]:
                        found.append({**span, "attributes": attributes_of(span)})
        return found

    def metrics(self):
        """Of the newest request with metrics: name -> its data points."""
        with self._lock:
            taken = [body for path, _, body in self.requests if path.endswith("/v1/metrics")]
        found = {}
        for resource in taken[-1]["resourceMetrics"] if taken else []:
            for scope in resource["scopeMetrics"]:
                for metric in scope["metrics"]:
                    assert metric["name"] not in found, metric["name"]
                    points = (metric.get("sum") or metric.get("histogram"))["dataPoints"]
                    found[metric["name"]] = [{**point, "attributes": attributes_of(point)}
                                             for point in points]
        return found


def attributes_of(element):
    """{"key": value} of OTLP's list of attributes."""
    found = {}
    for attribute in element["attributes"]:
        (kind, value), = attribute["value"].items()
        assert attribute["key"] not in found, attribute["key"]
        found[attribute["key"]] = int(value) if kind == "intValue" else value
    return found
