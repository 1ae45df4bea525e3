"""Tests of the rule grad-explosion."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

RULE = "grad-explosion"


def norms(count: int, level: float = 1.0, sigma: float = 0.4, seed: int = 1) -> list[float]:
    draw = random.Random(seed)
    return [level * draw.lognormvariate(0, sigma) for _ in range(count)]


def test_three_of_five_far_off_are_a_warning(watch: Any) -> None:
    """Dated to the first of them, with the ratio to the run's own median."""
    run = watch()
    run.records(grad_norm=[*norms(200), 80.0, 1.2, 90.0, 120.0, *norms(200, seed=2)])
    finding = run.firing(RULE)[0]
    assert (finding.onset_step, finding.step, finding.severity) == (200, 203, "warning")
    assert run.states(RULE) == ["firing", "recovering", "resolved"]


def test_a_single_outlier_is_no_explosion(watch: Any) -> None:
    """Norms are heavy-tailed: fifteen times the median happens in healthy runs."""
    run = watch()
    run.records(grad_norm=[*norms(200), 15.0, *norms(100, seed=2), 17.0, *norms(100, seed=3)])
    assert run.findings == []


def test_a_thousand_times_the_median_needs_no_second_record(watch: Any) -> None:
    """Logs that are thinned show it once."""
    run = watch()
    run.records(every=500, grad_norm=[*norms(100), 5000.0])
    assert run.firing(RULE)[0].onset_step == 50_000


@pytest.mark.parametrize("sigma", [0.2, 0.8, 1.5])
@pytest.mark.parametrize("seed", range(2))
def test_heavy_tails_raise_no_alert(watch: Any, sigma: float, seed: int) -> None:
    """A ratio that is far for one run is usual for another, so the spread counts."""
    run = watch()
    run.records(grad_norm=norms(10_000, sigma=sigma, seed=seed))
    assert run.alarms == []


@pytest.mark.parametrize("level", [0.07, 21.0, 2e5])
def test_a_high_level_alone_raises_no_alert(watch: Any, level: float) -> None:
    """Healthy medians run from 0.07 to 21, and far above where losses are summed."""
    run = watch()
    run.records(grad_norm=norms(2000, level=level))
    assert run.findings == []


def test_high_norms_at_the_start_raise_no_alert(watch: Any) -> None:
    """They fall by two orders of magnitude within the warm-up."""
    run = watch()
    run.records(grad_norm=[60.0 * 0.9**step + value for step, value in enumerate(norms(300, level=0.4))])
    assert run.findings == []


def test_infinite_norms_of_skipped_steps_are_another_rules(watch: Any) -> None:
    """An overflow step has an infinite norm; the scaler deals with it."""
    run = watch()
    values = [math.inf if step in (150, 151, 152, 153) else value for step, value in enumerate(norms(400))]
    run.records(grad_norm=values)
    assert run.firing(RULE) == []


def test_a_level_that_stays_is_no_recovery(watch: Any) -> None:
    """The alert fires until the norm is back at its level from before the onset."""
    run = watch()
    run.records(grad_norm=norms(200) + norms(1500, level=40.0, seed=2))
    assert run.states(RULE)[-1] == "firing"
    run.records(grad_norm=norms(200, seed=3))
    assert run.states(RULE)[-1] == "resolved"


def test_the_cause_names_a_flat_loss(watch: Any) -> None:
    """The norm explodes while the loss barely changes, so that no loss rule fires."""
    run = watch()
    run.records(loss=[4.5 + 0.01 * (step % 7) for step in range(210)], grad_norm=norms(200) + [1e6] * 10)
    assert "The loss stays near 4.53 up to step 200." in run.firing(RULE)[0].diagnosis.cause


def test_a_loss_that_moves_is_not_said_to_stay(watch: Any) -> None:
    """The loss falls to half its level with the explosion, so that no loss rule fires."""
    run = watch()
    loss = [4.5 + 0.01 * (step % 7) for step in range(199)] + [2.0] * 11
    run.records(loss=loss, grad_norm=norms(200) + [1e6] * 10)
    assert "loss stays" not in run.firing(RULE)[0].diagnosis.cause


def test_a_climb_in_the_first_records_needs_no_level(watch: Any) -> None:
    """A short excerpt of a log has no baseline."""
    run = watch()
    run.records(every=100, grad_norm=[0.3, 0.24, 0.95, 2.4, 16.0, 145.0, 960.0])
    finding = run.firing(RULE)[0]
    assert (finding.onset_step, finding.step) == (100, 500)


def test_an_open_alert_is_not_repeated_by_usual_norms_after_a_rewind(watch: Any) -> None:
    """The warm-up starts again, and nothing climbs in it."""
    run = watch()
    run.records(grad_norm=[*norms(200), 80.0, 90.0, 120.0, *norms(25, seed=2)])
    run.records(start=150, grad_norm=norms(40, seed=3))
    assert len(run.firing(RULE)) == 1


@pytest.mark.parametrize(
    "rest", [[1e-6, 0.2, 0.5, 1.0, 2.0], [0.25, 0.53, 1.25, 2.3, 4.9], [1, 90, 40, 150, 300]]
)
def test_norms_that_grow_at_the_start_raise_no_alert(watch: Any, rest: list[float]) -> None:
    """A zero-initialized head starts near 0, and a warm-up doubles norms."""
    run = watch()
    run.records(every=100, grad_norm=[0.3, *rest])
    assert run.findings == []
