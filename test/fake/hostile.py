#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hostile clients against a listener, by raw sockets.

Each attack is data: a name, what it does (bytes, or a function of a connected
socket), what must come of it, and by when. After every attack, and while it
lasts, somebody else's request must be answered. Nothing but the standard
library is used, so that no client library repairs what is meant to be broken.

    hostile.py --control 127.0.0.1:7700 --data 127.0.0.1:7710 --key KEY
    hostile.py --rig build/src/net/net-rig        # against the bare façade

One line per attack: ok|FAIL listener attack outcome seconds [memory]. The exit
status is 1 if any failed. With --pid PID the resident memory of the server is
read around every attack and may grow by --grow MiB (default 64) at most.
"""

import argparse
import base64
import json
import os
import socket
import struct
import subprocess
import sys
import threading
import time

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
CLOSED = "closed"  # an outcome: the connection ended without an answer


class Target:
    """A listener: where it is, and paths that mean something there."""

    def __init__(self, name, addr, key, probe, body, ws):
        host, _, port = addr.rpartition(":")
        self.name, self.addr = name, (host.strip("[]"), int(port))
        self.key, self.probe, self.body, self.ws = key, probe, body, ws

    def connect(self, rcvbuf=None):
        s = socket.socket(socket.AF_INET6 if ":" in self.addr[0] else socket.AF_INET)
        if rcvbuf:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
        s.settimeout(10)
        s.connect(self.addr)
        return s

    def head(self, method="GET", path=None, fields=()):
        lines = [f"{method} {path or self.probe} HTTP/1.1", "Host: localhost"]
        if self.key:
            lines.append(f"Authorization: Bearer {self.key}")
        return "\r\n".join([*lines, *fields, "", ""]).encode()


# ---- bytes of the protocols ----

def frame(kind, flags, stream, payload=b"", length=None):
    n = len(payload) if length is None else length
    return struct.pack(">I", n)[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def settings(*pairs):
    return frame(4, 0, 0, b"".join(struct.pack(">HI", k, v) for k, v in pairs))


def hpack(name, value, huge=False):
    def string(s):
        n = len(s)
        if n < 127:
            return bytes([n]) + s
        out, n = bytearray([127]), n - 127
        while n >= 128:
            out.append(n & 127 | 128)
            n >>= 7
        out.append(n)
        return bytes(out) + s
    return (b"\x40" if huge else b"\x00") + string(name) + string(value)


def h2_fields(t, method, path, extra=()):
    out = hpack(b":method", method.encode()) + hpack(b":scheme", b"http")
    out += hpack(b":path", path.encode()) + hpack(b":authority", b"localhost")
    if t.key:
        out += hpack(b"authorization", b"Bearer " + t.key.encode())
    for k, v in extra:
        out += hpack(k, v)
    return out


def h2_open(t, s, *pairs):
    s.sendall(PREFACE + settings(*pairs))


def h2_get(t, stream, path=None, flags=5):
    return frame(1, flags, stream, h2_fields(t, "GET", path or t.probe))


def h2_post(t, stream, extra=()):
    return frame(1, 4, stream, h2_fields(
        t, "POST", t.body, ((b"content-type", b"application/json"), *extra)))


def ws_frame(op, payload=b"", fin=True, mask=True, rsv=0, length=None):
    n = len(payload) if length is None else length
    b = bytes([(0x80 if fin else 0) | rsv << 4 | op])
    m = 0x80 if mask else 0
    if n < 126:
        b += bytes([m | n])
    elif n < 65536:
        b += bytes([m | 126]) + struct.pack(">H", n)
    else:
        b += bytes([m | 127]) + struct.pack(">Q", n)
    return b + (b"\0\0\0\0" if mask else b"") + payload


# ---- what attacks do ----

def drip(first, then, every=0.2):
    """Send `first`, then `then` over and over, slowly, until it is over."""
    def run(t, s):
        s.sendall(first(t) if callable(first) else first)
        while True:
            time.sleep(every)
            s.sendall(then)
            s.setblocking(False)
            try:
                if s.recv(1, socket.MSG_PEEK) == b"":
                    return
                return
            except BlockingIOError:
                pass
            finally:
                s.settimeout(10)
    return run


def flood(first, unit, total=64 << 20):
    """Send `unit` as fast as it goes, reading what comes, until it is over."""
    def run(t, s):
        s.sendall(first(t) if callable(first) else first)
        block, sent = unit * (65536 // len(unit) + 1), 0
        s.settimeout(20)

        def drain():
            try:
                while s.recv(65536):
                    pass
            except OSError:
                pass
        reader = threading.Thread(target=drain, daemon=True)
        reader.start()
        while sent < total and reader.is_alive():
            s.sendall(block)
            sent += len(block)
        if sent >= total:
            raise AssertionError("64 MiB were taken")
    return run


def h2_flood(unit, first=b""):
    return flood(lambda t: PREFACE + settings() + first, unit)


def rapid_reset(t, s):
    h2_open(t, s)
    for i in range(20000):
        s.sendall(h2_get(t, 2 * i + 1) + frame(3, 0, 2 * i + 1, struct.pack(">I", 8)))


def made_you_reset(t, s):
    h2_open(t, s)
    for i in range(20000):
        # a window increment of zero is a stream error
        s.sendall(h2_get(t, 2 * i + 1, flags=4) + frame(8, 0, 2 * i + 1, b"\0\0\0\0"))


def too_many_streams(t, s):
    h2_open(t, s)
    for i in range(20000):
        s.sendall(h2_post(t, 2 * i + 1))


def continuations(t, s):
    h2_open(t, s)
    s.sendall(frame(1, 0, 1, b"\x82"))
    for _ in range(20000):
        s.sendall(frame(9, 0, 1, hpack(b"x", b"y" * 1000)))


def hpack_bomb(t, s):
    h2_open(t, s)
    # one 4 KiB entry in the table, then named by single bytes
    s.sendall(frame(1, 4, 1, h2_fields(t, "GET", t.probe) +
                    hpack(b"x", b"y" * 3900, huge=True)))
    for i in range(1, 300):
        s.sendall(frame(1, 5, 2 * i + 1, h2_fields(t, "GET", t.probe) + b"\xbe" * 8000))


def shut_window(t, s):
    h2_open(t, s, (4, 0))
    for i in range(100):
        s.sendall(h2_get(t, 2 * i + 1))


def unread_answers(t, s):
    for _ in range(100000):
        s.sendall(t.head())


def ws_open(t, s):
    key = base64.b64encode(os.urandom(16)).decode()
    s.sendall(t.head(path=t.ws, fields=(
        "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
        f"Sec-WebSocket-Key: {key}")))
    answer = b""
    while b"\r\n\r\n" not in answer:
        got = s.recv(65536)
        if not got:
            break
        answer += got
    if not answer.startswith(b"HTTP/1.1 101"):
        raise AssertionError(f"no WebSocket at {t.ws}: {answer[:60]!r}")


def ws_attack(data, repeat=1):
    def run(t, s):
        ws_open(t, s)
        for _ in range(repeat):
            s.sendall(data)
    return run


def deep_json(t):
    body = b"[" * 200000
    return post(t, body)


def post(t, body, fields=()):
    return t.head("POST", t.body, (
        "Content-Type: application/json", f"Content-Length: {len(body)}",
        *fields)) + body


def fields(n):
    return tuple(f"X-{i}: y" for i in range(n))


def chunks(t, *more):
    return t.head("POST", t.body, ("Content-Type: application/json",
                                   "Transfer-Encoding: chunked", *more))


# name, what is sent (bytes of a target, or a function of target and socket),
# what must come (statuses or CLOSED), deadline in seconds. A deadline marked
# SLOW is one of the server's own time limits and what it takes to notice.
SLOW_HEAD, SLOW_BODY, SLOW_READ = 30, 70, 150
BAD = (400,)
REFUSED = (400, 401, 403, 404, 405, 413, 415)  # with a body that nobody wanted
ATTACKS = [
    ("garbage", lambda t: os.urandom(64) + b"\r\n\r\n" + b"\0" * 64, (400, CLOSED), 20),
    ("tls hello", lambda t: b"\x16\x03\x01\x00\xc8\x01\x00" + b"\0" * 200, BAD, 20),
    ("http 1.0", lambda t: b"GET / HTTP/1.0\r\nHost: a\r\n\r\n", (505,), 20),
    ("no host", lambda t: b"GET / HTTP/1.1\r\n\r\n", BAD, 20),
    ("two hosts", lambda t: t.head(fields=("Host: other",)), BAD, 20),
    ("bare lf", lambda t: t.head().replace(b"\r\n", b"\n"), BAD, 20),
    ("folded field", lambda t: t.head(fields=("X: a\r\n b",)), BAD, 20),
    ("space before colon", lambda t: t.head(fields=("X : a",)), BAD, 20),
    ("nul in a field", lambda t: t.head(fields=("X: a\0b",)), BAD, 20),
    ("length and chunks", lambda t: chunks(t, "Content-Length: 5") + b"0\r\n\r\n", BAD, 20),
    ("two lengths", lambda t: t.head("POST", t.body, ("Content-Length: 5",
                                                     "Content-Length: 6")) + b"hello", BAD, 20),
    ("list of lengths", lambda t: t.head("POST", t.body, ("Content-Length: 5, 5",)), BAD, 20),
    ("negative length", lambda t: t.head("POST", t.body, ("Content-Length: -1",)), BAD, 20),
    ("length beyond 2^63", lambda t: t.head(
        "POST", t.body, ("Content-Length: 99999999999999999999",)), BAD, 20),
    ("unknown coding", lambda t: t.head("POST", t.body, ("Transfer-Encoding: gzip, chunked",)),
     (501,), 20),
    ("chunk extension", lambda t: chunks(t) + b"2;a=b\r\n{}\r\n0\r\n\r\n", REFUSED, 20),
    ("chunk size overflow", lambda t: chunks(t) + b"ffffffffffffffffff\r\n{}", REFUSED, 20),
    ("chunk without end", lambda t: chunks(t) + b"2\r\n{}x\r\n", REFUSED, 20),
    ("odd expectation", lambda t: t.head(fields=("Expect: magic",)), (417,), 20),
    ("connect", lambda t: b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", (501,), 20),
    ("long target", lambda t: b"GET /" + b"a" * 20000, (414,), 20),
    ("many fields", lambda t: t.head(fields=fields(200)), (431,), 20),
    ("large field", lambda t: t.head(fields=("X: " + "a" * 60000,)), (431,), 20),
    ("endless head", flood(lambda t: b"GET / HTTP/1.1\r\n", b"X: y\r\n"), (431, CLOSED), 60),
    # not read any more, or cut: both bound it
    ("pipelined flood", unread_answers, (CLOSED, 200), SLOW_READ),
    ("slow head", drip(b"GET / HTTP/1.1\r\nX: ", b"y"), (408, CLOSED), SLOW_HEAD),
    ("slow body", drip(lambda t: t.head("POST", t.body, (
        "Content-Type: application/json", "Content-Length: 10000")), b" "),
     (408, *REFUSED), SLOW_BODY),
    ("slow chunks", drip(chunks, b"1\r\n \r\n"), (408, *REFUSED), SLOW_BODY),
    ("huge body", lambda t: t.head("POST", t.body, (
        "Content-Type: application/json", "Content-Length: 100000000000")) + b" " * 4000000,
     REFUSED + (CLOSED,), SLOW_BODY),
    ("endless chunks", flood(chunks, b"10\r\n                \r\n"), REFUSED + (CLOSED,), 60),
    ("json depth", deep_json, REFUSED, 20),
    ("json twice", lambda t: post(t, b'{"a":1,"a":2}'), REFUSED, 20),
    ("json number", lambda t: post(t, b'{"a":' + b"9" * 100000 + b"}"), REFUSED, 20),
    ("json names", lambda t: post(t, b"{" + b",".join(
        b'"k%d":0' % i for i in range(60000)) + b',"k0":1}'), REFUSED, 20),
    ("json not utf-8", lambda t: post(t, b'{"a":"\xff"}'), REFUSED, 20),
    ("json of nuls", lambda t: post(t, b"\0" * 10000), REFUSED, 20),
    ("h2 bad preface", lambda t: PREFACE[:-4] + b"XXXX" + b"\0" * 100, (CLOSED, 400, 505), 20),
    ("h2 oversized frame", lambda t: PREFACE + settings() + frame(
        0, 0, 1, b"", length=(1 << 24) - 1), (CLOSED,), 20),
    ("h2 rapid reset", rapid_reset, (CLOSED,), 60),
    ("h2 provoked resets", made_you_reset, (CLOSED,), 60),
    ("h2 too many streams", too_many_streams, (CLOSED,), 60),
    ("h2 continuation flood", continuations, (CLOSED,), 60),
    ("h2 hpack bomb", hpack_bomb, (CLOSED,), 60),
    ("h2 settings flood", h2_flood(settings()), (CLOSED,), 90),
    ("h2 settings with many entries", lambda t: PREFACE + frame(
        4, 0, 0, struct.pack(">HI", 0xff, 1) * 2000), (CLOSED,), 20),
    ("h2 ping flood", h2_flood(frame(6, 0, 0, b"pingping")), (CLOSED,), 90),
    ("h2 window flood", h2_flood(frame(8, 0, 0, b"\0\0\0\1")), (CLOSED,), 90),
    ("h2 priority flood", h2_flood(frame(2, 0, 1, b"\0\0\0\0\1")), (CLOSED,), 90),
    ("h2 unknown frames", h2_flood(frame(0x55, 0, 0, b"x")), (CLOSED,), 90),
    ("h2 empty data", flood(lambda t: PREFACE + settings() + h2_post(t, 1), frame(0, 0, 1)),
     (CLOSED,), 90),
    ("h2 half a head", lambda t: PREFACE + settings() + frame(1, 0, 1, b"\x82"),
     (CLOSED,), SLOW_HEAD),
    ("h2 shut window", shut_window, (CLOSED,), SLOW_READ + 80),
]
WS_ATTACKS = [
    ("ws unmasked", ws_attack(ws_frame(1, b"x", mask=False)), (1002,), 20),
    ("ws reserved bit", ws_attack(ws_frame(1, b"x", rsv=4)), (1002,), 20),
    ("ws unknown kind", ws_attack(ws_frame(3, b"x")), (1002,), 20),
    ("ws long control", ws_attack(ws_frame(9, b"x" * 126)), (1002,), 20),
    ("ws control in fragments", ws_attack(ws_frame(9, b"x", fin=False)), (1002,), 20),
    ("ws continuation first", ws_attack(ws_frame(0, b"x")), (1002,), 20),
    ("ws not utf-8", ws_attack(ws_frame(1, b"\xff")), (1007,), 20),
    ("ws huge length", ws_attack(ws_frame(2, b"", length=1 << 62)), (1009,), 20),
    ("ws endless fragments", ws_attack(ws_frame(2, b"x", fin=False) + ws_frame(
        0, b"x" * 60000, fin=False) * 40, 1), (1009,), 60),
    ("ws empty fragments", ws_attack(ws_frame(2, b"", fin=False) + ws_frame(
        0, b"", fin=False) * 100), (1008,), 20),
    ("ws bad close code", ws_attack(ws_frame(8, struct.pack(">H", 1005))), (1002,), 20),
    ("ws leaves", ws_attack(b""), (CLOSED,), 20),
]


# ---- what came of it ----

def read_all(s, until):
    """Everything up to the end, an HTTP/1 answer or a close frame."""
    got = b""
    while time.monotonic() < until:
        s.settimeout(max(0.1, min(1.0, until - time.monotonic())))
        try:
            more = s.recv(65536)
        except socket.timeout:
            if whole(got):
                return got, False
            continue
        except OSError:
            return got, True
        if not more:
            return got, True
        got = (got + more)[-1 << 20:]
        if whole(got):
            return got, False
    return got, False


def whole(got):
    head, sep, body = got.partition(b"\r\n\r\n")
    for line in head.split(b"\r\n"):
        if line.lower().startswith(b"content-length:"):
            return bool(sep) and len(body) >= int(line.split(b":")[1])
    return False


def outcome(got, ended):
    """A status with whether its body is a typed error, a close code, or CLOSED."""
    if got.startswith(b"HTTP/1.1 "):
        status = int(got[9:12])
        body = got.partition(b"\r\n\r\n")[2]
        try:
            e = json.loads(body)["error"]
            typed = all(e[k] for k in ("code", "message", "cause", "remedy", "request_id"))
        except (ValueError, KeyError, TypeError):
            typed = False
        return status, typed
    if got[:1] == b"\x88" and len(got) >= 4:
        return struct.unpack(">H", got[2:4])[0], True
    return (CLOSED if ended else "open"), True


class Probe(threading.Thread):
    """Somebody else, who must be answered all the time."""

    def __init__(self, t):
        super().__init__(daemon=True)
        self.t, self.over, self.worst, self.failed = t, threading.Event(), 0.0, None
        self.served = 0

    def ask(self):
        start = time.monotonic()
        with self.t.connect() as s:
            s.settimeout(30)
            s.sendall(self.t.head(fields=("Connection: close",)))
            got = b""
            while True:
                more = s.recv(65536)
                if not more:
                    break
                got += more
        self.worst = max(self.worst, time.monotonic() - start)
        if not got.startswith(b"HTTP/1.1 ") or got[9:12] in (b"408", b"429") or got[9:10] == b"5":
            raise AssertionError(f"another client got {got[:40]!r}")
        self.served += 1

    def run(self):
        try:
            self.ask()
            while not self.over.wait(0.2):
                self.ask()
        except (OSError, AssertionError) as e:
            self.failed = str(e)


def resident(pid):
    if not pid:
        return 0
    with open(f"/proc/{pid}/statm", encoding="ascii") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def attack(t, name, what, expected, deadline, pid=None, grow=64 << 20):
    """Run one; returns (passed, text)."""
    before, start = resident(pid), time.monotonic()
    until, why = start + deadline, None
    probe = Probe(t)
    probe.start()
    s = t.connect(4096 if name in ("pipelined flood",) else None)
    got, ended = b"", False
    try:
        if what.__code__.co_argcount == 1:
            s.sendall(what(t))
        else:
            what(t, s)
    except AssertionError as e:
        why = str(e)
    except OSError:
        ended = True  # it was thrown out while it spoke
    if not why:
        if name == "ws leaves":
            s.close()
            ended = True
        elif ended:
            got = read_all(s, time.monotonic() + 1)[0]
        elif name == "pipelined flood" or "shut window" in name:
            got, ended = b"", wait_end(s, until)
        else:
            got, ended = read_all(s, until)
        result, typed = outcome(got, ended)
        if result == "open" and got:
            result = f"{len(got)} bytes and still open"
        if result not in expected:
            why = f"expected {' or '.join(map(str, expected))}, got {result}"
        elif not typed and result != 200:
            why = f"{result} without a typed error"
    s.close()
    took = time.monotonic() - start
    probe.over.set()
    probe.join(40)
    if probe.failed or probe.is_alive() or not probe.served:
        why = f"others suffered: {probe.failed or 'no answer'}"
    grew = resident(pid) - before
    if grew > grow:
        why = f"memory grew by {grew >> 20} MiB"
    text = f"{t.name} {name}: {why or result} {took:.1f}s, others at most {probe.worst:.2f}s"
    return not why, text + (f", {grew >> 10:+d} KiB" if pid else "")


def wait_end(s, until):
    """Read nothing; is the peer gone by then?"""
    while time.monotonic() < until:
        # what waits in the receive buffer hides the end; errors show it
        if s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            return True
        info = s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)
        if info[0] != 1:  # not ESTABLISHED
            return True
        time.sleep(0.2)
    return False


def run(targets, only=None, pid=None, grow=64 << 20, out=print, skip=()):
    """All attacks on all targets; the number that failed."""
    failed = 0
    for t in targets:
        table = ATTACKS + (WS_ATTACKS if t.ws else [])
        for name, what, expected, deadline in table:
            if only and not any(o in name for o in only) or any(w in name for w in skip):
                continue
            ok, text = attack(t, name, what, expected, deadline, pid, grow)
            failed += not ok
            out(("ok   " if ok else "FAIL ") + text)
    return failed


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    p.add_argument("--control", metavar="HOST:PORT")
    p.add_argument("--data", metavar="HOST:PORT")
    p.add_argument("--rig", metavar="NET-RIG", help="start it and attack it")
    p.add_argument("--key")
    p.add_argument("--probe", default="/healthz", help="a GET that is answered")
    p.add_argument("--body", default="/v1/sandboxes", help="POST that reads JSON")
    p.add_argument("--data-probe")
    p.add_argument("--data-body")
    p.add_argument("--ws", help="path of a WebSocket on --data")
    p.add_argument("--pid", type=int)
    p.add_argument("--grow", type=int, default=64, metavar="MIB")
    p.add_argument("--skip", action="append", default=[], metavar="WORDS")
    p.add_argument("attack", nargs="*", help="words of names; default: all")
    a = p.parse_args()
    targets, rig = [], None
    if a.rig:
        rig = subprocess.Popen([a.rig, "serve"], stdout=subprocess.PIPE, text=True)
        a.pid = rig.pid
        targets.append(Target("rig", f"127.0.0.1:{int(rig.stdout.readline())}", None,
                              "/hello", "/json", "/ws"))
    if a.control:
        targets.append(Target("control", a.control, a.key, a.probe, a.body, None))
    if a.data:
        targets.append(Target("data", a.data, a.key, a.data_probe or a.probe,
                              a.data_body or a.body, a.ws))
    if not targets:
        p.error("give --control, --data or --rig")
    try:
        failed = run(targets, a.attack, a.pid, a.grow << 20,
                     lambda text: print(text, flush=True), a.skip)
        if rig and rig.poll() is not None:
            print(f"FAIL the server ended with {rig.returncode}")
            failed += 1
    finally:
        if rig:
            rig.terminate()
            rig.wait(30)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
