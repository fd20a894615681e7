# SPDX-License-Identifier: Apache-2.0
"""Sandboxes that end, and what is left of them: the reason, and nothing else."""

import os
import signal
import subprocess
import time
from pathlib import Path

from conftest import wait_for

LEAKS = str(Path(__file__).parent / "leaks")


def leaks(caisson, verb, f):
    return subprocess.run([LEAKS, verb, f, "--cgroup", caisson.name, "--run", str(caisson.run_dir), "--data", str(caisson.data),
                           "--uid-base", str(caisson.uid_base)], capture_output=True, text=True)


def state(caisson, sb):
    return caisson.http("GET", f"/v1/sandboxes/{sb}").json


def test_killed_vmm_ends_the_sandbox_with_the_reason(caisson):
    sb = caisson.create("tiny")["id"]
    pid = caisson.node_rows()[sb]["vmm_pid"]
    t0 = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    end = wait_for("ended", lambda: (s := state(caisson, sb))["state"] == "ended" and s["end"])
    print(f"seen after {time.monotonic() - t0:.2f} s: {end}")
    assert end["reason"] == "error" and "vmm" in end["detail"].lower()
    a = caisson.http("POST", f"/v1/sandboxes/{sb}/execs", {"cmd": ["true"], "start": "now"})
    assert a.status in (409, 410) and sb not in caisson.node_rows()


def test_guest_that_switches_itself_off(caisson):
    sb = caisson.create("tiny")["id"]
    caisson.http("POST", f"/v1/sandboxes/{sb}/execs", {"cmd": ["sh", "-c", "echo o > /proc/sysrq-trigger"], "user": "root", "start": "now"})
    end = wait_for("ended", lambda: (s := state(caisson, sb))["state"] == "ended" and s["end"])
    assert end["reason"] in ("error", "guest_panic") and end["detail"]


def test_guest_panic_is_told_apart(caisson):
    sb = caisson.create("tiny")["id"]
    caisson.http("POST", f"/v1/sandboxes/{sb}/execs", {"cmd": ["sh", "-c", "echo c > /proc/sysrq-trigger"], "user": "root", "start": "now"})
    end = wait_for("ended", lambda: (s := state(caisson, sb))["state"] == "ended" and s["end"])
    assert end["reason"] in ("guest_panic", "error"), end


def test_delete_twice_and_from_any_state(caisson):
    a = caisson.http("POST", "/v1/sandboxes", {"template": "tiny"})
    sb = a.json["sandbox"]["id"]
    assert caisson.http("DELETE", f"/v1/sandboxes/{sb}?wait_s=60").status == 200
    assert caisson.http("DELETE", f"/v1/sandboxes/{sb}?wait_s=60").status == 200
    assert state(caisson, sb)["state"] == "ended"


def test_time_to_live(caisson):
    sb = caisson.create("tiny", lifetime={"ttl_s": 2})["id"]
    end = wait_for("ended", lambda: (s := state(caisson, sb))["state"] == "ended" and s["end"])
    assert end["reason"] == "timeout"


def test_thirty_at_once_and_nothing_left(caisson, tmp_path):
    f = str(tmp_path / "before")
    # Let the pool of waiting VMs fill before counting.
    wait_for("no sandboxes on the node", lambda: not caisson.node_rows())
    settle(caisson)
    leaks(caisson, "snapshot", f)
    ids = []
    for i in range(30):
        a = caisson.http("POST", "/v1/sandboxes", {"template": "tiny", "env": {"WHO": f"n{i}"}})
        assert a.status == 202, a.body
        ids.append(a.json["sandbox"]["id"])
    for sb in ids:
        s = wait_for(f"{sb} settled", lambda: (s := state(caisson, sb))["state"] not in ("pending", "starting") and s)
        assert s["state"] == "running", s
    for i, sb in enumerate(ids):
        out, _, fact = caisson.exec(sb, "sh", "-c", "echo $WHO $(hostname)")
        assert out.decode().split()[0] == f"n{i}" and fact["code"] == 0
    hosts = {caisson.exec(sb, "hostname")[0] for sb in ids}
    assert len(hosts) == 30
    for sb in ids:
        caisson.http("DELETE", f"/v1/sandboxes/{sb}")
    for sb in ids:
        wait_for(f"{sb} ended", lambda: state(caisson, sb)["state"] == "ended")
    wait_for("no sandboxes on the node", lambda: not caisson.node_rows())
    settle(caisson)
    r = leaks(caisson, "compare", f)
    assert r.stdout == "", r.stdout


def settle(caisson):
    """Until the number of VMMs has not changed for a while."""
    last, since = None, time.monotonic()
    while time.monotonic() - since < 4:
        now = (len(caisson.slot_pids()), len(list((caisson.run_dir / "slots").glob("*"))))
        if now != last:
            last, since = now, time.monotonic()
        time.sleep(0.2)
