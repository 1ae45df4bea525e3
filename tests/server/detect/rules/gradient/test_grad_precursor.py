"""Tests of the rule grad-precursor."""

from __future__ import annotations

import random
from typing import Any

import pytest

RULE = "grad-precursor"


def norms(count: int, sigma: float = 0.3, seed: int = 1) -> list[float]:
    draw = random.Random(seed)
    return [0.24 * draw.lognormvariate(0, sigma) for _ in range(count)]


def test_a_rising_norm_is_reported_before_the_loss_rises(watch: Any) -> None:
    """The records of BLOOM: 0.24, 0.95, 2.4, 15.9, 145."""
    run = watch(size=1)
    run.records(loss=[2.0] * 205, grad_norm=[*norms(200), 0.95, 2.4, 15.9, 145.0, 300.0])
    finding = run.firing(RULE)[0]
    assert (finding.severity, finding.step) == ("warning", 202)
    assert "the loss may spike" in finding.diagnosis.cause


def test_one_outlier_raises_no_alert(watch: Any) -> None:
    """Healthy runs have single norms of 17 times the median."""
    run = watch()
    run.records(grad_norm=[*norms(200), 4.0, *norms(200, seed=2)])
    assert run.findings == []


def test_two_falling_norms_raise_no_alert(watch: Any) -> None:
    """A precursor rises."""
    run = watch()
    run.records(grad_norm=[*norms(200), 6.0, 3.0, *norms(200, seed=2)])
    assert run.firing(RULE) == []


@pytest.mark.parametrize("sigma", [0.3, 1.0, 1.5])
def test_heavy_tails_raise_no_alert(watch: Any, sigma: float) -> None:
    """Twenty thousand records of log-normal norms."""
    run = watch()
    run.records(grad_norm=norms(20_000, sigma=sigma))
    assert run.firing(RULE) == []


def test_no_alert_in_the_warm_up(watch: Any) -> None:
    """Fifty records make the usual norm."""
    run = watch()
    run.records(grad_norm=[*norms(40), 5.0, 50.0, 500.0])
    assert run.findings == []


def test_ends_with_usual_norms(watch: Any) -> None:
    """Near the usual norm for fifty updates."""
    run = watch()
    run.records(grad_norm=[*norms(200), 5.0, 50.0, *norms(200, seed=2)])
    assert run.states(RULE) == ["firing", "recovering", "resolved"]
