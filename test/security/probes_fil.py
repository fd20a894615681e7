# SPDX-License-Identifier: Apache-2.0
"""Probes of area FIL: files and archives."""

import http.client
import io
import subprocess
import tarfile
import threading
import time
from urllib.parse import quote, unquote

from harness import CONTROL, Seen


def read(lab, raw_path, sb=None, **headers):
    """GET a file by an already encoded path: (status, body)."""
    a = lab.caisson.http("GET", f"/v1/sandboxes/{sb or lab.sandbox}/files?path={raw_path}", headers=headers, data=True)
    return a.status, a.body


def write(lab, path, blob, sb=None):
    return lab.caisson.http("PUT", f"/v1/sandboxes/{sb or lab.sandbox}/files?path={quote(path, safe='')}", blob,
                            headers={"Content-Type": "application/octet-stream"}, data=True)


def own_file_works(lab, seen, sb=None):
    ok = write(lab, "/root/own", b"mine", sb).status in (200, 201) and read(lab, "/root/own", sb) == (200, b"mine")
    seen.control = seen.control and ok


def paths(lab, subject, paths):
    """Names of a host file in every spelling."""
    seen, tried = Seen(), 0
    for p in paths:
        raw = p.replace("$HOST", str(lab.host_file))
        tried += 1
        seen.bytes.append(subject.read(unquote(raw))[1] if subject else read(lab, raw)[1])
    if not subject:
        own_file_works(lab, seen)
    seen.note = f"{tried} spellings, the canary's file on the host not read"
    return seen


def links(lab, subject, targets):
    """Links that the guest made, read and written through the API."""
    seen = Seen()
    for i, t in enumerate(targets):
        target = t.replace("$HOST", str(lab.host_file)).replace("$SIBLING", lab.siblings[0])
        if subject:
            subject.link(f"l{i}", target)
            seen.bytes.append(subject.read(f"/l{i}")[1])
            continue
        lab.guest(f"mkdir -p /root/links; ln -sfn '{target}' /root/links/l{i}")
        seen.bytes.append(read(lab, f"/root/links/l{i}")[1])
        write(lab, f"/root/links/l{i}", b"overwritten")
    if not subject:
        own_file_works(lab, seen)
    seen.note = f"{len(targets)} links read and written, host and siblings unchanged"
    return seen


# ---- archives ----


def entry(name, kind=tarfile.REGTYPE, link="", body=b"escaped", mode=0o644):
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, link, mode
    info.size = len(body) if kind == tarfile.REGTYPE else 0
    return info, io.BytesIO(body) if kind == tarfile.REGTYPE else None


def evil_tars(folder):
    """Archives that want to write `folder`/escaped, each in another way."""
    up = "../" * 30 + str(folder).lstrip("/")
    plans = [
        [entry(f"{folder}/escaped")],
        [entry(f"{up}/escaped")],
        [entry("l", tarfile.SYMTYPE, str(folder)), entry("l/escaped")],
        [entry("a", tarfile.SYMTYPE, "."), entry("a/b", tarfile.SYMTYPE, up), entry("a/b/escaped")],
        [entry("h", tarfile.LNKTYPE, f"{up}/host-secret"), entry("h", body=b"escaped")],
        [entry("dev", tarfile.CHRTYPE), entry("fifo", tarfile.FIFOTYPE)],
        [entry("suid", mode=0o6755)],
        [entry("\x1b[2J\revil/../../x"), entry("\x9bname"), entry("\x1b]0;title\x07", tarfile.SYMTYPE, f"{folder}/\x1b[2J")],
        [entry("d", tarfile.DIRTYPE), entry("d", tarfile.SYMTYPE, str(folder)), entry("d/escaped")],
        [entry("s", tarfile.SYMTYPE, f"{folder}/escaped"), entry("s")],
        [entry("x/./../../" + "../" * 30 + str(folder).lstrip("/") + "/escaped"), entry(".."), entry("."), entry("/")],
    ]
    for plan in plans:
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as t:
            for info, body in plan:
                t.addfile(info, body)
        yield out.getvalue()


def escaped(lab, seen):
    p = lab.root / "escaped"
    seen.check("a file appeared outside", not p.exists(), p)
    seen.check("host file changed", lab.host_file.read_text() == lab.secret + "\n")
    p.unlink(missing_ok=True)
    lab.host_file.write_text(lab.secret + "\n")


def put_archive(lab, blob, sb=None, form="tar", timeout=600):
    kind = {"tar": "application/x-tar", "tar.zst": "application/zstd"}[form]
    return lab.caisson.http("PUT", f"/v1/sandboxes/{sb or lab.sandbox}/archive?path=%2Froot%2Funpacked&format={form}", blob,
                            headers={"Content-Type": kind}, data=True, timeout=timeout)


def unpack_inside(lab, subject):
    """Archives that leave their folder, unpacked into the guest."""
    seen, n = Seen(), 0
    for blob in evil_tars(lab.root):
        n += 1
        if subject:
            subject.unpack(blob, lab.root / "weak-untar")
        else:
            a = put_archive(lab, blob)
            seen.check("untyped answer", a.status in (200, 201) or (a.status == 400 and a.json["error"]["code"]), a.body)
        escaped(lab, seen)
    if not subject:
        own_file_works(lab, seen)
        subprocess.run(["rm", "-rf", str(lab.root / "weak-untar")], check=True)
    seen.note = f"{n} archives, nothing appeared on the host"
    return seen


def unpack_on_the_host(lab, subject):
    """The same archives, sent by a guest that has taken its daemon over, unpacked by `caisson cp`."""
    seen, n, asked, refused = Seen(), 0, 0, 0
    dest = lab.root / "cp"
    for blob in evil_tars(lab.root):
        n += 1
        subprocess.run(["rm", "-rf", str(dest)], check=True)
        dest.mkdir()
        if subject:
            subject.unpack(blob, dest)
        else:
            from hostile_server import ArchiveServer
            with ArchiveServer(blob) as server:
                r = server.cp(lab.caisson, dest / "tree")
                seen.check("cp hung", r is not None)
                asked += any("/archive" in p for p in server.seen)
                shown = r.stdout + r.stderr if r else ""
                refused += "refused" in shown or "left out" in shown
                seen.check("a control character reached the terminal", not CONTROL.search(shown), repr(shown[:200]))
        escaped(lab, seen)
        for p in dest.rglob("*"):
            st = p.lstat()
            seen.check("a special file was made", p.is_symlink() or p.is_dir() or p.is_file(), p)
            seen.check("setuid was kept", not (st.st_mode & 0o6000 and not p.is_symlink()), p)
    if not subject:
        lab.guest("mkdir -p /root/tree; echo mine > /root/tree/f")
        subprocess.run(["rm", "-rf", str(dest)], check=True)
        lab.caisson.cli("cp", "-r", f"{lab.sandbox}:/root/tree", str(dest), check=False)
        # and cp did ask for each of the archives
        seen.control = asked == n and ((dest / "f").exists() or (dest / "tree/f").exists())
    seen.note = f"{n} archives unpacked by cp: {refused} with entries refused or left out by name, nothing outside, nothing special"
    return seen


def zstd(blob):
    return subprocess.run(["zstd", "-q", "-3", "-c"], input=blob, stdout=subprocess.PIPE, check=True).stdout


def bomb(kind):
    if kind == "dense":
        # 100 GiB of zeros behind one header, as 400 frames of 256 MiB
        info = tarfile.TarInfo("zeros")
        info.size = 100 << 30
        return zstd(info.tobuf(tarfile.GNU_FORMAT)) + zstd(bytes(256 << 20)) * 400
    if kind == "entries":
        head = tarfile.TarInfo("n").tobuf(tarfile.USTAR_FORMAT)
        parts = []
        for i in range(300_000):
            info = bytearray(head)
            name = b"d%d/f%d" % (i // 1000, i)
            info[:len(name)] = name
            info[148:156] = b" " * 8
            info[148:156] = b"%06o\0 " % sum(info)
            parts.append(bytes(info))
        return zstd(b"".join(parts) + bytes(1024))
    if kind == "deep":
        return zstd(b"".join(tarfile.TarInfo("a/" * 10_000 + "f").tobuf(tarfile.PAX_FORMAT) for _ in range(10)) + bytes(1024))
    # GNU sparse headers that say 64 GiB (the disk has 64 MiB) and 8 EiB
    out = b""
    for size in (b"777777777777", b"\x80\0\0\0" + (0x7FFFFFFFFFFFFE00).to_bytes(8, "big")):
        info = bytearray(tarfile.TarInfo("sparse").tobuf(tarfile.GNU_FORMAT))
        info[156:157] = b"S"
        info[483:495] = size
        info[148:156] = b" " * 8
        info[148:156] = b"%06o\0 " % sum(info)
        out += bytes(info)
    return zstd(out + bytes(1024))


def bombs(lab, subject, kinds, host_mib):
    """Archives that grow; in a small sandbox whose disk may fill."""
    seen = Seen()
    if subject:
        d = subprocess.Popen(["zstd", "-q", "-d", "-c"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        blob = bomb("dense")
        feeder = threading.Thread(target=lambda: _feed(d.stdin, blob), daemon=True)
        feeder.start()
        while subject.grown() < (host_mib + 64) << 20:
            subject.take(d.stdout.read(1 << 24))
        d.kill(), d.wait()
        seen.check("host memory grew", subject.grown() < host_mib << 20, f"{subject.grown() >> 20} MiB")
        return seen
    for kind in kinds:
        sb = lab.caisson.create("tiny")["id"]
        before, t0 = lab.daemons_now(), time.monotonic()
        a = put_archive(lab, bomb(kind), sb, "tar.zst", timeout=900)
        grown = lab.daemons_grown(before)[0]
        seen.check(f"{kind}: untyped answer", a.status in (200, 201, 400, 413, 507), (a.status, a.body[:200]))
        seen.check(f"{kind}: host memory grew", grown < host_mib << 20, f"{grown >> 20} MiB")
        seen.control = seen.control and lab.caisson.exec(sb, "echo", "up")[0] == b"up\n"
        seen.note += f"{kind} {a.status} in {time.monotonic() - t0:.0f} s; "
        lab.caisson.end(sb)
    return seen


def _feed(pipe, blob):
    try:
        pipe.write(blob)
        pipe.close()
    except OSError:
        pass


# ---- what is no file, and what is too much ----


def specials(lab, subject, limit_s):
    seen = Seen()
    if subject:
        subject.special("odd")
        seen.check("no answer in time", subject.read_in_time("odd", 3) is not None, "fifo")
        return seen
    lab.guest("mkdir -p /root/odd; cd /root/odd; mkfifo fifo; mknod null c 1 3; mknod disk b 254 0; python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('sock')\"; mkdir dir")
    for name in ("fifo", "null", "disk", "sock", "dir"):
        for method in ("GET", "PUT"):
            t0 = time.monotonic()
            a = lab.caisson.http(method, f"/v1/sandboxes/{lab.sandbox}/files?path=/root/odd/{name}", b"x" if method == "PUT" else None,
                                 headers={"Content-Type": "application/octet-stream"} if method == "PUT" else None, data=True, timeout=limit_s)
            refused = a.status in (400, 403, 409) and a.json["error"]["code"]
            # replacing a special file's name by a regular file is no access to it
            seen.check(f"{method} {name} was not refused", refused or (method == "PUT" and a.status in (200, 201)), (a.status, a.body[:200]))
            seen.check("no answer in time", time.monotonic() - t0 < limit_s, name)
    own_file_works(lab, seen)
    seen.note = "fifo, character and block device, socket, folder: refused at once"
    return seen


def too_much(lab, subject, host_mib):
    """More than the disk holds, without an end, and ranges that are none."""
    seen = Seen()
    if subject:
        while subject.grown() < (host_mib + 8) << 20:
            subject.take(bytes(1 << 20))
        seen.check("host memory grew", subject.grown() < host_mib << 20, f"{subject.grown() >> 20} MiB")
        return seen
    sb = lab.caisson.create("tiny")["id"]
    before, sent = lab.daemons_now(), 0
    c = http.client.HTTPConnection("127.0.0.1", lab.caisson.data_port, timeout=300)
    c.putrequest("PUT", f"/v1/sandboxes/{sb}/files?path=/endless")
    for k, v in (("Authorization", f"Bearer {lab.caisson.key}"), ("Content-Type", "application/octet-stream"), ("Transfer-Encoding", "chunked")):
        c.putheader(k, v)
    c.endheaders()
    try:
        end = time.monotonic() + 180
        while time.monotonic() < end:
            c.send(b"100000\r\n" + bytes(1 << 20) + b"\r\n")
            sent += 1 << 20
    except OSError:
        pass
    try:
        status = c.getresponse().status
    except (OSError, http.client.HTTPException):
        status = 0  # cut while sending: the answer was lost with the connection
    seen.check("an endless body was taken", time.monotonic() < end and status in (0, 413, 507), (sent >> 20, status))
    seen.check("host memory grew", (g := lab.daemons_grown(before)[0]) < host_mib << 20, f"{g >> 20} MiB")
    own_file_works(lab, seen, sb)
    for r in ("bytes=-0", "bytes=5-2", "bytes=9999999-", "bytes=" + ",".join("0-0" for _ in range(10_000)), "bytes=99999999999999999999-", "lines=1-2"):
        part, body = read(lab, "/root/own", sb, Range=r)
        seen.check(f"range {r[:20]}", part in (200, 400, 413, 416, 431) and len(body) < 4096, part)
    lab.caisson.end(sb)
    seen.note = f"endless body ended after {sent >> 20} MiB with {status or 'a cut'}; odd ranges refused"
    return seen


def fill(lab, subject, slack_mib):
    """A guest fills its disk: it ends at its size, and nobody else notices."""
    seen, quota_mib = Seen(), 64
    if subject:
        while subject.grown() < (quota_mib + slack_mib + 8) << 20:
            subject.take(bytes(1 << 20))
        seen.check("host disk grew beyond the quota", subject.grown() < (quota_mib + slack_mib) << 20, f"{subject.grown() >> 20} MiB")
        return seen
    sb = lab.caisson.create("tiny")["id"]
    before = disk_used(lab)
    out, err, fact = lab.guest("dd if=/dev/urandom of=/f bs=1M; echo end", sb=sb, timeout_s=120)
    grown = disk_used(lab) - before
    seen.check("host disk grew beyond the quota", grown < (quota_mib + slack_mib) << 20, f"{grown >> 20} MiB")
    seen.control = b"end" in out and lab.answers(sb)
    lab.caisson.end(sb)
    seen.note = f"the guest met its end of disk ({err.splitlines()[-1].decode(errors='replace') if err else ''}); host grew {grown >> 20} MiB"
    return seen


def disk_used(lab):
    total = 0
    for p in lab.caisson.data.rglob("*"):
        try:
            total += p.lstat().st_blocks * 512 if "overlays" in p.parts or "blobs" in p.parts else 0
        except OSError:
            pass
    return total


PROBES = {f.__name__: f for f in (paths, links, unpack_inside, unpack_on_the_host, bombs, specials, too_much, fill)}
