"""A TCP balancer on loopback as one stands in front of several gateways: it asks /ready of each,
and new connections go to those that said yes. Connections that are open stay where they are."""

import http.client
import socket
import threading

POLL_SECONDS = 0.1


def is_ready(address):
    """Whether a gateway says so, on a connection of its own."""
    try:
        connection = http.client.HTTPConnection(address, timeout=2)
        try:
            connection.request("GET", "/ready")
            return connection.getresponse().status == 200
        finally:
            connection.close()
    except (OSError, http.client.HTTPException):
        return False


class Balancer:
    """`addresses()` says where the gateways are now; one that has none, None, gets nothing.

    With `tries_others`, a connection that one of them refuses goes to another one.
    """

    def __init__(self, addresses, tries_others=True):
        self.addresses, self.tries_others = addresses, tries_others
        self.ready = set()
        self.turn = 0
        self.unserved = 0  # connections that no gateway took
        self.ended = threading.Event()
        self.listening = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.address = "127.0.0.1:%d" % self.listening.getsockname()[1]
        threading.Thread(target=self._poll, daemon=True).start()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self.ended.set()
        self.listening.close()

    def _poll(self):
        while not self.ended.wait(POLL_SECONDS):
            self.ready = {address for address in self.addresses()
                          if address is not None and is_ready(address)}

    def _accept(self):
        while not self.ended.is_set():
            try:
                client, _ = self.listening.accept()
            except OSError:
                continue
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _connect(self):
        """To the next ready gateway, or another that takes the connection; None if none does."""
        self.turn += 1
        candidates = sorted(self.ready)
        for index in range(len(candidates) if self.tries_others else min(1, len(candidates))):
            host, port = candidates[(self.turn + index) % len(candidates)].rsplit(":", 1)
            try:
                server = socket.create_connection((host, int(port)), timeout=2)
            except OSError:
                continue  # not a byte was sent, so that another one may have it
            server.settimeout(None)
            return server
        self.unserved += 1
        return None

    def _serve(self, client):
        server = self._connect()
        if server is None:
            client.close()
            return
        answers = threading.Thread(target=self._pass, args=(server, client), daemon=True)
        answers.start()
        self._pass(client, server)
        answers.join()
        client.close()
        server.close()

    @staticmethod
    def _pass(source, sink):
        try:
            while data := source.recv(65536):
                sink.sendall(data)
        except OSError:
            pass
        for end, how in ((sink, socket.SHUT_WR), (source, socket.SHUT_RD)):
            try:
                end.shutdown(how)
            except OSError:
                pass  # it is gone
