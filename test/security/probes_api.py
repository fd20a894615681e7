# SPDX-License-Identifier: Apache-2.0
"""Probes of area API: tenancy, roles, input, and what errors tell."""

import http.client
import json
import re
import secrets
import subprocess
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import quote

from harness import Seen

TOP = Path(__file__).resolve().parents[2]
#: what an error must never tell
TELLTALE = re.compile(rb"SELECT |INSERT |UPDATE |FROM caisson\.|libpq|PG_|SQLSTATE|/usr/|/var/lib|/run/caisson|src/|\.c:\d|0x[0-9a-f]{8,}|Traceback")


def document():
    return json.loads((TOP / "doc/openapi.json").read_text())


def routes(supported_only=True):
    """(method, path template, on the data listener, role)."""
    for path, methods in document()["paths"].items():
        for method, op in methods.items():
            if supported_only and op.get("x-caisson-supported") is False:
                continue
            servers = op.get("servers") or methods.get("servers") or []
            yield method.upper(), path, any(":7710" in s.get("url", "") for s in servers) or op.get("x-caisson-listener") == "data", op.get("x-caisson-role", "viewer")


def call(lab, method, path, key, data=False, body=None, port=None, headers=None, source="127.0.0.1"):
    """(status, body); key None = no credential at all. Guesses are counted by address: who must not meet that limit says another source."""
    c = http.client.HTTPConnection("127.0.0.1", port or (lab.caisson.data_port if data else lab.caisson.port), timeout=60, source_address=(source, 0))
    h = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {}), **(headers or {})}
    try:
        c.request(method, path, None if method in ("GET", "HEAD") else json.dumps(body if body is not None else {}), h)
        r = c.getresponse()
        # a stream that opened has answered; its bytes are read for a moment only
        c.sock and c.sock.settimeout(3)
        try:
            return r.status, r.read(65536)
        except OSError:
            return r.status, b""
    except (OSError, http.client.HTTPException) as e:
        return 0, str(e).encode()
    finally:
        c.close()


def fill(path, values):
    return re.sub(r"\{(\w+)\}", lambda m: quote(values.get(m.group(1), "x" * 5), safe=""), path)


class Attacker:
    """Another tenant, with keys of its own."""

    def __init__(self, lab):
        self.lab = lab
        status, raw = call(lab, "POST", "/v1/tenants", lab.caisson.key, body={"name": "attacker-" + secrets.token_hex(4)})
        assert status == 201, raw
        made = json.loads(raw)
        self.tenant = made.get("tenant", made)
        self.id = self.tenant["id"]
        self.project = made.get("project") or self.tenant.get("project")
        if isinstance(self.project, dict):
            self.project = self.project["id"]
        self.key = self.new_key("admin")

    def new_key(self, role):
        status, raw = call(self.lab, "POST", "/v1/keys", self.lab.caisson.key, body={"name": role, "role": role, "project": self.project})
        assert status == 201, raw
        made = json.loads(raw)
        return made.get("secret") or made.get("key")

    def delete(self):
        return call(self.lab, "DELETE", f"/v1/tenants/{self.id}", self.lab.caisson.key)


WEBSOCKET = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="}
#: query, body and headers with which the call would work for its owner, by the end of its path
WORKING = {
    ("PATCH", "{id}"): ("", {"labels": {"taken": "over"}}, {}),
    ("POST", "/execs"): ("", {"cmd": ["true"]}, {}), ("POST", "/run"): ("", {"cmd": ["true"]}, {}),
    ("POST", "/ports"): ("", {"port": 8080, "access": "public"}, {}), ("DELETE", "/ports"): ("?port=8080", None, {}),
    ("POST", "/signal"): ("", {"name": "TERM"}, {}), ("POST", "/size"): ("", {"cols": 80, "rows": 24}, {}),
    ("POST", "/stdin"): ("?offset=0", None, {"Content-Type": "application/octet-stream"}), ("POST", "{ex}/token"): ("", {}, {}),
    ("GET", "/attach"): ("", None, {**WEBSOCKET, "Sec-WebSocket-Protocol": "caisson.exec.v1"}), ("GET", "/tunnel"): ("", None, WEBSOCKET),
    ("PATCH", "{whk}"): ("", {"types": ["*"]}, {}),
    ("PUT", "/files"): ("?path=/counter", None, {"Content-Type": "application/octet-stream"}), ("DELETE", "/files"): ("?path=/counter", None, {}),
    ("POST", "/move"): ("?path=/counter&to=/x", None, {}), ("PUT", "/archive"): ("?path=/x&format=tar", None, {"Content-Type": "application/x-tar"}),
    ("POST", "/mkdir"): ("?path=/x", None, {}),
    ("PUT", "{tag}"): ("", {"release": "sha256:" + "0" * 64}, {}),
}


def working(method, path):
    for (m, end), how in WORKING.items():
        if m == method and path.endswith(end):
            return how
    return ("?path=/sibling-secret" if re.search("files|archive|watch", path) else "", None, {})


def victim(lab):
    """Things of the lab's own tenant, one of each kind, and their ids by parameter name."""
    sb, key = lab.siblings[0], lab.caisson.key
    ex = lab.caisson.http("POST", f"/v1/sandboxes/{sb}/execs", {"cmd": ["cat", "/sibling-secret"], "start": "now"}).json["id"]
    op = lab.caisson.http("GET", f"/v1/operations?sandbox={sb}").json["items"][0]["id"]
    lab.caisson.http("PATCH", f"/v1/sandboxes/{sb}", {"labels": {"secret": lab.secret}})
    status, raw = call(lab, "POST", "/v1/webhooks", key, body={"url": "https://example.com/h", "types": ["sandbox.ended"], "secrets": [lab.secret]})
    whk = json.loads(raw).get("id", "whk_none") if status == 201 else "whk_none"
    return {"id": sb, "ex": ex, "op": op, "whk": whk, "port": "8080", "key": lab.caisson.http("GET", "/v1/whoami").json["key"]["id"], "t": "tiny", "tag": "latest"}


def no_key(lab, subject):
    seen, n = Seen(), 0
    hosts = [("GET", "/", True, f"8080-{lab.siblings[0]}.localhost"), ("POST", "/", True, f"8080-{lab.siblings[0]}.localhost")]
    for method, path, data, role, host in [*((*r, None) for r in routes(supported_only=False)), *((m, p, d, "viewer", h) for m, p, d, h in hosts)]:
        if role == "open":
            continue
        query, body, headers = working(method, path)
        for key in (None, f"e2b_{n:08x}" + "0" * 32, "nonsense", "e2b_" + "A" * 40, "cst_" + "A" * 60):
            status, raw = call(lab, method, fill(path, {"id": lab.siblings[0]}) + query, key, data, body, subject.port if subject else None,
                               {**headers, **({"Host": host} if host else {})}, f"127.1.{n // 200}.{n % 200 + 1}")
            n += 1
            seen.check(f"{method} {path}", status == 401, (status, raw[:100]))
            seen.bytes.append(raw)
    seen.control = call(lab, "GET", "/v1/sandboxes", lab.caisson.key)[0] == 200
    seen.note = f"{n} calls without a valid key: 401"
    return seen


def foreign(lab, subject):
    """Every route × another tenant's ids."""
    seen, values, n = Seen(), victim(lab), 0
    who = Attacker(lab)
    key = subject.key() if subject else who.key
    for method, path, data, role in routes():
        names = re.findall(r"\{(\w+)\}", path)
        if not set(names) & set(values) - {"t", "tag", "port"} or role == "operator":
            continue
        if subject and method != "GET":
            continue
        query, body, headers = working(method, path)
        status, raw = call(lab, method, fill(path, values) + query, key, data, body, headers=headers)
        n += 1
        seen.check(f"{method} {path}", status in (403, 404), (status, raw[:120]))
        seen.bytes.append(raw)
    if not subject:
        mine = lab.caisson.http("GET", f"/v1/sandboxes/{lab.siblings[0]}").json
        seen.check("changed", mine["state"] == "running" and "taken" not in mine["labels"], mine["labels"])
        seen.control = call(lab, "GET", "/v1/sandboxes", who.key)[0] == 200
    who.delete()
    seen.note = f"{n} calls on foreign ids: none answered, nothing changed"
    return seen


def foreign_bodies(lab, subject):
    seen, n = Seen(), 0
    who = Attacker(lab)
    key = subject.key() if subject else who.key
    mine = lab.caisson.http("GET", "/v1/whoami").json
    project = mine["project"] if isinstance(mine["project"], str) else mine["project"]["id"]
    call(lab, "POST", "/v1/templates", lab.caisson.key, body={"name": "private-one"})
    tries = [("GET", f"/v1/usage?group=sandbox&project={project}", None), ("POST", "/v1/keys", {"name": "x", "role": "viewer", "project": project}),
             ("POST", "/v1/tokens", {"sandbox": lab.siblings[0], "allow": ["exec"], "ttl_s": 60}), ("POST", "/v1/sandboxes", {"template": "private-one"}),
             ("POST", "/v1/sandboxes", {"snapshot": "snp_" + "a" * 20}), ("GET", f"/v1/events?sandbox={lab.siblings[0]}", None),
             ("GET", f"/v1/operations?sandbox={lab.siblings[0]}", None)]
    for method, path, body in tries:
        status, raw = call(lab, method, path, key, body=body)
        n += 1
        empty = status == 200 and json.loads(raw).get("items") == []
        seen.check(f"{method} {path.split('?')[0]} {body or ''}", status in (400, 403, 404, 409, 422) or empty, (status, raw[:120]))
        seen.bytes.append(raw)
    who.delete()
    seen.note = f"{n} foreign ids in bodies and filters: refused or empty"
    return seen


def roles(lab, subject):
    """A viewer and a narrow token on every route that changes something."""
    seen, n = Seen(), 0
    sb = lab.siblings[1] if subject else lab.caisson.create("tiny")["id"]
    if subject:
        viewer = token = subject.key()
    else:
        viewer = lab.caisson.http("POST", "/v1/keys", {"name": "viewer", "role": "viewer"}).json["secret"]
        token = lab.caisson.http("POST", "/v1/tokens", {"sandbox": sb, "allow": ["files"], "ttl_s": 300}).json["token"]
    ex = lab.caisson.http("POST", f"/v1/sandboxes/{sb}/execs", {"cmd": ["sleep", "600"], "start": "now"}).json["id"]
    values = {"id": sb, "ex": ex, "op": "op_" + "a" * 20, "key": "key_" + "a" * 20, "whk": "whk_" + "a" * 20, "ten": "ten_" + "a" * 20, "port": "80", "t": "tiny", "tag": "x"}
    for method, path, data, role in routes():
        if subject and (method == "DELETE" or "signal" in path):
            continue  # the weak subject's key would do it
        query, body, headers = working(method, path)
        for who, key in (("viewer", viewer), ("token", token)):
            allowed = role == "open" or (role == "viewer" if who == "viewer" else document()["paths"][path][method.lower()].get("x-caisson-token") in ("files", "any"))
            if allowed or (who == "token" and path == "/v1/whoami"):
                continue
            status, raw = call(lab, method, fill(path, values) + query, key, data, body, headers=headers)
            n += 1
            seen.check(f"{who} {method} {path}", status == 403, (status, raw[:100]))
    if not subject:
        seen.control = call(lab, "GET", "/v1/sandboxes", viewer)[0] == 200 and \
            call(lab, "GET", f"/v1/sandboxes/{sb}/files?path=/etc/hostname", token, data=True)[0] == 200
        lab.caisson.end(sb)
        status, _ = call(lab, "GET", f"/v1/sandboxes/{lab.siblings[0]}/files?path=/sibling-secret", token, data=True)
        seen.check("the token reads another sandbox", status in (403, 404), status)
    seen.note = f"{n} calls refused"
    return seen


INJECTIONS = ["' OR '1'='1", "'; DROP TABLE caisson.sandboxes; --", "\\'; SELECT pg_sleep(9)--", "%", "_", "{\"$ne\":null}", "1 UNION SELECT sha256 FROM caisson.api_keys", "\u0000", "\ud800".encode("utf-8", "surrogatepass").hex()]


def sql(lab, subject):
    seen, n = Seen(), 0
    before = lab.caisson.http("GET", "/v1/sandboxes?limit=200").json
    port = subject.port if subject else None
    for text in INJECTIONS:
        q = quote(text, safe="")
        for path in (f"/v1/sandboxes?label=a={q}", f"/v1/sandboxes?label={q}", f"/v1/sandboxes?after={q}", f"/v1/sandboxes?state={q}", f"/v1/sandboxes?template={q}",
                     f"/v1/sandboxes?limit={q}", f"/v1/sandboxes?created_after={q}", f"/v1/sandboxes/{q}", f"/v1/sandboxes/@{q}", f"/v1/events?after={q}", f"/v1/events?type={q}",
                     f"/v1/operations?sandbox={q}", f"/v1/usage?group={q}", f"/v1/templates/{q}", f"/v1/keys?after={q}", f"/v1/audit?after={q}"):
            t0 = time.monotonic()
            status, raw = call(lab, "GET", path, lab.caisson.key, port=port)
            n += 1
            empty = status == 200 and (json.loads(raw).get("items", None) == [] or "secret" not in raw.decode())
            seen.check(path, status in (400, 404, 422) or empty, (status, raw[:120]))
            seen.check(f"{path} told", not TELLTALE.search(raw), raw[:200])
            seen.check(f"{path} slept", time.monotonic() - t0 < 8)
        status, raw = call(lab, "POST", "/v1/sandboxes", lab.caisson.key, port=port, body={"template": text, "name": text, "labels": {"a": text}})
        n += 1
        seen.check(f"create with {text!r}", status in (400, 404), (status, raw[:120]))
    if not subject:
        after = lab.caisson.http("GET", "/v1/sandboxes?limit=200").json
        seen.check("rows changed", {i["id"] for i in before["items"]} <= {i["id"] for i in after["items"]})
    seen.note = f"{n} calls with metacharacters: 400, 404 or empty"
    return seen


def key_life(lab, subject):
    seen = Seen()
    a = lab.caisson.http("POST", "/v1/keys", {"name": "short", "role": "developer"}).json
    key, kid = a.get("secret") or a.get("key"), a["id"]
    seen.control = call(lab, "GET", "/v1/sandboxes", key)[0] == 200
    listed = call(lab, "GET", "/v1/keys?limit=200", lab.caisson.key)[1]
    seen.check("the list shows a secret", key.encode() not in listed)
    where = [lab.caisson.data]
    if subject:
        (lab.root / "plain-key").write_text(key)
        where.append(lab.root)
    r = subprocess.run(["grep", "-rlaF", "--exclude-dir=store", "--exclude-dir=build", key, *map(str, where)], capture_output=True, text=True)
    seen.check("the key is at rest", not r.stdout.strip(), r.stdout[:200])
    (lab.root / "plain-key").unlink(missing_ok=True)
    call(lab, "DELETE", f"/v1/keys/{kid}", lab.caisson.key)
    t0 = time.monotonic()
    while call(lab, "GET", "/v1/sandboxes", key)[0] != 401 and time.monotonic() - t0 < 30:
        time.sleep(0.2)
    took = time.monotonic() - t0
    seen.check("revoked, and still good", took < 20, took)
    seen.check("revoked, and still good for data", call(lab, "GET", f"/v1/sandboxes/{lab.siblings[0]}/files?path=/counter", key, data=True)[0] == 401)
    seen.note = f"shown once, not found at rest, dead {took:.1f} s after it was revoked"
    return seen


def brute(lab, subject, tries):
    """Guesses from one address at many keys, and from many addresses at one key's beginning."""
    seen, notes, port = Seen(), [], subject.port if subject else None
    mine = lab.caisson.key
    ways = {"one address": lambda i: (f"e2b_{i:08x}" + "1" * 32, "127.2.0.1"), "one beginning": lambda i: (f"{mine[:12]}{i:032x}", f"127.3.{i // 200}.{i % 200 + 1}"),
            "one address, for data": lambda i: (f"e2b_{i:08x}" + "2" * 32, "127.2.0.2")}
    for name, way in ways.items():
        counts = {}
        for i in range(tries):
            key, source = way(i)
            data = name.endswith("data")
            status, _ = call(lab, "GET", f"/v1/sandboxes/{lab.siblings[0]}/files?path=/counter" if data else "/v1/sandboxes", key, data, port=port, source=source)
            counts[status] = counts.get(status, 0) + 1
            if status == 429:
                break
        seen.check(f"{name}: no limit", 429 in counts and 200 not in counts, counts)
        notes.append(f"{name}: 429 after {counts.get(401, 0)}")
    if not subject:
        # nobody locks the owner out by guessing: not elsewhere, not beside him
        for source in ("127.0.0.1", "127.2.0.1", "127.2.0.2"):
            status, raw = call(lab, "GET", "/v1/sandboxes", mine, source=source)
            seen.control = seen.control and status == 200
            notes.append(f"the right key from {source}: {status}")
    seen.note = "; ".join(notes)
    return seen


def bodies(lab, subject, bad):
    """Bodies that must be 400 with the field's name."""
    seen = Seen()
    before = len(lab.caisson.http("GET", "/v1/sandboxes?limit=200&state=running").json["items"])
    for text in bad:
        c = http.client.HTTPConnection("127.0.0.1", subject.port if subject else lab.caisson.port, timeout=60)
        c.request("POST", "/v1/sandboxes", text.encode(), {"Content-Type": "application/json", "Authorization": f"Bearer {lab.caisson.key}"})
        r = c.getresponse()
        raw = r.read()
        error = json.loads(raw).get("error", {}) if r.status == 400 else {}
        # what is no JSON has no field, but a place
        named = error.get("field") or re.search(r"line \d+ column \d+", error.get("message", ""))
        seen.check(text[:60], named, (r.status, raw[:150]))
        seen.bytes.append(raw)
    if not subject:
        seen.control = call(lab, "GET", "/v1/sandboxes", lab.caisson.key)[0] == 200
        after = len(lab.caisson.http("GET", "/v1/sandboxes?limit=200&state=running").json["items"])
        seen.check("a sandbox was made", after <= before, (before, after))
    seen.note = f"{len(bad)} bodies: 400 with the field"
    return seen


class Canary:
    """An HTTP listener on the host that nobody may reach."""

    def __enter__(self):
        hits = self.hits = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                hits.append(self.path)
                self.send_response(200)
                self.end_headers()
            do_GET = do_POST

            def log_message(self, *_):
                pass
        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def webhook_targets(lab, subject):
    seen = Seen()
    with Canary() as c:
        p = c.port
        urls = [f"http://127.0.0.1:{p}/", f"http://localhost:{p}/", f"http://2130706433:{p}/", f"http://0x7f.1:{p}/", f"http://0177.0.0.1:{p}/", f"http://127.1:{p}/", f"http://[::1]:{p}/",
                f"http://[::ffff:127.0.0.1]:{p}/", f"http://[64:ff9b::7f00:1]:{p}/", f"http://0.0.0.0:{p}/", "http://169.254.169.254/latest/", "http://10.0.0.1/", "http://metadata.google.internal/",
                f"http://user@127.0.0.1:{p}/", "file:///etc/shadow", f"gopher://127.0.0.1:{p}/", f"http://example.com@127.0.0.1:{p}/", "http://[fe80::1]/", "http://192.168.0.1/"]
        if subject:
            urllib.request.urlopen(urls[0]).read()
            seen.check("reached", not c.hits, c.hits)
            return seen
        refused, made, odd = 0, [], []
        for u in urls:
            status, raw = call(lab, "POST", "/v1/webhooks", lab.caisson.key, body={"url": u, "types": ["sandbox.created", "sandbox.ended"], "secrets": ["s" * 32]})
            refused += status in (400, 403)
            if status == 201:
                made.append(json.loads(raw)["id"])
                call(lab, "POST", f"/v1/webhooks/{made[-1]}/test", lab.caisson.key)
            elif status not in (400, 403):
                odd.append((u, status, raw[:100]))
        seen.check("an untyped answer", not odd, odd)
        lab.caisson.end(lab.caisson.create("tiny")["id"])
        time.sleep(8)
        seen.check("reached", not c.hits, c.hits)
        for w in made:
            call(lab, "DELETE", f"/v1/webhooks/{w}", lab.caisson.key)
        status, raw = call(lab, "POST", "/v1/webhooks", lab.caisson.key, body={"url": "https://example.com/hook", "types": ["sandbox.ended"], "secrets": ["s" * 32]})
        seen.control = status == 201
        call(lab, "DELETE", f"/v1/webhooks/{json.loads(raw).get('id')}", lab.caisson.key)
        seen.note = f"{len(urls)} private targets: {refused} refused at once, {len(made)} refused at delivery; no packet arrived"
    return seen


def streams(lab, subject):
    """Tokens in queries, foreign events, and what the logs keep."""
    seen = Seen()
    who = Attacker(lab)
    ex = lab.caisson.http("POST", f"/v1/sandboxes/{lab.siblings[0]}/execs", {"cmd": ["cat", "/sibling-secret"]}).json
    token, port = ex["attach"]["token"], subject.port if subject else None
    for q in (f"token={token}", f"access_token={token}", f"key={lab.caisson.key}", f"api_key={lab.caisson.key}"):
        for path, data in ((f"/v1/execs/{ex['id']}/output?from=0&{q}", True), (f"/v1/execs/{ex['id']}/attach?{q}", True), (f"/v1/events?{q}", False)):
            status, raw = call(lab, "GET", path, None, data, port=port)
            seen.check(path.split("?")[0], status in (400, 401), (status, raw[:100]))
            seen.bytes.append(raw)
    status, raw = call(lab, "GET", "/v1/events?limit=200", who.key, port=port)
    seen.check("foreign events", lab.siblings[0].encode() not in raw, raw[:200])
    seen.bytes.append(raw)
    logs = b"".join(p.read_bytes() for p in lab.caisson.data.glob("log/*"))
    seen.check("a token is in the logs", token.encode() not in logs and lab.caisson.key.encode() not in logs)
    seen.control = call(lab, "GET", "/v1/events?limit=5", lab.caisson.key)[0] == 200
    who.delete()
    seen.note = "no token taken from a query; no foreign event; no token in the logs"
    return seen


def rows_by_hand(lab, subject):
    """As the application's database role with another tenant set."""
    seen = Seen()
    mine = lab.caisson.http("GET", "/v1/whoami").json["tenant"]
    mine = mine if isinstance(mine, str) else mine["id"]
    tables = "tenants projects api_keys sandboxes operations idempotency_keys events webhooks audit usage ports".split()
    count = 0
    for t in tables:
        column = "id" if t == "tenants" else "tenant"
        role = "caisson_owner" if subject else "caisson_api"
        q = f"SET ROLE {role}; SET caisson.tenant = 'ten_other'; SELECT count(*) FROM caisson.{t} WHERE {column} = '{mine}'"
        if subject:
            q = f"SELECT count(*) FROM caisson.{t} WHERE {column} = '{mine}'"
        out = psql(lab, q)
        if out is None:
            continue
        count += 1
        seen.check(f"rows of {t}", out == "0", out)
    seen.control = count >= 6
    seen.note = f"{count} tables read with a foreign tenant set: no rows"
    return seen


def psql(lab, query):
    """As the cluster's superuser through its private socket; the last line, None if the table is not there."""
    sock = next(s for s in lab.caisson.run_dir.rglob(".s.PGSQL.*") if not s.name.endswith(".lock"))
    r = subprocess.run(["psql", "-h", str(sock.parent), "-p", sock.name.split(".")[-1], "-U", "caisson-db", "-d", "caisson", "-XqAt", "-v", "ON_ERROR_STOP=1",
                        "-c", query], capture_output=True, text=True)
    if r.returncode:
        if "does not exist" in r.stderr and "relation" in r.stderr:
            return None
        raise RuntimeError(r.stderr[:300])
    return r.stdout.strip().splitlines()[-1]


def preview(lab, subject):
    seen = Seen()
    who = Attacker(lab)
    key = subject.key() if subject else who.key
    lab.guest(f"mkdir -p /root/www; echo {lab.secret} > /root/www/index.html")
    if not subject:
        lab.serve(8077, "import http.server, os\nos.chdir('/root/www')\nhttp.server.HTTPServer(('127.0.0.1', 8077), http.server.SimpleHTTPRequestHandler).serve_forever()\n")
    host = {"Host": f"8077-{lab.sandbox}.localhost"}
    for path in ("/", "/index.html", "/../index.html", "/%2e%2e/index.html", "//index.html"):
        for k in (key, None):
            if subject and k is None:
                continue
            status, raw = call(lab, "GET", path, k, data=True, headers=host)
            seen.check(f"GET {path}", status in (400, 401, 403, 404), (status, raw[:100]))
            seen.bytes.append(raw)
    if not subject:
        # the owner gets through, and the guest never sees his key
        status, raw = call(lab, "GET", "/index.html", lab.caisson.key, data=True, headers=host)
        seen.control, seen.note = status == 200, (status, raw[:150])
        lab.serve(8078, "import socket\ns=socket.create_server(('127.0.0.1',8078))\nwhile True:\n c,_=s.accept(); d=c.recv(65536); c.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\nConnection: close\\r\\n\\r\\n'%len(d)+d); c.close()\n")
        status, raw = call(lab, "GET", "/", lab.caisson.key, data=True, headers={"Host": f"8078-{lab.sandbox}.localhost", "Cookie": "caisson_session=abc; own=1", "X-API-Key": lab.caisson.key})
        seen.check("the platform's key reached the guest", status == 200 and lab.caisson.key.encode() not in raw, raw[:200])
    who.delete()
    if seen.control:
        seen.note = "foreign and absent keys refused; the owner's key was taken off before the guest"
    return seen


def errors(lab, subject):
    """Every route forced into errors; nothing of the inside is told."""
    seen, n = Seen(), 0
    for method, path, data, _ in routes(supported_only=False):
        for values in ({}, {k: "%00" for k in ("id", "ex", "op", "t")}, {k: "x" * 280 for k in ("id", "ex", "op", "t", "key", "p")}, {k: "../../x" for k in ("id", "ex", "op")}):
            for body in ({}, [], {"x": "\ud7ff" * 10}):
                if method == "GET" and body != {}:
                    continue
                status, raw = call(lab, method, fill(path, values) + "?limit=x&from=-1&path=%ff", lab.caisson.key, data, body, port=subject.port if subject else None)
                n += 1
                seen.check(f"{method} {path}", status and status < 500 or status in (501, 503), (status, raw[:100]))
                seen.check(f"{method} {path} told", not TELLTALE.search(raw), raw[:200])
    seen.control = call(lab, "GET", "/v1/sandboxes", lab.caisson.key)[0] == 200
    seen.note = f"{n} errors, no path, statement or address in them"
    return seen


def deleted_tenant(lab, subject):
    seen = Seen()
    who = Attacker(lab)
    sb = json.loads(call(lab, "POST", "/v1/sandboxes?wait_s=60", who.key, body={"template": "tiny"})[1])["sandbox"]["id"]
    status, raw = call(lab, "POST", "/v1/tokens", who.key, body={"sandbox": sb, "allow": ["exec", "files"], "ttl_s": 600})
    token = json.loads(raw)["token"]
    seen.control = call(lab, "GET", f"/v1/sandboxes/{sb}", who.key)[0] == 200
    if subject:
        key, token = subject.key(), subject.key()
    else:
        key = who.key
        status, raw = who.delete()
        seen.check("deletion", status in (200, 202, 204), (status, raw[:200]))
        time.sleep(6)
    seen.check("the key lives", call(lab, "GET", "/v1/sandboxes", key)[0] == 401)
    seen.check("the token lives", call(lab, "GET", f"/v1/sandboxes/{sb}/files?path=/etc/hostname", token, data=True)[0] == 401)
    if subject:
        who.delete()
        return seen
    end = time.monotonic() + 90
    while (gone := sb not in lab.caisson.node_rows()) is False and time.monotonic() < end:
        time.sleep(0.5)
    seen.check("its sandbox lives", gone)
    seen.note = "key and token dead, sandbox ended"
    return seen


class _Resolver:
    def __init__(self, names):
        self.names = names


def poison(lab, subject):
    """A template of the same name as a public one."""
    seen = Seen()
    want = lab.caisson.http("GET", "/v1/templates/tiny").json["release"]
    if subject:
        # names are global and the last to register one has it
        names = _Resolver({"tiny": want}).names
        names["tiny"] = "sha256:" + "0" * 64
        seen.check("another release", names["tiny"] == want, names["tiny"])
        return seen
    who = Attacker(lab)
    for method, path, body in (("POST", "/v1/templates", {"name": "tiny"}), ("PUT", "/v1/templates/tiny/tags/latest", {"release": want}), ("DELETE", "/v1/templates/tiny", None),
                               ("DELETE", "/v1/templates/tiny/tags/latest", None), ("POST", "/v1/templates/tiny/builds", {"from": {}})):
        status, raw = call(lab, method, path, who.key, body=body)
        seen.check(f"{method} {path}: {status}", status < 500, raw[:150])
    now = lab.caisson.http("GET", "/v1/templates/tiny").json["release"]
    sb = lab.caisson.create("tiny")
    seen.check("another release", now == want and sb["release"] == want, (now, sb["release"]))
    lab.caisson.end(sb["id"])
    who.delete()
    seen.note = f"the name still means {want[:19]}…"
    return seen


def moved_tag(lab, subject):
    """A release is pinned by digest when the sandbox is made; unknown digests are refused."""
    seen = Seen()
    t = lab.caisson.http("GET", "/v1/templates/tiny").json["release"]
    other = lab.caisson.http("GET", "/v1/templates/base").json["release"]
    sb = lab.caisson.create("tiny")
    try:
        if subject:
            sb = {**sb, "release": other}  # looked up again by tag
        else:
            lab.caisson.http("PUT", "/v1/templates/tiny/tags/latest", {"release": other})
            sb = {**sb, **lab.caisson.http("GET", f"/v1/sandboxes/{sb['id']}").json}
        seen.check("the sandbox's release moved", sb["release"] == t, sb["release"])
        for bad in ("sha256:" + "0" * 64, "sha256:xyz", "tiny@nope"):
            status, raw = call(lab, "POST", "/v1/sandboxes", lab.caisson.key, body={"template": bad})
            seen.check(f"create from {bad[:20]}", status in (400, 404), (status, raw[:120]))
    finally:
        lab.caisson.http("PUT", "/v1/templates/tiny/tags/latest", {"release": t})
        lab.caisson.end(sb["id"])
    seen.control = lab.caisson.http("GET", "/v1/templates/tiny").json["release"] == t
    seen.note = "the running sandbox kept its digest; unknown digests refused"
    return seen


PROBES = {f.__name__: f for f in (no_key, foreign, foreign_bodies, roles, sql, key_life, brute, bodies, webhook_targets, streams, rows_by_hand, preview, errors,
                                  deleted_tenant, poison, moved_tag)}
