"""Tests of the rule plateau."""

from __future__ import annotations

import math
import random
from typing import Any

RULE = "plateau"


def level(count: int, height: float = 0.7) -> list[float]:
    draw = random.Random(1)
    return [height * (1 + draw.gauss(0, 0.05)) for _ in range(count)]


def falling(count: int) -> list[float]:
    return [3.0 / (1 + step / 200) + 0.4 for step in range(count)]


def test_no_new_best_for_thousands_of_records(watch: Any) -> None:
    """Reported as info, dated to the best."""
    run = watch()
    run.records(loss=falling(600) + level(4400, 1.1), lr=[1e-3] * 5000)
    finding = run.firing(RULE)[0]
    assert finding.severity == "info"
    assert finding.onset_step <= 1200


def test_the_end_of_a_schedule_is_no_plateau(watch: Any) -> None:
    """At a tenth of the peak rate the loss is expected to be constant."""
    run = watch()
    run.records(loss=falling(600) + level(4400, 1.1), lr=[1e-3] * 600 + [1e-4] * 4400)
    assert run.firing(RULE) == []


def test_a_converged_loss_is_no_plateau(watch: Any) -> None:
    """Below 2 % of the first loss, no further fall is expected."""
    run = watch()
    run.records(loss=level(50, 5.0) + level(6000, 0.01))
    assert run.firing(RULE) == []


def test_a_new_best_resolves_it(watch: Any) -> None:
    """The loss falls again."""
    run = watch()
    run.records(loss=falling(600) + level(4400, 1.1) + level(200, 0.5))
    assert run.states(RULE) == ["firing", "recovering", "resolved"]


def test_a_negative_loss_has_its_best_too(watch: Any) -> None:
    """-0.9 to -0.95 is better."""
    run = watch()
    run.records(loss=[-0.9 - 0.05 * step / 6000 for step in range(6000)])
    assert run.firing(RULE) == []


def test_a_loss_that_still_falls_slowly_is_no_plateau(watch: Any) -> None:
    """A lucky best, and noise larger than the improvement since: the medians still fall."""
    draw = random.Random(3)
    loss = falling(600) + [1.1 * (1 - 0.1 * step / 6000) * (1 + draw.gauss(0, 0.1)) for step in range(6000)]
    loss[600:650] = [1.05] * 50
    run = watch()
    run.records(loss=loss, lr=[1e-3] * len(loss))
    assert run.firing(RULE) == []


def test_a_critic_that_swings_is_no_plateau(watch: Any) -> None:
    """The loss swings by 30 around zero every 2500 records, so its best value means nothing."""
    draw = random.Random(4)
    run = watch()
    run.records(loss=[30 * math.sin(step / 400) + draw.gauss(0, 5) for step in range(12_000)])
    assert run.firing(RULE) == []


def test_a_constant_negative_loss_is_a_plateau(watch: Any) -> None:
    """It falls to -5 and stays there within its spread."""
    draw = random.Random(5)
    run = watch()
    run.records(loss=[max(3 - 8 * step / 1000, -5.0) + draw.gauss(0, 0.2) for step in range(6000)])
    assert run.severities(RULE) == ["info"]
