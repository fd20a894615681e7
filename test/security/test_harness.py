# SPDX-License-Identifier: Apache-2.0
"""The harness itself, without a Caisson: does it count right."""

import base64
import contextlib
import json

import pytest

import harness
from harness import Case, Lab, Seen, judge, run, save, spellings

SECRET = "canary-0123456789abcdef"


class FakeLab(Lab):
    """Canaries in memory; nothing runs."""

    def __init__(self):
        self.secret, self.forms, self.isolation = SECRET, spellings(SECRET), "software"
        self.tools, self.host, self.sibling = {"python3"}, True, True

    def has(self, tool):
        return tool in self.tools

    def host_intact(self, seen):
        seen.check("host file changed", self.host)

    def siblings_intact(self, seen):
        seen.check("sibling harmed", self.sibling)


def probe(lab, subject, good=b"nothing", control=True):
    """What a subject lets out; the product (None) lets out `good`."""
    seen = Seen(control=control, note="looked")
    seen.bytes.append(subject if subject is not None else good)
    return seen


def breaks(lab, subject):
    raise RuntimeError("the probe fell over")


PROBES = {"probe": probe, "breaks": breaks}


@contextlib.contextmanager
def leaky(lab):
    yield lab.secret.encode()


@contextlib.contextmanager
def tight(lab):
    yield b"nothing"


WEAK = {"leaky": leaky, "tight": tight}


def verdict(lab=None, **case):
    fields = {"id": "TST-001", "attempt": "a", "right": "r", "area": "TST", "probe": "probe", "mutant": "leaky", **case}
    return run(Case(**fields), lab or FakeLab(), PROBES, WEAK)


def test_passed_when_nothing_came_the_control_worked_and_the_mutant_was_caught():
    v = verdict()
    assert v.verdict == "passed" and "mutant caught" in v.evidence and v.isolation == "software"


def test_invalid_when_the_mutant_is_not_caught():
    v = verdict(mutant="tight")
    assert v.verdict == "invalid" and "tight" in v.evidence


def test_invalid_without_a_mutant():
    assert verdict(mutant="").verdict == "invalid"


def test_invalid_when_the_control_failed():
    assert verdict(args={"control": False}).verdict == "invalid"


def test_invalid_when_a_tool_is_missing():
    v = verdict(tools=["python3", "dig"])
    assert v.verdict == "invalid" and "dig" in v.evidence


def test_invalid_when_the_probe_breaks_or_is_not_there():
    assert verdict(probe="breaks").verdict == "invalid"
    assert verdict(probe="none").verdict == "invalid"


def test_escaped_when_the_oracle_sees_the_secret():
    v = verdict(args={"good": b"...." + SECRET.encode() + b"...."})
    assert v.verdict == "escaped"


@pytest.mark.parametrize("form", [SECRET.upper().encode(), SECRET.encode().hex().encode(), SECRET[::-1].encode(), SECRET.encode("utf-16-le"),
                                  base64.b64encode(b"abc" + SECRET.encode() + b"d"), base64.b64encode(b"ab" + SECRET.encode() + b"d"), base64.b64encode(b"a" + SECRET.encode() + b"d")])
def test_escaped_in_every_spelling(form):
    assert verdict(args={"good": b"x" + form + b"y"}).verdict == "escaped"


def test_an_escape_outweighs_a_control_that_failed():
    assert verdict(args={"good": SECRET.encode(), "control": False}).verdict == "escaped"


def test_escaped_when_the_host_or_a_sibling_was_touched():
    lab = FakeLab()
    lab.host = False
    assert verdict(lab).verdict == "escaped"
    lab = FakeLab()
    lab.sibling = False
    assert verdict(lab).verdict == "escaped"


def test_not_applicable_is_not_counted_and_keeps_its_reason():
    v = run(Case("TST-002", "a", "r", "TST", not_applicable="there is no such thing"), None, PROBES, WEAK)
    assert (v.verdict, v.evidence) == ("not applicable", "there is no such thing")


def test_many_violations_make_one_bounded_line():
    seen = Seen()
    for i in range(500):
        seen.check(f"property {i}", False, "x" * 5000)
    assert len(judge(FakeLab(), seen)) < 2000 and "\n" not in judge(FakeLab(), seen)


def test_the_report_counts_each_verdict(tmp_path):
    save([verdict(), verdict(mutant="tight"), verdict(args={"good": SECRET.encode()})], tmp_path / "s.json")
    made = json.loads((tmp_path / "s.json").read_text())
    assert made["counts"] == {"passed": 1, "invalid": 1, "escaped": 1} and [c["id"] for c in made["cases"]] == ["TST-001"] * 3


def test_every_case_is_whole():
    import probes_agt
    import probes_api
    import probes_fil
    import weak
    probes = {**probes_fil.PROBES, **probes_agt.PROBES, **probes_api.PROBES}
    for c in harness.load():
        if c.not_applicable:
            assert not c.probe and len(c.not_applicable) > 10, c.id
        else:
            assert c.probe in probes and c.mutant in weak.SUBJECTS, c.id
