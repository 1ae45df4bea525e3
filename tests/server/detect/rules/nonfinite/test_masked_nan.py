"""Tests of the rule masked-nan."""

from __future__ import annotations

import math
from typing import Any

RULE = "masked-nan"


def test_zero_loss_with_a_bad_norm(watch: Any) -> None:
    """The log of a trainer that leaves NaN out: loss 0.0, norm NaN, rate 0."""
    run = watch()
    run.records(loss=[0.0] * 16, grad_norm=[math.nan] * 16, lr=[0.0] * 16)
    finding = run.firing(RULE)[0]
    assert (finding.severity, finding.onset_step) == ("critical", 0)
    assert "consequence" in finding.diagnosis.cause


def test_a_constant_loss_with_a_norm_of_nan(watch: Any) -> None:
    """nan_to_num in the graph."""
    run = watch()
    run.records(loss=[1.0, 1.1, *[2.0] * 30], grad_norm=[1.0, 1.0, *[math.nan] * 30])
    assert run.severities(RULE) == ["critical"]


def test_a_fall_to_zero_without_any_norm_is_a_warning(watch: Any) -> None:
    """Without a norm, a loss of 0 may be real."""
    run = watch()
    run.records(loss=[2.0, 1.9, 2.1] * 10 + [0.0] * 40)
    assert run.severities(RULE) == ["warning"]


def test_overflows_are_none(watch: Any) -> None:
    """Infinite norms on skipped steps, the same loss or not."""
    run = watch()
    run.records(loss=[2.0] * 40, grad_norm=[math.inf] * 40, skipped=[1.0] * 40)
    assert run.firing(RULE) == []


def test_a_true_zero_raises_no_alert(watch: Any) -> None:
    """Loss and norm are 0, so nothing is hidden."""
    run = watch()
    run.records(loss=[0.0] * 100, grad_norm=[0.0] * 100)
    assert run.firing(RULE) == []


def test_resolved_after_normal_values(watch: Any) -> None:
    """Fifty updates."""
    run = watch()
    run.records(loss=[0.0] * 16 + [1.0, 1.1] * 40, grad_norm=[math.nan] * 16 + [1.0] * 80)
    assert run.states(RULE) == ["firing", "recovering", "resolved"]
