"""Tests of the rule loss-drift."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

RULE = "loss-drift"


def drifting(count: int, share: float, sigma: float = 0.02, start: float = 2.0) -> list[float]:
    draw = random.Random(1)
    return [start * (1 + share * step / count) * (1 + draw.gauss(0, sigma)) for step in range(count)]


def test_a_slow_rise_is_info_then_warning(watch: Any) -> None:
    """5 % in 3000 records, which no spike rule detects."""
    run = watch()
    run.records(loss=drifting(3000, 0.05))
    assert run.severities(RULE) == ["info", "warning"]
    assert run.firing("loss-spike") == []


def test_a_rise_since_the_start_needs_few_records(watch: Any) -> None:
    """3.67 to 3.72 in 600 records of a hundred steps."""
    run = watch()
    run.records(every=100, loss=drifting(600, 0.0136, sigma=0.003, start=3.67))
    finding = run.firing(RULE)[0]
    assert (finding.severity, finding.onset_step) == ("warning", 0)


def test_a_rise_since_a_rewind_is_no_rise_since_the_start(watch: Any) -> None:
    """A run that is resumed repeats some batches and may rise for a while."""
    run = watch()
    run.records(every=100, loss=[3.67] * 100)
    run.records(start=5000, every=100, loss=drifting(600, 0.0136, sigma=0.003, start=3.67))
    assert run.firing(RULE) == []


def test_less_than_one_percent_raises_no_alert(watch: Any) -> None:
    """Even if significant."""
    run = watch()
    run.records(loss=drifting(3000, 0.005, sigma=0.001))
    assert run.firing(RULE) == []


def test_a_rate_that_rises_explains_it(watch: Any) -> None:
    """Info only, and named as the cause."""
    run = watch()
    run.records(loss=drifting(3000, 0.05), lr=[1e-4 * (1 + step / 1000) for step in range(3000)])
    assert run.severities(RULE) == ["info"]
    assert "learning rate rises" in run.firing(RULE)[0].diagnosis.cause


def test_a_negative_loss_never_warns(watch: Any) -> None:
    """A critic's loss normally rises."""
    run = watch()
    run.records(loss=[-30 + 20 * step / 4000 for step in range(4000)])
    assert "warning" not in run.severities(RULE)


@pytest.mark.parametrize("seed", range(3))
def test_noise_around_a_level_never_warns(watch: Any, seed: int) -> None:
    """20 000 records without a trend."""
    draw = random.Random(seed)
    run = watch()
    run.records(loss=[draw.lognormvariate(0, 0.5) for _ in range(20_000)])
    assert "warning" not in run.severities(RULE)


def test_resolved_when_it_falls_again(watch: Any) -> None:
    """Five bins without a rise."""
    run = watch()
    run.records(loss=drifting(2500, 0.05) + drifting(2500, -0.2, start=2.1))
    assert run.states(RULE)[-1] == "resolved"


@pytest.mark.parametrize("turn", [300, 2400, 9000])
def test_a_healthy_swing_through_zero_never_warns(watch: Any, turn: int) -> None:
    """+-30 without a trend, also where 2000 records of it lie above zero."""
    draw = random.Random(turn)
    run = watch()
    run.records(loss=[30 * math.sin(2 * math.pi * step / turn) + draw.gauss(0, 6) for step in range(15_000)])
    assert "warning" not in run.severities(RULE)


def test_a_rise_within_the_spread_raises_no_alert(watch: Any) -> None:
    """From -15 to 15 in noise of 30, over 4000 records."""
    draw = random.Random(6)
    run = watch()
    run.records(loss=[-15 + 30 * step / 4000 + draw.gauss(0, 30) for step in range(4000)])
    assert run.firing(RULE) == []
