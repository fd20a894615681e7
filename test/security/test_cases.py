# SPDX-License-Identifier: Apache-2.0
"""One test per applicable case; the lines and build/security.json are written at the end."""

import pytest

import harness
import probes_agt
import probes_api
import probes_fil
import weak

PROBES = {**probes_fil.PROBES, **probes_agt.PROBES, **probes_api.PROBES}
CASES = harness.load()


@pytest.fixture(scope="module")
def lab(caisson, template_test):
    lab = harness.Lab(caisson)
    lab.open()
    yield lab
    lab.close()


@pytest.fixture(scope="module")
def verdicts(request):
    harness.report_path().unlink(missing_ok=True)
    out = request.config.stash.setdefault(KEY, [])
    out.extend(harness.run(c, None, PROBES, weak.SUBJECTS) for c in CASES if c.not_applicable)
    return out


KEY = pytest.StashKey()


@pytest.mark.parametrize("case", [c for c in CASES if not c.not_applicable], ids=lambda c: c.id)
def test_case(case, lab, verdicts, request):
    v = harness.run(case, lab, PROBES, weak.SUBJECTS)
    verdicts.append(v)
    request.config.security_lines = [x.line() for x in sorted(verdicts, key=lambda x: x.id)]
    harness.save(sorted(verdicts, key=lambda x: x.id), harness.report_path())
    assert v.verdict != "escaped", v.evidence
    if v.verdict == "invalid":
        pytest.fail(f"invalid, so it proves nothing: {v.evidence}")
