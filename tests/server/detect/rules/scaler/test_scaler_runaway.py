"""Tests of the rule scaler-runaway."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Scaler = Callable[..., tuple[list[float], list[float]]]
RULE = "scaler-runaway"
COUNT = 2000


def grown(watch: Any, torch_scale: Scaler, *, count: int = COUNT, **series: list[float]) -> Any:
    """A run whose scale doubles every hundred updates and never overflows."""
    scale, skipped = torch_scale([False] * count, interval=100)
    run = watch()
    run.records(scale=scale, skipped=skipped, **series)
    return run


def test_growth_with_dead_gradients_is_a_warning(watch: Any, torch_scale: Scaler) -> None:
    """Dated to the first growth; the scale is the symptom."""
    moving = [1.0 / (1 + step) for step in range(COUNT)]
    run = grown(watch, torch_scale, loss=moving, grad_norm=[1e-9] * COUNT)
    finding = run.firing(RULE)[0]
    assert (finding.onset_step, finding.severity) == (100, "warning")
    assert "close to 0" in finding.diagnosis.cause


def test_growth_with_a_constant_loss(watch: Any, torch_scale: Scaler) -> None:
    """Without a norm the loss is used."""
    assert grown(watch, torch_scale, loss=[0.0] * COUNT).severities(RULE) == ["warning"]


def test_growth_with_healthy_gradients_is_info_only(watch: Any, torch_scale: Scaler) -> None:
    """Info above 2^24, no alert up to 2^21."""
    loss = [1.0 / (1 + step) for step in range(COUNT)]
    run = grown(watch, torch_scale, loss=loss, grad_norm=[0.5] * COUNT)
    assert run.severities(RULE) == ["info"]
    quiet = grown(watch, torch_scale, count=550, loss=loss[:550], grad_norm=[0.5] * 550)
    assert quiet.findings == []


def test_a_saw_tooth_is_healthy(watch: Any, torch_scale: Scaler) -> None:
    """Growth, one overflow, growth again."""
    scale, skipped = torch_scale([step % 150 == 149 for step in range(6000)], interval=100)
    run = watch(scalers=[{"growth_interval": 100}])
    run.records(scale=scale, skipped=skipped, grad_norm=[1e-9] * 6000)
    assert run.firing(RULE) == []


def test_a_high_start_is_no_growth(watch: Any) -> None:
    """DeepSpeed starts at 2^32."""
    run = watch()
    run.records(scale=[2.0**32] * 500, grad_norm=[1.0] * 500)
    assert run.firing(RULE) == []


def test_an_overflow_ends_it(watch: Any, torch_scale: Scaler) -> None:
    """The gradients are back."""
    overflows = [False] * 1500 + [True] + [False] * 600
    scale, skipped = torch_scale(overflows, interval=100)
    run = watch()
    norms = [1e-9] * 1500 + [1.0] * 601
    run.records(scale=scale[:2000], skipped=skipped[:2000], grad_norm=norms[:2000])
    assert run.states(RULE)[:2] == ["firing", "recovering"]
