# SPDX-License-Identifier: Apache-2.0
"""A private Caisson for the VM suites: own folders, ports, uids and cgroup, so that the
tests neither see nor disturb another one on this machine."""

import json
import os
import random
import re
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parent.parent
CAISSON = os.environ.get("CAISSON", str(TOP / "build/stage/usr/local/bin/caisson"))
# Nothing here waits longer than this for one thing: the worst minute of a loaded two-core
# machine, with room.
PATIENCE_S = 120


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true", help="also run the long matrices")


def pytest_configure(config):
    config.addinivalue_line("markers", "full: only with --full")


def pytest_collection_modifyitems(config, items):
    if not config.getoption("--full"):
        for item in items:
            if "full" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="long matrix: run with --full"))


def pytest_terminal_summary(terminalreporter, config):
    for line in getattr(config, "security_lines", []):
        terminalreporter.write_line(line)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)


class Instance:
    """One running Caisson and how to talk to it."""

    def __init__(self, root, engine="auto", uid_base=None, name=None, extra=()):
        self.root = Path(root)
        # Names and uids of its own: two sessions on one machine must not end each other's daemons.
        name = name or "caisson-test-" + re.sub(r"[^a-z0-9]", "", self.root.name.lower())[-8:]
        uid_base = uid_base or 300000 + random.randrange(60) * 4096
        self.run_dir, self.data = self.root / "run", self.root / "data"
        self.port, self.data_port = free_port(), free_port()
        self.uid_base, self.name, self.engine, self.extra = uid_base, name, engine, list(extra)
        self.config = self.root / "context.json"
        self.env = dict(os.environ, CAISSON_CONFIG=str(self.config))
        for k in ("SUDO_UID", "SUDO_USER", "CAISSON_CONTEXT", "CAISSON_URL", "CAISSON_KEY"):
            self.env.pop(k, None)

    @property
    def where(self):
        return ["--run", str(self.run_dir), "--data", str(self.data)]

    def up(self):
        return self.cli("up", *self.where, "--control", f"127.0.0.1:{self.port}", "--data-listen", f"127.0.0.1:{self.data_port}",
                        "--uid-base", str(self.uid_base), "--cgroup", self.name, "--engine", self.engine, *self.extra)

    def down(self, purge=False):
        return self.cli("down", *self.where, "--cgroup", self.name, *(["--purge"] if purge else []), check=False)

    def cli(self, *args, check=True, stdin=None, timeout=PATIENCE_S * 8, text=True):
        r = subprocess.run([CAISSON, *args], env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, input=stdin,
                           timeout=timeout, **({"text": True, "errors": "replace"} if text else {}))
        if check and r.returncode:
            raise AssertionError(f"caisson {' '.join(args)}: exit {r.returncode}\n{r.stdout}\n{r.stderr}")
        return r

    def json(self, *args, **kw):
        return json.loads(self.cli(*args, "--json", **kw).stdout)

    @property
    def key(self):
        c = json.loads(self.config.read_text())
        return c["contexts"][c["current"]]["key"]

    def http(self, method, path, body=None, headers=None, data=False, key=None, timeout=PATIENCE_S):
        url = f"http://127.0.0.1:{self.data_port if data else self.port}{path}"
        h = {"Authorization": f"Bearer {key or self.key}"}
        raw = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
        if raw is not None and not isinstance(body, bytes):
            h["Content-Type"] = "application/json"
        h.update(headers or {})
        h = {k: v for k, v in h.items() if v is not None}
        q = urllib.request.Request(url, data=raw, method=method, headers=h)
        try:
            with urllib.request.urlopen(q, timeout=timeout) as r:
                return Answer(r.status, r.headers, r.read())
        except urllib.error.HTTPError as e:
            return Answer(e.code, e.headers, e.read())

    def create(self, template="tiny", **body):
        a = self.http("POST", "/v1/sandboxes?wait_s=60", {"template": template, **body})
        assert a.status == 201, a.body
        return a.json["sandbox"]

    def end(self, sb):
        a = self.http("DELETE", f"/v1/sandboxes/{sb}?wait_s=60")
        assert a.status == 200, a.body

    def exec(self, sb, *cmd, **spec):
        """Run to the end: (stdout, stderr, exit fact)."""
        a = self.http("POST", f"/v1/sandboxes/{sb}/execs", {"cmd": list(cmd), "start": "now", "overflow": "block", **spec})
        assert a.status == 201, a.body
        return self.output(a.json["id"])

    def output(self, ex):
        import base64
        a = self.http("GET", f"/v1/execs/{ex}/output?from=0&follow=1", data=True)
        assert a.status == 200, a.body
        out, fact = {1: b"", 2: b"", 3: b""}, None
        for line in a.body.splitlines():
            d = json.loads(line)
            if "b64" in d:
                out[d["s"]] += base64.b64decode(d["b64"])
            fact = d.get("exit", fact)
        return out[1], out[2], fact

    def slot_pids(self, kind="vmm"):
        """Host pids by slot, from the cgroups that are the slots' identity."""
        out = {}
        for d in cgroup_root().glob(f"{self.name}/slot-*/{kind}/cgroup.procs"):
            pids = [int(p) for p in d.read_text().split()]
            if pids:
                out[int(d.parent.parent.name.split("-")[1])] = pids
        return out

    def node_rows(self):
        """What the node itself says of its sandboxes (root only): slot and pids by id."""
        s = subprocess.run(["curl", "-s", "--http2-prior-knowledge", "--unix-socket", str(self.run_dir / "sandboxd.sock"),
                            "http://node/v1/sandboxes"], capture_output=True, text=True, timeout=PATIENCE_S)
        return {i["id"]: i for i in json.loads(s.stdout)["items"]}


def cgroup_root():
    p = Path("/sys/fs/cgroup/unified")
    return p if p.exists() else Path("/sys/fs/cgroup")


def daemon_pid(caisson, name):
    for p in (cgroup_root() / caisson.name / "daemons").rglob("cgroup.procs"):
        for pid in p.read_text().split():
            try:
                exe = os.readlink(f"/proc/{pid}/exe")
            except OSError:
                continue
            if Path(exe.removesuffix(" (deleted)")).name == name:
                return int(pid)
    return None


def wait_for(what, probe, limit_s=PATIENCE_S, step_s=0.1):
    """Poll until probe() is true; its last value. Fails with `what` after the limit."""
    end = time.monotonic() + limit_s
    while True:
        v = probe()
        if v:
            return v
        if time.monotonic() > end:
            raise AssertionError(f"not seen within {limit_s} s: {what}")
        time.sleep(step_s)


@pytest.fixture(scope="session")
def caisson():
    if os.geteuid() != 0:
        pytest.skip("needs root: namespaces, taps and cgroups")
    root = tempfile.mkdtemp(prefix="caisson-test.", dir="/var/tmp")
    os.chmod(root, 0o755)
    i = Instance(root)
    try:
        print(i.up().stdout)
        for t in ("tiny", "base"):
            i.cli("template", "build", t, *i.where, timeout=1500)
        yield i
    finally:
        if os.environ.get("CAISSON_KEEP"):
            print(f"kept: {root}")
        else:
            logs = "\n".join(p.read_text(errors="replace")[-1500:] for p in i.data.glob("log/*.log"))
            r = i.down(purge=True)
            shutil.rmtree(root, ignore_errors=True)
            if r.returncode:
                print(r.stdout, r.stderr, logs)


@pytest.fixture(scope="session")
def template_test(caisson):
    """The template with the tools of the acceptance suites; built only where it is needed."""
    caisson.cli("template", "build", "test", *caisson.where, timeout=1500)


@pytest.fixture
def sandbox(caisson):
    """A tiny sandbox, ended after the test."""
    sb = caisson.create("tiny")
    yield sb["id"]
    caisson.end(sb["id"])
