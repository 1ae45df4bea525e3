"""Tests of the rule nonfinite-weights."""

from __future__ import annotations

import math
from typing import Any

RULE = "nonfinite-weights"


def test_an_update_with_a_bad_gradient_corrupts_them(watch: Any) -> None:
    """Without a scaler the update is applied, and no loss is finite after it."""
    run = watch()
    run.records(
        loss=[1.0] * 10 + [math.nan] * 10,
        grad_norm=[1.0] * 9 + [math.inf] + [math.nan] * 10,
        stepped=[1.0] * 20,
    )
    finding = run.firing(RULE)[0]
    assert (finding.severity, finding.onset_step) == ("critical", 9)
    assert "corrupted the weights" in finding.diagnosis.cause


def test_a_skipped_overflow_corrupts_nothing(watch: Any) -> None:
    """The scaler skipped the update; the NaN losses have another cause."""
    run = watch()
    bad = [1.0] * 9 + [math.inf] * 11
    run.records(loss=[1.0] * 10 + [math.nan] * 10, grad_norm=bad, scale=[1024.0] * 20,
                skipped=[0.0] * 9 + [1.0] * 11, stepped=[1.0] * 9 + [0.0] * 11)  # fmt: skip
    assert run.firing(RULE) == []


def test_one_nan_loss_is_not_the_weights(watch: Any) -> None:
    """The next loss is finite, so they are."""
    run = watch()
    run.records(loss=[1.0, math.nan, 1.0, 1.1] * 5, stepped=[1.0] * 20)
    assert run.firing(RULE) == []


def test_reported_by_the_script(watch: Any) -> None:
    """From run.check(weights=model)."""
    run = watch()
    run.records(loss=[1.0] * 10, more={"nonfinite/weights": [0.0] * 9 + [3.0]})
    assert run.firing(RULE)[0].step == 9


def test_resolved_when_the_loss_is_finite_again(watch: Any) -> None:
    """Weights were loaded again within the process."""
    run = watch()
    run.records(loss=[math.nan] * 8 + [1.0] * 80, stepped=[1.0] * 88)
    assert run.states(RULE) == ["firing", "recovering", "resolved"]
