"""Tests of the rule clip-always-active."""

from __future__ import annotations

import random
from typing import Any

RULE = "clip-always-active"


def norms(count: int, level: float, seed: int = 1) -> list[float]:
    draw = random.Random(seed)
    return [level * draw.lognormvariate(0, 0.3) for _ in range(count)]


def clipped_at(watch: Any, clip: float | None) -> Any:
    run = watch()
    run.event("grad-norm-source", 0, optimizer="", source="clip", clip=clip)
    return run


def test_norms_above_the_threshold_are_reported(watch: Any) -> None:
    """Info: normal for many recipes."""
    run = clipped_at(watch, 1.0)
    run.records(grad_norm=norms(600, 10.0))
    assert run.severities(RULE) == ["info"]
    assert "sets the step size" in run.firing(RULE)[0].diagnosis.cause


def test_a_clip_that_acts_now_and_then_is_healthy(watch: Any) -> None:
    """Clipping is meant for occasional large gradients."""
    run = clipped_at(watch, 1.0)
    run.records(grad_norm=norms(2000, 0.7))
    assert run.findings == []


def test_without_clipping_there_is_no_alert(watch: Any) -> None:
    """Norms may be any size; an infinite threshold only measures."""
    for clip in (None, float("inf")):
        run = clipped_at(watch, clip)
        run.records(grad_norm=norms(2000, 50.0))
        assert run.findings == []


def test_it_ends_when_gradients_are_free_again(watch: Any) -> None:
    """A window with fewer than eighty percent clipped."""
    run = clipped_at(watch, 1.0)
    run.records(grad_norm=norms(608, 10.0) + norms(1200, 0.7))
    assert run.states(RULE) == ["firing", "recovering", "resolved"]
