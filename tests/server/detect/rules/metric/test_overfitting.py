"""Tests of the rule overfitting."""

from __future__ import annotations

import random
from typing import Any

import pytest

RULE = "overfitting"


def trained(watch: Any, held: list[float], falls: float = 1.0, **more: list[float]) -> Any:
    """An evaluation every 50 steps, and a training loss that falls by ``falls`` over the run."""
    run = watch()
    steps = 50 * len(held)
    columns: dict[str, list[float | None]] = {
        f"val/{name}": [values[step // 50] if step % 50 == 49 else None for step in range(steps)]
        for name, values in {"loss": held, **more}.items()
    }
    run.records(loss=[2.0 - falls * step / steps + 0.01 * (step % 3) for step in range(steps)], more=columns)
    return run


TURNED = [1.5, 1.3, 1.2, 1.15, 1.2, 1.25, 1.3, 1.36, 1.42, 1.48, 1.54]


def test_held_out_loss_turns(watch: Any) -> None:
    """Six evaluations after the best, while the training loss falls: a warning, dated to the best."""
    run = trained(watch, TURNED)
    finding = run.firing(RULE)[0]
    assert (finding.severity, finding.onset_step) == ("warning", 199)


def test_a_training_loss_that_does_not_fall_raises_no_alert(watch: Any) -> None:
    """Other rules handle two rising losses."""
    assert trained(watch, TURNED, falls=0.0).firing(RULE) == []


@pytest.mark.parametrize("slope", [0.01, 0.0])
def test_a_task_metric_that_holds_or_improves_raises_no_alert(watch: Any, slope: float) -> None:
    """Loss up, word error rate down or level: the model becomes overconfident, but not worse."""
    run = trained(watch, TURNED, wer=[0.9 - slope * index for index in range(len(TURNED))])
    assert run.firing(RULE) == []


def test_training_accuracy_that_falls_too_is_no_overfitting(watch: Any) -> None:
    """A model that memorized its training data would keep its training accuracy."""
    run = watch()
    steps = 50 * len(TURNED)
    more = {
        "val/loss": [TURNED[step // 50] if step % 50 == 49 else None for step in range(steps)],
        "train/accuracy": [0.9 - step / 1000 if step % 50 == 49 else None for step in range(steps)],
    }
    run.records(loss=[2.0 - step / steps for step in range(steps)], more=more)
    assert run.firing(RULE) == []


def test_a_noisy_validation_set_raises_no_alert(watch: Any) -> None:
    """Up and down by 3 % around a level."""
    draw = random.Random(1)
    run = trained(watch, [1.0 + 0.03 * draw.gauss(0, 1) for _ in range(100)])
    assert run.firing(RULE) == []


def test_a_new_best_resolves_it(watch: Any) -> None:
    """The model was not overfitting."""
    assert trained(watch, [*TURNED, 1.0, 0.9]).states(RULE) == ["firing", "recovering", "resolved"]
