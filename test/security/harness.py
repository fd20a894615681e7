# SPDX-License-Identifier: Apache-2.0
"""The security harness: cases as data, verdicts from outside the guest.

A case is a table in cases/*.toml. It names a *probe* (a function below `probes_*.py`), the
arguments of the attempt, of a *positive control* and, as *mutant*, a deliberately weak
subject from `weak.py`. The verdict is the oracle's, which looks at what an attacker could
observe and at the host; it never asks the guest whether the attack worked.

    passed          the attempt reached nothing, the control worked, the mutant was caught
    escaped         the oracle saw what must not be seen
    invalid         a tool is missing, the control failed, or the mutant was not caught
    not applicable  what the case is about does not exist yet; not counted
"""

import base64
import dataclasses
import json
import os
import re
import secrets
import subprocess
import tomllib
import traceback
from pathlib import Path

HERE = Path(__file__).resolve().parent
#: what no program may print of a name that somebody else chose
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028]")


@dataclasses.dataclass
class Case:
    id: str
    attempt: str
    right: str
    area: str
    probe: str = ""
    oracle: str = "secret"
    mutant: str = ""
    not_applicable: str = ""
    tools: tuple = ()
    args: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Seen:
    """What one run of a probe let an attacker observe, and facts of the host about it."""
    bytes: list = dataclasses.field(default_factory=list)
    #: names of properties that were violated, each with its evidence
    broken: dict = dataclasses.field(default_factory=dict)
    #: the control: did the allowed thing work
    control: bool = True
    #: one line for the report
    note: str = ""

    def check(self, name, holds, evidence=""):
        if not holds:
            self.broken[name] = str(evidence)[:300]
        return holds


@dataclasses.dataclass
class Verdict:
    id: str
    area: str
    attempt: str
    verdict: str
    evidence: str
    isolation: str = ""

    def line(self):
        return f"{self.id:14} {self.verdict:14} {self.evidence}"


def load(area=None):
    cases = []
    for f in sorted((HERE / "cases").glob("*.toml")):
        data = tomllib.loads(f.read_text())
        for raw in data["case"]:
            cases.append(Case(area=f.stem.upper(), **raw))
    ids = [c.id for c in cases]
    assert len(ids) == len(set(ids)), "a case's id appears twice"
    return [c for c in cases if area in (None, c.area)]


def spellings(secret):
    """The forms in which a secret may leave."""
    raw = secret.encode()
    out = {raw, raw.hex().encode(), raw[::-1], secret.upper().encode(), secret.encode("utf-16-le")}
    for shift in range(3):
        b = base64.b64encode(b"\0" * shift + raw)
        out.add(b[4 if shift else 0:-4])
    return out


class Lab:
    """A running Caisson, two sandboxes that must stay unharmed, and the canaries."""

    def __init__(self, caisson):
        self.caisson = caisson
        self.secret = "canary-" + secrets.token_hex(16)
        self.forms = spellings(self.secret)
        self.root = Path(caisson.root) / "lab"
        self.root.mkdir(exist_ok=True)
        # Readable for everybody: file modes must not be what saves us.
        self.host_file = self.root / "host-secret"
        self.host_file.write_text(self.secret + "\n")
        os.chmod(self.root, 0o755), os.chmod(self.host_file, 0o644)
        self.siblings, self._sandbox = [], None
        self.isolation = caisson.json("node", "ls")[0]["engine"]["isolation"]

    def open(self):
        self.siblings = [self.caisson.create("tiny")["id"] for _ in range(2)]
        for sb in self.siblings:
            self.caisson.exec(sb, "sh", "-c", f"echo {self.secret} > /sibling-secret; echo 0 > /counter")
        self.dmesg = self.kernel_log()

    def close(self):
        for sb in [*self.siblings, self._sandbox]:
            if sb:
                self.caisson.end(sb)

    @property
    def sandbox(self):
        """The attacker's: template test, root inside. Made anew when a case has broken it."""
        if self._sandbox and not self.answers(self._sandbox):
            self.caisson.end(self._sandbox)
            self._sandbox = None
        if not self._sandbox:
            self._sandbox = self.caisson.create("test")["id"]
        return self._sandbox

    def answers(self, sb):
        try:
            return self.caisson.exec(sb, "echo", "up", timeout_s=30)[0] == b"up\n"
        except (AssertionError, OSError):
            return False

    def guest(self, script, timeout_s=60, sb=None):
        """As guest root: (stdout, stderr, exit fact)."""
        return self.caisson.exec(sb or self.sandbox, "sh", "-c", script, user="root", timeout_s=timeout_s)

    def upload(self, sb, path, blob):
        a = self.caisson.http("PUT", f"/v1/sandboxes/{sb}/files?path={path}", blob, headers={"Content-Type": "application/octet-stream"}, data=True)
        assert a.status in (200, 201), a.body

    def serve(self, port, script, sb=None):
        """A Python server inside the guest; back when it listens there."""
        sb = sb or self.sandbox
        self.upload(sb, f"/root/serve-{port}.py", script.encode())
        self.guest(f"cd /root; setsid python3 serve-{port}.py >/dev/null 2>&1 &", sb=sb)
        hexed = f":{port:04X} 00000000:0000 0A"
        out, _, _ = self.guest(f"for i in $(seq 600); do grep -q '{hexed}' /proc/net/tcp && echo up && exit; sleep 0.1; done", sb=sb, timeout_s=90)
        assert out == b"up\n", f"the server on port {port} did not start"

    def has(self, tool):
        return self.guest(f"command -v {tool}")[2]["code"] == 0

    def leaks(self, blobs):
        """Which form of the secret is in there, or None."""
        for b in blobs:
            for form in self.forms:
                if form in b:
                    return form
        return None

    # ---- the host ----

    def kernel_log(self):
        r = subprocess.run(["dmesg"], capture_output=True, text=True, errors="replace")
        return r.stdout.splitlines() if r.returncode == 0 else []

    def kernel_news(self):
        """Lines about file systems or crashes since the last call."""
        now, old = self.kernel_log(), set(self.dmesg)
        self.dmesg = now
        words = ("EXT4-fs", "XFS", "BTRFS", "general protection", "segfault", "BUG:", "Oops", "Out of memory")
        return [x for x in now if x not in old and any(w in x for w in words)]

    def daemons(self):
        """Pids of every process of this instance but the VMMs and the database."""
        from conftest import cgroup_root
        for procs in (cgroup_root() / self.caisson.name).rglob("cgroup.procs"):
            if procs.parent.name == "vmm":
                continue
            for pid in procs.read_text().split():
                try:
                    if "postgres" not in os.readlink(f"/proc/{pid}/exe"):
                        yield int(pid)
                except OSError:
                    pass

    def daemons_now(self):
        """Resident bytes and descriptors of each of those, by pid."""
        now = {}
        for pid in self.daemons():
            try:
                now[pid] = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096, len(os.listdir(f"/proc/{pid}/fd"))
            except (OSError, IndexError):
                pass
        return now

    def daemons_grown(self, before):
        """By how much those that were there before have grown: (bytes, descriptors)."""
        now = self.daemons_now()
        both = [(now[p], before[p]) for p in now if p in before]
        return sum(n[0] - b[0] for n, b in both), sum(n[1] - b[1] for n, b in both)

    def host_intact(self, seen):
        seen.check("host file changed", self.host_file.read_text() == self.secret + "\n")
        seen.check("host kernel complained", not (news := self.kernel_news()), news)

    def siblings_intact(self, seen):
        for sb in self.siblings:
            try:
                out = self.caisson.exec(sb, "cat", "/sibling-secret")[0]
            except (AssertionError, OSError) as e:
                out = repr(e)
            seen.check("sibling harmed", out == self.secret.encode() + b"\n", out)


def judge(lab, seen):
    """The oracle: None, or what was seen that must not be."""
    form = lab.leaks(seen.bytes)
    if form:
        return f"the canary's secret was seen as {form[:24]!r}"
    if seen.broken:
        lines = [f"{k}: {v}".replace("\n", " ") for k, v in seen.broken.items()]
        return "; ".join(lines[:4]) + (f"; and {len(lines) - 4} more" if len(lines) > 4 else "")
    return None


def run(case, lab, probes, weak):
    """One case to its verdict. Never raises."""
    def verdict(word, evidence):
        return Verdict(case.id, case.area, case.attempt, word, evidence, lab.isolation if lab else "")

    if case.not_applicable:
        return verdict("not applicable", case.not_applicable)
    try:
        missing = [t for t in case.tools if not lab.has(t)]
        if missing:
            return verdict("invalid", f"the guest lacks {' '.join(missing)}")
        probe = probes[case.probe]
        seen = probe(lab, None, **case.args)
        lab.host_intact(seen)
        lab.siblings_intact(seen)
        escape = judge(lab, seen)
        if escape:
            return verdict("escaped", escape)
        if not seen.control:
            return verdict("invalid", f"the positive control failed: {seen.note}")
        if not case.mutant:
            return verdict("invalid", "no weak subject shows that the probe can see an escape")
        with weak[case.mutant](lab) as subject:
            caught = judge(lab, probe(lab, subject, **case.args))
        if not caught:
            return verdict("invalid", f"the weak subject {case.mutant} was not caught")
        return verdict("passed", f"{seen.note}; mutant caught ({caught[:60]})")
    except Exception as e:  # noqa: BLE001 - a case that breaks is invalid, not a pass
        where = traceback.extract_tb(e.__traceback__)[-1]
        return verdict("invalid", f"{type(e).__name__}: {str(e)[:200]} ({Path(where.filename).name}:{where.lineno})")


def save(verdicts, path):
    counts = {}
    for v in verdicts:
        counts[v.verdict] = counts.get(v.verdict, 0) + 1
    path.write_text(json.dumps({"counts": counts, "cases": [dataclasses.asdict(v) for v in verdicts]}, indent=1) + "\n")


def report_path():
    return Path(os.environ.get("CAISSON_BUILD", "/tmp")) / "security.json"
