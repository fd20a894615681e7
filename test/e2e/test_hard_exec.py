# SPDX-License-Identifier: Apache-2.0
"""Commands that behave badly: the fact stays true, guestd answers, the sandbox can be ended."""

import hashlib
import threading
import time

import pytest

from conftest import wait_for
from test_attach import attach, open_exec, run


@pytest.fixture(scope="module")
def small(caisson):
    """A sandbox of base (bash, Python) that may be hurt."""
    sb = caisson.create("base")["id"]
    yield sb
    caisson.end(sb)


def through(caisson, sb, cmd, stdin=None, **spec):
    """Attach to the end: output by kind, exit fact."""
    ex = open_exec(caisson, sb, cmd, stdin=stdin is not None, **spec)
    stream, out = attach(caisson, ex), {}
    if stdin is not None:
        def feed():
            try:
                for part in stdin:
                    stream.write(part)
                stream.close_stdin()
            except BrokenPipeError:
                pass  # it ended without reading
        threading.Thread(target=feed, daemon=True).start()
    for kind, data in stream:
        assert kind != "gap"
        out[kind] = out.get(kind, b"") + data
    return out, stream.exit


def alive(caisson, sb):
    out, _, fact = caisson.exec(sb, "echo", "alive")
    assert out == b"alive\n" and fact["code"] == 0


# ---- stdin ----


def test_stdin_to_its_end(caisson, small):
    blob = [bytes(range(256)) * 4096] * 8
    out, fact = through(caisson, small, ["sha256sum"], stdin=blob)
    assert out["stdout"].split()[0].decode() == hashlib.sha256(b"".join(blob)).hexdigest()
    assert fact["code"] == 0


def test_stdin_that_is_not_asked_for_is_empty(caisson, small):
    out, fact = through(caisson, small, ["sh", "-c", "cat; echo end"])
    assert out["stdout"] == b"end\n" and fact["code"] == 0


def test_stdin_closed_by_the_program(caisson, small):
    """The rest of the input goes nowhere, and nothing hangs."""
    out, fact = through(caisson, small, ["head", "-c", "5"], stdin=[b"12345"] + [b"x" * 65536] * 64)
    assert out["stdout"] == b"12345" and fact["code"] == 0


def test_a_program_that_reads_and_writes_at_once(caisson, small):
    """More goes through than all buffers on the way hold."""
    blob = [b"".join(b"%d\n" % (i * 1000 + j) for j in range(1000)) for i in range(1500)]
    out, fact = through(caisson, small, ["cat"], stdin=blob, overflow="block")
    assert out["stdout"] == b"".join(blob) and fact["code"] == 0


# ---- children ----


def test_a_child_in_the_background_that_holds_the_pipe(caisson, small):
    out, fact = through(caisson, small, ["sh", "-c", "sleep 300 & echo hi"])
    assert out["stdout"] == b"hi\n" and fact["code"] == 0
    assert fact["wall_ms"] < 100_000 and len(fact["left_behind"]) == 1
    caisson.exec(small, "kill", str(fact["left_behind"][0]))


def test_a_double_fork_is_named_or_gone(caisson, small):
    out, fact = through(caisson, small, ["sh", "-c", "(setsid sh -c 'sleep 300' &) ; echo started"])
    assert out["stdout"] == b"started\n" and fact["code"] == 0
    left = caisson.exec(small, "sh", "-c", "pgrep -f '^sleep 300' | wc -l")[0]
    assert int(left) >= 1
    caisson.exec(small, "pkill", "-f", "^sleep 300")


def test_a_maker_of_zombies(caisson, small):
    code = "import os,time\nfor i in range(200):\n  if os.fork()==0: os._exit(0)\nprint('made')\ntime.sleep(1)"
    out, fact = through(caisson, small, ["python3", "-c", code])
    assert out["stdout"] == b"made\n" and fact["code"] == 0
    wait_for("the zombies reaped", lambda: b"defunct" not in caisson.exec(small, "ps", "-ef")[0])


def test_a_timeout_kills_a_tree_that_ignores_sigterm(caisson, small):
    script = "trap '' TERM; (trap '' TERM; setsid sh -c \"trap '' TERM; sleep 301\" & sleep 302) & sleep 303"
    t0 = time.monotonic()
    _, fact = through(caisson, small, ["sh", "-c", script], timeout_s=2)
    assert fact["reason"] == "timeout", fact
    assert time.monotonic() - t0 < 90
    wait_for("the tree's end", lambda: caisson.exec(small, "pgrep", "-f", "^sleep 30[123]")[2]["code"] == 1)


# ---- output ----


def test_output_without_a_newline(caisson, small):
    assert through(caisson, small, ["printf", "no newline"])[0]["stdout"] == b"no newline"


def test_lines_of_a_megabyte(caisson, small):
    out, _ = through(caisson, small, ["sh", "-c", "for i in 1 2 3; do head -c 1048576 /dev/zero | tr '\\0' x; echo; done"])
    assert out["stdout"] == (b"x" * 1048576 + b"\n") * 3


def test_binary_and_invalid_utf8(caisson, small):
    out, _ = through(caisson, small, ["python3", "-c", "import os; os.write(1, bytes(range(256))*100 + b'\\xff\\xc3(\\xed\\xa0\\x80')"])
    assert out["stdout"] == bytes(range(256)) * 100 + b"\xff\xc3(\xed\xa0\x80"


def test_output_that_nobody_reads_does_not_hinder_the_kill(caisson, small):
    ex = open_exec(caisson, small, ["yes"], start="now", overflow="block")
    time.sleep(1)
    alive(caisson, small)
    assert caisson.http("POST", f"/v1/execs/{ex['id']}/signal", {"name": "KILL"}).status == 204
    fact = wait_for("its end", lambda: caisson.http("GET", f"/v1/execs/{ex['id']}").json.get("exit"))
    assert fact["reason"] == "signaled" and fact["code"] is None


# ---- the guest's limits ----


def test_a_fork_bomb(caisson):
    sb = caisson.create("base")["id"]
    ex = open_exec(caisson, sb, ["bash", "-c", "b() { b | b & }; b; sleep 600"], start="now")
    time.sleep(5)
    record = wait_for("an answer of guestd", lambda: caisson.http("GET", f"/v1/execs/{ex['id']}").json)
    assert record["id"] == ex["id"]
    caisson.http("POST", f"/v1/execs/{ex['id']}/signal", {"name": "KILL"})
    wait_for("its end", lambda: caisson.http("GET", f"/v1/execs/{ex['id']}").json.get("exit"))
    alive(caisson, sb)
    caisson.end(sb)


def test_a_fork_bomb_does_not_hinder_the_end(caisson):
    sb = caisson.create("base")["id"]
    open_exec(caisson, sb, ["bash", "-c", "b() { b | b & }; b; sleep 600"], start="now")
    time.sleep(3)
    caisson.end(sb)


BOMBS = {"tiny": ["awk", 'BEGIN { s = "x"; while (1) s = s s }'], "base": ["python3", "-c", "b = []\nwhile True: b.append(b'x' * 1000000)"]}


@pytest.mark.parametrize("template", ["tiny", "base"])
def test_a_memory_bomb_is_said_as_oom(caisson, template):
    sb = caisson.create(template)["id"]
    _, fact = through(caisson, sb, BOMBS[template])
    assert fact["reason"] == "oom", fact
    alive(caisson, sb)
    caisson.end(sb)


def test_descriptors_run_out(caisson, small):
    code = ("import os,time\nn=0\ntry:\n  while True: os.open('/dev/null',0); n+=1\nexcept OSError as e: print(e.errno)\n"
            "kids=[]\nfor _ in range(20):\n  kids.append(os.fork())\n  if kids[-1]==0: time.sleep(20); os._exit(0)\nprint('held', flush=True); time.sleep(5)")
    ex = open_exec(caisson, small, ["python3", "-c", code], start="now")
    wait_for("the shortage", lambda: b"held" in caisson.http("GET", f"/v1/execs/{ex['id']}/output?from=0", data=True).body or
             b"aGVsZA" in caisson.http("GET", f"/v1/execs/{ex['id']}/output?from=0", data=True).body)
    alive(caisson, small)
    caisson.http("POST", f"/v1/execs/{ex['id']}/signal", {"name": "KILL"})


def test_a_full_disk(caisson):
    sb = caisson.create("tiny")["id"]
    out, err, fact = caisson.exec(sb, "sh", "-c", "cat /dev/zero > /fill; echo code $?")
    assert b"No space" in err and out == b"code 1\n", (out, err)
    alive(caisson, sb)
    out, fact = through(caisson, sb, ["cat"], stdin=[b"still works\n"])
    assert out["stdout"] == b"still works\n" and fact["code"] == 0
    caisson.end(sb)
