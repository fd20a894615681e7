# SPDX-License-Identifier: Apache-2.0
"""Probes of area AGT: the channel between guest and host.

There are no vsock devices here: the channel is a virtio-serial port of one VM. Guest root can
take it from guestd by unbinding the driver, and speak to the monitor itself."""

import http.client
import http.server
import json
import os
import socket
import subprocess
import threading
import time
from pathlib import Path

from conftest import cgroup_root, wait_for
from harness import CONTROL, Seen

HERE = Path(__file__).resolve().parent

# What a stand-in believed by the host says to `metrics`: the number shows who answered.
MARK, WRONG = 77, 66


def metrics(cpus, **more):
    return {"body": json.dumps({"cpu_count": cpus, "cpu_used_ms": 1, "mem_total_bytes": 1 << 29, "mem_used_bytes": 1 << 20, "disk_total_bytes": 1 << 30,
                                "disk_used_bytes": 1 << 20, "oom_kills": 0, "uptime_ms": 1000, "processes": 3, **more})}


#: the stand-in proves that it was believed before it attacks: the control of these cases
BELIEVED = {"do": "answer", "answers": [metrics(MARK)], "count": 1, "seconds": 120}


def h2(kind, flags, stream, payload=b"", length=None):
    n = len(payload) if length is None else length
    return (n.to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload).hex()


PING, SETTINGS = h2(6, 0, 0, b"12345678"), h2(4, 0, 0)
DATA = 3

#: each a list of steps of stand_in.py
ATTACKS = {
    "noise": [{"do": "raw", "hex": bytes(range(256)).hex() * 16}, {"do": "records", "h2": (b"\x80" * 900).hex()}],
    "zeros": [{"do": "raw", "hex": "00" * 8192}],
    "http instead": [{"do": "records", "h2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".hex()}, {"do": "records", "h2": b"HTTP/1.1 200 OK\r\n\r\n".hex()}],
    # the record layer's length is 16 bits wide, so 2^31 and 2^32-1 are said one layer up, too
    "length 0": [{"do": "records", "records": [[DATA, "", 0, None]] * 64}, {"do": "records", "h2": h2(0, 0, 1) * 64}],
    "length over": [{"do": "records", "records": [[DATA, "00" * 64, 4097, None]]}, {"do": "records", "records": [[DATA, "00" * 64, 0xFFFF, None]]}],
    "length huge": [{"do": "records", "h2": h2(0, 0, 1, b"x" * 64, 0xFFFFFF) * 8}, {"do": "records", "h2": SETTINGS + h2(4, 0, 0, b"x" * 12, 0xFFFFFF)}],
    "lying crc": [{"do": "records", "records": [[DATA, "41" * 4096, None, 0xFFFFFFFF]] * 8}],
    "acknowledged too much": [{"do": "records", "records": [[4, "ff" * 8, None, None]]}],
    "half a header": [{"do": "half", "times": 60, "bytes": 10, "seconds": 2}, {"do": "half", "bytes": 19}],
    "half a frame": [{"do": "records", "h2": SETTINGS + h2(1, 4, 1, b"\x88", 4000)}],
    "flood of pings": [{"do": "records", "h2": PING * 200, "again": True, "batch": 8, "seconds": 6}],
    "flood of settings": [{"do": "records", "h2": SETTINGS * 400, "again": True, "batch": 8, "seconds": 6}],
    "flood of data": [{"do": "records", "h2": h2(0, 0, 1, b"x" * 4000), "again": True, "batch": 16, "seconds": 6}],
    "flood of acks": [{"do": "records", "records": [[4, "00" * 8, None, None]], "again": True, "batch": 512, "seconds": 6}],
}


def take_over(lab, sb, plan):
    """Guest root takes the channel and follows the plan."""
    lab.upload(sb, "/root/stand_in.py", (HERE / "stand_in.py").read_bytes())
    lab.upload(sb, "/root/plan.json", json.dumps(plan).encode())
    lab.guest("cd /root; setsid python3 stand_in.py plan.json >log 2>&1 & sleep 0.1", sb=sb)


def marked(lab, sb):
    """Which stand-in answers `metrics`, or None."""
    try:
        a = lab.caisson.http("GET", f"/v1/sandboxes/{sb}/metrics", timeout=120)
    except OSError:
        return None
    return a.json.get("cpu_count") if a.status == 200 else None


def seconds(plan):
    return sum(s.get("seconds", 3) for s in plan)


def hostile_channel(lab, subject, attacks, host_mib=32, host_fds=40):
    """Guest root speaks on the channel in the daemon's place."""
    seen = Seen()
    if subject:
        for name in attacks:
            for step in ATTACKS[name]:
                subject.feed(step)
        seen.check("host memory grew", subject.bytes < host_mib << 20, f"{subject.bytes >> 20} MiB")
        seen.check("host descriptors grew", subject.fds < host_fds, subject.fds)
        seen.check("untyped answer", subject.typed, "the guest's bytes")
        return seen
    believed = []
    for name in attacks:
        sb = lab.caisson.create("test")["id"]
        before = lab.daemons_now()
        take_over(lab, sb, [BELIEVED, *ATTACKS[name]])
        wait_for(f"{name}: the stand-in answers", lambda: marked(lab, sb) == MARK, limit_s=120, step_s=0.5)
        believed.append(name)
        time.sleep(min(seconds(ATTACKS[name]), 6))
        grown, more = lab.daemons_grown(before)
        seen.check(f"{name}: host memory grew", grown < host_mib << 20, f"{grown >> 20} MiB")
        seen.check(f"{name}: host descriptors grew", more < host_fds, more)
        # a fresh request gets a typed answer, in bounded time
        a = lab.caisson.http("GET", f"/v1/sandboxes/{sb}/execs", timeout=150)
        seen.check(f"{name}: untyped answer", a.status >= 400 and a.json["error"]["code"], (a.status, a.body[:200]))
        t0 = time.monotonic()
        lab.caisson.end(sb)
        seen.check(f"{name}: it could not be ended", time.monotonic() - t0 < 60)
        seen.note += f"{name}: {a.status} {a.json['error']['code']}, {grown >> 10:+} KiB, {more:+} descriptors; "
    seen.control = believed == list(attacks) and lab.answers(lab.sandbox)
    return seen


def other_version(lab, subject, versions):
    """The stand-in says HELLO_ACK with another version, and would answer if it were taken."""
    seen = Seen()
    if subject:
        seen.check("another version was taken", not any(subject.hello(v) for v in versions), versions)
        return seen
    for v in versions:
        sb = lab.caisson.create("test")["id"]
        take_over(lab, sb, [BELIEVED, {"do": "version", "version": v, "answers": [metrics(WRONG)], "seconds": 5}, {"do": "answer", "answers": [metrics(MARK + 1)], "seconds": 60}])
        wait_for("the stand-in answers", lambda: marked(lab, sb) == MARK, limit_s=120, step_s=0.3)
        got = []
        wait_for("the true version is taken again", lambda: got.append(marked(lab, sb)) or got[-1] == MARK + 1, limit_s=120, step_s=0.3)
        seen.check(f"version {v} was taken", WRONG not in got, got)
        lab.caisson.end(sb)
    seen.control = lab.answers(lab.sandbox)
    seen.note = f"versions {', '.join(map(str, versions))}: no session, no downgrade; version 1 is taken before and after"
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
    out, _, _ = lab.guest("cat /sys/class/virtio-ports/*/name; ls -d /sys/bus/virtio/drivers/*vsock*/virtio* 2>/dev/null; true")
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
    sb = lab.caisson.create("test")["id"]
    listeners = "cat /proc/net/tcp /proc/net/tcp6 | awk '$4 == \"0A\" {print $2}'; cat /proc/net/udp /proc/net/udp6 /proc/net/raw /proc/net/packet | grep -v sl | grep -v sk | grep . ; true"
    out, _, _ = lab.guest(listeners, sb=sb)
    seen.check("the daemon listens in the guest", out == b"", out)
    lab.serve(8111, "import socket, time\ns = socket.create_server(('127.0.0.1', 8111))\ntime.sleep(600)\n", sb)
    out, _, _ = lab.guest(listeners, sb=sb)
    seen.control = b":1FAF" in out
    out, _, _ = lab.guest("awk '{print $8}' /proc/net/unix | grep . ; true", sb=sb)
    seen.check("a socket of the daemon has a name", b"caisson" not in out and b"guestd" not in out, out)
    lab.caisson.end(sb)
    seen.control = seen.control and lab.answers(lab.sandbox)
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
    before = lab.daemons_now()
    time.sleep(6)
    grown = lab.daemons_grown(before)[0]
    seen.check("host memory grew", grown < host_mib << 20, f"{grown >> 20} MiB")
    seen.control = lab.answers(lab.sandbox)
    lab.caisson.http("POST", f"/v1/execs/{ex}/signal", {"name": "KILL"})
    wait_for("the kill", lambda: lab.caisson.http("GET", f"/v1/execs/{ex}").json.get("exit"), limit_s=60)
    s.close()
    seen.note = f"host memory {grown >> 10:+} KiB in 6 s, killed"
    return seen


#: what the stand-in says in place of a true answer: call, lie
LIES = [
    ("metrics", metrics(2, mem_total_bytes=-5)), ("metrics", metrics(2, mem_total_bytes=9223372036854775808)), ("metrics", metrics(2, disk_used_bytes=1e308)),
    ("metrics", metrics("../../x")), ("metrics", {"body": '{"cpu_count":1,'}), ("metrics", {"body": "[" * 5000}), ("metrics", {"body": '{"a":"\\ud800"}'}),
    ("metrics", {"body": "{}", "status": 999}), ("metrics", {"body": "{}", "status": 101}), ("metrics", {"body": '{"cpu_count":1}' + " " * (2 << 20)}),
    ("execs", {"body": '{"items":[{"id":"../../x","state":"running","pid":-1}]}'}), ("execs", {"body": '{"items":"x"}'}),
    ("files/list?path=/root", {"body": '{"items":[{"name":"../../etc/shadow","path":"/../../etc/shadow","type":"file","size":-9,"mode":"9999","uid":-1,"gid":-1}],"next":null}'}),
    ("files/stat?path=/root", {"body": '{"name":"x\\u001b[2J","path":"/x","type":"file","size":18446744073709551616}'}),
    ("files?path=/root/x", {"body": "x", "fields": [["content-length", "-1"]]}), ("files?path=/root/x", {"body": "x", "fields": [["content-length", "18446744073709551616"]]}),
]


def flat(v):
    """Every scalar of a document."""
    if isinstance(v, dict):
        for k, x in v.items():
            yield from flat(x)
    elif isinstance(v, list):
        for x in v:
            yield from flat(x)
    else:
        yield v


def sane(seen, what, status, body):
    """What a client may be given of a lie: a typed error, or a document of sane values."""
    try:
        doc = json.loads(body)
    except (ValueError, RecursionError):
        seen.check(f"{what}: no document", False, (status, body[:120]))
        return
    if status >= 400:
        seen.check(f"{what}: untyped error", status in (400, 404, 409, 413, 500, 502, 503, 504) and doc.get("error", {}).get("code"), (status, body[:120]))
        return
    numbers = [x for x in flat(doc) if isinstance(x, (int, float)) and not isinstance(x, bool)]
    seen.check(f"{what}: a number passed", all(0 <= n < 1 << 63 for n in numbers), numbers)
    seen.check(f"{what}: a path passed", not [x for x in flat(doc) if isinstance(x, str) and ".." in x], body[:120])
    seen.check(f"{what}: too long", len(body) <= 1 << 20, len(body))


def names_on_the_terminal(lab, seen):
    """File names with control characters, shown by the command line."""
    lab.guest("mkdir -p /root/names; cd /root/names; touch \"$(printf '\\033[2J\\rone')\" \"$(printf '\\302\\233two')\" \"$(printf '\\377three')\" -- '-four' '$(five)' plain")
    r = lab.caisson.cli("files", "ls", lab.sandbox, "/root/names", check=False)
    shown = r.stdout + r.stderr
    seen.control = r.returncode == 0 and "plain" in shown and "one" in shown and "two" in shown
    seen.check("a control character reached the terminal", not CONTROL.search(shown), repr(shown[:300]))


def lying_numbers(lab, subject):
    """A stand-in for the daemon answers with nonsense."""
    seen = Seen()
    if subject:
        for call, lie in LIES:
            sane(seen, call, *subject.answer(lie))
        seen.check("a control character reached the terminal", not CONTROL.search(subject.show("\x1b[2J\revil")))
        return seen
    sb = lab.caisson.create("test")["id"]
    take_over(lab, sb, [BELIEVED, {"do": "answer", "answers": [metrics(MARK + 1), *(x for _, x in LIES)], "seconds": 200}])
    wait_for("the stand-in answers", lambda: marked(lab, sb) == MARK + 1, limit_s=120, step_s=0.5)
    answers = []
    for call, _ in LIES:
        a = lab.caisson.http("GET", f"/v1/sandboxes/{sb}/{call}", data="files" in call, timeout=150)
        answers.append(a.status)
        sane(seen, f"{call} #{len(answers)}", a.status, a.body)
    lab.caisson.end(sb)
    names_on_the_terminal(lab, seen)
    seen.note = f"names escaped on the terminal; {len(answers)} lies of a daemon that was believed before: {sorted(set(answers))}"
    return seen


#: (call, what was asked, answer, most bytes that may come)
EXCESSES = [
    ("files?path=/root/true", {}, {"body": "y" * 10, "fields": [["content-type", "application/octet-stream"], ["content-length", "10"], ["etag", '"v"']]}, 10),
    ("files?path=/root/a", {}, {"body": "y" * 4000, "repeat": 32, "fields": [["content-type", "application/octet-stream"], ["content-length", "10"], ["etag", '"v"']]}, 10),
    ("files?path=/root/b", {"Range": "bytes=0-9"}, {"status": 206, "body": "y" * 4000, "fields": [["content-length", "10"], ["content-range", "bytes 0-9/100"], ["etag", '"v"']]}, 10),
    ("files?path=/root/c", {"Range": "bytes=0-9"}, {"status": 206, "body": "y" * 100, "fields": [["content-length", "100"], ["content-range", "bytes 0-99/100"], ["etag", '"v"']]}, 10),
    ("files?path=/root/d", {}, {"body": "y" * 4000, "repeat": 100, "endless": True, "fields": [["content-type", "application/octet-stream"]]}, 0),
    ("files?path=/root/e", {}, {"body": "y" * 10, "fields": [["content-length", "10"], ["etag", '"v"'], ["content-disposition", "attachment; filename=../../evil"], ["set-cookie", "a=b"],
                                                                 ["location", "http://127.0.0.1/"]]}, 10),
]


def raw_body(lab, path, headers, limit_s):
    """(status, headers, body, complete) as it comes, however it ends."""
    c = http.client.HTTPConnection("127.0.0.1", lab.caisson.data_port, timeout=limit_s)
    try:
        c.request("GET", path, headers={"Authorization": f"Bearer {lab.caisson.key}", **headers})
        r = c.getresponse()
        try:
            return r.status, r.headers, r.read(1 << 24), True
        except http.client.IncompleteRead as e:
            return r.status, r.headers, e.partial, False
    except (OSError, http.client.HTTPException):
        return 0, {}, b"", False
    finally:
        c.close()


def more_than_asked(lab, subject, host_mib=32):
    """A stand-in for the daemon sends more than was asked, another name, no end."""
    seen, got = Seen(), []
    if subject:
        for call, asked, answer, most in EXCESSES:
            status, body = subject.answer(answer)
            seen.check(f"{call}: more bytes than asked", len(body) <= most, len(body))
        return seen
    sb = lab.caisson.create("test")["id"]
    before = lab.daemons_now()
    take_over(lab, sb, [BELIEVED, {"do": "answer", "answers": [metrics(MARK + 1), *(a for _, _, a, _ in EXCESSES)], "seconds": 200}])
    wait_for("the stand-in answers", lambda: marked(lab, sb) == MARK + 1, limit_s=120, step_s=0.5)
    for call, asked, _, most in EXCESSES:
        status, headers, body, _ = raw_body(lab, f"/v1/sandboxes/{sb}/{call}", asked, 150)
        got.append(f"{status}/{len(body)}")
        ours = status >= 400 and json.loads(body)["error"]["code"]
        seen.check(f"{call}: more bytes than asked", ours or len(body) <= most, (status, len(body)))
        seen.check(f"{call}: a name came from the guest", not [h for h in ("content-disposition", "set-cookie", "location") if headers.get(h)], headers)
    grown = lab.daemons_grown(before)[0]
    seen.check("host memory grew", grown < host_mib << 20, f"{grown >> 20} MiB")
    lab.caisson.end(sb)
    seen.control = got[0] == "200/10" and lab.answers(lab.sandbox)
    seen.note = f"status/bytes that came: {' '.join(got)}; no name of the guest's"
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
        lab.serve(8099, script)
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
    lab.upload(lab.sandbox, "/root/scan.py", SCAN.encode())
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


PROBES = {f.__name__: f for f in (hostile_channel, only_our_port, own_control, sockets_are_closed, unread_output, other_version, lying_numbers, more_than_asked,
                                  dial_out, read_the_agent, sudden_ends)}
