"""Tests of the rule not-learning."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

RULE = "not-learning"


def stuck(count: int, level: float = 6.9078, sigma: float = 0.01) -> list[float]:
    draw = random.Random(1)
    return [level * (1 + draw.gauss(0, sigma)) for _ in range(count)]


def test_a_loss_at_chance_is_named(watch: Any) -> None:
    """ln 1000 for 200 records of a hundred steps: chance level for 1000 classes."""
    run = watch()
    run.records(every=100, loss=stuck(240), lr=[1e-3] * 240)
    finding = run.firing(RULE)[0]
    assert finding.severity == "warning"
    assert "chance level for 1000 classes" in finding.summary


def test_fifty_records_are_enough_at_chance(watch: Any) -> None:
    """A trainer that logs every 20 updates."""
    run = watch()
    run.records(every=20, loss=stuck(64), lr=[1e-3] * 64)
    assert run.firing(RULE)[0].step <= 1260


def test_fifty_records_are_enough_for_a_loss_that_rises_from_chance(watch: Any) -> None:
    """Label smoothing and a collapsed model: 6.92 to 7.2."""
    run = watch()
    run.records(every=100, loss=[6.92] * 12 + stuck(68, 7.2), lr=[1e-3] * 80)
    assert run.firing(RULE)[0].step <= 6400


def test_a_hundred_records_off_chance_are_too_few(watch: Any) -> None:
    """2.0 is not ln K for any number K of classes above 100."""
    run = watch()
    run.records(every=20, loss=stuck(112, 2.0), lr=[1e-3] * 112)
    assert run.firing(RULE) == []


@pytest.mark.parametrize(
    ("series", "cause"),
    [
        ({"lr": [0.0] * 1200}, "learning rate is 0"),
        ({"skipped": [1.0] * 1200}, "Every update is skipped"),
        ({"grad_norm": [0.0] * 1200}, "no gradient reaches"),
        ({"lr": [0.6] * 1200}, "learning rate (0.6) is far too high"),
    ],
)
def test_the_cause_follows_the_records(watch: Any, series: Any, cause: str) -> None:
    """The same flat loss: rate 0, all skipped, norm 0, and only then a rate that is far off."""
    run = watch()
    run.records(loss=stuck(1200, 3.91), **series)
    assert cause in run.firing(RULE)[0].diagnosis.cause


def test_a_loss_that_falls_raises_no_alert(watch: Any) -> None:
    """A tenth in a thousand noisy steps is learning."""
    draw = random.Random(2)
    run = watch()
    run.records(loss=[2.0 * (1 - step / 10_000) * (1 + draw.gauss(0, 0.1)) for step in range(2000)])
    assert run.firing(RULE) == []


def test_no_alert_while_the_rate_warms_up(watch: Any) -> None:
    """A warmup is not a plateau, so no alert fires while the learning rate rises."""
    run = watch()
    run.records(loss=stuck(1500, 2.0), lr=[1e-6 * step for step in range(1500)])
    assert run.firing(RULE) == []


def test_a_resumed_run_is_not_compared_with_its_first_record(watch: Any) -> None:
    """Resumed at step 50 000 and flat: it may have learned before."""
    run = watch()
    run.records(start=50_000, loss=stuck(1500, 2.2))
    assert run.firing(RULE) == []


def test_single_samples_are_waited_for(watch: Any) -> None:
    """Where noise hides a fall of 5 % the rule waits for more records."""
    draw = random.Random(3)
    run = watch()
    run.records(loss=[draw.gauss(0, 1) ** 2 for _ in range(1500)])
    assert run.firing(RULE) == []


def test_resolved_when_it_learns_after_all(watch: Any) -> None:
    """A fall of 5 % ends it."""
    run = watch()
    run.records(loss=stuck(1200, 2.0) + stuck(200, 1.5))
    assert run.states(RULE)[-1] == "resolved"


def test_a_rate_may_be_too_high_as_well_as_too_low(watch: Any) -> None:
    """Both are named, unless the gradient norm left its level."""
    causes = []
    for grows in (1.0, 1.1):
        run = watch()
        norm = [grows ** max(0, step - 600) for step in range(1300)]
        run.records(loss=[5.3 + 0.01 * math.sin(step) for step in range(1300)], grad_norm=norm)
        causes.append(run.firing(RULE)[-1].diagnosis.cause)
    assert "far too high (the model collapsed) or far too low" in causes[0]
    assert "gradient norm has left its level" in causes[1]
