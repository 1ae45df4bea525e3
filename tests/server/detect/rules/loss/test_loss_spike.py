"""Tests of the rule loss-spike."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

SPIKE = "loss-spike"


def noisy(count: int, level: float = 2.0, sigma: float = 0.05, seed: int = 1) -> list[float]:
    draw = random.Random(seed)
    return [level * (1 + draw.gauss(0, sigma)) for _ in range(count)]


def test_a_confirmed_spike_is_a_warning(watch: Any) -> None:
    """Two records above the limit: warning, dated to the first, resolved when the loss is back."""
    run = watch()
    run.records(loss=[*noisy(200), 3.7, 3.9, 3.6, *noisy(60, seed=2)])
    finding = run.firing(SPIKE)[0]
    assert (finding.onset_step, finding.severity) == (200, "warning")
    assert run.states(SPIKE) == ["pending", "firing", "recovering", "resolved"]


def test_a_spike_of_twice_the_median_needs_no_second_record(watch: Any) -> None:
    """Logs that are thinned show a spike in one record only."""
    run = watch()
    run.records(every=100, loss=[*noisy(100), 9.0, *noisy(20, seed=2)])
    assert run.firing(SPIKE)[0].onset_step == 10_000


def test_a_single_outlier_is_pending_only(watch: Any) -> None:
    """A single bad batch does not fire."""
    run = watch()
    run.records(loss=[*noisy(200), 3.7, *noisy(200, seed=2)])
    assert run.states(SPIKE) == ["pending", "resolved"]


def test_one_batch_at_every_step_is_pending_only(watch: Any) -> None:
    """Damaged weights affect more than one step, so a single loss five times as high is due to its batch."""
    run = watch()
    run.records(loss=[*noisy(200), 5.5, *noisy(200, seed=2)])
    assert run.states(SPIKE) == ["pending", "resolved"]


def test_three_times_the_first_losses_needs_no_second_record(watch: Any) -> None:
    """Whatever the spacing."""
    run = watch()
    run.records(loss=[*noisy(200), 9.0])
    assert run.states(SPIKE) == ["firing"]


@pytest.mark.parametrize("seed", range(3))
def test_losses_of_two_samples_raise_no_alert(watch: Any, seed: int) -> None:
    """Losses of samples that are not learned are a hundred times the median, sometimes two in a row."""
    draw = random.Random(seed)
    run = watch()
    run.records(loss=noisy(60) + [0.01 * draw.expovariate(1) ** 3 for _ in range(10_000)])
    assert run.alarms == []


def test_a_high_level_that_keeps_most_of_what_was_learned_is_a_warning(watch: Any) -> None:
    """0.1 after a start at 2, then 0.4: above three times the median, but most of the progress is kept."""
    run = watch()
    run.records(loss=noisy(60) + noisy(200, level=0.1) + [0.4] * 30)
    assert run.severities(SPIKE) == ["warning"]


def test_a_loss_of_0_is_not_a_negative_one(watch: Any) -> None:
    """A loss that was 0 once, as for a sample that is certain, is still evaluated by ratios."""
    run = watch()
    run.records(loss=[*noisy(100), 0.0, *noisy(100, seed=3), 2.35, 2.36, *noisy(20, seed=4)])
    assert run.alarms == []


def test_far_above_for_ten_records_is_critical(watch: Any) -> None:
    """More than three times the median, sustained."""
    run = watch()
    run.records(loss=noisy(100) + [8.0] * 12)
    assert run.severities(SPIKE) == ["warning", "critical"]


@pytest.mark.parametrize("seed", range(4))
def test_noise_raises_no_alert(watch: Any, seed: Any) -> None:
    """Ten thousand records of heavy-tailed noise on a falling loss."""
    draw = random.Random(seed)
    run = watch()
    run.records(loss=[4.0 / (1 + step / 2000) * draw.lognormvariate(0, 0.15) for step in range(10_000)])
    assert run.alarms == []


def test_the_negative_loss_of_a_critic_raises_no_alert(watch: Any) -> None:
    """A WGAN critic's loss is negative, drifts and changes sign."""
    draw = random.Random(3)
    run = watch()
    run.records(loss=[-30 + 33 * step / 3000 + draw.gauss(0, 2.0) for step in range(3000)])
    assert run.alarms == []


def test_a_loss_that_crosses_zero_is_measured_by_deviation(watch: Any) -> None:
    """Ratios have no meaning there, but a jump of many deviations is a spike."""
    draw = random.Random(4)
    run = watch()
    run.records(loss=[draw.gauss(0, 0.1) for _ in range(100)] + [6.0, 7.0])
    assert run.firing(SPIKE)[0].onset_step == 100


def test_losses_near_zero_need_an_absolute_height(watch: Any) -> None:
    """0.003 to 0.006 raises no alert after a start at 2.0 (floor: 2 % of the first losses)."""
    run = watch()
    run.records(loss=noisy(60) + noisy(500, level=0.003) + [0.006, 0.007, 0.006])
    assert run.alarms == []


def test_no_alert_in_the_first_fifty_records(watch: Any) -> None:
    """The warm-up is the baseline's length."""
    run = watch()
    run.records(loss=noisy(40) + [20.0] * 5)
    assert run.firing(SPIKE) == []


def test_earlier_spikes_do_not_hide_long_ones(watch: Any) -> None:
    """Twelve single outliers at thirty times the median do not hide ten records at four times."""
    habit = [value for seed in range(12) for value in (*noisy(90, seed=seed), 30.0)]
    run = watch()
    run.records(loss=[*noisy(60), *habit, *noisy(60, seed=20), *noisy(10, level=8.0, seed=21), *noisy(60)])
    assert max(finding.onset_step or 0 for finding in run.firing(SPIKE)) == 60 + 12 * 91 + 60


def test_nan_mutes_it(watch: Any) -> None:
    """After a NaN the shape of the loss is a consequence."""
    run = watch()
    run.records(loss=[*noisy(100), math.nan, 9.0, 9.0, 9.0, math.nan])
    assert run.firing(SPIKE) == []


def test_a_level_that_stays_is_no_recovery(watch: Any) -> None:
    """The alert fires until the loss is back at its level from before the onset."""
    run = watch()
    run.records(loss=noisy(100) + noisy(1500, level=3.4, seed=2))
    assert run.states(SPIKE)[-1] == "firing"
    run.records(loss=noisy(60, seed=3))
    assert run.states(SPIKE)[-1] == "resolved"


def test_a_spike_above_an_adopted_level_raises_the_peak(watch: Any) -> None:
    """It belongs to the same episode, whose summary has the highest loss."""
    run = watch()
    run.records(loss=noisy(100) + noisy(400, level=3.4, seed=2) + [40.0] * 3)
    assert {finding.onset_step for finding in run.firing(SPIKE)} == {100}
    assert "→ 40" in run.firing(SPIKE)[-1].summary


def test_adversaries_are_left_alone(watch: Any) -> None:
    """Two optimizers with separate losses: these normally oscillate."""
    run = watch()
    run.records(loss=noisy(100) + [9.0] * 20, more={"loss/D": noisy(120, level=0.7, seed=5)})
    assert run.alarms == []


def test_two_optimizers_of_one_loss_are_evaluated(watch: Any) -> None:
    """Muon and AdamW share one loss, so they are not adversaries."""
    loss = noisy(100) + [9.0] * 20
    run = watch()
    run.records(loss=loss, more={"loss/adamw": loss})
    assert {finding.subject for finding in run.firing(SPIKE)} == {"loss", "loss/adamw"}


@pytest.mark.parametrize("seed", range(3))
def test_losses_of_single_samples_raise_no_alert(watch: Any, seed: int) -> None:
    """A squared error of one sample is chi-squared: many times its median is usual."""
    draw = random.Random(seed)
    run = watch()
    run.records(loss=[draw.gauss(0, 1) ** 2 + 1e-9 for _ in range(10_000)])
    assert run.alarms == []


def test_an_agents_loss_raises_no_alert(watch: Any) -> None:
    """In reinforcement learning the loss jumps while the reward rises."""
    run = watch(libraries=frozenset({"gymnasium"}))
    run.records(loss=[1.0 + 0.01 * (k % 7) for k in range(200)] + [50.0] * 20)
    assert run.severities("loss-spike") == []
