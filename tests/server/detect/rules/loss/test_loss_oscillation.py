"""Tests of the rule loss-oscillation."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

RULE = "loss-oscillation"


def swing(count: int, period: int, height: float = 0.5) -> list[float]:
    draw = random.Random(1)
    return [
        2 + height * math.sin(2 * math.pi * step / period) + 0.1 * draw.gauss(0, 1) for step in range(count)
    ]


@pytest.mark.parametrize("period", [4, 6, 8])
def test_a_fast_oscillation_is_reported(watch: Any, period: int) -> None:
    """Info, with its period."""
    run = watch()
    run.records(loss=swing(600, period))
    finding = run.firing(RULE)[0]
    assert finding.severity == "info"
    assert f"period of {period} records" in finding.summary


def test_a_slow_oscillation_is_reported(watch: Any) -> None:
    """A period of 256 records."""
    run = watch()
    run.records(loss=swing(2500, 256))
    assert run.severities(RULE) == ["info"]


def test_swings_that_grow_are_a_warning(watch: Any) -> None:
    """Each window higher than the last, and the level does not fall."""
    run = watch()
    run.records(loss=[2 + 0.3 * 1.0006**step * math.sin(math.pi * step / 3) for step in range(2500)])
    assert run.severities(RULE) == ["info", "warning"]


def test_alternating_data_sets_are_named(watch: Any) -> None:
    """A period of two records: info only."""
    run = watch()
    run.records(loss=[1.0 + step % 2 for step in range(3000)])
    assert run.severities(RULE) == ["info"]
    assert "two data sets" in run.firing(RULE)[0].diagnosis.cause


@pytest.mark.parametrize("seed", range(3))
def test_batch_noise_has_no_memory(watch: Any, seed: int) -> None:
    """20 000 records of noise as high as the loss."""
    draw = random.Random(seed)
    run = watch()
    run.records(loss=[draw.lognormvariate(0, 0.8) for _ in range(20_000)])
    assert run.firing(RULE) == []


def test_resolved_when_it_is_over(watch: Any) -> None:
    """Three windows of noise."""
    draw = random.Random(2)
    run = watch()
    run.records(loss=swing(1024, 6) + [2 + 0.1 * draw.gauss(0, 1) for _ in range(1200)])
    assert run.states(RULE) == ["firing", "recovering", "resolved"]
