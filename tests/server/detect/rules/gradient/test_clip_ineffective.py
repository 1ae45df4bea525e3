"""Tests of the rule clip-ineffective."""

from __future__ import annotations

import random
from typing import Any

import pytest

RULE = "clip-ineffective"


def norms(count: int, level: float) -> list[float]:
    draw = random.Random(1)
    return [level * draw.lognormvariate(0, 0.5) for _ in range(count)]


def evaluated(watch: Any, clip: float | None, level: float) -> Any:
    run = watch()
    run.event("grad-norm-source", 0, optimizer="", source="clip", clip=clip)
    run.records(grad_norm=norms(500, level))
    return run


def test_a_threshold_of_ten_million_has_no_effect(watch: Any) -> None:
    """The remedy names a threshold near the usual norm."""
    finding = evaluated(watch, 1e7, 5.0).firing(RULE)[0]
    assert (finding.severity, "has no effect" in finding.summary) == ("info", True)
    assert "max_norm=" in finding.diagnosis.remedies[0].code


def test_a_clip_of_zero_removes_every_gradient(watch: Any) -> None:
    """It does not switch clipping off: a warning."""
    assert evaluated(watch, 0.0, 5.0).severities(RULE) == ["warning"]


def test_a_threshold_far_below_removes_the_gradient(watch: Any) -> None:
    """A hundredth of the smallest norm."""
    assert "by more than 100x" in evaluated(watch, 1e-5, 5.0).firing(RULE)[0].summary


@pytest.mark.parametrize("clip", [None, float("inf"), 0.5, 1.0, 50.0])
def test_usual_thresholds_raise_no_alert(watch: Any, clip: float | None) -> None:
    """None, infinite, or near the norms."""
    assert evaluated(watch, clip, 2.0).firing(RULE) == []


def test_it_resolves_when_the_threshold_is_corrected(watch: Any) -> None:
    """A changed threshold starts a new window."""
    run = evaluated(watch, 1e7, 5.0)
    run.event("grad-norm-source", 500, optimizer="", source="clip", clip=5.0)
    run.records(start=500, grad_norm=norms(500, 5.0))
    assert run.states(RULE) == ["firing", "recovering", "resolved"]
