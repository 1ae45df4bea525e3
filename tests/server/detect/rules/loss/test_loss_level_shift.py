"""Tests of the rule loss-level-shift."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from tests.matrix import represented

RULE = "loss-level-shift"


def noisy(count: int, level: float, sigma: float = 0.1, seed: int = 1) -> list[float]:
    draw = random.Random(seed)
    return [level + sigma * draw.gauss(0, 1) for _ in range(count)]


def test_a_jump_that_stays(watch: Any) -> None:
    """A fifth higher for more than 200 records: warning, dated to the jump."""
    run = watch()
    run.records(loss=noisy(400, 2.0) + noisy(500, 2.5, seed=2))
    finding = run.firing(RULE)[0]
    assert finding.severity == "warning"
    assert 384 <= finding.onset_step <= 400


def test_a_level_that_stays_is_no_recovery(watch: Any) -> None:
    """The alert fires until the loss is back, however long that takes."""
    run = watch()
    run.records(loss=noisy(400, 2.0) + noisy(6000, 2.5, seed=2))
    assert run.states(RULE)[-1] == "firing"
    run.records(loss=noisy(400, 2.0, seed=3))
    assert run.states(RULE)[-1] == "resolved"


def test_a_spike_that_recovers_is_none(watch: Any) -> None:
    """100 higher records are not a new level."""
    run = watch()
    run.records(loss=noisy(400, 2.0) + noisy(100, 3.0) + noisy(400, 2.0))
    assert run.firing(RULE) == []


def test_with_the_learning_rate_it_is_info(watch: Any) -> None:
    """A rate that rises tenfold there explains it."""
    run = watch()
    run.records(loss=noisy(400, 2.0) + noisy(500, 2.5, seed=2), lr=[1e-4] * 400 + [1e-3] * 500)
    assert run.severities(RULE) == ["info"]
    assert "rate rose" in run.firing(RULE)[0].diagnosis.cause


def test_a_loss_that_crosses_zero(watch: Any) -> None:
    """Measured by the largest absolute loss: 4 to -1, back to 0.5."""
    run = watch()
    falling = [4.0 - 5.0 * step / 400 for step in range(400)]
    run.records(loss=falling + noisy(400, -1.0) + noisy(500, 0.5, seed=2))
    assert run.severities(RULE) == ["warning"]


@pytest.mark.parametrize("seed", represented(range(4)))
@pytest.mark.parametrize("turn", [300, 900, 2400])
def test_a_healthy_swing_through_zero_is_none(watch: Any, turn: int, seed: int) -> None:
    """+-30, back and forth without a trend."""
    draw = random.Random(seed)
    swing = [math.sin(2 * math.pi * (step / turn + seed / 4)) for step in range(15_000)]
    run = watch()
    run.records(loss=[30 * value + draw.gauss(0, 6) for value in swing])
    assert run.firing(RULE) == []


def test_a_shift_within_the_spread_of_the_loss_is_none(watch: Any) -> None:
    """Noise of +-30 around zero, its level 20 higher from some record on."""
    run = watch()
    run.records(loss=noisy(1600, 0.0, 30.0) + noisy(1600, 20.0, 30.0, seed=2))
    assert run.firing(RULE) == []


@pytest.mark.parametrize("seed", range(3))
def test_noise_raises_no_alert(watch: Any, seed: int) -> None:
    """Heavy-tailed noise of small batches on a falling loss, 20 000 records."""
    draw = random.Random(seed)
    run = watch()
    run.records(loss=[2.0 / (1 + step / 3000) * draw.lognormvariate(0, 0.8) for step in range(20_000)])
    assert run.firing(RULE) == []


def test_an_excerpt_is_compared_with_its_first_records(watch: Any) -> None:
    """A few iteration lines out of a long run: 6.4 to 10.2 within five records."""
    run = watch()
    run.records(start=6900, every=10, loss=[6.37, 6.6, 6.5, 9.1, 10.2])
    run.event("finish")
    assert run.severities(RULE) == ["warning"]


def test_back_at_the_old_level_it_ends(watch: Any) -> None:
    """Three bins within 3 %."""
    run = watch()
    run.records(loss=noisy(400, 2.0) + noisy(500, 2.5, seed=2) + noisy(400, 2.0, seed=3))
    assert run.states(RULE) == ["firing", "recovering", "resolved"]


def test_the_cause_names_what_changed_with_the_jump(watch: Any) -> None:
    """Of an excerpt of a few records: the scale fell at the same record."""
    causes = []
    for scale in ([65536.0] * 8, [65536.0] * 3 + [4096.0] * 5):
        run = watch()
        run.records(start=29020, every=10, loss=[2.77] * 3 + [8.7] * 5, scale=scale)
        run.event("finish")
        causes.append(run.firing(RULE)[-1].diagnosis.cause)
    assert causes[0].startswith("Loss scale, gradient norm and learning rate kept their levels")
    assert causes[1].startswith("At the same step, the loss scale went 2¹⁶ → 2¹²")


def test_a_norm_that_falls_to_0_is_a_change(watch: Any) -> None:
    run = watch()
    run.records(start=29020, every=10, loss=[2.77] * 3 + [8.7] * 5, grad_norm=[0.5] * 3 + [0.0] * 5)
    run.event("finish")
    assert run.firing(RULE)[-1].diagnosis.cause.startswith("At the same step, the gradient norm went 0.5 → 0")
