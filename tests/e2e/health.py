#!/usr/bin/env python3
"""That /health answers while a server is busy: asked from another process, so that no interpreter's
lock stands between the clocks, and compared with the same server's idle time in the same run.

The machine is shared, and a process that finds both cores taken waits for the scheduler before it
may answer anything; what a neighbour does then is no fault of the server. So a high percentile of
many answers is judged and not the slowest one, against the median of idle ones with a floor: an
answer that takes a hundred microseconds when idle says nothing about twenty times that. And beside
each answer a bystander's is timed, a process that does nothing else: on a machine that stands still
for half a second at a time the bystander is late, too, and the server is judged by how late.
"""

import http.client
import json
import select
import socket
import statistics
import subprocess
import sys
import time

FACTOR_MAX = 20
BYSTANDER_FACTOR_MAX = 3
IDLE_FLOOR_SECONDS = 0.002
PERCENTILE = 0.9
INTERVAL_SECONDS = 0.05
IDLE_ASKS = 20


def ask_once(address):
    """(status, seconds) of one request on a connection of its own."""
    began = time.monotonic()
    connection = http.client.HTTPConnection(address, timeout=60)
    try:
        connection.request("GET", "/health")
        response = connection.getresponse()
        response.read()
        return response.status, time.monotonic() - began
    except OSError as error:
        return repr(error), time.monotonic() - began
    finally:
        connection.close()


def stand_by():
    """The bystander: tells its port and gives one answer to whatever is asked."""
    listening = socket.create_server(("127.0.0.1", 0))
    print(listening.getsockname()[1], flush=True)
    while True:
        connection, _ = listening.accept()
        with connection:
            connection.recv(4096)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")


def watch(address):
    """Tells idle times, asks both until the input ends, and tells what was answered: pairs of the
    server's and the bystander's."""
    with subprocess.Popen([sys.executable, __file__], text=True,
                          stdout=subprocess.PIPE) as bystander:
        try:
            beside = f"127.0.0.1:{bystander.stdout.readline().strip()}"
            print(json.dumps([ask_once(address) for _ in range(IDLE_ASKS)]), flush=True)
            answers = [(ask_once(address), ask_once(beside))]
            while not select.select([sys.stdin], [], [], INTERVAL_SECONDS)[0]:
                answers.append((ask_once(address), ask_once(beside)))
            print(json.dumps(answers), flush=True)
        finally:
            bystander.kill()


def high(answers):
    """A high percentile of their seconds."""
    times = sorted(seconds for _, seconds in answers)
    return times[min(len(times) - 1, int(len(times) * PERCENTILE))]


class HealthWatch:
    """`with HealthWatch(self, running): load` — fails the test where /health did not keep up."""

    def __init__(self, case, running):
        self.case = case
        self.asker = subprocess.Popen([sys.executable, __file__, running.address], text=True,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        idle = json.loads(self.asker.stdout.readline())
        self.idle_seconds = max(statistics.median(seconds for _, seconds in idle),
                                IDLE_FLOOR_SECONDS)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        told, _ = self.asker.communicate(timeout=120)  # which closes its input
        if kind is not None:
            return
        answers, beside = zip(*json.loads(told))
        busy, bystander = high(answers), high(beside)
        print(f"/health: idle {1000 * self.idle_seconds:.1f} ms, busy {1000 * busy:.1f} ms "
              f"(slowest {1000 * max(seconds for _, seconds in answers):.0f} ms of "
              f"{len(answers)}), a bystander {1000 * bystander:.1f} ms", flush=True)
        self.case.assertEqual({status for status, _ in answers}, {200})
        self.case.assertLessEqual(busy, max(FACTOR_MAX * self.idle_seconds,
                                            BYSTANDER_FACTOR_MAX * bystander))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        watch(sys.argv[1])
    else:
        stand_by()
