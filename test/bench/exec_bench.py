# SPDX-License-Identifier: Apache-2.0
"""The rows about execs and files; each method is one round in milliseconds (or MB/s)."""

import http.client
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "clients/python"))
from caisson.attach import Attach  # noqa: E402

MIB100 = 100 << 20
#: name -> (unit, what the conditions say of it)
ROWS = {
    "exec_attach_rtt": ("ms", "one byte into `cat` and back through one attach stream"),
    "exec_true.server": ("ms", "POST …/run of `true`: the whole call less the time in which the guest had it (Server-Timing: guest)"),
    "exec_true.c64": ("ms", "64 at once in one sandbox"),
    "file_write.1k": ("ms", "PUT of 1 KiB: temporary file, fsync, rename, fsync"),
    "file_read.1k": ("ms", "GET of 1 KiB"),
    "file_write.100m": ("MB/s", "PUT of 100 MiB to the sandbox's disk, fsync included"),
    "file_read.100m": ("MB/s", "GET of 100 MiB"),
    "channel_write.100m": ("MB/s", "100 MiB as stdin of `cat > /dev/null`, by attach"),
    "channel_read.100m": ("MB/s", "100 MiB of `head -c` from /dev/zero, by attach"),
}


class ExecBench:
    def __init__(self, bench):
        self.b, self.block = bench, b"\0\1\2\3" * 16384
        self.echo = None

    def _attach(self, cmd, **spec):
        import json
        status, raw = self.b.api.call("POST", f"/v1/sandboxes/{self.b.sb}/execs", {"cmd": cmd, **spec})
        if status != 201:
            raise RuntimeError(raw[:300])
        ex = json.loads(raw)
        return Attach(f"http://127.0.0.1:{self.b.inst.data_port}/v1/execs/{ex['id']}/attach", ex["attach"]["token"])

    def exec_attach_rtt(self):
        if self.echo is None:
            self.echo = self._attach(["cat"], stdin=True)
            self.echo_output = iter(self.echo)
            self.echo.write(b".")
            next(self.echo_output)
        t = time.perf_counter()
        self.echo.write(b".")
        next(self.echo_output)
        return (time.perf_counter() - t) * 1e3

    def exec_true_server(self):
        c = self.b.api
        t = time.perf_counter()
        status, headers, raw = c.call_full("POST", f"/v1/sandboxes/{self.b.sb}/run", {"cmd": ["true"]})
        ms = (time.perf_counter() - t) * 1e3
        if status != 200:
            raise RuntimeError(raw[:300])
        guest = [p for p in (headers.get("Server-Timing") or "").split(",") if p.strip().startswith("guest;")]
        if not guest:
            raise RuntimeError("no Server-Timing: guest in the answer")
        return ms - float(guest[0].split("dur=")[1].split(";")[0])

    def _path(self, name):
        return f"/v1/sandboxes/{self.b.sb}/files?path=/tmp/{name}"

    def _put(self, name, body, length):
        c = http.client.HTTPConnection("127.0.0.1", self.b.inst.data_port, timeout=300) if length > 65536 else self.b.api.conn(self.b.inst.data_port)
        c.request("PUT", self._path(name), body, {"Authorization": "Bearer " + self.b.inst.key_cached, "Content-Type": "application/octet-stream",
                                                  "Content-Length": str(length)})
        r = c.getresponse()
        raw = r.read()
        if r.status not in (200, 201):
            raise RuntimeError(raw[:300])

    def _get(self, name):
        c = self.b.api.conn(self.b.inst.data_port)
        c.request("GET", self._path(name), None, {"Authorization": "Bearer " + self.b.inst.key_cached})
        r, n = c.getresponse(), 0
        while part := r.read(1 << 18):
            n += len(part)
        if r.status != 200:
            raise RuntimeError(f"status {r.status}")
        return n

    def file_write_1k(self):
        t = time.perf_counter()
        self._put("small", b"x" * 1024, 1024)
        return (time.perf_counter() - t) * 1e3

    def file_read_1k(self):
        t = time.perf_counter()
        if self._get("small") != 1024:
            raise RuntimeError("short")
        return (time.perf_counter() - t) * 1e3

    def _blocks(self):
        for _ in range(MIB100 // len(self.block)):
            yield self.block

    def file_write_100m(self):
        t = time.perf_counter()
        self._put("large", self._blocks(), MIB100)
        return MIB100 / 1e6 / (time.perf_counter() - t)

    def file_read_100m(self):
        t = time.perf_counter()
        if self._get("large") != MIB100:
            raise RuntimeError("short")
        return MIB100 / 1e6 / (time.perf_counter() - t)

    def channel_write_100m(self):
        import threading
        s = self._attach(["sh", "-c", "cat > /dev/null"], stdin=True)
        t = time.perf_counter()

        def feed():
            for block in self._blocks():
                s.write(block)
            s.close_stdin()
        threading.Thread(target=feed, daemon=True).start()
        for _ in s:
            pass
        if s.exit["code"] != 0:
            raise RuntimeError(s.exit)
        return MIB100 / 1e6 / (time.perf_counter() - t)

    def channel_read_100m(self):
        s, n = self._attach(["head", "-c", str(MIB100), "/dev/zero"], overflow="block"), 0
        t = time.perf_counter()
        for _, data in s:
            n += len(data)
        if n != MIB100:
            raise RuntimeError(f"{n} bytes")
        return MIB100 / 1e6 / (time.perf_counter() - t)


def prepare(eb, name):
    """What a round needs to find."""
    if name.startswith("file_read.1k"):
        eb.file_write_1k()
    elif name.startswith("file_read.100m"):
        eb.file_write_100m()
