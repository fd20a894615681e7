# SPDX-License-Identifier: Apache-2.0
"""`caisson up` and `down`: ready means ready, twice is once, and nothing is left."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from conftest import Instance, cgroup_root


@pytest.fixture
def other():
    """A second instance beside the suite's own, with the engine that runs nothing."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    root = tempfile.mkdtemp(prefix="caisson-test-up.", dir="/var/tmp")
    os.chmod(root, 0o755)
    i = Instance(root, engine="null")
    yield i
    i.down(purge=True)
    shutil.rmtree(root, ignore_errors=True)


def test_ready_means_that_a_node_takes_sandboxes(other):
    """No retry and no pause: the very next call may need the node."""
    other.up()
    assert other.http("GET", "/v1/whoami").json["engines"]
    a = other.http("POST", "/v1/sandboxes", {"template": "nowhere"})
    assert a.status == 404, a.body


def test_up_twice_is_once(other):
    other.up()
    key = other.key
    pids = sorted(p.read_text() for p in (cgroup_root() / other.name / "daemons").rglob("cgroup.procs"))
    assert other.up().returncode == 0
    assert other.key == key
    assert pids == sorted(p.read_text() for p in (cgroup_root() / other.name / "daemons").rglob("cgroup.procs"))


def test_down_leaves_nothing_and_keeps_the_data(other):
    other.up()
    key = other.key
    assert other.down().returncode == 0
    assert not (cgroup_root() / other.name).exists()
    mounts = Path("/proc/self/mountinfo").read_text()
    assert str(other.run_dir) not in mounts
    assert str(other.run_dir) not in Path("/proc/net/unix").read_text()
    other.up()
    assert other.key == key and other.http("GET", "/v1/whoami").status == 200
    assert other.down(purge=True).returncode == 0
    assert not other.data.exists()


def test_bad_configuration_names_file_and_line(other):
    f = other.root / "caisson.conf"
    f.write_text("[caisson]\nslots = 4\nno_such_key = 1\n")
    r = other.cli("up", *other.where, "--config", str(f), check=False)
    assert r.returncode == 125 and f"{f}:3:" in r.stderr and "no_such_key" in r.stderr
