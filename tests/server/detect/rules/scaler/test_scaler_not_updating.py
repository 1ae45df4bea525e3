"""Tests of the rule scaler-not-updating."""

from __future__ import annotations

import math
from typing import Any

import pytest

RULE = "scaler-not-updating"


def test_abandoned_steps_at_a_constant_scale(watch: Any) -> None:
    """``continue`` on an infinite norm before update(), so the scale is never updated."""
    run = watch()
    run.records(
        loss=[12.06] * 80,
        grad_norm=[2.0] * 60 + [math.inf] * 20,
        scale=[65536.0] * 80,
        stepped=[1.0] * 60 + [0.0] * 20,
    )
    finding = run.firing(RULE)[0]
    assert (finding.onset_step, finding.severity) == (60, "critical")
    assert "abandons the step before scaler.update()" in finding.diagnosis.cause


def test_from_the_first_step_on(watch: Any) -> None:
    """A real run overflowed from the start: three records are enough."""
    run = watch()
    run.records(grad_norm=[math.inf] * 5, scale=[65536.0] * 5, stepped=[0.0] * 5)
    assert run.firing(RULE)[0].step == 3


def test_a_scaler_that_backs_off_raises_no_alert(watch: Any, torch_scale: Any) -> None:
    """A working scaler halves in the update after."""
    scale, skipped = torch_scale([step % 40 < 4 for step in range(200)])
    run = watch()
    run.records(scale=scale, skipped=skipped, grad_norm=[math.inf if skip else 1.0 for skip in skipped])
    assert run.firing(RULE) == []


@pytest.mark.parametrize("scale", [None, 1.0])
def test_without_a_scaler_there_is_no_alert(watch: Any, scale: Any) -> None:
    """No scale, or a constant 1.0 (bf16, enabled=False)."""
    run = watch()
    run.records(grad_norm=[1.0] * 20 + [math.nan] * 20, scale=[scale] * 40)
    assert run.firing(RULE) == []


def test_steps_abandoned_for_a_large_norm_raise_no_alert(watch: Any) -> None:
    """A loop that drops steps with a large but finite norm does so intentionally."""
    run = watch()
    run.records(grad_norm=[900.0] * 20, scale=[1024.0] * 20, stepped=[0.0] * 20, start=100)
    assert run.firing(RULE) == []


def test_records_too_far_apart_raise_no_alert(watch: Any) -> None:
    """Between two records 2000 updates apart the scale may fall and grow again."""
    run = watch()
    run.records(every=2000, grad_norm=[math.inf] * 8, scale=[1024.0] * 8)
    assert run.firing(RULE) == []


def test_ends_when_the_scale_reacts(watch: Any) -> None:
    """Once gradients are finite again the alert recovers and resolves."""
    run = watch()
    run.records(grad_norm=[math.inf] * 6 + [1.0] * 150, scale=[1024.0] * 6 + [512.0] * 150, start=50)
    assert run.states(RULE) == ["firing", "recovering", "resolved"]
