# SPDX-License-Identifier: Apache-2.0
"""Execs by the API: records, output by offset, back-pressure, idempotency, files."""

import base64
import hashlib
import json
import os
import time

import pytest

from conftest import wait_for


def start(caisson, sb, *cmd, headers=None, **spec):
    a = caisson.http("POST", f"/v1/sandboxes/{sb}/execs", {"cmd": list(cmd), "start": "now", "overflow": "block", **spec}, headers=headers)
    assert a.status in (200, 201), a.body
    return a.json


def lines(caisson, ex, start_at=0, follow=1):
    a = caisson.http("GET", f"/v1/execs/{ex}/output?from={start_at}&follow={follow}", data=True)
    assert a.status == 200, a.body
    return [json.loads(l) for l in a.body.splitlines()]


def text(rows, s=1):
    return b"".join(base64.b64decode(r["b64"]) for r in rows if r.get("s") == s)


def test_id_carries_its_sandbox(caisson, sandbox):
    ex = start(caisson, sandbox, "true")
    assert ex["id"].startswith("ex_" + sandbox[2:])


def test_output_can_be_read_again_from_any_offset(caisson, sandbox):
    ex = start(caisson, sandbox, "sh", "-c", "echo 0123456789; echo more")["id"]
    whole = text(lines(caisson, ex))
    assert whole == b"0123456789\nmore\n"
    for at in (0, 1, 5, 11, 15):
        assert text(lines(caisson, ex, at)) == whole[at:]


def test_same_key_same_process(caisson, sandbox):
    h = {"Idempotency-Key": "exec-once"}
    a = start(caisson, sandbox, "sh", "-c", "echo x >> /tmp/count", headers=h)
    b = start(caisson, sandbox, "sh", "-c", "echo x >> /tmp/count", headers=h)
    assert a["id"] == b["id"]
    lines(caisson, a["id"])
    assert caisson.exec(sandbox, "cat", "/tmp/count")[0] == b"x\n"


def test_record_lists_and_is_forgotten(caisson, sandbox):
    ex = start(caisson, sandbox, "true")["id"]
    lines(caisson, ex)
    assert ex in [e["id"] for e in caisson.http("GET", f"/v1/sandboxes/{sandbox}/execs").json["items"]]
    assert caisson.http("GET", f"/v1/execs/{ex}").json["id"] == ex
    assert caisson.http("DELETE", f"/v1/execs/{ex}").status in (200, 204)
    assert caisson.http("GET", f"/v1/execs/{ex}").status == 404


def test_signal_ends_the_tree(caisson, sandbox):
    ex = start(caisson, sandbox, "sh", "-c", "sleep 500 & sleep 500")["id"]
    a = caisson.http("POST", f"/v1/execs/{ex}/signal", {"name": "KILL", "scope": "tree"})
    assert a.status in (200, 202, 204), a.body
    fact = lines(caisson, ex)[-1]["exit"]
    assert fact["reason"] == "signaled"


def test_exec_true_with_unknown_user_is_typed(caisson, sandbox):
    a = caisson.http("POST", f"/v1/sandboxes/{sandbox}/execs", {"cmd": ["true"], "start": "now", "user": "nobody-here"})
    assert a.status in (400, 404) and "nobody-here" in a.body.decode()


def test_a_process_waits_for_its_slowest_reader(caisson, sandbox):
    """overflow=block: with nobody reading, the log fills to keep_bytes and no further."""
    ex = start(caisson, sandbox, "sh", "-c", "dd if=/dev/zero bs=64k count=64 2>/dev/null; echo end >&2", keep_bytes=1 << 20)["id"]
    time.sleep(3)
    record = caisson.http("GET", f"/v1/execs/{ex}").json
    assert record["state"] == "running", record
    rows = lines(caisson, ex)
    assert len(text(rows)) == 64 * 65536 and text(rows, 2) == b"end\n" and rows[-1]["exit"]["code"] == 0
    assert rows[-1]["exit"]["dropped_bytes"] == 0


def test_binary_output_is_untouched(caisson, sandbox):
    out, _, _ = caisson.exec(sandbox, "sh", "-c", "i=0; while [ $i -lt 256 ]; do printf \"\\\\$(printf %03o $i)\"; i=$((i+1)); done")
    assert out == bytes(range(256))


def test_background_child_does_not_hold_the_exec(caisson, sandbox):
    t0 = time.monotonic()
    out, _, fact = caisson.exec(sandbox, "sh", "-c", "sleep 600 & echo hi")
    assert out == b"hi\n" and fact["code"] == 0 and fact["left_behind"]
    assert time.monotonic() - t0 < 60


@pytest.mark.parametrize("size", [0, 1, 18 * 1024, 1 << 20, 20 << 20])
def test_file_arrives_whole(caisson, sandbox, size):
    blob = os.urandom(size)
    path = f"/v1/sandboxes/{sandbox}/files?path=/tmp/f%20{size}%C3%BC"
    a = caisson.http("PUT", path, blob, headers={"Content-Type": "application/octet-stream"}, data=True)
    assert a.status in (200, 201), a.body
    back = caisson.http("GET", path, data=True)
    assert hashlib.sha256(back.body).digest() == hashlib.sha256(blob).digest()
    out, _, _ = caisson.exec(sandbox, "sh", "-c", f"wc -c < '/tmp/f {size}ü'")
    assert int(out) == size


def test_missing_file_is_404(caisson, sandbox):
    a = caisson.http("GET", f"/v1/sandboxes/{sandbox}/files?path=/no/such", data=True)
    assert a.status == 404 and a.json["error"]["cause"] == "guest"


def test_disk_full_is_typed(caisson, sandbox):
    a = caisson.http("PUT", f"/v1/sandboxes/{sandbox}/files?path=/big", b"x" * (96 << 20), headers={"Content-Type": "application/octet-stream"}, data=True)
    assert a.status in (507, 413), (a.status, a.body[:300])
    assert caisson.exec(sandbox, "test", "-e", "/big")[2]["code"] == 1
