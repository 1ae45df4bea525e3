"""Findings: each with its remedy, in a bounded event."""

from __future__ import annotations

import json

from tocsin.preflight import CHECKS
from tocsin.preflight.findings import FINDINGS, REMEDIES, Report


def test_every_finding_has_its_remedy() -> None:
    """The findings for a script with every fault are plain data in a bounded event."""
    report = Report("first-step")
    for check in [*CHECKS, *CHECKS * FINDINGS]:
        report.add(check, "info", "x", expected="a", got="b")
    assert {one.remedy for one in report.findings} == set(REMEDIES.values())
    assert len(json.loads(json.dumps(report.data(1.0)))["findings"]) == FINDINGS
