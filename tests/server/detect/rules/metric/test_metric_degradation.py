"""Tests of the rule metric-degradation."""

from __future__ import annotations

import random
from typing import Any

import pytest

RULE = "metric-degradation"


def evaluated(watch: Any, unit: str = "", goal: str = "max", **metrics: list[float]) -> Any:
    """Evaluations every 500 steps."""
    run = watch()
    for name in metrics:
        run.event("metric", name=f"val/{name}", goal=goal, unit=unit)
    run.records(every=500, more={f"val/{name}": values for name, values in metrics.items()})
    return run


RISE = [0.1, 0.2, 0.3, 0.38, 0.44, 0.49, 0.52, 0.54]


def test_three_evaluations_ten_per_cent_worse(watch: Any) -> None:
    """Warning, dated to the best; also far below it, because evaluations alone may be what is wrong."""
    run = evaluated(watch, accuracy=[*RISE, 0.5, 0.45, 0.44, 0.43, 0.3, 0.2, 0.1])
    assert run.severities(RULE) == ["warning"]
    assert run.firing(RULE)[0].onset_step == 3500


LONG = [0.05 * index for index in range(1, 13)]


def collapsing(watch: Any, loss: list[float]) -> Any:
    """Accuracy rises over twelve evaluations and collapses; ``loss``: that of 100 records before each."""
    run = watch()
    values = [*LONG, *[0.1] * 5]
    accuracy = [values[step // 100] if step % 100 == 99 else None for step in range(1700)]
    losses = [loss[step // 100] for step in range(1700)]
    run.records(loss=losses, more={"val/accuracy": accuracy})
    return run


def test_a_collapse_with_a_rising_training_loss_is_critical(watch: Any) -> None:
    run = collapsing(watch, [1.0] * 12 + [3.0] * 5)
    assert run.severities(RULE)[-1] == "critical"


def test_a_collapse_of_the_evaluation_alone_is_a_warning(watch: Any) -> None:
    """The training loss keeps falling: running statistics, or overfitting."""
    run = collapsing(watch, [1.0 - 0.02 * index for index in range(17)])
    assert run.severities(RULE) == ["warning"]


def test_a_collapse_on_training_data_too_is_critical(watch: Any) -> None:
    """In a log without training losses after the first records."""
    run = watch()
    metrics = {name: [*LONG, *[0.1] * 5] for name in ("val/accuracy", "train/accuracy")}
    run.records(loss=[1.0] * 20)
    run.records(start=100, every=500, more=metrics)
    assert run.severities(RULE)[-1] == "critical"


@pytest.mark.parametrize(("doubled", "severity"), [(False, "critical"), (True, "warning")])
def test_an_evaluation_written_twice_counts_once(watch: Any, *, doubled: bool, severity: str) -> None:
    """Six evaluations up to the best do not establish it, also if each is in the log twice."""
    rise = [0.1 * index for index in range(1, 7)] if doubled else LONG
    values, copies = [*rise, *[0.02] * 4], 1 + doubled
    run = watch()
    for place, value in enumerate(values):
        loss = 1.0 if place < len(rise) else 3.0
        run.records(start=100 * place, loss=[loss] * 99)
        for _ in range(copies):
            run.records(start=100 * place + 99, more={"val/accuracy": [value]})
    assert run.severities(RULE)[-1] == severity


def test_the_same_best_is_reported_once(watch: Any) -> None:
    """Down, back near the best, and down again is one alert."""
    run = evaluated(watch, accuracy=[*RISE, 0.4, 0.4, 0.4, 0.53, 0.53, 0.53, 0.4, 0.4, 0.4])
    assert run.states(RULE) == ["firing", "recovering", "resolved"]


def test_a_falling_training_loss_makes_it_overfitting(watch: Any) -> None:
    run = watch()
    run.records(
        every=500,
        loss=[1.0 - 0.03 * index for index in range(12)],
        more={"val/accuracy": [*RISE, 0.4, 0.4, 0.4, 0.4]},
    )
    assert "memorizes" in run.firing(RULE)[0].diagnosis.cause


def test_two_metrics_are_one_alert_that_names_an_early_best(watch: Any) -> None:
    """PSNR and SSIM fall from their best at the second of forty evaluations."""
    psnr = [11.2, 11.51, *[11.4 - 0.011 * index for index in range(38)]]
    ssim = [0.46, 0.4685, *[0.46 - 0.003 * index for index in range(38)]]
    run = evaluated(watch, psnr=psnr, ssim=ssim)
    finding = run.firing(RULE)[-1]
    assert len({item.subject for item in run.firing(RULE)}) == 1
    assert "already at step 500" in finding.summary


def test_decibels_are_differences(watch: Any) -> None:
    """30.0 to 29.6 dB is 1 % and a warning."""
    run = evaluated(watch, unit="dB", quality=[25.0, 27.0, 29.0, *[29.95, 30.0] * 5, 29.5, 29.5, 29.4])
    assert run.severities(RULE) == ["warning"]


def test_for_a_goal_of_min_up_is_worse(watch: Any) -> None:
    """A word error rate that rises."""
    run = evaluated(watch, goal="min", wer=[0.9, 0.5, 0.4, 0.35, 0.34, 0.33, 0.45, 0.46, 0.47, 0.48])
    assert run.severities(RULE) == ["warning"]


@pytest.mark.parametrize("name", ["thing", "loss", "codebook_perplexity"])
def test_without_a_direction_there_is_no_alert(watch: Any, name: str) -> None:
    """Neither given nor known by its name; overfitting handles held-out losses."""
    run = watch()
    run.records(every=500, more={f"val/{name}": [0.9, 0.5, 0.3, 0.2, 0.2, 0.9, 0.9, 0.9]})
    assert run.firing(RULE) == []


def test_the_direction_follows_from_the_name(watch: Any) -> None:
    """Accuracy goes up."""
    run = watch()
    run.records(every=500, more={"val/top1_accuracy": [*RISE, 0.2, 0.1, 0.1, 0.1]})
    assert run.severities(RULE) == ["warning"]


def test_a_noisy_validation_set_raises_no_alert(watch: Any) -> None:
    """200 evaluations with a sigma of 5 %."""
    draw = random.Random(1)
    run = evaluated(watch, f1=[min(0.5, 0.1 * step) * (1 + draw.gauss(0, 0.05)) for step in range(200)])
    assert run.firing(RULE) == []


def test_guessing_has_no_best(watch: Any) -> None:
    """0.001, once 0.0018, then 0.001 again."""
    run = evaluated(watch, accuracy=[0.001, 0.0018, 0.0012, *[0.001] * 20])
    assert run.firing(RULE) == []


def test_resolved_near_the_best(watch: Any) -> None:
    """Two evaluations."""
    run = evaluated(watch, accuracy=[*RISE, 0.4, 0.4, 0.4, 0.53, 0.54, 0.55])
    assert run.states(RULE) == ["firing", "recovering", "resolved"]


def test_the_best_of_the_attempt_before_counts(watch: Any) -> None:
    """A resume at step 1000 with worse validation than before is reported three evaluations later."""
    run = watch()
    before = [0.5 + step / 2500 if step % 100 == 99 else None for step in range(1000)]
    run.records(more={"val/accuracy": before}, loss=[1.0] * 1000)
    after = [0.6 if step % 100 == 99 else None for step in range(500)]
    run.records(start=1000, attempt=2, process=1, more={"val/accuracy": after}, loss=[1.0] * 500)
    (finding,) = run.firing(RULE)[:1]
    assert finding.onset_step == 999


@pytest.mark.parametrize("attempt", [1, 2])
def test_a_best_that_was_undone_is_no_best(watch: Any, attempt: int) -> None:
    """The run goes back to before its best, in the same process or the next, and trains again from there."""
    run = watch()
    run.records(every=500, more={"val/accuracy": RISE})
    run.records(start=1000, every=500, attempt=attempt, more={"val/accuracy": RISE[2:]})
    assert run.firing(RULE) == []
