"""Tests of the rule scaler-at-floor."""

from __future__ import annotations

import math
from typing import Any

FLOOR = "scaler-at-floor"


def test_scale_zero_is_critical(watch: Any, torch_scale: Any) -> None:
    """The scale falls from 65536 to 0.0 and never recovers."""
    scale, skipped = torch_scale([True] * 400)
    run = watch()
    run.records(scale=scale, skipped=skipped)
    finding = run.firing(FLOOR)[0]
    assert finding.severity == "critical"
    assert finding.onset_step == 166
    assert run.states(FLOOR) == ["firing"]


def test_overflows_at_a_reported_minimum(watch: Any, torch_scale: Any) -> None:
    """Megatron's floor of 1: five overflows at it without a change."""
    scale, skipped = torch_scale([step >= 100 for step in range(140)], init=1024.0, floor=1.0)
    run = watch(scalers=[{"min_scale": 1.0}])
    run.records(scale=scale, skipped=skipped)
    assert run.firing(FLOOR)[0].onset_step == scale.index(1.0)
    assert run.firing("scaler-not-updating") == []


def test_an_unknown_minimum_is_detected(watch: Any, torch_scale: Any) -> None:
    """If backing off ends while updates overflow, the scale is at its minimum."""
    scale, skipped = torch_scale([step >= 100 for step in range(140)], init=1024.0, floor=0.25)
    run = watch()
    run.records(scale=scale, skipped=skipped, grad_norm=[math.nan if skip else 1.0 for skip in skipped])
    assert run.firing(FLOOR)[0].onset_step == scale.index(0.25)
    assert run.firing("scaler-not-updating") == []


def test_a_removed_scaler_raises_no_alert(watch: Any) -> None:
    """A scale of 0 from the first record with a changing loss means that there is no scaler."""
    run = watch()
    run.records(scale=[0.0] * 300, loss=[1.0 / (1 + step) for step in range(300)])
    assert run.findings == []


def test_the_lowest_scale_of_a_healthy_run_is_no_floor(watch: Any, torch_scale: Any) -> None:
    """One overflow at the lowest scale so far is followed by a backoff."""
    scale, skipped = torch_scale([step % 700 == 699 for step in range(5000)])
    run = watch()
    run.records(scale=scale, skipped=skipped)
    assert run.firing(FLOOR) == []
