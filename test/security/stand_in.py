# SPDX-License-Identifier: Apache-2.0
"""Runs inside a guest, as root: takes the channel from the daemon and speaks to the host in
its place, step by step as a file of JSON says: [{"do": "answer", ...}, ...]

    python3 stand_in.py plan.json

Each step but `raw` begins with a session of its own, which the host believes; what follows is
the step's. Steps: answer (HTTP/2 as the daemon would, with answers of our choice), records
(bytes after the handshake), raw (bytes without one), version (an answer to HELLO with another
version), half (sessions that end within a header, many times).
"""

import json
import os
import select
import struct
import sys
import time

MAGIC, HELLO, HELLO_ACK, DATA = b"CAS1", 1, 2, 3
NAME = "org.caisson.guest"
TABLE = []
for i in range(256):
    c = i
    for _ in range(8):
        c = c >> 1 ^ (0x82F63B78 if c & 1 else 0)
    TABLE.append(c)


def crc32c(data):
    c = 0xFFFFFFFF
    for b in data:
        c = c >> 8 ^ TABLE[(c ^ b) & 0xFF]
    return c ^ 0xFFFFFFFF


def record(session, kind, payload, length=None, crc=None):
    head = MAGIC + struct.pack("<QBBH", session, kind, 0, len(payload) if length is None else length)
    return head + struct.pack("<I", crc32c(head + payload) if crc is None else crc) + payload


def frame(kind, flags, stream, payload=b"", length=None):
    return struct.pack(">I", len(payload) if length is None else length)[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def field(name, value):
    n, v = name.encode(), value.encode()
    return b"\x00" + size(n) + n + size(v) + v


def size(b):
    return bytes([len(b)]) if len(b) < 127 else bytes([127, len(b) - 127])


def steal():
    """The port as a file of ours: unbound from its driver, so from the daemon, and bound again."""
    d = "/sys/bus/virtio/drivers/virtio_console/"
    dev = [x for x in os.listdir(d) if x.startswith("virtio")][0]
    for what in ("unbind", "bind"):
        with open(d + what, "w") as f:
            f.write(dev)
        time.sleep(0.3)
    end = time.time() + 60
    while time.time() < end:
        for p in os.listdir("/sys/class/virtio-ports"):
            try:
                with open(f"/sys/class/virtio-ports/{p}/name") as f:
                    if f.read().strip() == NAME:
                        return os.open("/dev/" + p, os.O_RDWR | os.O_NONBLOCK)
            except OSError:
                pass
        time.sleep(0.1)
    sys.exit("no port")


class Channel:
    def __init__(self):
        self.fd, self.got, self.session = steal(), b"", 0

    def read(self, wait_s):
        select.select([self.fd], [], [], wait_s)
        try:
            part = os.read(self.fd, 65536)
        except OSError:
            part = b""
        if not part:
            time.sleep(0.02)
        self.got += part
        return part

    def write(self, data, limit_s=30, listen=True):
        """True when all of it went; the host may have stopped to read."""
        at, end = 0, time.time() + limit_s
        while at < len(data) and time.time() < end:
            try:
                at += os.write(self.fd, data[at:at + 32768])
            except OSError:
                select.select([], [self.fd], [], 0.05)
            if listen:
                self.read(0)
        return at == len(data)

    def hello(self, limit_s):
        """Breaks what runs and waits for the host's HELLO; its session."""
        self.write(b"X" * 9000, 5)
        end = time.time() + limit_s
        self.got = b""
        while time.time() < end:
            self.read(0.2)
            at = self.got.rfind(MAGIC)
            while at >= 0:
                if len(self.got) >= at + 24 and self.got[at + 12] == HELLO:
                    self.session = struct.unpack_from("<Q", self.got, at + 4)[0]
                    self.got = self.got[at + 24:]
                    return True
                at = self.got.rfind(MAGIC, 0, at)
            self.got = self.got[-70000:]
        return False

    def accept(self, version=1):
        self.write(record(self.session, HELLO_ACK, struct.pack("<I", version)))

    def data(self, payload):
        for i in range(0, len(payload), 4096):
            if not self.write(record(self.session, DATA, payload[i:i + 4096]), 10):
                return False
        return True

    def records(self):
        """Payloads that came; False when the host began anew."""
        out = []
        while len(self.got) >= 20:
            if not self.got.startswith(MAGIC):
                at = self.got.find(MAGIC)
                if at < 0:
                    break
                self.got = self.got[at:]
                continue
            kind, length = self.got[12], struct.unpack_from("<H", self.got, 14)[0]
            if len(self.got) < 20 + length:
                break
            if kind == DATA:
                out.append(self.got[20:20 + length])
            if kind == HELLO:
                return False
            self.got = self.got[20 + length:]
        return out


def do_answer(c, step):
    """Every request of the host gets the next answer, the last one for ever; a second after the `count`th it ends."""
    answers, served, h2, end = step["answers"], 0, b"", time.time() + step.get("seconds", 60)
    c.hello(60)
    c.accept(step.get("version", 1))
    c.data(frame(4, 0, 0))
    preface = False
    while time.time() < end:
        c.read(0.2)
        parts = c.records()
        if parts is False:
            c.session = struct.unpack_from("<Q", c.got, 4)[0]
            c.got, h2, preface = c.got[24:], b"", False
            c.accept(step.get("version", 1))
            c.data(frame(4, 0, 0))
            continue
        h2 += b"".join(parts)
        if not preface and len(h2) >= 24:
            h2, preface = h2[24:], True
        while preface and len(h2) >= 9:
            n, kind, flags, stream = int.from_bytes(h2[:3], "big"), h2[3], h2[4], struct.unpack_from(">I", h2, 5)[0]
            if len(h2) < 9 + n:
                break
            payload, h2 = h2[9:9 + n], h2[9 + n:]
            if kind == 4 and not flags & 1:
                c.data(frame(4, 1, 0))
            elif kind == 6 and not flags & 1:
                c.data(frame(6, 1, 0, payload))
            elif kind == 1:
                answer(c, stream, answers[min(served, len(answers) - 1)])
                served += 1
                if served == step.get("count"):
                    # what the host has not read of an answer is lost with the session
                    end = time.time() + 1


def answer(c, stream, a):
    body = a.get("body", "").encode()
    fields = b"".join(field(k, v) for k, v in a.get("fields", [["content-type", "application/json"]]))
    c.data(frame(1, 4, stream, field(":status", str(a.get("status", 200))) + fields))
    for _ in range(a.get("repeat", 1)):
        if not c.data(frame(0, 0, stream, body)):
            return
    if not a.get("endless"):
        c.data(frame(0, 1, stream))


def do_records(c, step):
    """Bytes after the handshake: `records` [[type, hex, length or null, crc or null]], or `h2`, hex."""
    c.hello(60)
    c.accept()
    blob = b"".join(record(c.session, kind, bytes.fromhex(p), length, crc) for kind, p, length, crc in step.get("records", []))
    if "h2" in step:
        blob += record(c.session, DATA, bytes.fromhex(step["h2"]))
    end = time.time() + step.get("seconds", 3)
    while True:
        # never read: the host's own bytes stay in its socket
        c.write(blob * step.get("batch", 1), end - time.time(), listen=False)
        if time.time() >= end or not step.get("again"):
            break
    time.sleep(max(0, end - time.time()))


def do_raw(c, step):
    end = time.time() + step.get("seconds", 3)
    while time.time() < end:
        c.write(bytes.fromhex(step["hex"]), end - time.time(), listen=False)


def do_version(c, step):
    """A HELLO_ACK of another version; should a session open, it would be answered."""
    do_answer(c, step)


def do_half(c, step):
    for _ in range(step.get("times", 1)):
        if not c.hello(20):
            return
        c.accept()
        c.write(record(c.session, DATA, b"abcdefgh")[:step.get("bytes", 10)])
    time.sleep(step.get("seconds", 3))


def main():
    with open(sys.argv[1]) as f:
        plan = json.load(f)
    c = Channel()
    for step in plan:
        globals()["do_" + step["do"]](c, step)


if __name__ == "__main__":
    main()
