# SPDX-License-Identifier: Apache-2.0
"""Exec attach: a command's streams over a WebSocket, exact across lost connections.

Written by hand; the rest of this package is generated from the OpenAPI document. The wire
is doc/api.md, "Attach": binary messages of one type byte, eight bytes of offset (big
endian) and a payload. Output is a log with byte offsets, so a new connection goes on from
the last byte that was processed; input is kept until the guest says that the program took
it, so it is sent again from there and never twice.
"""

import json
import struct
import threading
import time
from urllib.parse import urlsplit

import websocket

STDOUT, STDERR, PTY = 0x01, 0x02, 0x03
STDIN, STDIN_END, SIZE, SIGNAL, ACK = 0x10, 0x11, 0x12, 0x13, 0x14
STARTED, EXIT, GAP, ALIVE, CLOSING = 0x20, 0x21, 0x22, 0x23, 0x24
KINDS = {STDOUT: "stdout", STDERR: "stderr", PTY: "pty"}

#: At most so much input is under way, so that acknowledgements never wait behind it.
STDIN_WINDOW = 262144
STDIN_FRAME = 32768
ACK_EVERY = 65536
#: The server says something every 15 s.
SILENCE_S = 45
SUBPROTOCOL = "caisson.exec.v1"


class Refused(Exception):
    """The server refused the attach: `status` and the typed `error`."""

    def __init__(self, status, error):
        self.status, self.error = status, error
        super().__init__(error.get("message") or f"HTTP {status}")

    @property
    def code(self):
        return self.error.get("code", "")


class Lost(Exception):
    """No connection for longer than `give_up_s`, or the stream was closed for good."""


class Attach:
    """Iterate to get `(kind, bytes)` with kind `stdout`, `stderr`, `pty`, or `("gap", {from, to})`;
    the iteration ends with the command, whose exit fact is in `exit` then.

    `write`, `close_stdin`, `resize` and `signal` may be called from other threads."""

    def __init__(self, url, token, *, start=0, watch=False, give_up_s=60.0, address=None):
        self.url, self.token, self.watch, self.give_up_s = url, token, watch, give_up_s
        self.address = address  # (host, port) to dial instead of the URL's
        self.offset = start  # everything below was handed out and processed
        self.exit = self.started = None
        self.reconnects = 0
        self._acked = start
        self._ws = None
        self._cond = threading.Condition()
        self._pending, self._base, self._sent = bytearray(), 0, None
        self._ended = self._end_sent = self._over = False
        self._sender = threading.Thread(target=self._send_loop, daemon=True)
        self._sender.start()

    # ---- input ----

    def write(self, data):
        """Queue bytes for stdin; waits while the window is full."""
        view = memoryview(data)
        with self._cond:
            while view:
                if self._over:
                    raise BrokenPipeError("the command is over")
                room = STDIN_WINDOW - len(self._pending)
                if room <= 0:
                    self._cond.wait(1)
                    continue
                self._pending += view[:room]
                view = view[room:]
                self._cond.notify_all()

    def close_stdin(self):
        """End of input, after everything written."""
        with self._cond:
            self._ended = True
            self._cond.notify_all()

    def resize(self, cols, rows):
        self._send(SIZE, 0, json.dumps({"cols": cols, "rows": rows}).encode())

    def signal(self, name, scope="tree"):
        self._send(SIGNAL, 0, json.dumps({"name": name, "scope": scope}).encode())

    def close(self):
        """Let go of the stream. The command runs on."""
        with self._cond:
            self._over = True
            self._cond.notify_all()
        self._drop()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # ---- output ----

    def __iter__(self):
        try:
            while self.exit is None:
                self._connect()
                try:
                    yield from self._receive()
                except (websocket.WebSocketException, OSError):
                    pass
                if self.exit is None:
                    self.reconnects += 1
                    self._drop()
        finally:
            self.close()

    def _receive(self):
        while self.exit is None:
            message = self._ws.recv()
            if not isinstance(message, bytes) or len(message) < 9:
                return  # closed
            kind, offset = struct.unpack_from(">BQ", message)
            body = message[9:]
            if kind in KINDS:
                yield KINDS[kind], body
                self.offset = offset + len(body)
            elif kind == GAP:
                gap = json.loads(body)
                yield "gap", gap
                self.offset = gap["to"]
            elif kind == CLOSING:
                closing = json.loads(body)
                if not closing.get("retry"):
                    raise Lost(f"the server closed the stream: {closing.get('reason')}")
                return
            else:
                self._note(kind, json.loads(body))

    def _note(self, kind, body):
        if kind == EXIT:
            self._send(ACK, self.offset, b"")
            self.exit = body
            return
        if kind == STARTED:
            self.started = body
        taken = body.get("stdin_offset")
        if kind not in (STARTED, ALIVE) or taken is None:
            return
        with self._cond:
            if taken > self._base:
                del self._pending[: taken - self._base]
                self._base = taken
            if kind == STARTED:
                self._sent, self._end_sent = self._base, False
                self._acked = -1  # one that was lost on the way is repeated
            self._cond.notify_all()

    # ---- the connection ----

    def _connect(self):
        deadline, pause = time.monotonic() + self.give_up_s, 0.05
        while True:
            try:
                self._open()
                return
            except websocket.WebSocketBadStatusException as e:
                status, refusal = e.status_code, self._refusal(e)
                if status not in (502, 503) or time.monotonic() > deadline:
                    raise Refused(status, refusal) from None
            except (websocket.WebSocketException, OSError) as e:
                if time.monotonic() > deadline:
                    raise Lost(f"no connection for {self.give_up_s:.0f} s: {e}") from None
            time.sleep(pause)
            pause = min(pause * 2, 2.0)

    @staticmethod
    def _refusal(e):
        # Newer releases of websocket-client keep the body, older ones do not.
        try:
            return json.loads(getattr(e, "resp_body", None) or b"{}").get("error", {})
        except ValueError:
            return {}

    def _open(self):
        u = urlsplit(self.url)
        scheme = {"http": "ws", "https": "wss"}.get(u.scheme, u.scheme)
        url = f"{scheme}://{u.netloc}{u.path}?from={self.offset}{'&watch=1' if self.watch else ''}"
        extra = {}
        if self.address:
            import socket
            extra["socket"] = socket.create_connection(self.address, timeout=SILENCE_S)
        ws = websocket.create_connection(url, timeout=SILENCE_S, subprotocols=[SUBPROTOCOL], enable_multithread=True,
                                         suppress_origin=True, header=[f"Authorization: Bearer {self.token}"], **extra)
        with self._cond:
            self._ws, self._sent = ws, None

    def _drop(self):
        with self._cond:
            ws, self._ws, self._sent = self._ws, None, None
        if ws is not None:
            try:
                ws.shutdown()
            except (websocket.WebSocketException, OSError):
                pass

    def _send(self, kind, offset, payload):
        ws = self._ws
        if ws is None:
            return False
        try:
            ws.send_binary(struct.pack(">BQ", kind, offset) + payload)
            return True
        except (websocket.WebSocketException, OSError):
            return False  # the receiver notices and reconnects

    def _send_loop(self):
        """Input as the window allows, and acknowledgements."""
        while True:
            with self._cond:
                job = self._next_job()
                if job is None:
                    self._cond.wait(0.1)
                    job = self._next_job()
                if self._over:
                    return
            if job is not None:
                self._send(*job)
            elif self.offset != self._acked and self._ws is not None and not self.watch:
                offset = self.offset
                if self._send(ACK, offset, b""):
                    self._acked = offset

    def _next_job(self):
        """The next frame of input, with the lock held; None if there is none to send now."""
        if self._over or self._ws is None or self._sent is None:
            return None
        if self.offset - self._acked >= ACK_EVERY and not self.watch:
            self._acked = self.offset
            return ACK, self._acked, b""
        at = self._sent - self._base
        data = bytes(self._pending[at:at + STDIN_FRAME])
        if data:
            offset, self._sent = self._sent, self._sent + len(data)
            return STDIN, offset, data
        if self._ended and not self._end_sent:
            self._end_sent = True
            return STDIN_END, self._sent, b""
        return None
