#!/usr/bin/env python3
"""A stand-in for the binary, to test the helpers and scripts: it obeys the outside contract only.

KVGATE_FAKE_FAULT=answers | no-cache makes it break the promise that scripts/run must notice.
"""

import hashlib
import http.server
import json
import os
import sys
import time
from pathlib import Path

FAULT = os.environ.get("KVGATE_FAKE_FAULT", "")


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    memory = set()
    disk = None

    def log_message(self, *_):
        pass

    def reply(self, status, body, content_type="application/json"):
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        records = self.disk.read_text().count("\n") + 1 if self.disk.exists() else 0
        self.reply(200, json.dumps({"engine": {"write_back_bytes_queued": 0, "restores_cut": 0,
                                               "restores_skipped": 0},
                                    "store": {"records": records, "unflushed": 0}}).encode())

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        prompt = json.dumps(body.get("messages") or body.get("prompt"))
        if prompt == '"bad"':
            error = {"message": "prompt is bad", "type": "x", "param": "prompt", "code": None}
            self.reply(400, json.dumps({"error": error}).encode())
            return
        key = hashlib.sha256(prompt.encode()).hexdigest()
        stored = self.disk.read_text().split() if self.disk.exists() else []
        tiers = {"device": 64 if key in self.memory else 0, "disk": 0}
        if key in stored and not tiers["device"]:
            tiers["disk"] = 64
        if FAULT == "no-cache":
            tiers = {"device": 0, "disk": 0}
        logits = key[:16] if FAULT != "answers" or not tiers["disk"] else "f" * 16
        self.memory.add(key)
        self.disk.write_text("\n".join(set(stored) | {key}))
        explain = {"request_id": "r", "cached_tokens": sum(tiers.values()), "tiers": tiers,
                   "ttft_ms": 1.5, "logits_hash": logits}
        usage = {"prompt_tokens": 70, "completion_tokens": 2,
                 "prompt_tokens_details": {"cached_tokens": sum(tiers.values())}}
        if not body.get("stream"):
            whole = {"choices": [{"text": "ab"}], "usage": usage, "kvgate": explain}
            self.reply(200, json.dumps(whole).encode())
            return
        time.sleep(0.05)
        chunks = [{"choices": [{"text": "a"}]}, {"choices": [{"delta": {"content": "b"}}]},
                  {"choices": [{"delta": {}, "finish_reason": "length"}], "kvgate": explain},
                  {"choices": [], "usage": usage}]
        lines = [": ping\n\n"] + [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
        self.reply(200, "".join(lines + ["data: [DONE]\n\n"]).encode(), "text/event-stream")


def main():
    arguments = dict(zip(sys.argv[2::2], sys.argv[3::2]))
    if sys.argv[1] == "make-model":
        Path(arguments["--out"] if "--out" in arguments else sys.argv[-1]).write_text("GGUF")
        return
    folder = Path(arguments["--data-dir"])
    folder.mkdir(parents=True, exist_ok=True)
    Handler.disk = folder / "keys"
    host, port = arguments["--listen"].split(":")
    listener = http.server.ThreadingHTTPServer((host, int(port)), Handler)
    print(f"listening on http://{host}:{listener.server_address[1]}", flush=True)
    listener.serve_forever()


if __name__ == "__main__":
    main()
