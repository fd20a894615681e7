# SPDX-License-Identifier: Apache-2.0
"""The walls around a VMM and a monitor as the kernel sees them, read by root from outside."""

import os
import re
import stat
import subprocess
from pathlib import Path

import pytest

NAMESPACES = ("mnt", "pid", "net", "ipc", "uts")


@pytest.fixture(scope="module")
def pair(caisson):
    ids = [caisson.create("tiny")["id"] for _ in range(2)]
    rows = caisson.node_rows()
    yield [rows[i] for i in ids]
    for i in ids:
        caisson.end(i)


def status(pid):
    return dict(l.split(":\t", 1) for l in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in l)


def both(row):
    return row["vmm_pid"], row["monitor_pid"]


def fds(pid):
    """(target, flags) of each descriptor."""
    out = []
    for f in Path(f"/proc/{pid}/fd").iterdir():
        try:
            flags = int(re.search(r"flags:\s+(\d+)", Path(f"/proc/{pid}/fdinfo/{f.name}").read_text()).group(1), 8)
            out.append((os.readlink(f), flags, os.stat(f)))
        except OSError:
            pass
    return out


def test_own_uids_no_capabilities_no_new_privileges(caisson, pair):
    seen = set()
    for row in pair:
        for pid in both(row):
            s = status(pid)
            uid = int(s["Uid"].split()[0])
            assert uid >= caisson.uid_base and len(set(s["Uid"].split())) == 1
            assert s["Groups"].strip() in ("", str(uid))
            assert s["NoNewPrivs"] == "1"
            for c in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
                assert int(s[c], 16) == 0, (c, s[c])
            seen.add(uid)
    assert len(seen) == 4, "a uid is shared"


def test_own_namespaces(pair):
    for ns in NAMESPACES:
        host = os.readlink(f"/proc/self/ns/{ns}")
        seen = {os.readlink(f"/proc/{pid}/ns/{ns}") for row in pair for pid in both(row)}
        assert host not in seen and len(seen) == 4, ns


def test_vmm_network_namespace_is_empty(pair):
    for row in pair:
        for pid in both(row):
            links = [l.split(":")[0].strip() for l in Path(f"/proc/{pid}/net/dev").read_text().splitlines()[2:]]
            assert links == ["lo"], links
            assert len(Path(f"/proc/{pid}/net/route").read_text().splitlines()) <= 1


def test_slot_namespaces_differ_and_are_not_the_vmms(pair):
    slots = {row["netns"] for row in pair}
    assert len(slots) == 2
    for row in pair:
        assert str(row["netns"]) not in os.readlink(f"/proc/{row['vmm_pid']}/ns/net")


def test_vmm_root_is_its_own_and_read_only(pair):
    for row in pair:
        root = Path(f"/proc/{row['vmm_pid']}/root")
        assert not (root / "var").exists() and not (root / "etc/shadow").exists() and not (root / "root").exists()
        for line in Path(f"/proc/{row['vmm_pid']}/mountinfo").read_text().splitlines():
            point, options = line.split()[4], line.split()[5].split(",")
            # a device node can be written to, not replaced
            assert "ro" in options or point.startswith("/dev/"), line


def test_lower_files_are_read_only_in_the_vmm(caisson, pair):
    store = str(caisson.data)
    for row in pair:
        files = [(t, f) for t, f, st in fds(row["vmm_pid"]) if stat.S_ISREG(st.st_mode) and not t.startswith("/memfd:")]
        writable = [t for t, f in files if f & os.O_ACCMODE != os.O_RDONLY]
        # the fdset's descriptor and the one QEMU opened of it: one file, its own overlay
        assert len(set(writable)) == 1 and "/overlays/" in writable[0], writable
        assert any(f & os.O_ACCMODE == os.O_RDONLY for _, f in files), "no read-only disk or memory"
        assert all(t.startswith((store, "/usr/", "/caisson/")) for t, _ in files), files


def test_no_writable_file_is_shared(pair):
    w = [{(st.st_dev, st.st_ino) for t, f, st in fds(row["vmm_pid"]) if stat.S_ISREG(st.st_mode) and f & os.O_ACCMODE != os.O_RDONLY}
         for row in pair]
    assert w[0] and w[1] and not w[0] & w[1]


def test_memory_base_is_private_and_never_written(caisson, pair):
    for row in pair:
        rows = [l for l in Path(f"/proc/{row['vmm_pid']}/maps").read_text().splitlines() if str(caisson.data) in l or "/blobs/" in l]
        big = [l for l in rows if (lambda a: int(a[1], 16) - int(a[0], 16))(l.split()[0].split("-")) >= 64 << 20]
        assert big, "no mapping of the memory base"
        assert all(l.split()[1][3] == "p" for l in rows), rows


def test_artifacts_belong_to_nobody_who_runs(caisson, pair):
    for p in caisson.data.rglob("blobs/**/*"):
        if p.is_file() and re.fullmatch(r"[0-9a-f]{64}", p.name):
            assert stat.S_IMODE(p.stat().st_mode) & 0o227 == 0, (p, oct(p.stat().st_mode))


def test_bases_are_unchanged_after_use(caisson, pair):
    """Every artifact still has the digest that is its name, after all the VMs of this run."""
    import hashlib
    for p in caisson.data.rglob("blobs/**/*"):
        if p.is_file() and re.fullmatch(r"[0-9a-f]{64}", p.name) and p.stat().st_size <= 1 << 30:
            h = hashlib.sha256()
            with open(p, "rb") as f:
                while chunk := f.read(1 << 22):
                    h.update(chunk)
            assert h.hexdigest() == p.name


def test_one_root_process_and_no_open_port(caisson, pair):
    names = {}
    for p in (Path("/sys/fs/cgroup/unified") if Path("/sys/fs/cgroup/unified").exists() else Path("/sys/fs/cgroup")).glob(f"{caisson.name}/daemons/**/cgroup.procs"):
        for pid in p.read_text().split():
            try:
                names[os.path.basename(os.readlink(f"/proc/{pid}/exe"))] = int(status(pid)["Uid"].split()[0])
            except OSError:
                pass
    assert [n for n, uid in names.items() if uid == 0] == ["caisson-noded"], names
    out = subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True).stdout
    ours = [l for l in out.splitlines() if "caisson" in l or "postgres" in l or "qemu" in l]
    assert ours and all(l.split()[3].startswith(("127.0.0.1:", "[::1]:")) for l in ours), ours


def test_slot_sockets_are_closed_to_others(caisson, pair):
    for row in pair:
        d = caisson.run_dir / "slots" / str(row["slot"])
        for s in ("qmp", "chan", "ctl", "serial", "mon"):
            r = subprocess.run(["setpriv", "--reuid=65534", "--clear-groups", "--regid=65534", "/usr/bin/python3", "-c",
                                "import socket, sys\n"
                                f"t = socket.SOCK_SEQPACKET if '{s}' == 'mon' else socket.SOCK_STREAM\n"
                                "x = socket.socket(socket.AF_UNIX, t)\n"
                                f"x.connect('{d / s}')"], capture_output=True, text=True)
            assert r.returncode != 0 and "PermissionError" in r.stderr, (s, r.stderr)


def test_guest_with_root_cannot_take_the_channel(caisson):
    """The port is guestd's; a process of the workload gets EBUSY."""
    sb = caisson.create("tiny")["id"]
    out, err, fact = caisson.exec(sb, "sh", "-c", "for p in /dev/vport*; do cat $p; done", user="root", timeout_s=30)
    assert fact["code"] != 0 and b"busy" in err.lower(), (out, err, fact)
    assert caisson.exec(sb, "echo", "alive")[0] == b"alive\n"
    caisson.end(sb)
