"""Tests of the rule zero-grad-norm."""

from __future__ import annotations

import math
from typing import Any

RULE = "zero-grad-norm"


def falling(count: int) -> list[float]:
    return [5.0 / (1 + 0.01 * step) for step in range(count)]


def test_zero_with_a_changing_loss_is_left_to_norm_after_zero(watch: Any) -> None:
    """That is a measurement error, not a problem of the model."""
    run = watch()
    run.records(loss=falling(30), grad_norm=[0.0] * 30)
    assert run.firing(RULE) == []


def test_zero_without_a_loss_is_only_a_warning(watch: Any) -> None:
    """Without a loss it is unknown whether the zero is real."""
    run = watch()
    run.records(grad_norm=[0.0] * 30)
    assert run.severities(RULE) == ["warning"]


def test_zero_with_a_constant_loss_is_real(watch: Any) -> None:
    """No gradient reaches the parameters: critical."""
    run = watch()
    run.records(loss=[0.0] * 30, grad_norm=[0.0] * 30)
    assert run.severities(RULE) == ["critical"]


def test_gradient_accumulation_is_info_only(watch: Any) -> None:
    """0 in seven of every eight records is accumulation over eight: info, whatever the loss does."""
    run = watch()
    run.records(loss=falling(200), grad_norm=[1.0 if step % 8 == 7 else 0.0 for step in range(200)])
    assert run.alarms == []
    assert "accumulation over 8" in run.firing(RULE)[0].summary


def test_nineteen_zeros_raise_no_alert(watch: Any) -> None:
    """Fewer than twenty in a row may happen."""
    run = watch()
    run.records(loss=[1.0] * 60, grad_norm=[1.0] * 20 + [0.0] * 19 + [1.0] * 21)
    assert run.findings == []


def test_a_small_norm_is_not_zero(watch: Any) -> None:
    """1e-12 is a gradient."""
    run = watch()
    run.records(loss=falling(60), grad_norm=[1e-12] * 60)
    assert run.findings == []


def test_muted_by_a_nonfinite_loss(watch: Any) -> None:
    """With a NaN loss the norm of 0 is a consequence."""
    run = watch()
    run.records(loss=[math.nan] * 40, grad_norm=[0.0] * 40)
    assert run.firing(RULE) == []


def test_ends_with_a_norm_above_zero(watch: Any) -> None:
    """Norms above 0 for fifty updates resolve it."""
    run = watch()
    run.records(loss=[1.0] * 30 + falling(70), grad_norm=[0.0] * 30 + [1.0] * 70)
    assert run.states(RULE) == ["firing", "recovering", "resolved"]


def test_single_norms_above_zero_do_not_resolve_it(watch: Any) -> None:
    """A critic at its clamp: one sample in hundreds still has a gradient."""
    norm = [6.4] * 40 + [0.0] * 900
    for step in (70, 71, 75, 90, 108, 288, 460, 700, 760, 765):
        norm[step] = 0.1
    run = watch()
    run.records(loss=[-25.0 * step for step in range(40)] + [-1000.0] * 900, grad_norm=norm)
    assert "resolved" not in run.states(RULE)
    assert {item.onset_step for item in run.firing(RULE)} == {40}
