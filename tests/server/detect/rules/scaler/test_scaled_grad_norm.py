"""Tests of the rule scaled-grad-norm."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

Scaler = Callable[..., tuple[list[float], list[float]]]
RULE = "scaled-grad-norm"
COUNT = 3000


def saw_tooth(torch_scale: Scaler, count: int = COUNT) -> tuple[list[float], list[float]]:
    """Growth every 100 updates, an overflow a while after."""
    return torch_scale([step % 150 == 149 for step in range(count)], interval=100)


def noisy(count: int = COUNT, level: float = 3.0, sigma: float = 0.2) -> list[float]:
    draw = random.Random(1)
    return [level * draw.lognormvariate(0, sigma) for _ in range(count)]


def test_a_norm_that_follows_the_scale_is_a_warning(watch: Any, torch_scale: Scaler) -> None:
    """Twice where it doubles, half where it halves, four times in a row."""
    scale, skipped = saw_tooth(torch_scale)
    run = watch()
    run.records(scale=scale, skipped=skipped, grad_norm=[n * s for n, s in zip(noisy(), scale, strict=True)])
    finding = run.firing(RULE)[-1]
    assert finding.severity == "warning"
    assert "before scaler.unscale_" in finding.diagnosis.cause
    assert "unscale_" in finding.diagnosis.remedies[0].code


def test_an_unscaled_norm_does_not_follow(watch: Any, torch_scale: Scaler) -> None:
    """Whatever the scale does."""
    scale, skipped = saw_tooth(torch_scale, 20_000)
    for sigma in (0.2, 1.0):
        run = watch()
        run.records(scale=scale, skipped=skipped, grad_norm=noisy(20_000, sigma=sigma))
        assert run.firing(RULE) == []


def test_what_the_hook_saw_needs_no_statistics(watch: Any) -> None:
    """The hook observes unscale_ itself."""
    run = watch()
    run.event("grad-norm-source", 0, optimizer="", source="clip", clip=1.0, scaled=True)
    run.records(scale=[65536.0] * 300, grad_norm=noisy(300, level=2e5))
    assert run.severities(RULE) == ["warning"]


def test_a_high_norm_alone_is_info_only(watch: Any) -> None:
    """Summed losses have norms of 2e5 too."""
    run = watch()
    run.records(scale=[65536.0] * 600, grad_norm=noisy(600, level=2e5))
    assert run.severities(RULE) == ["info"]


def test_without_a_scaler_a_high_norm_raises_no_alert(watch: Any) -> None:
    """Nothing is scaled."""
    run = watch()
    run.records(scale=[1.0] * 600, grad_norm=noisy(600, level=2e5))
    assert run.findings == []
