# SPDX-License-Identifier: Apache-2.0
"""The main job: code runs in a VM of its own, and what it said and how it ended is true."""

import hashlib
import os
import platform
import subprocess

from conftest import CAISSON


def test_kernel_is_not_the_hosts(caisson):
    r = caisson.cli("run", "-t", "tiny", "--", "uname", "-r")
    assert r.stdout.strip() and r.stdout.strip() != platform.release()


def test_python_runs_in_base(caisson):
    r = caisson.cli("run", "--", "python3", "-c", "import platform; print(6 * 7, platform.release())")
    answer, release = r.stdout.split()
    assert answer == "42" and release != platform.release()


def test_base_holds_what_agents_need(caisson):
    script = "set -e; node --version; npm --version; git --version; curl --version | head -n 1; gcc --version | head -n 1; " \
             "pip --version; python3 -m venv /tmp/v; sudo -n id -u; test -s /etc/ssl/certs/ca-certificates.crt; id -un"
    r = caisson.cli("run", "--", "sh", "-c", script)
    lines = r.stdout.split("\n")
    assert lines[-2] == "user" and lines[-3] == "0", r.stdout


def test_exit_codes(caisson):
    for code in (0, 1, 3):
        r = caisson.cli("run", "-t", "tiny", "--", "sh", "-c", f"exit {code}", check=False)
        assert r.returncode == code, r.stderr


def test_killed_command_is_137(caisson):
    r = caisson.cli("run", "-t", "tiny", "--", "sh", "-c", "kill -9 $$", check=False)
    assert r.returncode == 137, r.stderr


def test_exit_137_is_not_a_signal(caisson, sandbox):
    _, _, exited = caisson.exec(sandbox, "sh", "-c", "exit 137")
    _, _, killed = caisson.exec(sandbox, "sh", "-c", "kill -9 $$")
    assert (exited["reason"], exited["code"], exited["signal"]) == ("exited", 137, None)
    assert killed["reason"] == "signaled" and killed["code"] is None


def test_stdout_and_stderr_stay_apart(caisson):
    r = caisson.cli("run", "-t", "tiny", "--", "sh", "-c", "echo out; echo err >&2")
    assert r.stdout == "out\n" and "err\n" in r.stderr and "out" not in r.stderr


def test_unknown_program_is_said(caisson):
    r = caisson.cli("run", "-t", "tiny", "--", "no-such-program", check=False)
    assert r.returncode in (126, 127) and "no-such-program" in r.stderr


def test_100_mib_complete_and_in_order(caisson):
    # Numbered lines, so that any loss, repeat or swap changes the digest.
    make = "seq 1 20000000 | head -c 104857600"
    want = hashlib.sha256(subprocess.run(["sh", "-c", make], stdout=subprocess.PIPE, check=True).stdout).hexdigest()
    p = subprocess.Popen([CAISSON, "run", "--", "sh", "-c", make], env=caisson.env, stdout=subprocess.PIPE)
    got, n = hashlib.sha256(), 0
    while chunk := p.stdout.read(1 << 20):
        got.update(chunk)
        n += len(chunk)
    assert p.wait(600) == 0
    assert n == 104857600 and got.hexdigest() == want


def test_isolation_is_stated_everywhere(caisson, sandbox):
    # Whatever the engine: the level and its reason are in each record and in the banner.
    record = caisson.http("GET", f"/v1/sandboxes/{sandbox}").json
    level = record["isolation"]["level"]
    assert level in ("software", "hardware") and record["isolation"]["reason"]
    assert f"isolation: {level}" in caisson.up().stdout
    assert level in caisson.cli("node", "ls").stdout
    if not os.path.exists("/dev/kvm"):
        assert level == "software"


def test_environment_and_folder(caisson, sandbox):
    out, _, fact = caisson.exec(sandbox, "sh", "-c", "echo $COLOUR; pwd", env={"COLOUR": "grün"}, cwd="/tmp")
    assert out.decode() == "grün\n/tmp\n" and fact["code"] == 0


def test_timeout_kills_the_whole_tree(caisson, sandbox):
    _, _, fact = caisson.exec(sandbox, "sh", "-c", "sleep 1000 & sleep 1000", timeout_s=1)
    assert fact["reason"] == "timeout"
    out, _, _ = caisson.exec(sandbox, "sh", "-c", "ps | grep -c '[s]leep 1000' || true")
    assert out.strip() == b"0"


def test_run_ends_its_sandbox(caisson):
    before = {s["id"] for s in caisson.json("ls")}
    caisson.cli("run", "-t", "tiny", "--", "true")
    assert {s["id"] for s in caisson.json("ls")} <= before
