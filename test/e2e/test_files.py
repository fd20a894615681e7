# SPDX-License-Identifier: Apache-2.0
"""Files in and out: large, sparse, many, oddly named, watched, and during a full disk."""

import base64
import hashlib
import http.client
import io
import json
import os
import socket
import tarfile
import threading
import time
from urllib.parse import quote

import pytest

from conftest import wait_for

OCTETS = {"Content-Type": "application/octet-stream"}


@pytest.fixture(scope="module")
def roomy(caisson):
    sb = caisson.create("base")["id"]
    yield sb
    caisson.end(sb)


def root(caisson, sb, *cmd):
    """A command as guest root; the files below belong to whom they may."""
    return caisson.exec(sb, *cmd, user="root")


def url(sb, path, call="files", **query):
    q = "".join(f"&{k}={quote(v if isinstance(v, bytes) else str(v), safe='')}" for k, v in query.items())
    return f"/v1/sandboxes/{sb}/{call}?path={quote(path, safe='')}{q}"


def put(caisson, sb, path, blob, headers=None, **query):
    return caisson.http("PUT", url(sb, path, **query), blob, headers={**OCTETS, **(headers or {})}, data=True)


def get(caisson, sb, path, headers=None, call="files", **query):
    return caisson.http("GET", url(sb, path, call, **query), headers=headers, data=True, timeout=900)


def stream_in(caisson, sb, path, parts, length):
    """PUT a body that is made as it goes; its answer."""
    c = http.client.HTTPConnection("127.0.0.1", caisson.data_port, timeout=900)
    c.request("PUT", url(sb, path), body=parts, headers={**OCTETS, "Authorization": f"Bearer {caisson.key}", "Content-Length": str(length)})
    r = c.getresponse()
    return r.status, json.loads(r.read())


def stream_out(caisson, sb, path, **query):
    """(bytes, SHA-256) of a file, never held whole."""
    c = http.client.HTTPConnection("127.0.0.1", caisson.data_port, timeout=900)
    c.request("GET", url(sb, path, **query), headers={"Authorization": f"Bearer {caisson.key}"})
    r = c.getresponse()
    assert r.status == 200
    h, n = hashlib.sha256(), 0
    while part := r.read(1 << 20):
        h.update(part)
        n += len(part)
    return n, h.hexdigest()


def blocks(n_bytes):
    seed = os.urandom(1 << 20)
    for i in range(n_bytes >> 20):
        yield i.to_bytes(8, "big") + seed[8:]


def both_ways(caisson, sb, mib):
    h = hashlib.sha256()

    def parts():
        for b in blocks(mib << 20):
            h.update(b)
            yield b
    status, body = stream_in(caisson, sb, "/root/dense", parts(), mib << 20)
    assert status == 201 and body["sha256"] == h.hexdigest() and body["size"] == mib << 20, body
    assert stream_out(caisson, sb, "/root/dense") == (mib << 20, h.hexdigest())
    assert root(caisson, sb, "sha256sum", "/root/dense")[0].split()[0].decode() == h.hexdigest()
    root(caisson, sb, "rm", "/root/dense")


def test_dense_both_ways(caisson, roomy):
    both_ways(caisson, roomy, 64)


@pytest.mark.full
def test_a_dense_gibibyte_both_ways(caisson, roomy):
    both_ways(caisson, roomy, 1024)


def sparse(caisson, sb, gib):
    root(caisson, sb, "sh", "-c", f"truncate -s {gib}G /root/sparse; printf end | dd of=/root/sparse bs=1 seek={(gib << 30) - 3} conv=notrunc status=none")
    a = caisson.http("HEAD", url(sb, "/root/sparse"), data=True)
    assert a.status == 200 and int(a.headers["Content-Length"]) == gib << 30
    a = get(caisson, sb, "/root/sparse", headers={"Range": "bytes=-5"})
    assert a.status == 206 and a.body == b"\0\0end" and a.headers["Content-Range"] == f"bytes {(gib << 30) - 5}-{(gib << 30) - 1}/{gib << 30}"


def test_a_sparse_file_by_ranges(caisson, roomy):
    sparse(caisson, roomy, 4)


@pytest.mark.full
def test_a_sparse_file_of_4_gib_whole(caisson, roomy):
    sparse(caisson, roomy, 4)
    h = hashlib.sha256()
    for _ in range(4095):
        h.update(bytes(1 << 20))
    h.update(bytes((1 << 20) - 3) + b"end")
    assert stream_out(caisson, roomy, "/root/sparse") == (4 << 30, h.hexdigest())


@pytest.mark.parametrize("name", [b"new\nline", b"..dots..", b"-rf", b"\x80\xff\xfe", b"sp ace", "ümlaut".encode(), b"%2e%2e", b"a\\b", b"'\"$(x)", b"x" * 255])
def test_any_name(caisson, roomy, name):
    path = b"/root/names/" + name
    a = put(caisson, roomy, path, name, parents=1)
    assert a.status == 201, a.body
    assert get(caisson, roomy, path).body == name
    rows = get(caisson, roomy, "/root/names", call="files/list").json["items"]
    names = [base64.b64decode(r["name_b64"]) if "name_b64" in r else r["name"].encode() for r in rows]
    assert name in names
    assert caisson.http("POST", url(roomy, path, "files/move", to=path[:-1] + b"_"), data=True).status in (200, 201)
    assert caisson.http("DELETE", url(roomy, path[:-1] + b"_"), data=True).status in (200, 204)


@pytest.mark.parametrize("path,status", [("relative", 400), ("", 400), ("/a\0b", 400), ("/" + "x" * 300, 400), ("/etc/passwd/x", 400), ("/no/such", 404)])
def test_bad_paths_are_typed(caisson, roomy, path, status):
    a = get(caisson, roomy, path)
    assert a.status in (status, 404) and a.json["error"]["code"], a.body
    assert a.json["error"].get("remedy") or a.json["error"].get("field"), a.body


@pytest.mark.parametrize("make", ["mkfifo /root/odd", "mknod /root/odd c 1 5", "python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('/root/odd')\"", "mkdir /root/odd"])
def test_what_is_no_file_is_refused_and_nothing_hangs(caisson, roomy, make):
    root(caisson, roomy, "sh", "-c", f"rm -rf /root/odd; {make}")
    a = get(caisson, roomy, "/root/odd")
    assert a.status in (400, 409) and a.json["error"]["code"], a.body
    root(caisson, roomy, "rm", "-rf", "/root/odd")


def test_files_of_the_kernel(caisson, roomy):
    assert b"MemTotal" in get(caisson, roomy, "/proc/meminfo").body


def test_links_lead_nowhere_but_into_the_guest(caisson, roomy):
    root(caisson, roomy, "sh", "-c", "ln -sf /etc/hostname /root/l; ln -sf ../../../../../../etc/hostname /root/m")
    want = root(caisson, roomy, "cat", "/etc/hostname")[0]
    assert get(caisson, roomy, "/root/l").body == get(caisson, roomy, "/root/m").body == want


# ---- integrity ----


def test_a_wrong_digest_changes_nothing(caisson, roomy):
    put(caisson, roomy, "/root/kept", b"old")
    digest = base64.b64encode(hashlib.sha256(b"other").digest()).decode()
    a = put(caisson, roomy, "/root/kept", b"new", headers={"Content-Digest": f"sha-256=:{digest}:"})
    assert a.status == 400 and "digest" in a.json["error"].get("field", ""), a.body
    assert get(caisson, roomy, "/root/kept").body == b"old"
    assert b".caisson" not in root(caisson, roomy, "ls", "-a", "/root")[0]


def test_a_right_digest_and_conditions(caisson, roomy):
    digest = base64.b64encode(hashlib.sha256(b"new").digest()).decode()
    a = put(caisson, roomy, "/root/cond", b"new", headers={"Content-Digest": f"sha-256=:{digest}:", "If-None-Match": "*"})
    assert a.status == 201, a.body
    assert put(caisson, roomy, "/root/cond", b"x", headers={"If-None-Match": "*"}).status == 412
    tag = get(caisson, roomy, "/root/cond").headers["ETag"]
    assert get(caisson, roomy, "/root/cond", headers={"If-None-Match": tag}).status == 304
    assert put(caisson, roomy, "/root/cond", b"newer", headers={"If-Match": tag}).status in (200, 201)
    assert put(caisson, roomy, "/root/cond", b"newest", headers={"If-Match": tag}).status == 412
    assert get(caisson, roomy, "/root/cond").body == b"newer"


def test_an_upload_that_breaks_off_leaves_the_old_file(caisson, roomy):
    put(caisson, roomy, "/root/half", b"old")
    s = socket.create_connection(("127.0.0.1", caisson.data_port))
    s.sendall(f"PUT {url(roomy, '/root/half')} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {caisson.key}\r\n"
              "Content-Type: application/octet-stream\r\nContent-Length: 10000000\r\n\r\n".encode() + b"x" * 3000000)
    time.sleep(1)
    s.close()
    wait_for("no trace of it", lambda: b".caisson" not in root(caisson, roomy, "ls", "-a", "/root")[0])
    assert get(caisson, roomy, "/root/half").body == b"old"


def test_writes_during_a_full_disk_keep_the_old_file(caisson):
    sb = caisson.create("tiny")["id"]
    assert put(caisson, sb, "/kept", b"old" * 1000).status == 201
    root(caisson, sb, "sh", "-c", "cat /dev/zero > /fill")
    a = put(caisson, sb, "/kept", b"new" * 1_000_000)
    assert a.status == 507 and a.json["error"]["code"] == "no_space", a.body
    assert get(caisson, sb, "/kept").body == b"old" * 1000
    root(caisson, sb, "rm", "/fill")
    assert put(caisson, sb, "/kept", b"new" * 1000).status in (200, 201)
    assert get(caisson, sb, "/kept").body == b"new" * 1000
    caisson.end(sb)


def test_mode_and_owner(caisson, roomy):
    put(caisson, roomy, "/tmp/script", b"#!/bin/sh\necho ran\n", mode="755", owner="nobody")
    out = root(caisson, roomy, "stat", "-c", "%a %U", "/tmp/script")[0]
    assert out == b"755 nobody\n"
    put(caisson, roomy, "/tmp/script", b"#!/bin/sh\necho again\n")
    assert root(caisson, roomy, "stat", "-c", "%a %U", "/tmp/script")[0] == b"755 nobody\n"
    assert root(caisson, roomy, "/tmp/script")[0] == b"again\n"


# ---- trees ----


def tar_of(n, form="w"):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=form, format=tarfile.PAX_FORMAT) as t:
        for i in range(n):
            info = tarfile.TarInfo(f"d{i % 100}/f{i}")
            body = b"%d" % i * (i % 30)
            info.size, info.mode = len(body), 0o640
            t.addfile(info, io.BytesIO(body))
    return out.getvalue()


def test_ten_thousand_small_files(caisson, roomy):
    a = caisson.http("PUT", url(roomy, "/root/many", "archive", format="tar"), tar_of(10_000), headers={"Content-Type": "application/x-tar"}, data=True, timeout=600)
    assert a.status in (200, 201) and a.json["entries"] >= 10_000, a.body
    assert int(root(caisson, roomy, "sh", "-c", "find /root/many -type f | wc -l")[0]) == 10_000
    back = get(caisson, roomy, "/root/many", call="archive", format="tar")
    with tarfile.open(fileobj=io.BytesIO(back.body)) as t:
        files = {m.name.removeprefix("./"): t.extractfile(m).read() for m in t if m.isfile()}
    assert len(files) == 10_000 and files["d7/f107"] == b"107" * (107 % 30)
    z = get(caisson, roomy, "/root/many", call="archive", format="tar.zst")
    assert z.status == 200 and z.body[:4] == b"\x28\xb5\x2f\xfd"
    a = caisson.http("PUT", url(roomy, "/root/again", "archive", format="tar.zst"), z.body, headers={"Content-Type": "application/zstd"}, data=True, timeout=600)
    assert a.status in (200, 201), a.body
    assert root(caisson, roomy, "diff", "-r", "/root/many", "/root/again")[2]["code"] == 0
    assert caisson.http("DELETE", url(roomy, "/root/many", recursive=1), data=True, timeout=600).status in (200, 204)


def evil(name, **kw):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as t:
        for entry in kw.get("before", []):
            t.addfile(entry)
        info = tarfile.TarInfo(name)
        info.type = kw.get("type", tarfile.REGTYPE)
        info.linkname = kw.get("link", "")
        t.addfile(info, io.BytesIO(b""))
    return out.getvalue()


def symlink(name, to):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.SYMTYPE, to
    return info


@pytest.mark.parametrize("tar", [
    evil("../escaped"), evil("/absolute"), evil("a/../../escaped"), evil("dev", type=tarfile.CHRTYPE), evil("fifo", type=tarfile.FIFOTYPE),
    evil("l/x", before=[symlink("l", "/tmp")]), evil("hard", type=tarfile.LNKTYPE, link="../../etc/passwd"), evil("out", type=tarfile.SYMTYPE, link="../../../tmp"),
])
def test_an_archive_stays_below_its_folder(caisson, roomy, tar):
    a = caisson.http("PUT", url(roomy, "/root/evil", "archive", format="tar"), tar, headers={"Content-Type": "application/x-tar"}, data=True)
    assert a.status == 400 and a.json["error"]["message"], a.body
    assert root(caisson, roomy, "sh", "-c", "ls /root/escaped /escaped /absolute /tmp/x")[0] == b""


# ---- watching ----


class Watch(threading.Thread):
    """Server-sent events of a watch, until closed."""

    def __init__(self, caisson, sb, path):
        super().__init__(daemon=True)
        self.events = []
        self.conn = http.client.HTTPConnection("127.0.0.1", caisson.data_port, timeout=300)
        self.conn.request("GET", url(sb, path, "watch", recursive=1), headers={"Authorization": f"Bearer {caisson.key}", "Accept": "text/event-stream"})
        self.answer = self.conn.getresponse()
        assert self.answer.status == 200
        self.start()

    def run(self):
        try:
            for line in self.answer:
                if line.startswith(b"data:"):
                    self.events.append(json.loads(line[5:]))
        except (OSError, ValueError, http.client.HTTPException, AttributeError):
            pass

    def types(self):
        return {e.get("type") for e in self.events}


def test_a_watch_under_ten_thousand_changes(caisson, roomy):
    root(caisson, roomy, "mkdir", "-p", "/root/w")
    w = Watch(caisson, roomy, "/root/w")
    wait_for("the watch", lambda: "ready" in w.types())
    root(caisson, roomy, "sh", "-c", "cd /root/w; for d in 0 1 2 3 4 5 6 7 8 9; do mkdir d$d; i=0; while [ $i -lt 1000 ]; do : > d$d/f$i; i=$((i+1)); done; done; : > last")

    def complete():
        seen = {e["path"].rsplit("/w/", 1)[-1] for e in list(w.events) if e.get("path") and e["type"] in ("create", "write")}
        return "overflow" in w.types() or ("last" in seen and len(seen) == 10_011)
    wait_for("every change, or an overflow that says so", complete)
    w.conn.sock and w.conn.sock.close()


def test_a_watch_tells_of_a_rename_and_a_removal(caisson, roomy):
    root(caisson, roomy, "mkdir", "-p", "/root/v/sub")
    w = Watch(caisson, roomy, "/root/v")
    wait_for("the watch", lambda: "ready" in w.types())
    root(caisson, roomy, "sh", "-c", "cd /root/v/sub; echo x > a; mv a b; rm b; mkdir deep; echo y > deep/c")
    wait_for("the changes", lambda: {"create", "rename", "remove"} <= w.types() and any(str(e.get("path", "")).endswith("deep/c") for e in w.events))
