# SPDX-License-Identifier: Apache-2.0
"""`caisson exec -it` with real full-screen programs, under a pty, its screen read by an emulator."""

import os
import signal

import pytest

from conftest import CAISSON, wait_for
from term import Terminal


@pytest.fixture(scope="module")
def box(caisson, template_test):
    sb = caisson.create("test", name="terminal")["id"]
    yield sb
    caisson.end(sb)


@pytest.fixture
def terminal(caisson, box):
    made = []

    def start(*cmd, cols=100, rows=30, verb=("exec", "-it"), term="linux"):
        t = Terminal([CAISSON, *verb, box, "--", *cmd] if cmd else [CAISSON, *verb, box], caisson.env, cols, rows, term)
        made.append(t)
        return t
    yield start
    for t in made:
        t.close()


def runs(caisson, box, name):
    """Wait until a program of that name has started: keys before that are the shell's."""
    wait_for(f"{name} in the guest", lambda: caisson.exec(box, "pgrep", "-f", f"^{name}$")[2]["code"] == 0)


def test_vim(caisson, box, terminal):
    t = terminal("vim", "-u", "NONE", "-N", "/tmp/poem")
    t.see("[New]")
    t.type("ihello from vim\x1b")
    t.see("hello from vim")
    t.capture("vim")
    t.resize(70, 20)
    # drawn anew for the new size: what is typed in the middle of that may be thrown away
    t.see(lambda: t.lines()[18] == "~" and t.lines()[0] == "hello from vim" and t.lines()[19].strip() in ("", "1,14          All"))
    t.press("\x1b:wq\r", lambda: t.process.poll() is not None)
    assert t.wait() == 0 and t.restored()
    assert caisson.exec(box, "cat", "/tmp/poem")[0] == b"hello from vim\n"


def test_less(caisson, box, terminal):
    caisson.exec(box, "sh", "-c", "seq 1 500 > /tmp/numbers")
    t = terminal("less", "/tmp/numbers", rows=24)
    t.see(lambda: {"1", "23"} <= set(t.lines()) and "24" not in t.lines())
    t.press(" ", "30")
    t.press("G", "500")
    t.capture("less")
    t.resize(100, 12)
    # one page of the new size: eleven lines
    t.press("g", lambda: "11" in t.lines() and "12" not in t.lines())
    t.press("q", lambda: t.process.poll() is not None)
    assert t.wait() == 0 and t.restored()


def test_htop_and_a_resize(terminal):
    t = terminal("htop")
    t.see("F10Quit")
    t.see(lambda: "F10Quit" in t.lines()[29] and "PID" in t.text())
    assert t.colours()
    t.capture("htop-100x30")
    t.resize(120, 40)
    t.see(lambda: "F10Quit" in t.lines()[39])
    t.capture("htop-120x40")
    t.press("q", lambda: t.process.poll() is not None)
    assert t.wait() == 0 and t.restored()


def test_size_at_the_start_and_after(terminal):
    t = terminal("sh", "-c", "stty size; trap 'stty size; exit 3' WINCH; echo ready; while :; do sleep 0.1; done", cols=91, rows=31)
    t.see("31 91")
    t.see("ready")
    t.resize(120, 40)
    t.see("40 120")
    assert t.wait() == 3


def test_control_c_ends_the_foreground_job_only(caisson, box, terminal):
    t = terminal("bash", "--norc")
    t.see("$")
    t.type("sleep 1001\r")
    runs(caisson, box, "sleep 1001")
    t.type("\x03")
    t.see("^C")
    t.type("echo st''ill $?\r")
    t.see("still 130")
    t.type("\x04")
    assert t.wait() == 0 and t.restored()


def test_control_z_and_backslash(caisson, box, terminal):
    t = terminal("bash", "--norc")
    t.see("$")
    t.type("sleep 1002\r")
    runs(caisson, box, "sleep 1002")
    t.type("\x1a")
    t.see("Stopped")
    t.type("kill %1; wait; echo go''ne\r")
    t.see("gone")
    t.type("sleep 1003\r")
    runs(caisson, box, "sleep 1003")
    t.type("\x1c")
    t.see("Quit")
    t.type("exit 7\r")
    assert t.wait() == 7


def test_a_shell_is_a_login_with_colours(terminal):
    t = terminal(verb=("shell",), term="xterm-256color")
    t.see("$")
    t.type("tput colors; echo $TERM\r")
    t.see("256")
    t.see("xterm-256color")
    t.type("exit\r")
    assert t.wait() == 0


def test_the_terminal_is_restored_when_we_are_killed(terminal):
    t = terminal("sleep", "1000")
    wait_for("raw mode", lambda: not t.restored())
    os.kill(t.process.pid, signal.SIGTERM)
    t.wait()
    assert t.restored()


def test_stdin_is_no_terminal(caisson, box):
    r = caisson.cli("exec", "-it", box, "--", "true", check=False, stdin="")
    assert r.returncode == 125 and "terminal" in r.stderr
