# SPDX-License-Identifier: Apache-2.0
"""Hostile clients against both live listeners: typed errors or a cut, bounded memory, others served."""

import subprocess

import pytest

from conftest import PATIENCE_S, TOP, daemon_pid
from test_attach import open_exec


# A peer that holds its window shut is waited for over two minutes.
LONG = ["--skip", "shut window"]


@pytest.fixture
def length(request):
    return [] if request.config.getoption("--full") else LONG


def attack(caisson, *more):
    r = subprocess.run(["/usr/bin/python3", str(TOP / "test/fake/hostile.py"), "--key", caisson.key, "--pid", str(daemon_pid(caisson, "caisson-api")), *more],
                       capture_output=True, text=True, timeout=PATIENCE_S * 6)
    print(r.stdout)
    lines = [x for x in r.stdout.splitlines() if x.startswith(("ok", "FAIL"))]
    assert r.returncode == 0 and len(lines) >= 40, "\n".join(x for x in lines if x.startswith("FAIL")) + r.stderr


def test_control_listener(caisson, sandbox, length):
    attack(caisson, "--control", f"127.0.0.1:{caisson.port}", *length)
    assert caisson.exec(sandbox, "echo", "others")[0] == b"others\n"


def test_data_listener(caisson, sandbox, length):
    ex = open_exec(caisson, sandbox, ["sleep", "600"], start="now")
    attack(caisson, "--data", f"127.0.0.1:{caisson.data_port}", "--data-probe", f"/v1/sandboxes/{sandbox}/files/stat?path=/etc",
           # no call of this listener reads JSON
           "--skip", "json", "--data-body", f"/v1/sandboxes/{sandbox}/files/move?path=/a&to=/b", "--ws", f"/v1/execs/{ex['id']}/attach", *length)
    assert caisson.exec(sandbox, "echo", "others")[0] == b"others\n"
