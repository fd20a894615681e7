#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Measure a private Caisson on this machine.

usage: bench.py --caisson BINARY [--json FILE] [--n N] [NAME...]

Names are stable; each also exists with ten at once as NAME.c10 where that makes sense.
Conditions, n and failures are printed with every row; nothing here asserts a time.
"""

import argparse
import http.client
import json
import os
import platform
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))


import exec_bench  # noqa: E402


class Api(threading.local):
    """One kept-alive connection per thread and listener: what a client library does."""

    def __init__(self, inst):
        self.inst, self.conns = inst, {}

    def conn(self, port):
        return self.conns.setdefault(port, http.client.HTTPConnection("127.0.0.1", port, timeout=180))

    def call(self, method, path, body=None, data=False):
        status, _, raw = self.call_full(method, path, body, data)
        return status, raw

    def call_full(self, method, path, body=None, data=False):
        port = self.inst.data_port if data else self.inst.port
        for attempt in (0, 1):
            c = self.conn(port)
            try:
                c.request(method, path, json.dumps(body) if body is not None else None,
                          {"Authorization": "Bearer " + self.inst.key_cached, "Content-Type": "application/json"})
                r = c.getresponse()
                return r.status, r.headers, r.read()
            except (OSError, http.client.HTTPException):
                self.conns.pop(port, None)
                if attempt:
                    raise


class Bench:
    def __init__(self, inst, n):
        self.inst, self.n, self.api = inst, n, Api(inst)
        self.settle_s = 0.0

    def create(self):
        status, raw = self.api.call("POST", "/v1/sandboxes?wait_s=60", {"template": "base"})
        if status != 201:
            raise RuntimeError(raw[:300])
        return json.loads(raw)["sandbox"]["id"]

    def end(self, sb):
        status, raw = self.api.call("DELETE", f"/v1/sandboxes/{sb}?wait_s=60")
        if status != 200:
            raise RuntimeError(raw[:300])

    def exec(self, sb, *cmd):
        status, raw = self.api.call("POST", f"/v1/sandboxes/{sb}/execs", {"cmd": list(cmd), "start": "now", "overflow": "block"})
        if status != 201:
            raise RuntimeError(raw[:300])
        status, raw = self.api.call("GET", f"/v1/execs/{json.loads(raw)['id']}/output?follow=1", data=True)
        if b'"exit"' not in raw:
            raise RuntimeError(raw[-300:])

    # ---- each returns milliseconds of one round; set-up and tear-down are not counted ----

    def create_running(self):
        t = time.perf_counter()
        sb = self.create()
        ms = (time.perf_counter() - t) * 1e3
        self.end(sb)
        time.sleep(self.settle_s)
        return ms

    def create_first_command(self):
        t = time.perf_counter()
        sb = self.create()
        self.exec(sb, "true")
        ms = (time.perf_counter() - t) * 1e3
        self.end(sb)
        time.sleep(self.settle_s)
        return ms

    def end_(self):
        sb = self.create()
        t = time.perf_counter()
        self.end(sb)
        ms = (time.perf_counter() - t) * 1e3
        time.sleep(self.settle_s)
        return ms

    def exec_true(self):
        t = time.perf_counter()
        self.exec(self.sb, "true")
        return (time.perf_counter() - t) * 1e3

    def channel_rtt(self):
        t = time.perf_counter()
        status, _ = self.api.call("GET", f"/v1/execs/ex_{self.sb[2:]}{'a' * 8}")
        ms = (time.perf_counter() - t) * 1e3
        if status != 404:
            raise RuntimeError(f"status {status}")
        return ms


def vmm_pid(inst, sb):
    return inst.node_rows()[sb]["vmm_pid"]


def private_mib(pid):
    kib = 0
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith(("Private_Clean", "Private_Dirty", "Private_Hugetlb")):
            kib += int(line.split()[1])
    return kib / 1024


def cpu_s(pid):
    f = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(f[11]) + int(f[12])) / os.sysconf("SC_CLK_TCK")


def quantiles(v):
    v = sorted(v)
    at = lambda q: v[min(len(v) - 1, int(q * len(v)))] if v else None
    return {"p50": at(0.5), "p90": at(0.9), "p95": at(0.95), "p99": at(0.99), "max": v[-1] if v else None}


def measure(name, unit, fn, n, threads, conditions):
    values, failures, lock = [], [], threading.Lock()

    def work(count):
        for _ in range(count):
            try:
                v = fn()
                with lock:
                    values.append(v)
            except Exception as e:  # noqa: BLE001 - a failure is a result
                with lock:
                    failures.append(str(e))

    ts = [threading.Thread(target=work, args=((n + threads - 1) // threads,)) for _ in range(threads)]
    [t.start() for t in ts]
    [t.join() for t in ts]
    row = {"name": name, "unit": unit, "n": len(values) + len(failures), "failures": len(failures),
           **{k: None if v is None else round(v, 3) for k, v in quantiles(values).items()}, "conditions": conditions}
    show(row)
    for f in failures[:3]:
        print(f"  failure: {f}")
    return row


def show(r):
    c = lambda v: f"{v:9.2f}" if v is not None else f"{'-':>9}"
    print(f"{r['name']:26}{r['unit']:>5}{r['n']:6}{r['failures']:5}{c(r['p50'])}{c(r['p90'])}{c(r['p95'])}{c(r['p99'])}{c(r['max'])}", flush=True)


NAMES = ["create_running", "create_running.c10", "create_first_command", "create_first_command.c10", "exec_true", "exec_true.c10",
         "channel_rtt", "channel_rtt.c10", "end", "end.c10", "idle_private_mib", "idle_cpu_pct", *exec_bench.ROWS]


def conditions(inst):
    engine = inst.json("node", "ls")[0]["engine"]
    cpu = next((l.split(":")[1].strip() for l in Path("/proc/cpuinfo").read_text().splitlines() if l.startswith("model name")), "?")
    return (f"template base from its checkpoint, API by HTTP/1.1 on loopback, engine {engine['name']}, isolation {engine['isolation']}, "
            f"{os.cpu_count()} cpus ({cpu}), Linux {platform.release()}, load {os.getloadavg()[0]:.2f} at start")


def idle(b, inst, name, n, cond):
    if name == "idle_private_mib":
        def one():
            sb = b.create()
            time.sleep(2)
            v = private_mib(vmm_pid(inst, sb))
            b.end(sb)
            return v
        return measure(name, "MiB", one, n, 1, cond + "; VMM process 2 s after create, no command run")

    def one():
        sb = b.create()
        pid = vmm_pid(inst, sb)
        time.sleep(2)
        a, t = cpu_s(pid), time.monotonic()
        time.sleep(10)
        v = (cpu_s(pid) - a) / (time.monotonic() - t) * 100
        b.end(sb)
        return v
    return measure(name, "%", one, n, 1, cond + "; VMM process over 10 s, 2 s after create; clock ticks of 10 ms")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--caisson", required=True)
    p.add_argument("--json")
    p.add_argument("--n", type=int, default=50)
    p.add_argument("--pause", type=float, default=1.0, help="seconds between sequential creates, so that the pool of waiting VMMs refills (0: back to back)")
    p.add_argument("names", nargs="*")
    a = p.parse_args()
    unknown = [x for x in a.names if x not in NAMES]
    if unknown:
        sys.exit(f"bench: unknown name {unknown[0]}; names: {' '.join(NAMES)}")
    os.environ["CAISSON"] = a.caisson
    import conftest
    root = tempfile.mkdtemp(prefix="caisson-bench.", dir="/var/tmp")
    os.chmod(root, 0o755)
    inst, rows = conftest.Instance(root), []
    try:
        inst.up()
        inst.cli("template", "build", "base", *inst.where, timeout=1500)
        inst.key_cached = inst.key
        b = Bench(inst, a.n)
        cond = conditions(inst)
        print(f"conditions: {cond}\n{'name':26}{'unit':>5}{'n':>6}{'fail':>5}" + "".join(f"{q:>9}" for q in ("p50", "p90", "p95", "p99", "max")))
        time.sleep(5)
        for name in a.names or NAMES:
            rows.append(one_row(b, inst, name, a, cond))
    finally:
        inst.down(purge=True)
        shutil.rmtree(root, ignore_errors=True)
        if a.json:
            Path(a.json).write_text(json.dumps(rows, indent=1) + "\n")
    sys.exit(1 if any(r["failures"] for r in rows) else 0)


def exec_row(b, name, a, cond):
    """A row of exec_bench: one sandbox, used for all rounds."""
    unit, what = exec_bench.ROWS[name]
    b.sb = b.create()
    for _ in range(3):
        b.exec(b.sb, "true")
    eb = exec_bench.ExecBench(b)
    exec_bench.prepare(eb, name)
    threads = 64 if name.endswith(".c64") else 1
    n = 5 if unit == "MB/s" else a.n * (10 if name == "exec_attach_rtt" else 2 if threads > 1 else 1)
    fn = b.exec_true if threads > 1 else getattr(eb, name.replace(".", "_"))
    try:
        return measure(name, unit, fn, n, threads, f"{cond}; {what}")
    finally:
        b.end(b.sb)


def one_row(b, inst, name, a, cond):
    if name in exec_bench.ROWS:
        return exec_row(b, name, a, cond)
    if name.startswith("idle_"):
        return idle(b, inst, name, 5, cond)
    base, threads = name.removesuffix(".c10"), 10 if name.endswith(".c10") else 1
    b.settle_s = a.pause if threads == 1 else 0
    extra = f"; {threads} at once" if threads > 1 else (f"; sequential, {a.pause:g} s between creates" if base not in ("exec_true", "channel_rtt") else "; sequential")
    if base == "channel_rtt":
        extra += "; GET of an exec record through api, data connection, monitor, channel, guestd and back"
    n = a.n * 10 if base == "channel_rtt" else a.n
    if base in ("exec_true", "channel_rtt"):
        b.sb = b.create()
        for _ in range(3):
            b.exec(b.sb, "true")
    try:
        return measure(name, "ms", getattr(b, "end_" if base == "end" else base), n, threads, cond + extra)
    finally:
        if base in ("exec_true", "channel_rtt"):
            b.end(b.sb)


main()
