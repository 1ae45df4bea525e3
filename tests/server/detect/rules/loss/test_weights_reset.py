"""Tests of the rule weights-reset."""

from __future__ import annotations

import math
import random
from typing import Any

RULE = "weights-reset"


def learned(count: int = 300) -> list[float]:
    draw = random.Random(1)
    return [30.0 * (0.03 + 0.97 * math.exp(-step / 40)) * (1 + draw.gauss(0, 0.02)) for step in range(count)]


def test_back_at_the_initial_loss_in_one_record(watch: Any) -> None:
    """From 1.07 to its initial value, and learning again from there."""
    run = watch()
    run.records(loss=learned() + learned(50))
    finding = run.firing(RULE)[0]
    assert (finding.severity, finding.onset_step) == ("critical", 300)
    assert "initialized again" in finding.diagnosis.cause


def test_it_fires_until_the_loss_is_back_at_its_level(watch: Any) -> None:
    """A loss that stays at its first value has not recovered."""
    run = watch()
    run.records(loss=learned() + [30.0 + 0.01 * (step % 5) for step in range(600)])
    assert run.states(RULE)[-1] == "firing"


def test_the_gradient_norm_must_be_back_too(watch: Any) -> None:
    """A jump to the height of the first loss with another norm is a spike."""
    losses = learned() + learned(50)
    run = watch()
    run.records(loss=losses, grad_norm=[4.0] + [1.0] * 299 + [9.0] * 50)
    assert run.firing(RULE) == []
    same = watch()
    same.records(loss=losses, grad_norm=[4.0] + [1.0] * 299 + [4.3] * 50)
    assert len(same.firing(RULE)) == 1


def test_a_constant_loss_is_no_reset(watch: Any) -> None:
    """A model that gives the same output for everything was not initialized again."""
    run = watch()
    run.records(loss=learned() + [30.0] * 50)
    assert run.firing(RULE) == []


def test_a_spike_that_falls_back_is_none(watch: Any) -> None:
    """Two records at the height of the start."""
    run = watch()
    run.records(loss=[*learned(), 29.5, 29.0, *learned()[250:]])
    assert run.firing(RULE) == []


def test_beyond_the_initial_loss_is_divergence(watch: Any) -> None:
    """An untrained model would not have a loss of 100."""
    run = watch()
    run.records(loss=learned() + [100.0] * 50)
    assert run.firing(RULE) == []


def test_a_rewind_does_not_hide_it(watch: Any) -> None:
    """Steps go back to a checkpoint, whose weights were not loaded."""
    run = watch()
    run.records(steps=[*range(300), *range(200, 264)], loss=learned() + learned(64))
    assert len(run.firing(RULE)) == 1


def test_noise_that_reaches_the_start_is_none(watch: Any) -> None:
    """Losses of single samples cover the whole range."""
    draw = random.Random(2)
    run = watch()
    run.records(loss=[draw.lognormvariate(0, 1.0) / (1 + step / 500) for step in range(10_000)])
    assert run.firing(RULE) == []


def test_resolved_when_it_has_learned_again(watch: Any) -> None:
    """Far below the start for a hundred updates."""
    run = watch()
    run.records(loss=learned() + learned(400))
    assert run.states(RULE) == ["firing", "recovering", "resolved"]


def test_a_resume_with_new_weights_is_detected(watch: Any) -> None:
    """The next attempt continues at the same step, and the loss is back at its initial value."""
    run = watch()
    run.records(loss=[6.0 / (1 + step / 40) for step in range(300)])
    run.records(start=300, attempt=2, process=1, loss=[5.9 - step / 500 for step in range(40)])
    assert [(finding.onset_step, finding.severity) for finding in run.firing(RULE)] == [(300, "critical")]


def test_an_attempt_from_the_first_step_raises_no_alert(watch: Any) -> None:
    """Nothing was resumed."""
    run = watch()
    run.records(loss=[6.0 / (1 + step / 40) for step in range(300)])
    run.records(attempt=2, process=1, loss=[6.0 / (1 + step / 40) for step in range(300)])
    assert run.firing(RULE) == []


def test_a_rewind_to_an_early_step_raises_no_alert(watch: Any) -> None:
    """Steps go back to the fifth, where the loss was as high."""
    run = watch()
    run.records(steps=[*range(300), *range(5, 105)], loss=learned() + learned(105)[5:])
    assert run.firing(RULE) == []
