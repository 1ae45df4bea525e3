"""Tests of the rule nonfinite-grad-norm."""

from __future__ import annotations

import math
from typing import Any


def test_isolated_infinite_norm_of_a_skipped_step_is_healthy(watch: Any, torch_scale: Any) -> None:
    """One infinite norm followed by a backoff is normal for a scaler."""
    overflows = [step in (500, 2600, 4700) for step in range(6000)]
    scale, skipped = torch_scale(overflows)
    run = watch()
    run.records(
        grad_norm=[math.inf if bad else 1.0 for bad in overflows],
        scale=scale,
        skipped=skipped,
        loss=[2.0 / (1 + step / 1000) + 0.01 * (step % 5) for step in range(6000)],
    )
    assert run.alarms == []


def test_start_up_calibration_is_healthy(watch: Any, torch_scale: Any) -> None:
    """Up to 17 skips from 2^16 in the first updates raise no alert."""
    overflows = [step < 15 for step in range(400)]
    scale, skipped = torch_scale(overflows)
    run = watch()
    run.records(grad_norm=[math.inf if bad else 1.0 for bad in overflows], scale=scale, skipped=skipped)
    assert run.findings == []


def test_five_in_a_row_under_a_scaler_are_critical(watch: Any, torch_scale: Any) -> None:
    """A scaler that searches its scale never overflows five times in a row. Onset: the first overflow."""
    overflows = [step >= 100 for step in range(110)]
    scale, skipped = torch_scale(overflows)
    run = watch()
    run.records(grad_norm=[math.inf if bad else 1.0 for bad in overflows], scale=scale, skipped=skipped)
    finding = run.firing("nonfinite-grad-norm")[0]
    assert (finding.onset_step, finding.step, finding.severity) == (100, 104, "critical")


def test_bf16_with_constant_scale_one_has_no_scaler(watch: Any) -> None:
    """A constant scale of 1.0 skips nothing: the first infinite norm is critical."""
    run = watch()
    run.records(grad_norm=[1.0] * 50 + [math.inf], scale=[1.0] * 51)
    assert run.severities("nonfinite-grad-norm") == ["critical"]
    assert run.firing("scaler-not-updating") == []


def test_nonfinite_at_scale_one_or_less_is_critical(watch: Any) -> None:
    """Once the scale has fallen to 1, scaling cannot cause an infinite norm."""
    run = watch()
    run.records(grad_norm=[1.0, 1.0, math.inf], scale=[4.0, 2.0, 1.0], start=1000)
    assert run.firing("nonfinite-grad-norm")[0].step == 1002


def test_a_norm_at_every_sixteenth_step_is_checked(watch: Any) -> None:
    """Missing norms between are neither finite nor non-finite."""
    norms = [math.nan if step >= 160 else 1.0 for step in range(320)]
    run = watch()
    run.records(
        grad_norm=[norm if step % 16 == 0 else None for step, norm in enumerate(norms)],
        scale=[1024.0] * 160 + [512.0] * 160,
    )
    assert run.firing("nonfinite-grad-norm")[0].onset_step == 160
