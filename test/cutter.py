# SPDX-License-Identifier: Apache-2.0
"""A TCP proxy that cuts its connections at random moments, counted in bytes."""

import random
import select
import socket
import struct
import threading


class Cutter:
    """Forwards 127.0.0.1:port to `target`; each connection dies (reset, both ways) after a random
    number of bytes, until `cuts` were made; then connections live."""

    def __init__(self, target, cuts, mean_bytes, seed=1):
        self.target, self.left, self.mean, self.done = target, cuts, mean_bytes, 0
        self.random = random.Random(seed)
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = self.listener.getsockname()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _budget(self):
        with self.lock:
            return self.random.expovariate(1 / self.mean) if self.left > 0 else None

    def _cut(self, *socks):
        with self.lock:
            self.left, self.done = self.left - 1, self.done + 1
        for s in socks:
            # a reset: what is in flight is lost on both sides
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            s.close()

    def _serve(self, client):
        try:
            server = socket.create_connection(self.target)
        except OSError:
            client.close()
            return
        budget, other = self._budget(), {client: server, server: client}
        try:
            while True:
                for s in select.select([client, server], [], [])[0]:
                    data = s.recv(65536 if budget is None else max(1, min(65536, int(budget))))
                    if not data:
                        client.close(), server.close()
                        return
                    other[s].sendall(data)
                    if budget is not None:
                        budget -= len(data)
                        if budget < 1:
                            self._cut(client, server)
                            return
        except OSError:
            client.close(), server.close()

    def close(self):
        self.listener.close()
