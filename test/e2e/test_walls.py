# SPDX-License-Identifier: Apache-2.0
"""Two sandboxes of one template are two machines."""

import pytest


@pytest.fixture(scope="module")
def pair(caisson):
    a, b = caisson.create("tiny")["id"], caisson.create("tiny")["id"]
    yield a, b
    caisson.end(a)
    caisson.end(b)


def read(caisson, sb, path):
    out, _, _ = caisson.exec(sb, "cat", path, user="root")
    return out.strip()


def test_a_sysctl_stays_inside(caisson, pair):
    a, b = pair
    before = read(caisson, b, "/proc/sys/kernel/panic_on_oops")
    other = b"0" if before == b"1" else b"1"
    caisson.exec(a, "sh", "-c", f"echo {other.decode()} > /proc/sys/kernel/panic_on_oops", user="root")
    assert read(caisson, a, "/proc/sys/kernel/panic_on_oops") == other
    assert read(caisson, b, "/proc/sys/kernel/panic_on_oops") == before


@pytest.mark.parametrize("path", ["/proc/sys/kernel/random/uuid", "/etc/machine-id", "/proc/sys/kernel/hostname"])
def test_identity_differs(caisson, pair, path):
    a, b = (read(caisson, sb, path) for sb in pair)
    assert a and b and a != b


def test_boot_id_is_shared_by_design(caisson, pair):
    a, b = (read(caisson, sb, "/proc/sys/kernel/random/boot_id") for sb in pair)
    assert a == b


def test_random_bytes_differ(caisson, pair):
    a, b = (caisson.exec(sb, "sh", "-c", "head -c 32 /dev/urandom | od -An -tx1")[0] for sb in pair)
    assert a != b


def test_files_stay_inside(caisson, pair):
    a, b = pair
    caisson.exec(a, "sh", "-c", "echo secret > /tmp/mine; sync")
    _, _, fact = caisson.exec(b, "test", "-e", "/tmp/mine")
    assert fact["code"] == 1


def test_clock_was_stepped(caisson, pair):
    import time
    out, _, _ = caisson.exec(pair[0], "date", "+%s")
    assert abs(int(out) - time.time()) < 60


def test_no_network_behind_the_tap(caisson, pair):
    # Nothing listens yet: a TCP connection is refused, not left to hang.
    out, err, fact = caisson.exec(pair[0], "sh", "-c", "nc -w 20 93.184.216.34 80 </dev/null 2>&1; echo rc=$?", timeout_s=60)
    assert b"rc=0" not in out and fact["reason"] == "exited"


def test_no_ipv6_and_no_other_link(caisson, pair):
    out, _, _ = caisson.exec(pair[0], "sh", "-c", "cat /proc/net/if_inet6 2>/dev/null | grep -v ' lo$'; ls /sys/class/net")
    assert sorted(out.split()) == [b"eth0", b"lo"]
