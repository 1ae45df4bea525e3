"""Tests of the rule adversarial-imbalance."""

from __future__ import annotations

import math
import random
from typing import Any

RULE = "adversarial-imbalance"


def gan(watch: Any, generator: list[float], critic: list[float]) -> Any:
    run = watch()
    run.records(loss=generator, more={"loss/D": critic})
    return run


def noise(count: int, level: float) -> list[float]:
    draw = random.Random(1)
    return [level * (1 + draw.gauss(0, 0.1)) for _ in range(count)]


def test_the_discriminator_has_won(watch: Any) -> None:
    """Its loss is 0 for 500 records, and the generator's rises fivefold."""
    run = gan(watch, noise(200, 0.7) + noise(1000, 4.0), noise(200, 1.2) + noise(1000, 0.001))
    assert run.severities(RULE) == ["warning"]
    assert "separates real from generated samples" in run.firing(RULE)[0].diagnosis.cause


def test_a_critic_without_bounds(watch: Any) -> None:
    """Its absolute loss grows from 2 to 600 and further."""
    grows = [-2.0 - step * 0.5 for step in range(1200)]
    run = gan(watch, noise(1200, 0.7), grows)
    assert run.severities(RULE) == ["warning"]
    assert "grows without bound" in run.firing(RULE)[0].diagnosis.cause


def test_oscillating_losses_raise_no_alert(watch: Any) -> None:
    """Two losses that go up and down, and change their sign."""
    swing = [math.sin(step / 60) for step in range(3000)]
    assert gan(watch, swing, [0.5 - value for value in swing]).alarms == []


def test_two_optimizers_of_one_objective_are_not_adversarial(watch: Any) -> None:
    """They report the same loss, which may fall to 0."""
    loss = noise(200, 1.0) + noise(1000, 0.001)
    assert gan(watch, loss, loss).firing(RULE) == []


def test_resolved_in_balance(watch: Any) -> None:
    """Both learn again."""
    generator = noise(200, 0.7) + noise(700, 4.0) + noise(1500, 0.8)
    run = gan(watch, generator, noise(200, 1.2) + noise(700, 0.001) + noise(1500, 1.0))
    assert run.states(RULE) == ["firing", "recovering", "resolved"]
