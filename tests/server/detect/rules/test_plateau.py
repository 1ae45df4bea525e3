"""Tests of the rule plateau."""

from __future__ import annotations

import random
from typing import Any

RULE = "plateau"


def level(count: int, height: float = 0.7) -> list[float]:
    draw = random.Random(1)
    return [height * (1 + draw.gauss(0, 0.05)) for _ in range(count)]


def falling(count: int) -> list[float]:
    return [3.0 / (1 + step / 200) + 0.4 for step in range(count)]


def test_no_new_best_for_a_thousand_records(watch: Any) -> None:
    """Told as info, dated to the best."""
    run = watch()
    run.records(loss=falling(600) + level(3000, 1.1), lr=[1e-3] * 3600)
    finding = run.firing(RULE)[0]
    assert finding.severity == "info"
    assert finding.onset_step <= 1200


def test_the_end_of_a_schedule_is_no_plateau(watch: Any) -> None:
    """At a tenth of the peak rate the loss is meant to stand."""
    run = watch()
    run.records(loss=falling(600) + level(3000, 1.1), lr=[1e-3] * 600 + [1e-4] * 3000)
    assert run.firing(RULE) == []


def test_a_loss_that_has_come_down_is_no_plateau(watch: Any) -> None:
    """Below 2 % of the first loss there is nothing more to fall."""
    run = watch()
    run.records(loss=level(50, 5.0) + level(4000, 0.01))
    assert run.firing(RULE) == []


def test_a_new_best_resolves_it(watch: Any) -> None:
    """The loss falls again."""
    run = watch()
    run.records(loss=falling(600) + level(3000, 1.1) + level(200, 0.5))
    assert run.states(RULE) == ["firing", "recovering", "resolved"]


def test_a_negative_loss_has_its_best_too(watch: Any) -> None:
    """-0.9 to -0.95 is better."""
    run = watch()
    run.records(loss=[-0.9 - 0.05 * step / 4000 for step in range(4000)])
    assert run.firing(RULE) == []
