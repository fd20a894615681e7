#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Run the suites behind `./dev check` and count what they say.

usage: check.py [--full] [SUITE...]

Suites that need no virtual machine (lint unit fuzz) come first; those that boot VMs
run one after another in one pytest session, never in parallel, because two cores are all
that is promised. The last line is `N passed, N failed, N skipped`.
"""

import json
import os
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
BUILD = TOP / "build"
PLAIN = ["lint", "unit", "fuzz"]
VM = ["e2e", "lifecycle", "sdk", "security", "chaos"]
# Not `nproc`: a build machine that says 64 would still have our memory.
JOBS = str(min(os.cpu_count() or 2, 8))

# name, compiler, meson options. Each is built with warnings as errors.
CONFIGS = {
    "release": ("gcc", ["--prefix=/usr/local", "--libexecdir=libexec"]),
    "asan": ("gcc", ["-Db_sanitize=address,undefined", "-Dbuildtype=debug"]),
    "clang": ("clang", ["-Db_sanitize=address,undefined", "-Db_lundef=false", "-Dbuildtype=debug"]),
}


class Tally:
    def __init__(self):
        self.passed, self.failed, self.skipped = 0, [], []

    def ok(self, n=1):
        self.passed += n

    def fail(self, name, text=""):
        self.failed.append(name)
        print(f"FAILED {name}\n{text}".rstrip(), flush=True)

    def skip(self, name, reason):
        self.skipped.append((name, reason))


def run(argv, **kw):
    return subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", **kw)


def configure_and_build(name, tally):
    cc, options = CONFIGS[name]
    where = BUILD / name
    env = dict(os.environ, CC=cc)
    if not (where / "build.ninja").exists():
        r = run(["meson", "setup", str(where), "-Dwerror=true", *options], cwd=TOP, env=env)
        if r.returncode:
            tally.fail(f"build/{name}: meson setup", r.stdout[-4000:])
            return False
    else:
        run(["meson", "configure", str(where), "-Dwerror=true"], env=env)
    r = run(["ninja", "-C", str(where), "-j", JOBS], env=env)
    if r.returncode:
        tally.fail(f"build/{name}: compile", r.stdout[-6000:])
        return False
    tally.ok()
    return True


def count_tap(name, text, returncode, tally):
    """Count the sub-tests of one TAP program; its exit status counts too."""
    bad = planned = seen = 0
    for line in text.splitlines():
        m = re.match(r"1\.\.(\d+)", line)
        if m:
            planned = int(m.group(1))
        m = re.match(r"(not )?ok\b\s*\d*\s*-?\s*([^#]*)(#\s*SKIP\s*(.*))?", line, re.I)
        if not m:
            continue
        seen += 1
        what = f"{name}: {m.group(2).strip()}"
        if m.group(3):
            tally.skip(what, m.group(4).strip() or "no reason given")
        elif m.group(1):
            bad += 1
            tally.fail(what, text[-3000:])
        else:
            tally.ok()
    if returncode and not bad:
        tally.fail(f"{name}: exit status {returncode}", text[-4000:])
    elif seen == 0 or (planned and seen != planned):
        tally.fail(f"{name}: ran {seen} of {planned} planned tests", text[-4000:])


def meson_suite(config, suites, tally):
    where = BUILD / config
    args = ["meson", "test", "-C", str(where), "--no-rebuild", "--num-processes", JOBS, "--timeout-multiplier", "6"]
    for s in suites:
        args += ["--suite", s]
    log = where / "meson-logs" / "testlog.json"
    log.unlink(missing_ok=True)
    # Leaks count as failures; a crash shows its stack.
    env = dict(os.environ, ASAN_OPTIONS="detect_leaks=1:abort_on_error=0", UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1")
    r = run(args, env=env)
    if not log.exists():
        tally.fail(f"{config}: meson test did not run", r.stdout[-4000:])
        return
    for line in log.read_text(errors="replace").splitlines():
        t = json.loads(line)
        name, out = t["name"], (t.get("stdout") or "") + (t.get("stderr") or "")
        if re.search(r"^(not )?ok\b", t.get("stdout") or "", re.M):
            count_tap(name, out, t["returncode"], tally)
        elif t["result"] == "SKIP":
            tally.skip(name, (out.strip().splitlines() or ["no reason given"])[-1])
        elif t["result"] in ("OK", "EXPECTEDFAIL"):
            tally.ok()
        else:
            tally.fail(f"{name} ({t['result']})", out[-4000:])


def lint(tally):
    r = subprocess.run([sys.executable, str(TOP / "test/lint/lint.py"), "--report", str(BUILD / "lint.json")], cwd=TOP)
    try:
        rows = json.loads((BUILD / "lint.json").read_text())
    except (OSError, ValueError):
        tally.fail(f"lint: no report (exit {r.returncode})")
        return
    for row in rows:
        if row["result"] == "passed":
            tally.ok()
        elif row["result"] == "skipped":
            tally.skip("lint: " + row["name"], row["text"])
        else:
            tally.fail("lint: " + row["name"], row["text"])


def vm_artifacts(tally):
    """Kernel, initramfs and disk of `tiny` for the tests that start a VMM themselves, and the
    balloon module, which no template loads: one test shows what it would do."""
    out, cache = BUILD / "artifacts", Path("/var/cache/caisson")
    r = run(["sh", str(TOP / "templates/build"), "tiny", "--out", str(out), "--cache", str(cache), "--guestd",
             str(BUILD / "release/src/guestd/caisson-guestd")])
    if r.returncode:
        tally.fail("artifacts of tiny", r.stdout[-3000:])
        return
    for m in cache.glob("kernel/lib/modules/*/kernel/drivers/virtio/virtio_balloon.ko"):
        (out / m.name).write_bytes(m.read_bytes())
    os.environ["CAISSON_TEST_ARTIFACTS"] = str(out)


def pytest_suites(suites, full, tally):
    folders = [str(TOP / "test" / s) for s in suites if any((TOP / "test" / s).glob("test_*.py"))]
    for s in suites:
        if not any((TOP / "test" / s).glob("test_*.py")):
            print(f"[{s}] this suite has no tests yet", flush=True)
    if not folders:
        return
    report = BUILD / "pytest.xml"
    report.unlink(missing_ok=True)
    args = ["/usr/bin/python3", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "junit_family=xunit2", f"--junitxml={report}", *folders]
    if full:
        args.append("--full")
    env = dict(os.environ, CAISSON=str(BUILD / "stage/usr/local/bin/caisson"), CAISSON_BUILD=str(BUILD))
    r = subprocess.run(args, cwd=TOP / "test", env=env)
    if not report.exists():
        tally.fail(f"pytest did not run (exit {r.returncode})")
        return
    for case in ET.parse(report).getroot().iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}"
        skipped = case.find("skipped")
        if skipped is not None:
            tally.skip(name, skipped.get("message") or "no reason given")
        elif case.find("failure") is not None or case.find("error") is not None:
            tally.fail(name)
        else:
            tally.ok()


def main():
    args = sys.argv[1:]
    full = "--full" in args
    want = [a for a in args if a != "--full"] or PLAIN + VM
    for w in want:
        if w not in PLAIN + VM:
            sys.exit(f"check: unknown suite '{w}'; suites: {' '.join(PLAIN + VM)}")
    BUILD.mkdir(exist_ok=True)
    tally, t0 = Tally(), time.monotonic()

    def stage(name):
        print(f"[{time.monotonic() - t0:5.0f}s] {name}", flush=True)

    vm = [s for s in VM if s in want]
    built = {}
    for name in CONFIGS:
        needed = {"release": vm or "lint" in want, "asan": "unit" in want, "clang": "fuzz" in want}[name]
        if needed:
            stage(f"building {name}")
            built[name] = configure_and_build(name, tally)
    if "lint" in want:
        stage("lint")
        lint(tally)
    if "unit" in want and built.get("asan"):
        stage("unit tests (gcc, ASan + UBSan)")
        meson_suite("asan", ["unit"], tally)
    if "fuzz" in want and built.get("clang"):
        stage("fuzz corpora (clang, ASan + UBSan)")
        meson_suite("clang", ["fuzz"], tally)
    if vm and built.get("release"):
        r = run(["meson", "install", "-C", str(BUILD / "release"), "--no-rebuild"], env=dict(os.environ, DESTDIR=str(BUILD / "stage")))
        if r.returncode:
            tally.fail("install into build/stage", r.stdout[-3000:])
        else:
            if "security" in vm or "e2e" in vm:
                stage("kernel-facing unit tests (namespaces, VMM, PostgreSQL)")
                vm_artifacts(tally)
                meson_suite("release", ["net", "db", "vm"], tally)
            stage("VM suites: " + " ".join(vm))
            pytest_suites(vm, full, tally)

    stage("done")
    for name, reason in tally.skipped:
        print(f"SKIPPED {name}: {reason}")
    for name in tally.failed:
        print(f"FAILED {name}")
    print(f"{tally.passed} passed, {len(tally.failed)} failed, {len(tally.skipped)} skipped", flush=True)
    sys.exit(1 if tally.failed else 0)


main()
