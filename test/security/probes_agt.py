# SPDX-License-Identifier: Apache-2.0
"""Probes of area AGT: the channel between guest and host.

There are no vsock devices here: the channel is a virtio-serial port of one VM. Guest root can
take it from guestd by unbinding the driver, and speak to the monitor itself."""

import http.server
import os
import socket
import struct
import subprocess
import threading
import time
from pathlib import Path

from conftest import cgroup_root, wait_for
from harness import Seen

# Takes the port away from guestd and feeds the payload to the host for 8 s.
STEAL = r'''
import os, sys, time
d = "/sys/bus/virtio/drivers/virtio_console/"
dev = [x for x in os.listdir(d) if x.startswith("virtio")][0]
open(d + "unbind", "w").write(dev); time.sleep(0.5)
open(d + "bind", "w").write(dev); time.sleep(1)
port = ["/dev/" + p for p in os.listdir("/sys/class/virtio-ports") if os.path.exists("/dev/" + p)][0]
f = os.open(port, os.O_RDWR | os.O_NONBLOCK)
payload, end, sent = bytes.fromhex(sys.argv[1]), time.time() + 8, 0
while time.time() < end:
    try:
        sent += os.write(f, payload)
    except OSError:
        time.sleep(0.01)
    try:
        os.read(f, 65536)
    except OSError:
        pass
    time.sleep(float(sys.argv[2]))
'''

# magic, session, length and checksum of the record layer are inside; the point is what a
# parser does with lengths that lie and headers that never end
PAYLOADS = {
    "zeros": bytes(4096),
    "ones": b"\xff" * 4096,
    "length 0": struct.pack("<IIII", 0, 0, 0, 0) * 64,
    "length 2^31": struct.pack("<IIII", 1 << 31, 1 << 31, 1 << 31, 1 << 31) * 64,
    "length 2^32-1": struct.pack(">IIII", 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0) * 64,
    "half a header": b"\x01\x02\x03",
    "h2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\xff\x04\0\0\0\0\0" * 10,
    "noise": bytes(range(256)) * 16,
}


def hostile_channel(lab, subject, payloads, pause_s=0.0, host_mib=32):
    """Guest root speaks on the channel in guestd's place."""
    seen = Seen()
    if subject:
        subject.feed(PAYLOADS["length 2^32-1"])
        seen.check("host memory grew", len(subject.held) < host_mib << 20, f"{len(subject.held) >> 20} MiB")
        return seen
    for name in payloads:
        sb = lab.caisson.create("test")["id"]
        before = lab.daemons_rss()
        lab.caisson.http("PUT", f"/v1/sandboxes/{sb}/files?path=/root/steal.py", STEAL.encode(), headers={"Content-Type": "application/octet-stream"}, data=True)
        lab.guest(f"setsid python3 /root/steal.py {PAYLOADS[name].hex()} {pause_s} >/dev/null 2>&1 & sleep 0.2", sb=sb)
        time.sleep(5)
        # a fresh request gets a typed answer, in bounded time
        a = lab.caisson.http("GET", f"/v1/sandboxes/{sb}/execs", timeout=120)
        seen.check(f"{name}: untyped answer", a.status == 200 or a.json["error"]["code"], a.body[:200])
        grown = lab.daemons_rss() - before
        seen.check(f"{name}: host memory grew", grown < host_mib << 20, f"{grown >> 20} MiB")
        t0 = time.monotonic()
        lab.caisson.end(sb)
        seen.check(f"{name}: it could not be ended", time.monotonic() - t0 < 60)
        seen.note += f"{name}: {a.status}; "
    seen.control = lab.answers(lab.sandbox)
    return seen


def only_our_port(lab, subject):
    """What the guest can address on the channel's side."""
    seen = Seen()
    if subject:
        s = socket.socket(socket.AF_UNIX)
        s.connect(str(subject.path))
        seen.check("a listener answered", False, subject.path)
        s.close()
        return seen
    out, _, _ = lab.guest("cat /sys/class/virtio-ports/*/name; ls /dev/vsock /dev/vhost-vsock 2>/dev/null")
    seen.check("another port", out.split() == [b"org.caisson.guest"], out)
    script = ("import socket\nok=0\nfor cid in [0,1,2,3,4,200,0xffffffff]:\n for p in [1,22,1024,1025,5000,9999]:\n"
              "  try:\n   s=socket.socket(40,1); s.settimeout(0.2); s.connect((cid,p)); ok+=1\n  except (OSError, OverflowError): pass\nprint(ok)")
    out, _, _ = lab.guest(f"python3 -c '{script}'", timeout_s=120)
    seen.check("vsock connected", out == b"0\n", out)
    # from outside: the VMM holds no vsock descriptor at all
    pid = lab.caisson.node_rows()[lab.sandbox]["vmm_pid"]
    held = [os.readlink(f) for f in Path(f"/proc/{pid}/fd").iterdir()]
    seen.check("the VMM holds a vsock", not [h for h in held if "vsock" in h.lower()], held)
    seen.control = lab.answers(lab.sandbox)
    seen.note = "one named port, no vsock family device, none in the VMM"
    return seen


def own_control(lab, subject):
    """A process of the workload dials guestd's control."""
    seen = Seen()
    if subject:
        s = socket.socket(socket.AF_UNIX)
        s.connect(str(subject.path))
        seen.check("the control answered", False, subject.path)
        s.close()
        return seen
    for user in ("root", "user"):
        out, err, fact = lab.caisson.exec(lab.sandbox, "sh", "-c", "for p in /dev/vport*; do dd if=$p bs=1 count=1; done", user=user, timeout_s=60)
        seen.check(f"{user} opened the port", fact["code"] != 0 and not out, (out, err))
    out, _, _ = lab.guest("python3 -c 'import socket\nfor p in range(1,65536):\n s=socket.socket(); s.settimeout(0.05)\n if s.connect_ex((\"127.0.0.1\",p))==0: print(p)\n s.close()'", timeout_s=280)
    seen.check("a port of the daemon is open in the guest", out == b"", out)
    out, _, _ = lab.guest("cat /proc/net/unix | awk '{print $8}' | grep . ; true")
    seen.check("a socket of the daemon has a name", b"caisson" not in out and b"guestd" not in out, out)
    seen.control = lab.answers(lab.sandbox)
    seen.note = "the port is busy for root and closed for users; no listener of the daemon"
    return seen


def sockets_are_closed(lab, subject):
    """Another uid of the host opens the VM's sockets."""
    seen = Seen()
    code = "import socket,sys\nfor t in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):\n  try: socket.socket(socket.AF_UNIX,t).connect(sys.argv[1]); print('open')\n  except PermissionError: pass\n  except OSError as e: print('' if e.errno in (91, 111) else '', end='')"

    def tries(path, uid):
        r = subprocess.run(["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "/usr/bin/python3", "-c", code, str(path)], capture_output=True, text=True)
        return "open" in r.stdout
    if subject:
        seen.check("opened", not tries(subject.path, 65534), subject.path)
        return seen
    rows = lab.caisson.node_rows()
    row, other = rows[lab.sandbox], rows[lab.siblings[0]]
    n = 0
    for uid in (65534, lab.caisson.uid_base + 4 * other["slot"], lab.caisson.uid_base + 4 * other["slot"] + 1):
        for s in sorted((lab.caisson.run_dir / "slots" / str(row["slot"])).iterdir()):
            n += 1
            seen.check(f"uid {uid} opened {s.name}", not tries(s, uid))
    seen.control = n > 0 and lab.answers(lab.sandbox)
    seen.note = f"{n} attempts by nobody and by the sibling's uids: refused"
    return seen


def unread_output(lab, subject, host_mib):
    """`yes` on a stream that nobody reads."""
    seen = Seen()
    if subject:
        while subject.grown() < (host_mib + 8) << 20:
            subject.take(bytes(1 << 20))
        seen.check("host memory grew", subject.grown() < host_mib << 20, f"{subject.grown() >> 20} MiB")
        return seen
    a = lab.caisson.http("POST", f"/v1/sandboxes/{lab.sandbox}/execs", {"cmd": ["yes"], "start": "now", "overflow": "block"})
    ex = a.json["id"]
    s = socket.create_connection(("127.0.0.1", lab.caisson.data_port))
    s.sendall(f"GET /v1/execs/{ex}/output?follow=1 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {lab.caisson.key}\r\n\r\n".encode())
    before = lab.daemons_rss()
    time.sleep(6)
    grown = lab.daemons_rss() - before
    seen.check("host memory grew", grown < host_mib << 20, f"{grown >> 20} MiB")
    seen.control = lab.answers(lab.sandbox)
    lab.caisson.http("POST", f"/v1/execs/{ex}/signal", {"name": "KILL"})
    wait_for("the kill", lambda: lab.caisson.http("GET", f"/v1/execs/{ex}").json.get("exit"), limit_s=60)
    s.close()
    seen.note = f"host memory {grown >> 10:+} KiB in 6 s, killed"
    return seen


def lying_numbers(lab, subject):
    """The files that guestd reads its numbers from say nonsense."""
    seen = Seen()
    if subject:
        subject.feed(struct.pack(">I", 0xFFFFFFFF))
        seen.check("a size was believed", len(subject.held) < 1 << 20, len(subject.held))
        return seen
    sb = lab.caisson.create("test")["id"]
    lab.guest("printf 'MemTotal: 9223372036854775808 kB\\nMemFree: -5 kB\\nMemAvailable: -1 kB\\n' > /tmp/m; printf '../../x -1 2 99999999999999999999999\\n' > /tmp/u;"
              "mount --bind /tmp/m /proc/meminfo; mount --bind /tmp/u /proc/uptime; mkdir -p '/root/n/../../n'; touch \"/root/$(printf '\\033[2J\\r\\n')evil\"", sb=sb)
    a = lab.caisson.http("GET", f"/v1/sandboxes/{sb}/metrics")
    text = a.body.decode(errors="replace")
    seen.check("untyped answer", a.status == 200 or a.json["error"]["code"], text[:200])
    seen.check("a negative number passed", '":-' not in text.replace(" ", ""), text[:300])
    cp = lab.caisson.cli("files", "ls", f"{sb}:/root", check=False)
    seen.check("a control character reached the terminal", "\x1b" not in cp.stdout + cp.stderr, repr(cp.stdout[:200]))
    lab.caisson.end(sb)
    seen.note = "numbers clamped or refused, names escaped on the terminal"
    seen.control = lab.answers(lab.sandbox)
    return seen


def more_than_asked(lab, subject):
    """A file that grows while it is read, and ranges of it."""
    seen = Seen()
    if subject:
        for _ in range(4):
            subject.take(bytes(1 << 20))
        seen.check("more bytes than asked", subject.grown() <= 10, subject.grown())
        return seen
    lab.guest("head -c 1000000 /dev/zero > /root/grows; setsid sh -c 'i=0; while [ $i -lt 200 ]; do head -c 100000 /dev/zero >> /root/grows; i=$((i+1)); done' >/dev/null 2>&1 &")
    a = lab.caisson.http("GET", f"/v1/sandboxes/{lab.sandbox}/files?path=/root/grows", data=True)
    seen.check("more bytes than announced", a.status == 200 and len(a.body) == int(a.headers.get("Content-Length") or len(a.body)), len(a.body))
    a = lab.caisson.http("GET", f"/v1/sandboxes/{lab.sandbox}/files?path=/root/grows", headers={"Range": "bytes=0-9"}, data=True)
    seen.check("more bytes than asked", a.status == 206 and len(a.body) == 10, (a.status, len(a.body)))
    seen.check("a name came from the guest", not a.headers.get("Content-Disposition"), a.headers.get("Content-Disposition"))
    seen.control = lab.answers(lab.sandbox)
    seen.note = "announced and asked lengths kept while the file grew"
    return seen


def dial_out(lab, subject):
    """A guest's HTTP service tells the host's proxy to go elsewhere."""
    seen, hits = Seen(), []

    class Canary(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            hits.append(self.path)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass
    canary = http.server.HTTPServer(("127.0.0.1", 0), Canary)
    threading.Thread(target=canary.serve_forever, daemon=True).start()
    where = f"http://127.0.0.1:{canary.server_address[1]}/hit"
    try:
        if subject:
            import urllib.request
            urllib.request.urlopen(where).read()
            seen.check("the host dialled", not hits, hits)
            return seen
        answer = f"HTTP/1.1 302 Found\r\nLocation: {where}\r\nX-Accel-Redirect: {where}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        script = f"import socket\ns=socket.create_server(('127.0.0.1',8099))\nwhile True:\n c,_=s.accept(); c.recv(65536); c.sendall({answer!r}.encode()); c.close()"
        lab.caisson.http("PUT", f"/v1/sandboxes/{lab.sandbox}/files?path=/root/redirect.py", script.encode(), headers={"Content-Type": "application/octet-stream"}, data=True)
        lab.guest("setsid python3 /root/redirect.py >/dev/null 2>&1 & sleep 2")
        a = raw_get(lab, f"8099-{lab.sandbox}.localhost", "/")
        seen.control = b" 302 " in a.split(b"\r\n")[0]
        seen.check("the host dialled", not hits, hits)
        seen.note = f"the guest's redirect reached the client as it was ({a.split(bytes([13]))[0].decode(errors='replace')}); nothing was dialled"
        return seen
    finally:
        canary.shutdown()
        canary.server_close()


def raw_get(lab, host, path):
    s = socket.create_connection(("127.0.0.1", lab.caisson.data_port), timeout=60)
    s.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {lab.caisson.key}\r\nConnection: close\r\n\r\n".encode())
    out = b""
    while part := s.recv(65536):
        out += part
    s.close()
    return out


SCAN = r'''
import re, sys
pid = sys.argv[1]
for line in open(f"/proc/{pid}/maps"):
    a, b = (int(x, 16) for x in line.split()[0].split("-"))
    if "r" not in line.split()[1] or b - a > 1 << 28: continue
    try:
        with open(f"/proc/{pid}/mem", "rb", 0) as m:
            m.seek(a); data = m.read(b - a)
    except (OSError, ValueError, OverflowError): continue
    for hit in set(re.findall(rb"(?:e2b_[0-9a-f]{40}|cst_[A-Za-z0-9_.-]{20,}|canary-[0-9a-f]{32})", data)): print(hit.decode())
'''


def read_the_agent(lab, subject):
    """Guest root reads guestd's memory, files and environment."""
    seen = Seen()
    lab.caisson.http("PUT", f"/v1/sandboxes/{lab.sandbox}/files?path=/root/scan.py", SCAN.encode(), headers={"Content-Type": "application/octet-stream"}, data=True)
    if subject is None:
        out, err, fact = lab.guest("python3 /root/scan.py 1; tr '\\0' '\\n' < /proc/1/environ", timeout_s=250)
        seen.control = fact["code"] == 0
    else:
        # a daemon that keeps the secret in its memory
        out, _, _ = lab.guest(f"S={lab.secret} sleep 60 & sleep 1; python3 /root/scan.py $!", timeout_s=250)
    seen.bytes.append(out)
    key = lab.caisson.key.encode()
    seen.check("an API key is in the guest", key not in out)
    seen.note = "no key, token or canary in the daemon's memory and environment"
    return seen


def sudden_ends(lab, subject, ways):
    """The guest stops in every way it can; the node notices and frees everything."""
    seen = Seen()
    if subject:
        seen.check("it was not noticed", not subject.alive)
        return seen
    for way in ways:
        sb = lab.caisson.create("test")["id"]
        slot = lab.caisson.node_rows()[sb]["slot"]
        lab.guest(f"(sleep 0.5; {way}) >/dev/null 2>&1 &", sb=sb)
        t0 = time.monotonic()
        state = wait_for(f"the end after: {way}", lambda: (s := lab.caisson.http("GET", f"/v1/sandboxes/{sb}").json)["state"] == "ended" and s, limit_s=120)
        took = time.monotonic() - t0
        wait_for("the slot's processes gone", lambda: not [p for k in ("vmm", "monitor") for p in
                 _pids(cgroup_root() / lab.caisson.name / f"slot-{slot}" / k / "cgroup.procs")] or slot in {r["slot"] for r in lab.caisson.node_rows().values()}, limit_s=60)
        seen.note += f"{way.split()[-1]}: {state['end']['reason']} in {took:.1f} s; "
    again = lab.caisson.create("tiny")["id"]
    seen.control = lab.answers(again)
    lab.caisson.end(again)
    return seen


def _pids(path):
    try:
        return path.read_text().split()
    except OSError:
        return []


PROBES = {f.__name__: f for f in (hostile_channel, only_our_port, own_control, sockets_are_closed, unread_output, lying_numbers, more_than_asked,
                                  dial_out, read_the_agent, sudden_ends)}
