"""scripts/bench proxy: what a request pays for going through kvgate.

Direct, through kvgate (a gateway key, accounts and records on) and through nginx `proxy_pass` (its
access log off, connections kept, bodies in memory), in turn, on the same cores, with the same
provider and the same clients:

  latency     added p50 and p99 of one request at a time, bodies of 1 KB to 1 MB
  throughput  requests/s of 32 connections, our own client and wrk
  streams     added time to the first event, and how much later events come than they were written
  ledger      requests/s of a gateway that keeps records, to those of one that keeps none
  memory      RSS of an idle gateway without a model, and after all of this
"""

import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "e2e"))
import server  # noqa: E402

BENCH = ROOT / "build" / "release" / "bin" / "proxy_bench"
KEY = "sk-bench-0123456789"
SIZES = {"1 KB": 1_000, "20 KB": 20_000, "100 KB": 100_000, "1 MB": 1_000_000}
TARGETS = ("direct", "nginx", "kvgate")
CONNECTIONS = 32
PARTS = ["latency", "throughput", "streams", "ledger"]

NGINX = """
worker_processes {workers};
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/nginx.error.log;
events {{ worker_connections 1024; }}
http {{
  access_log off;
  client_max_body_size 64m;
  client_body_buffer_size 2m;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  keepalive_requests 100000000;
  upstream provider {{
    server 127.0.0.1:{upstream};
    keepalive 64;
    keepalive_requests 100000000;
  }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://provider;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
    }}
  }}
}}
"""

KVGATE = """
[server]
listen = "127.0.0.1:0"

[store]
data_dir = "{folder}/{name}"
{more}

[[upstream]]
name = "bench"
dialect = "openai"
base_url = "http://127.0.0.1:{upstream}/v1"

[[key]]
name = "bench"
key_env = "KVGATE_BENCH_KEY"
role = "admin"
requests_per_minute = 1000000000
"""
NO_RECORDS = """
[ledger]
records = 0
segments = 0
"""

WRK = """
local file = io.open("{body}", "rb")
wrk.method = "POST"
wrk.path = "/v1/chat/completions"
wrk.body = file:read("*a")
wrk.headers["content-type"] = "application/json"
wrk.headers["x-kvgate-key"] = "{key}"
"""


def free_port():
    import socket
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def rss_mib(pid):
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"no VmRSS of {pid}")


def verdict(ok):
    return "" if ok is None else "ok" if ok else "missed"


class Bench:
    def __init__(self, options):
        self.options = options
        self.folder = Path(tempfile.mkdtemp(prefix="kvgate-bench-proxy-"))
        self.processes = []
        self.ports = {}
        self.missed = 0

    def start(self, *command, **more):
        process = subprocess.Popen(command, **more)
        self.processes.append(process)
        return process

    def set_up(self):
        upstream = self.start(BENCH, "upstream", stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              text=True)
        self.ports["direct"] = int(upstream.stdout.readline())
        self.ports["nginx"] = free_port()
        config = self.folder / "nginx.conf"
        config.write_text(NGINX.format(workers=os.cpu_count(), folder=self.folder,
                                       upstream=self.ports["direct"], port=self.ports["nginx"]))
        self.start(shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin"), "-e",
                   str(self.folder / "nginx.error.log"), "-c", str(config))
        self.kvgate = self.start_kvgate("kvgate")
        self.wait_for_nginx()

    def start_kvgate(self, name, more=""):
        config = self.folder / f"{name}.toml"
        config.write_text(KVGATE.format(folder=self.folder, upstream=self.ports["direct"],
                                        name=name, more=more))
        started = self.start(server.binary_path(), "serve", "--config", str(config),
                             stdout=subprocess.PIPE, text=True,
                             env={**os.environ, "KVGATE_BENCH_KEY": KEY})
        for line in started.stdout:
            if line.startswith("listening on "):
                self.ports[name] = int(line.strip().rsplit(":", 1)[1])
                return started
        raise RuntimeError("kvgate did not start")

    def wait_for_nginx(self):
        end = time.monotonic() + 10
        while time.monotonic() < end:
            try:
                self.client("nginx", body=1000, seconds=0.1)
                return
            except RuntimeError:
                time.sleep(0.1)
        log = self.folder / "nginx.error.log"
        raise RuntimeError(f"nginx does not answer: {log.read_text()}")

    def tear_down(self):
        for process in reversed(self.processes):
            if process.stdin:
                process.stdin.close()
            else:
                process.terminate()
        for process in self.processes:
            process.wait(30)
        shutil.rmtree(self.folder)

    def client(self, target, body, seconds, connections=1, events=0, gap_us=0):
        made = subprocess.run(
            [BENCH, "client", "--port", str(self.ports[target]), "--body-bytes", str(body),
             "--seconds", str(seconds), "--connections", str(connections), "--events",
             str(events), "--gap-us", str(gap_us), "--header", f"x-kvgate-key: {KEY}"],
            capture_output=True, text=True, check=False)
        if made.returncode != 0:
            raise RuntimeError(made.stderr)
        return json.loads(made.stdout)

    def wrk(self, target, body):
        request = self.folder / "request.json"
        prefix = b'{"model":"bench-1","messages":[{"role":"user","content":"'
        request.write_bytes(prefix + b"w" * (body - len(prefix) - 4) + b'"}]}')
        script = self.folder / "request.lua"
        script.write_text(WRK.format(body=request, key=KEY))
        made = subprocess.run(
            ["wrk", "-t2", f"-c{CONNECTIONS}", f"-d{self.options.seconds:.0f}s", "-s", str(script),
             f"http://127.0.0.1:{self.ports[target]}"], capture_output=True, text=True, check=True)
        if "Non-2xx" in made.stdout or "Socket errors" in made.stdout:
            raise RuntimeError(made.stdout)
        return float(made.stdout.split("Requests/sec:")[1].split()[0])

    def in_turn(self, measure):
        """The median of each figure over the rounds, by target; targets take turns."""
        rounds = {target: [] for target in TARGETS}
        for _ in range(self.options.rounds):
            for target in TARGETS:
                rounds[target].append(measure(target))
        return {target: {key: statistics.median(one[key] for one in made) for key in made[0]}
                for target, made in rounds.items()}

    def row(self, name, texts, bound="", ok=None):
        self.missed += ok is False
        cells = "".join(f"{text:>13}" for text in texts)
        print(f"{name:<28}{cells}   {bound:<24}{verdict(ok)}", flush=True)

    def latency(self):
        print("\nadded latency, one request at a time (microseconds)")
        self.row("", ["direct p50", "nginx p50", "kvgate p50", "nginx p99", "kvgate p99"])
        for name, size in SIZES.items():
            def measure(target, size=size):
                made = self.client(target, size, self.options.seconds)["latency_us"]
                return {"p50": made["p50"], "p99": made["p99"]}
            made = self.in_turn(measure)
            direct = made["direct"]
            added = {(target, key): made[target][key] - direct[key]
                     for target in ("nginx", "kvgate") for key in ("p50", "p99")}
            ok = added["kvgate", "p99"] <= 3 * added["nginx", "p99"]
            bound = "p99 <= 3 x nginx"
            if size == 1_000_000:
                ok = ok and added["kvgate", "p50"] <= 1000
                bound += ", p50 <= 1000"
            self.row(name, [f"{direct['p50']:.0f}", f"+{added['nginx', 'p50']:.0f}",
                            f"+{added['kvgate', 'p50']:.0f}", f"+{added['nginx', 'p99']:.0f}",
                            f"+{added['kvgate', 'p99']:.0f}"], bound, ok)

    def throughput(self):
        print(f"\nrequests/s of {CONNECTIONS} connections")
        self.row("", ["direct", "nginx", "kvgate", "kvgate/nginx"])
        bounds = {1_000: 0.7, 100_000: 0.5}
        clients = {
            "own client": lambda target, size: self.client(
                target, size, self.options.seconds, CONNECTIONS)["rps"],
            "wrk": self.wrk}
        for client, load in clients.items():
            for name, size in SIZES.items():
                made = self.in_turn(lambda target, size=size, load=load:
                                    {"rps": load(target, size)})
                rps = {target: made[target]["rps"] for target in TARGETS}
                ratio = rps["kvgate"] / rps["nginx"]
                least = bounds.get(size)
                self.row(f"{name}, {client}", [*(f"{rps[target]:.0f}" for target in TARGETS),
                                               f"{ratio:.2f}"],
                         f">= {least} x nginx" if least else "",
                         ratio >= least if least else None)

    def streams(self):
        print("\nSSE, 200 events 2 ms apart (microseconds)")
        self.row("", ["direct", "nginx", "kvgate"])
        for connections in (1, CONNECTIONS):
            def measure(target, connections=connections):
                made = self.client(target, 1_000, self.options.seconds, connections, 200, 2000)
                return {"first p50": made["first_event_us"]["p50"],
                        "first p99": made["first_event_us"]["p99"],
                        "late p50": made["late_us"]["p50"], "late p99": made["late_us"]["p99"],
                        "gap p50": made["gap_us"]["p50"], "gap p99": made["gap_us"]["p99"]}
            made = self.in_turn(measure)
            names = {"first p50": "time to first event, p50", "first p99": "p99",
                     "late p50": "event later than sent, p50", "late p99": "p99",
                     "gap p50": "gap between events, p50", "gap p99": "p99"}
            print(f"{connections} stream{'s' if connections > 1 else ''}")
            for key, name in names.items():
                values = [made[target][key] for target in TARGETS]
                # A constant of 40 ms would be Nagle's algorithm and a delayed acknowledgement.
                ok = values[2] - values[0] < 20_000
                self.row(f"  {name}", [f"{value:.0f}" for value in values],
                         "no constant of 40 ms", ok)

    @contextlib.contextmanager
    def watched(self, target):
        """What an open dashboard and a Prometheus ask for: live events, and metrics each second."""
        url, header = f"http://127.0.0.1:{self.ports[target]}", ["-H", f"x-kvgate-key: {KEY}"]
        live = subprocess.Popen(
            ["curl", "-sN", *header, f"{url}/kvgate/v1/events?records_per_second=100"],
            stdout=subprocess.DEVNULL)
        scraped = subprocess.Popen(
            ["sh", "-c", "while sleep 1; do curl -s -o /dev/null \"$@\"; done", "sh", *header,
             f"{url}/metrics"])
        try:
            yield
        finally:
            for process in (scraped, live):
                process.kill()
                process.wait()

    def ledger(self):
        """What records cost, of requests so small and many that they cost most."""
        self.start_kvgate("no records", NO_RECORDS)
        targets = ("kvgate", "watched", "no records")
        print(f"\nrequests/s of {CONNECTIONS} connections, 1 KB, wrk, with records and without")
        self.row("", ["with", "without", "ratio", "least", "most"])
        speeds = {target: [] for target in targets}
        # As many records as are kept, so that each new one takes an old one's place.
        self.client("kvgate", SIZES["1 KB"], 12, CONNECTIONS)
        for index in range(max(9, self.options.rounds)):
            first = index % len(targets)
            for target in targets[first:] + targets[:first]:
                if target == "watched":
                    with self.watched("kvgate"):
                        speeds[target].append(self.wrk("kvgate", SIZES["1 KB"]))
                else:
                    speeds[target].append(self.wrk(target, SIZES["1 KB"]))
        for name, target in (("records", "kvgate"), ("records, seen live", "watched")):
            ratios = [on / off for on, off in zip(speeds[target], speeds["no records"])]
            ratio = statistics.median(ratios)
            self.row(name, [f"{statistics.median(speeds[target]):.0f}",
                            f"{statistics.median(speeds['no records']):.0f}",
                            f"{ratio:.3f}", f"{min(ratios):.3f}", f"{max(ratios):.3f}"],
                     ">= 0.95", ratio >= 0.95)

    def memory(self, idle):
        print()
        self.row("RSS idle, no model (MiB)", ["", "", f"{idle:.1f}"], "<= 40", idle <= 40)
        time.sleep(1)
        self.row("RSS after the load (MiB)", ["", "", f"{rss_mib(self.kvgate.pid):.1f}"])
        request = urllib.request.Request(f"http://127.0.0.1:{self.ports['kvgate']}/kvgate/v1/stats",
                                         headers={"x-kvgate-key": KEY})
        ledger = json.load(urllib.request.urlopen(request))["ledger"]
        requests = sum(row["requests"] for row in ledger["totals"]["by_upstream"].values())
        self.row("requests in the ledger", ["", "", str(requests)])
        self.row("records not kept", ["", "", str(ledger["records_dropped"])])

    def run(self):
        self.set_up()
        try:
            idle = rss_mib(self.kvgate.pid)
            for part in PARTS:
                if part in self.options.parts:
                    getattr(self, part)()
            self.memory(idle)
        finally:
            self.tear_down()
        return 1 if self.missed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each, median shown")
    parser.add_argument("--parts", nargs="+", default=PARTS, choices=PARTS)
    options = parser.parse_args()
    for program in ("nginx", "wrk"):
        if not shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin"):
            parser.error(f"{program} is needed, and no script installs a web server unasked: "
                         "apt-get install --no-install-recommends nginx wrk")
    print(f"{os.cpu_count()} cores; median of {options.rounds} rounds of {options.seconds:g} s")
    return Bench(options).run()


if __name__ == "__main__":
    sys.exit(main())
