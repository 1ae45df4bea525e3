"""Tests of the rule stair-steps."""

from __future__ import annotations

import random
from typing import Any

RULE = "stair-steps"


def stairs(lengths: list[int], levels: list[float]) -> list[float]:
    draw = random.Random(1)
    return [
        level * (1 + draw.gauss(0, 0.05))
        for length, level in zip(lengths, levels, strict=True)
        for _ in range(length)
    ]


def test_drops_at_equal_distances(watch: Any) -> None:
    """Three epochs of 406 steps: reported as info, with their length."""
    run = watch()
    run.records(loss=stairs([406, 406, 406], [1.09, 0.72, 0.41]))
    finding = run.firing(RULE)[0]
    assert finding.severity == "info"
    assert "samples again" in finding.diagnosis.cause


def test_drops_of_the_rate_raise_no_alert(watch: Any) -> None:
    """A MultiStep schedule also causes steps."""
    run = watch()
    rates = [0.1] * 400 + [0.01] * 400 + [0.001] * 400
    run.records(loss=stairs([400, 400, 400], [1.0, 0.7, 0.4]), lr=rates)
    assert run.firing(RULE) == []


def test_uneven_drops_are_none(watch: Any) -> None:
    """Their distances differ by half."""
    run = watch()
    run.records(loss=stairs([400, 700, 400], [1.0, 0.7, 0.4]))
    assert run.firing(RULE) == []


def test_a_slope_is_no_stair(watch: Any) -> None:
    """A loss that falls continuously."""
    run = watch()
    run.records(loss=[5.0 / (1 + step / 100) for step in range(3000)])
    assert run.firing(RULE) == []
