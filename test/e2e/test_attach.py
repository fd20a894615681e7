# SPDX-License-Identifier: Apache-2.0
"""Attach over a line that keeps breaking: both directions exact, whatever dies in between."""

import hashlib
import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from conftest import daemon_pid, wait_for
from cutter import Cutter

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "clients/python"))
from caisson.attach import Attach, Refused  # noqa: E402


def seq_digest(n):
    """Length and SHA-256 of `seq 1 n`."""
    h, size = hashlib.sha256(), 0
    for a in range(1, n + 1, 100000):
        part = "".join(f"{i}\n" for i in range(a, min(a + 100000, n + 1))).encode()
        h.update(part)
        size += len(part)
    return size, h.hexdigest()


def open_exec(caisson, sb, cmd, **spec):
    a = caisson.http("POST", f"/v1/sandboxes/{sb}/execs", {"cmd": cmd, **spec})
    assert a.status == 201, a.body
    return a.json


def attach(caisson, ex, address=None, **kw):
    url = f"http://127.0.0.1:{caisson.data_port}/v1/execs/{ex['id']}/attach"
    return Attach(url, ex["attach"]["token"], address=address, **kw)


def run(stream, stdin=None):
    """Read to the end, feeding stdin: {kind: (bytes, SHA-256)}, gaps."""
    if stdin is not None:
        def feed():
            for part in stdin:
                stream.write(part)
            stream.close_stdin()
        threading.Thread(target=feed, daemon=True).start()
    sums, gaps = {}, []
    for kind, data in stream:
        if kind == "gap":
            gaps.append(data)
            continue
        size, h = sums.setdefault(kind, [0, hashlib.sha256()])
        h.update(data)
        sums[kind][0] = size + len(data)
    return {k: (n, h.hexdigest()) for k, (n, h) in sums.items()}, gaps


MIXED = "seq 1 $N & seq 1 $N >&2 & sha256sum > /tmp/stdin.sum; wait"


def pattern(n_bytes):
    """Bytes of every value, in uneven pieces, and their SHA-256."""
    h, parts, left, i = hashlib.sha256(), [], n_bytes, 0
    while left:
        part = hashlib.sha256(str(i).encode()).digest() * (1 + i % 700)
        part = part[:left]
        parts.append(part)
        h.update(part)
        left, i = left - len(part), i + 1
    return parts, h.hexdigest()


def mixed_stream(caisson, sandbox, n, stdin_bytes, address=None, **kw):
    """Both outputs of `seq 1 n` with stdin flowing; everything is compared."""
    parts, stdin_sum = pattern(stdin_bytes)
    ex = open_exec(caisson, sandbox, ["sh", "-c", MIXED], env={"N": str(n)}, stdin=True, overflow="block")
    stream = attach(caisson, ex, address=address, **kw)
    sums, gaps = run(stream, parts)
    want = seq_digest(n)
    assert gaps == []
    assert sums == {"stdout": want, "stderr": want}
    assert stream.exit["code"] == 0 and stream.exit["dropped_bytes"] == 0, stream.exit
    assert caisson.exec(sandbox, "cat", "/tmp/stdin.sum")[0].split()[0].decode() == stdin_sum
    return stream


def test_both_directions_over_a_line_that_breaks(caisson, sandbox):
    cutter = Cutter(("127.0.0.1", caisson.data_port), cuts=100, mean_bytes=150_000)
    try:
        stream = mixed_stream(caisson, sandbox, 1_200_000, 4_000_000, address=cutter.address)
        assert cutter.done >= 60 and stream.reconnects >= 60, (cutter.done, stream.reconnects)
    finally:
        cutter.close()


@pytest.mark.full
def test_a_thousand_cuts(caisson, sandbox):
    cutter = Cutter(("127.0.0.1", caisson.data_port), cuts=1000, mean_bytes=190_000)
    try:
        stream = mixed_stream(caisson, sandbox, 12_700_000, 20_000_000, address=cutter.address)
        print(f"cuts {cutter.done}, reconnects {stream.reconnects}, output {stream.offset} bytes")
        assert cutter.done == 1000
    finally:
        cutter.close()


@pytest.mark.parametrize("name", ["caisson-sandboxd", "caisson-api"])
def test_a_daemon_is_killed_meanwhile(caisson, sandbox, name):
    killed = []

    def kill():
        for _ in range(2):
            time.sleep(3)
            if pid := daemon_pid(caisson, name):
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)
    t = threading.Thread(target=kill)
    t.start()
    mixed_stream(caisson, sandbox, 2_500_000, 2_000_000)
    t.join()
    assert killed
    wait_for(f"{name} again", lambda: daemon_pid(caisson, name))


# ---- starting and joining ----


def test_the_first_attach_starts_it_and_only_that(caisson, sandbox):
    ex = open_exec(caisson, sandbox, ["sh", "-c", "echo ran >> /tmp/once; cat /tmp/once"])
    assert ex["state"] == "created"
    time.sleep(1)
    assert caisson.exec(sandbox, "ls", "/tmp")[0].find(b"once") == -1
    sums, _ = run(attach(caisson, ex))
    again, _ = run(attach(caisson, ex))
    assert sums == again == {"stdout": (4, hashlib.sha256(b"ran\n").hexdigest())}


def test_two_attaches_at_once_start_it_once(caisson, sandbox):
    ex = open_exec(caisson, sandbox, ["sh", "-c", "echo x >> /tmp/race; sleep 1; cat /tmp/race"])
    results = []

    def one(watch):
        results.append(run(attach(caisson, ex, watch=watch))[0])
    threads = [threading.Thread(target=one, args=(w,)) for w in (False, True, True)]
    threads[0].start()
    time.sleep(0.3)
    for t in threads[1:]:
        t.start()
    for t in threads:
        t.join()
    assert results == [{"stdout": (2, hashlib.sha256(b"x\n").hexdigest())}] * 3


def test_a_command_that_cannot_start_is_a_typed_refusal(caisson, sandbox):
    ex = open_exec(caisson, sandbox, ["/no/such/program"])
    with pytest.raises(Refused) as e:
        run(attach(caisson, ex))
    assert e.value.status in (400, 404), e.value.error


def test_a_foreign_token_opens_nothing(caisson, sandbox):
    ex = open_exec(caisson, sandbox, ["true"])
    other = open_exec(caisson, sandbox, ["true"])
    stream = attach(caisson, {**ex, "attach": other["attach"]})
    with pytest.raises(Refused) as e:
        run(stream)
    assert e.value.status in (401, 403, 404)


def test_a_watcher_sees_all_and_types_nothing(caisson, sandbox):
    ex = open_exec(caisson, sandbox, ["sh", "-c", "read a; echo got $a"], stdin=True)
    writer = attach(caisson, ex)
    out = []
    t = threading.Thread(target=lambda: out.append(run(writer)))
    t.start()
    wait_for("the start", lambda: writer.started)
    watcher = attach(caisson, ex, watch=True)
    seen = []
    u = threading.Thread(target=lambda: seen.append(run(watcher)))
    u.start()
    wait_for("the watcher", lambda: watcher.started)
    writer.write(b"it\n")
    t.join(60), u.join(60)
    assert out[0] == seen[0] and out[0][0]["stdout"][0] == len(b"got it\n")


def test_detached_output_waits_and_is_whole(caisson, sandbox):
    """overflow block: the process waits until a reader has taken what it wrote."""
    ex = open_exec(caisson, sandbox, ["seq", "1", "2000000"], start="now", overflow="block", keep_bytes=1 << 20)
    time.sleep(2)
    assert caisson.http("GET", f"/v1/execs/{ex['id']}").json["state"] == "running"
    token = caisson.http("POST", f"/v1/execs/{ex['id']}/token", {}).json
    sums, gaps = run(attach(caisson, {**ex, "attach": token}))
    assert gaps == [] and sums["stdout"] == seq_digest(2_000_000)


def test_rolling_output_shows_its_gap(caisson, sandbox):
    ex = open_exec(caisson, sandbox, ["seq", "1", "2000000"], start="now", overflow="roll", keep_bytes=1 << 20)
    wait_for("its end", lambda: caisson.http("GET", f"/v1/execs/{ex['id']}").json["state"] == "exited")
    token = caisson.http("POST", f"/v1/execs/{ex['id']}/token", {}).json
    sums, gaps = run(attach(caisson, {**ex, "attach": token}))
    size, _ = seq_digest(2_000_000)
    assert len(gaps) == 1 and gaps[0]["from"] == 0
    assert gaps[0]["to"] + sums["stdout"][0] == size
