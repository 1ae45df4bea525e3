"""Tests of the rule early-climb."""

from __future__ import annotations

import random
from typing import Any

import pytest

RULE = "early-climb"


def noisy(count: int, level: float, sigma: float = 0.05, seed: int = 1) -> list[float]:
    draw = random.Random(seed)
    return [level * draw.lognormvariate(0, sigma) for _ in range(count)]


@pytest.mark.parametrize(
    ("before", "after"),
    [(noisy(30, 0.87), [0.9 * 1.12**step for step in range(19)]), (noisy(80, 0.15), noisy(15, 1.8))],
)
def test_a_climb_in_a_short_run_is_a_warning(watch: Any, before: list[float], after: list[float]) -> None:
    """0.87 to 7 in 49 records, and 0.15 to 1.8 from record 80."""
    run = watch()
    run.records(loss=before + after)
    assert run.severities(RULE) == ["warning"] or run.firing("loss-spike")


def test_the_onset_is_the_first_of_the_five(watch: Any) -> None:
    run = watch()
    run.records(loss=[6.0, *noisy(30, 0.5, seed=2), *[7.0 + step for step in range(20)]])
    assert run.firing(RULE)[0].onset_step == 31


def test_four_high_losses_raise_no_alert(watch: Any) -> None:
    run = watch()
    run.records(loss=[*noisy(30, 0.5), *[9.0] * 4, *noisy(30, 0.5)])
    assert run.firing(RULE) == []


def test_a_loss_that_is_back_resolves_it(watch: Any) -> None:
    run = watch()
    run.records(loss=[*noisy(20, 0.5), *[9.0] * 8, *noisy(100, 0.5, seed=3)])
    assert run.states(RULE) == ["firing", "recovering", "resolved"]


def test_a_loss_that_stays_high_fires_on(watch: Any) -> None:
    """Also after the records that are checked."""
    run = watch()
    run.records(loss=[*noisy(20, 0.5), *noisy(400, 9.0)])
    assert run.states(RULE)[-1] == "firing"


@pytest.mark.parametrize("seed", range(8))
def test_losses_of_single_samples_raise_no_alert(watch: Any, seed: int) -> None:
    """Healthy losses of single samples differ by a factor of ten."""
    run = watch()
    run.records(loss=noisy(150, 1.0, sigma=1.0, seed=seed))
    assert run.firing(RULE) == []
