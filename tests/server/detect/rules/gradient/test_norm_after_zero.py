"""Tests of the rule norm-after-zero."""

from __future__ import annotations

import math
import random
from typing import Any

RULE = "norm-after-zero"


def falling(count: int) -> list[float]:
    return [5.0 / (1 + 0.01 * step) for step in range(count)]


def test_zero_with_a_falling_loss_is_a_measurement_error(watch: Any) -> None:
    """The norm is measured after zero_grad: a warning about the measurement, not the model."""
    run = watch()
    run.records(loss=falling(30), grad_norm=[0.0] * 30)
    finding = run.firing(RULE)[0]
    assert (finding.onset_step, finding.step, finding.severity) == (0, 19, "warning")
    assert "updates are applied" in finding.diagnosis.cause


def test_a_loss_that_only_wavers_leaves_another_cause_open(watch: Any) -> None:
    """Batches differ, so a moving loss alone does not prove updates."""
    draw = random.Random(1)
    run = watch()
    run.records(loss=[2.0 + draw.gauss(0, 0.02) for _ in range(30)], grad_norm=[0.0] * 30)
    assert any("detached graph" in text for text in run.firing(RULE)[0].diagnosis.alternatives)


def test_a_constant_loss_is_left_to_zero_grad_norm(watch: Any) -> None:
    """Then the zero is real."""
    run = watch()
    run.records(loss=[1.0] * 60, grad_norm=[0.0] * 60)
    assert run.firing(RULE) == []


def test_gradient_accumulation_is_another_rules(watch: Any) -> None:
    """0 in seven of every eight records is accumulation."""
    run = watch()
    run.records(loss=falling(200), grad_norm=[1.0 if step % 8 == 7 else 0.0 for step in range(200)])
    assert run.firing(RULE) == []


def test_known_accumulation_cycles_raise_no_alert(watch: Any) -> None:
    """Zeros of the length of the last cycle are expected."""
    run = watch()
    run.records(loss=falling(400), grad_norm=[1.0 if step % 16 == 15 else 0.0 for step in range(400)])
    assert run.alarms == []


def test_muted_by_a_nonfinite_loss(watch: Any) -> None:
    """With a NaN the norm of 0 is a consequence."""
    run = watch()
    run.records(loss=[math.nan if step % 2 else 1.0 + step for step in range(40)], grad_norm=[0.0] * 40)
    assert run.firing(RULE) == []


def test_ends_with_a_norm_above_zero(watch: Any) -> None:
    """Norms above 0 for fifty updates resolve it."""
    run = watch()
    run.records(loss=falling(100), grad_norm=[0.0] * 30 + [1.0] * 70)
    assert run.states(RULE) == ["firing", "recovering", "resolved"]
