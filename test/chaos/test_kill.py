# SPDX-License-Identifier: Apache-2.0
"""Any daemon may be killed at any instant; what was accepted is kept or typed, never hung."""

import os
import signal

import pytest

from conftest import daemon_pid, wait_for


def created(caisson):
    """A running sandbox. 503 with Retry-After is an answer to repeat: a daemon was killed just before."""
    def attempt():
        a = caisson.http("POST", "/v1/sandboxes?wait_s=60", {"template": "tiny"})
        assert a.status in (201, 503), a.body
        return a.status == 201 and a.json["sandbox"]["id"]
    return wait_for("a sandbox", attempt)


@pytest.mark.parametrize("name", ["caisson-sandboxd", "caisson-noded", "caisson-storaged", "caisson-api", "caisson-controller"])
def test_killed_daemon_takes_no_sandbox_along(caisson, name):
    sb = created(caisson)
    caisson.exec(sb, "sh", "-c", "echo kept > /tmp/kept")
    vmm = caisson.node_rows()[sb]["vmm_pid"]
    old = daemon_pid(caisson, name)
    assert old, f"{name} is not running"
    os.kill(old, signal.SIGKILL)
    wait_for(f"{name} again", lambda: (p := daemon_pid(caisson, name)) and p != old)
    out = wait_for("the file, through every layer", lambda: read(caisson, sb))
    assert out == b"kept\n"
    assert os.path.exists(f"/proc/{vmm}")
    wait_for("a new sandbox", lambda: works(caisson))
    caisson.end(sb)


def read(caisson, sb):
    try:
        return caisson.exec(sb, "cat", "/tmp/kept")[0]
    except (AssertionError, OSError):
        return None


def works(caisson):
    try:
        a = caisson.http("POST", "/v1/sandboxes?wait_s=60", {"template": "tiny"})
    except OSError:
        return False
    if a.status != 201:
        return False
    caisson.end(a.json["sandbox"]["id"])
    return True


def test_killed_postgres_comes_back(caisson):
    sb = created(caisson)
    pid = int((caisson.data / "postgres/postmaster.pid").read_text().split()[0])
    os.kill(pid, signal.SIGKILL)
    wait_for("the API over a new PostgreSQL", lambda: works(caisson))
    assert caisson.http("GET", f"/v1/sandboxes/{sb}").json["state"] == "running"
    caisson.end(sb)


def test_api_killed_while_creating(caisson):
    """An accepted create ends in a sandbox or a typed failure, once."""
    a = caisson.http("POST", "/v1/sandboxes", {"template": "tiny"}, headers={"Idempotency-Key": "chaos-1"})
    os.kill(daemon_pid(caisson, "caisson-api"), signal.SIGKILL)
    sb = a.json["sandbox"]["id"]

    def settled():
        try:
            s = caisson.http("GET", f"/v1/sandboxes/{sb}").json
        except OSError:
            return None
        return s if s.get("state") in ("running", "failed", "ended") else None

    s = wait_for("a final state", settled)
    assert s["state"] == "running", s
    assert list(caisson.node_rows()).count(sb) == 1
    caisson.end(sb)
