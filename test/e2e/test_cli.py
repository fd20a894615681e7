# SPDX-License-Identifier: Apache-2.0
"""The command line around sandboxes: copies, lists, events, audit, doctor, what is generated."""

import json
import os
import shutil
import subprocess
import tarfile
import io

import pytest

from conftest import CAISSON, PATIENCE_S, wait_for


@pytest.fixture(scope="module")
def box(caisson):
    sb = caisson.create("tiny", name="clibox", labels={"suite": "cli"})
    yield sb["id"]
    caisson.end(sb["id"])


def tree(root):
    """Path -> (kind, mode, content) of everything below a folder."""
    out = {}
    for p in sorted(root.rglob("*")):
        st = p.lstat()
        kind = "l" if p.is_symlink() else "d" if p.is_dir() else "f"
        out[str(p.relative_to(root))] = (kind, None if kind == "l" else st.st_mode & 0o777, os.readlink(p) if kind == "l" else p.read_bytes() if kind == "f" else None)
    return out


@pytest.fixture
def source(tmp_path):
    s = tmp_path / "tree"
    (s / "a/b").mkdir(parents=True)
    (s / "a/b/data").write_bytes(os.urandom(300_000))
    (s / "a/run.sh").write_text("#!/bin/sh\necho hi\n")
    (s / "a/run.sh").chmod(0o755)
    (s / "secret").write_text("x")
    (s / "secret").chmod(0o600)
    (s / "empty").mkdir()
    (s / "über name\n").write_text("")
    (s / "link").symlink_to("a/run.sh")
    return s


def test_tree_goes_in_and_comes_back(caisson, box, source, tmp_path):
    caisson.cli("cp", "-r", str(source), f"{box}:/root/in")
    caisson.cli("cp", "-r", f"{box}:/root/in", str(tmp_path / "back"))
    assert tree(tmp_path / "back") == tree(source)
    # a folder that is there: into it
    (tmp_path / "there").mkdir()
    caisson.cli("cp", "-r", "-z", f"{box}:/root/in", str(tmp_path / "there"))
    assert tree(tmp_path / "there/in") == tree(source)


def test_link_that_leaves_the_tree_is_left_out(caisson, box, source, tmp_path):
    (source / "out").symlink_to("/etc/passwd")
    r = caisson.cli("cp", "-r", str(source), f"{box}:/root/in2")
    assert "leaves the tree" in r.stderr
    out, _, _ = caisson.exec(box, "ls", "-a", "/root/in2")
    assert b"out" not in out.split()


def test_file_both_ways_and_streams(caisson, box, tmp_path):
    blob = os.urandom(3_000_000)
    f = tmp_path / "blob"
    f.write_bytes(blob)
    f.chmod(0o640)
    caisson.cli("cp", str(f), f"{box}:/root/blob")
    caisson.cli("cp", f"{box}:/root/blob", str(tmp_path / "again"))
    assert (tmp_path / "again").read_bytes() == blob
    assert (tmp_path / "again").stat().st_mode & 0o777 == 0o640
    caisson.cli("cp", "-", f"{box}:/root/piped", stdin=blob, text=False)
    r = caisson.cli("cp", f"{box}:/root/piped", "-", text=False)
    assert r.stdout == blob
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".caisson")]


def test_broken_lines_are_resumed(caisson, box, tmp_path):
    from cutter import Cutter
    blob = os.urandom(2_000_000)
    (tmp_path / "up").write_bytes(blob)
    caisson.cli("cp", str(tmp_path / "up"), f"{box}:/root/long")
    cut = Cutter(("127.0.0.1", caisson.data_port), cuts=8, mean_bytes=250_000)
    env = dict(caisson.env, CAISSON_URL=f"http://127.0.0.1:{caisson.port}", CAISSON_DATA_URL="http://%s:%d" % cut.address, CAISSON_KEY=caisson.key)
    r = subprocess.run([CAISSON, "cp", f"{box}:/root/long", str(tmp_path / "down")], env=env, capture_output=True, text=True, timeout=PATIENCE_S)
    assert r.returncode == 0, r.stderr
    assert (tmp_path / "down").read_bytes() == blob
    assert cut.done >= 3 and "resuming" in r.stderr


def test_copies_that_cannot_be(caisson, box, tmp_path):
    r = caisson.cli("cp", f"{box}:/nothing", str(tmp_path), check=False)
    assert r.returncode == 127
    assert caisson.cli("cp", f"{box}:/etc", str(tmp_path), check=False).returncode == 125
    assert caisson.cli("cp", "a", "b", check=False).returncode == 125
    (tmp_path / "f").write_text("x")
    assert caisson.cli("cp", str(tmp_path / "f"), f"{box}:/root/absent/", check=False).returncode == 125
    assert list(tmp_path.iterdir()) == [tmp_path / "f"]


def test_files_verbs_never_print_a_raw_name(caisson, box):
    caisson.cli("files", "mkdir", "-p", box, "/root/w/deep")
    caisson.exec(box, "touch", "/root/w/\x1b[31mred")
    r = caisson.cli("files", "ls", box, "/root/w")
    assert "\x1b" not in r.stdout and "\\x1b[31mred" in r.stdout and "deep/" in r.stdout
    caisson.cli("files", "put", box, "/root/w/x", stdin="hello\n")
    assert caisson.cli("files", "cat", box, "/root/w/x").stdout == "hello\n"
    caisson.cli("files", "mv", box, "/root/w/x", "/root/w/y")
    assert caisson.json("files", "stat", box, "/root/w/y")["size"] == 6
    caisson.cli("files", "rm", "-r", box, "/root/w")
    assert caisson.cli("files", "stat", box, "/root/w", check=False).returncode == 127


def test_labels_and_filters(caisson, box):
    caisson.cli("label", box, "team=web", "suite-")
    assert caisson.json("info", box)["labels"] == {"team": "web"}
    assert [s["id"] for s in caisson.json("ls", "--label", "team=web")] == [box]
    assert caisson.cli("ls", "-q", "--label", "team=web").stdout.split() == [box]
    assert caisson.json("ls", "--label", "suite=cli") == []
    assert box in [s["id"] for s in caisson.json("ls", "--state", "running")]
    # nobody answers the question: nothing ends
    assert caisson.cli("end", "--label", "team=web", check=False, stdin="").returncode == 125
    assert caisson.json("info", box)["state"] == "running"


def test_events_follow_sees_a_create(caisson):
    p = subprocess.Popen([CAISSON, "events", "-f", "--type", "sandbox.*", "--json"], env=caisson.env, stdout=subprocess.PIPE, text=True)
    try:
        sb = None
        for _ in range(3):  # the stream may not stand yet when the first is made
            sb = caisson.create("tiny")["id"]
            caisson.end(sb)
        seen = []
        for line in p.stdout:
            e = json.loads(line)
            seen.append(e["type"])
            if e["sandbox"] == sb and e["type"] == "sandbox.ended":
                break
        assert "sandbox.created" in seen and "sandbox.running" in seen
    finally:
        p.kill()
        p.wait()
    listed = [e for e in (json.loads(x) for x in caisson.cli("events", "--sandbox", sb, "--json").stdout.splitlines())]
    assert listed[0]["type"] == "sandbox.created" and listed[-1]["type"] == "sandbox.ended"


def test_audit_is_whole(caisson):
    assert caisson.json("audit", "verify")["whole"] is True
    lines = caisson.cli("audit", "export").stdout.splitlines()
    assert json.loads(lines[0])["n"] >= 1
    v = caisson.json("audit", "verify")
    assert caisson.json("audit", "verify", "--anchor", f"{v['n']}:{v['hash']}")["whole"] is True
    assert caisson.cli("audit", "verify", "--anchor", f"{v['n']}:{'0' * 64}", check=False).returncode == 1


def test_keys_tokens_quotas(caisson, box):
    k = caisson.json("key", "create", "--role", "viewer", "--name", "t")
    assert k["secret"] and k["id"] in caisson.cli("key", "ls").stdout
    caisson.cli("key", "revoke", k["id"])
    assert caisson.json("token", box, "--allow", "files", "--ttl", "60")["allow"] == ["files"]
    assert "sandboxes" in caisson.cli("quota").stdout
    assert caisson.json("project", "ls") and caisson.json("tenant", "ls")
    assert caisson.cli("usage").returncode == 0 and caisson.cli("metrics", box).returncode == 0
    caisson.cli("port", "open", "--access", "public", box, "8000")
    assert "8000" in caisson.cli("port", "ls", box).stdout
    caisson.cli("port", "close", box, "8000")


def test_doctor_is_green(caisson):
    r = caisson.cli("doctor", *caisson.where, "--cgroup", caisson.name, "--uid-base", str(caisson.uid_base), "--json", check=False)
    lines = json.loads(r.stdout)
    assert r.returncode == 0, [x for x in lines if x["state"] == "fail"]
    assert any(x["check"] == "sandbox" and x["state"] == "ok" for x in lines)
    for x in lines:
        assert x["state"] == "ok" or x["remedy"]


def boundary(caisson):
    """Exit code, all lines, and the details of those that fail."""
    r = caisson.cli("doctor", "--boundary", *caisson.where, "--cgroup", caisson.name, "--uid-base", str(caisson.uid_base), "--json", check=False)
    lines = json.loads(r.stdout)
    return r.returncode, lines, [x["detail"] for x in lines if x["state"] == "fail"]


def as_expected(caisson):
    """A slot that is being made or unmade meanwhile differs for a moment."""
    return wait_for("a boundary without a difference", lambda: (b := boundary(caisson))[0] == 0 and not b[2] and b)[1]


def test_boundary_is_as_expected(caisson, box):
    lines = as_expected(caisson)
    assert {x["check"] for x in lines} >= {"listener", "socket", "caisson-api", "caisson-noded"}
    assert any(x["check"].startswith("qemu") for x in lines)
    guest = [x["detail"] for x in lines if x["check"].startswith("guest of slot ")]
    assert {"forwarding off", "rules are the constant ones", "sockets, tcp: 0, should be none", "sockets, udp: 0, should be none"} <= set(guest)


def test_boundary_sees_a_slot_that_was_changed(caisson, box):
    slot = caisson.node_rows()[box]["slot"]
    enter = ["nsenter", f"--net={caisson.run_dir}/slots/{slot}/netns"]
    as_expected(caisson)
    subprocess.run([*enter, "nft", "add", "table", "ip", "odd"], check=True)
    try:
        code, _, details = boundary(caisson)
        assert code == 1 and any("rules differ" in d for d in details), details
    finally:
        subprocess.run([*enter, "nft", "delete", "table", "ip", "odd"], check=True)
    as_expected(caisson)


def test_doctor_finds_what_is_wrong(caisson, tmp_path):
    env = dict(caisson.env, CAISSON_URL="http://127.0.0.1:1", CAISSON_KEY="x")
    r = subprocess.run([CAISSON, "doctor", "--quick", "--run", str(tmp_path), "--json"], env=env, capture_output=True, text=True, timeout=PATIENCE_S)
    assert r.returncode == 1
    assert any(x["check"] == "api" and x["state"] == "fail" and x["remedy"] for x in json.loads(r.stdout))


def test_bash_completion_parses_and_completes(tmp_path):
    script = subprocess.run([CAISSON, "completion", "bash"], capture_output=True, text=True, check=True).stdout
    f = tmp_path / "c.bash"
    f.write_text(script)
    subprocess.run(["bash", "-n", str(f)], check=True)
    ask = f'PATH={os.path.dirname(CAISSON)}:$PATH; . {f}; COMP_WORDS=(caisson template b); COMP_CWORD=2; _caisson; echo "${{COMPREPLY[@]}}"'
    assert subprocess.run(["bash", "-c", ask], capture_output=True, text=True, check=True).stdout.split() == ["build"]
    for shell in ("zsh", "fish"):
        text = subprocess.run([CAISSON, "completion", shell], capture_output=True, text=True, check=True).stdout
        assert "caisson complete" in text or "complete --" in text
        if shutil.which(shell):
            (tmp_path / shell).write_text(text)
            subprocess.run([shell, "-n", str(tmp_path / shell)], check=True)


def test_manual_formats(tmp_path):
    text = subprocess.run([CAISSON, "manual"], capture_output=True, text=True, check=True).stdout
    assert ".SS caisson cp" in text and "\\-\\-recursive" in text and ".SS caisson template build" in text
    tool = next(([t, *a] for t, a in (("groff", ["-man", "-Tascii", "-ww", "-z"]), ("mandoc", ["-T", "lint", "-W", "warning"])) if shutil.which(t)), None)
    if not tool:
        pytest.skip("neither groff nor mandoc is here to format it")
    (tmp_path / "caisson.1").write_text(text)
    r = subprocess.run([*tool, str(tmp_path / "caisson.1")], capture_output=True, text=True)
    assert r.returncode == 0 and not r.stderr, r.stderr


def test_hostile_archive_stays_below(caisson, tmp_path):
    import sys
    sys.path.insert(0, str(__import__("pathlib").Path(__file__).parent.parent / "security"))
    from hostile_server import ArchiveServer
    blob, dest = io.BytesIO(), tmp_path / "dest"
    (tmp_path / "canary").write_text("mine")
    dest.mkdir()
    with tarfile.open(fileobj=blob, mode="w") as t:
        def add(name, data=b"evil", **kw):
            i = tarfile.TarInfo(name)
            i.size = len(data) if kw.get("type", tarfile.REGTYPE) == tarfile.REGTYPE else 0
            for k, v in kw.items():
                setattr(i, k, v)
            t.addfile(i, io.BytesIO(data) if i.size else None)
        add("../canary")
        add("/tmp/caisson-absolute")
        add("up", type=tarfile.SYMTYPE, linkname="..")
        add("up/canary")
        add("abs", type=tarfile.SYMTYPE, linkname=str(tmp_path))
        add("abs/canary")
        add("hard", type=tarfile.LNKTYPE, linkname="../../canary")
        add("fifo", type=tarfile.FIFOTYPE)
        add("suid", mode=0o6755)
        add("good/file", b"good")
    with ArchiveServer(blob.getvalue()) as server:
        r = server.cp(caisson, dest)
    assert r and r.returncode == 125 and "refused" in r.stderr
    assert (tmp_path / "canary").read_text() == "mine"
    assert not os.path.exists("/tmp/caisson-absolute")
    top = dest / "tree"
    assert (top / "good/file").read_bytes() == b"good"
    assert (top / "suid").stat().st_mode & 0o7777 == 0o755
    assert not (top / "fifo").exists() and not (top / "hard").exists()
    assert all(not p.is_symlink() for p in top.rglob("*"))
