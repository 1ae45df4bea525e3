"""Tests of the rule loss-divergence."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

DIVERGENCE = "loss-divergence"


def learning(count: int) -> list[float]:
    draw = random.Random(2)
    return [8.0 / (1 + step / 40) * (1 + draw.gauss(0, 0.03)) for step in range(count)]


def test_twice_the_best_and_rising(watch: Any) -> None:
    """A rise over fifty records is a warning; the onset is where the loss left its best."""
    run = watch()
    run.records(loss=learning(300) + [1.01**step for step in range(330)])
    assert run.severities(DIVERGENCE) == ["warning"]
    assert 300 <= run.firing(DIVERGENCE)[0].onset_step <= 325


def test_a_level_it_recovered_from_before_is_info_only(watch: Any) -> None:
    """The second of two equal rises, such as of a weight that is raised repeatedly."""
    climb = [min(4.0, 1.02**step) for step in range(200)]
    run = watch()
    run.records(loss=[*learning(300), *climb, *learning(700)[300:], *climb])
    fired = [(finding.severity, finding.onset_step) for finding in run.firing(DIVERGENCE)]
    assert (fired[0][0], fired[-1][0]) == ("warning", "info"), fired


def test_above_the_start_after_having_learned(watch: Any) -> None:
    """7 down to 1, then 20: it is above its first losses, and never critical for that alone."""
    run = watch()
    run.records(loss=learning(300) + [20.0] * 200)
    assert run.severities(DIVERGENCE) == ["warning"]


def test_a_rise_for_most_of_the_run_is_info_only(watch: Any) -> None:
    """Such as of a VAE whose KL term is warmed up."""
    run = watch()
    run.records(loss=learning(300) + [1.0 + 0.002 * step for step in range(1000)])
    assert run.severities(DIVERGENCE) == ["info"]
    assert "KL warm-up" in run.firing(DIVERGENCE)[0].diagnosis.cause


def test_a_plateau_above_the_best_raises_no_alert(watch: Any) -> None:
    """Twice the best and level is not rising."""
    run = watch()
    run.records(loss=learning(400) + [1.9] * 300)
    assert run.firing(DIVERGENCE) == []


def test_negative_losses_have_no_ratios(watch: Any) -> None:
    """A critic's loss that climbs from -30 to 3 is no divergence."""
    run = watch()
    run.records(loss=[-30 + step * 33 / 2000 for step in range(2000)])
    assert run.firing(DIVERGENCE) == []


def test_a_loss_near_zero_raises_no_alert(watch: Any) -> None:
    """0.002 to 0.006 after a start at 8 is noise at the bottom."""
    draw = random.Random(5)
    run = watch()
    run.records(loss=learning(100) + [0.002 * draw.lognormvariate(0, 0.7) for _ in range(3000)])
    assert run.alarms == []


def test_a_rewind_is_a_discontinuity(watch: Any) -> None:
    """After a restart from an early checkpoint the loss is higher, which is normal."""
    run = watch()
    run.records(loss=learning(600))
    run.records(start=20, attempt=2, loss=[2 * loss for loss in learning(600)[20:]])
    assert run.findings == []


def test_nonfinite_values_are_left_out(watch: Any) -> None:
    """NaN and infinity are handled by another rule and do not change the median."""
    run = watch()
    run.records(loss=[value for loss in learning(200) for value in (loss, math.inf)])
    assert run.firing(DIVERGENCE) == []


def test_resolves_when_the_loss_is_back(watch: Any) -> None:
    """A rise that ends is recovering, then resolved."""
    run = watch()
    run.records(loss=learning(300) + [20.0] * 40 + [1.0] * 400)
    assert run.states(DIVERGENCE) == ["firing", "recovering", "resolved"]


def test_noise_of_small_batches_raises_no_alert(watch: Any) -> None:
    """The best window of very noisy losses is far below the usual one; their quartiles overlap."""
    draw = random.Random(6)
    run = watch()
    run.records(loss=[2 / (1 + step / 500) * draw.lognormvariate(0, 1.2) for step in range(20_000)])
    assert run.alarms == []


def ruined(count: int, top: float) -> list[float]:
    """Return losses that climb from 1 to ``top``."""
    return [top ** ((step + 1) / count) for step in range(count)]


def test_a_loss_that_runs_away_is_critical(watch: Any) -> None:
    """8 down to 1, then up to 80,000 and still growing."""
    run = watch()
    run.records(loss=learning(300) + ruined(400, 80_000.0))
    assert run.severities(DIVERGENCE)[-1] == "critical"


def test_a_level_far_above_the_start_needs_a_second_signal(watch: Any) -> None:
    """A loss of 100 is a warning; with a gradient norm that rose tenfold it is critical."""
    losses = learning(300) + [100.0] * 400
    alone, steep = watch(), watch()
    alone.records(loss=losses, grad_norm=[1.0] * 700)
    steep.records(loss=losses, grad_norm=[1.0] * 300 + [10.0] * 400)
    assert (alone.severities(DIVERGENCE)[-1], steep.severities(DIVERGENCE)[-1]) == ("warning", "critical")


def test_a_restart_from_diverged_weights_is_no_recovery(watch: Any) -> None:
    """The next attempt begins with a high loss, which is not its own baseline."""
    run = watch()
    run.records(loss=learning(300) + ruined(400, 800.0))
    run.records(loss=[800.0 + step % 7 for step in range(1000)], start=700, attempt=2)
    assert run.states(DIVERGENCE)[-1] == "firing"
    run.records(loss=learning(1000)[300:], start=1700, attempt=2)
    assert run.states(DIVERGENCE)[-1] == "resolved"


@pytest.mark.parametrize(("loss", "states"), [(10_000.0, ["firing"]), (1.0, [])])
def test_an_attempt_after_the_end_is_compared_with_the_best_before(
    watch: Any, loss: float, states: list[str]
) -> None:
    """The run ended diverged; the next attempt begins where it ended, or from a good checkpoint."""
    run = watch()
    run.records(loss=learning(300) + [10_000.0 + step for step in range(300)])
    run.event("finish", run_ended=True)
    before = len(run.firing(DIVERGENCE))
    run.records(loss=[loss * (1 + 0.01 * (step % 7)) for step in range(300)], attempt=2, start=600, process=1)
    assert [finding.state for finding in run.firing(DIVERGENCE)[before:]][:1] == states


def test_the_numbers_of_skipped_updates_reach_the_next_attempt(watch: Any) -> None:
    """They are part of the carried state, so the rule still compares with the best loss before."""
    run = watch()
    run.records(loss=learning(300) + [10_000.0 + step for step in range(300)], skipped=[0.0] * 600)
    run.event("finish", run_ended=True)
    before = len(run.firing(DIVERGENCE))
    run.records(loss=[10_000.0 + step for step in range(300)], skipped=[0.0] * 300, attempt=2, start=600)
    assert len(run.firing(DIVERGENCE)) > before
