"""Tests of the rule nonfinite-loss."""

from __future__ import annotations

import math
from typing import Any

import pytest


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_critical_at_the_first_without_a_scaler(watch: Any, bad: Any) -> None:
    """Without a scaler, the weights are corrupted immediately: critical at that step."""
    run = watch()
    run.records(loss=[1.0] * 10 + [bad] + [1.0] * 3)
    (finding,) = run.firing("nonfinite-loss")
    assert (finding.onset_step, finding.step, finding.severity) == (10, 10, "critical")


def test_warning_then_critical_under_a_scaler(watch: Any) -> None:
    """Under a scaler one infinite loss is a warning; the second of the last five makes it critical."""
    run = watch()
    run.records(loss=[1.0] * 10 + [math.inf, 1.0, math.nan], scale=[1024.0] * 13)
    assert run.severities("nonfinite-loss") == ["warning", "critical"]
    assert run.firing("nonfinite-loss")[-1].onset_step == 10


def test_a_step_abandoned_in_time_is_a_warning(watch: Any) -> None:
    """A loop that drops the bad batch itself keeps its weights."""
    run = watch()
    run.records(loss=[1.0, math.nan, 1.0], stepped=[1.0, 0.0, 1.0])
    assert run.severities("nonfinite-loss") == ["warning"]


def test_missing_is_not_nan(watch: Any) -> None:
    """Records without a loss raise no alert."""
    run = watch()
    run.records(loss=[1.0, None, None, 1.0] * 20, lr=[1e-3] * 80)
    assert run.findings == []


def test_recovers_and_resolves(watch: Any) -> None:
    """Five finite losses: recovering; fifty: resolved."""
    run = watch()
    run.records(loss=[math.nan] + [1.0] * 60)
    assert run.states("nonfinite-loss") == ["firing", "recovering", "resolved"]


def test_an_endless_nan_is_reported_rarely(watch: Any) -> None:
    """Ten thousand NaN losses are one episode with a handful of updates."""
    run = watch()
    run.records(loss=[1.0] + [math.nan] * 10_000)
    assert len(run.findings) < 20
    assert run.states("nonfinite-loss") == ["firing"]


def test_a_huge_finite_loss_raises_no_alert(watch: Any) -> None:
    """Losses whose sum overflows are still finite."""
    run = watch()
    run.records(loss=[1.7e308] * 20)
    assert run.firing("nonfinite-loss") == []
