"""Tests of the rule lr-restart."""

from __future__ import annotations

import math
from typing import Any

import pytest

RULE = "lr-restart"


def cosine(count: int, period: int, low: float = 5e-5, high: float = 5e-4) -> list[float]:
    """Return a rate that falls and rises again, as a cosine of ``period`` records that is not stopped."""
    return [low + (high - low) * 0.5 * (1 + math.cos(math.pi * step / period)) for step in range(count)]


def instant(count: int, period: int) -> list[float]:
    """Warm restarts: down to almost 0, and back to the top in one step."""
    return [1e-3 * (1e-3 + 0.5 * (1 + math.cos(math.pi * (step % period) / period))) for step in range(count)]


@pytest.mark.parametrize("rates", [cosine(600, 290), instant(600, 300)])
def test_a_rise_after_a_fall_is_a_warning(watch: Any, rates: list[float]) -> None:
    """Dated to the lowest rate, from which it rises."""
    run = watch()
    run.records(lr=rates)
    finding = run.firing(RULE)[0]
    assert finding.severity == "warning"
    assert 285 <= finding.onset_step <= 300
    assert "starts over" in finding.diagnosis.cause


def test_every_restart_is_counted_in_one_episode(watch: Any) -> None:
    """One alert reports how many."""
    run = watch()
    run.records(lr=instant(1600, 300))
    assert run.states(RULE).count("firing") >= 1
    assert "5 restarts so far" in run.firing(RULE)[-1].summary


@pytest.mark.parametrize("name", ["CosineAnnealingWarmRestarts", "OneCycleLR", "CyclicLR"])
def test_a_cyclic_scheduler_raises_no_alert(watch: Any, name: str) -> None:
    """Known from the script itself."""
    run = watch(schedulers=[{"optimizer": "", "scheduler": name, "arguments": {}}])
    run.records(lr=instant(1600, 300))
    assert run.findings == []


def test_a_declared_restart_is_expected(watch: Any) -> None:
    """``run.expect("lr-restart", steps=[300])`` covers that one, not the next."""
    run = watch()
    run.event("expect", 0, what="lr-restart", steps=[300])
    run.records(lr=instant(590, 300))
    assert run.findings == []
    run.records(start=590, lr=instant(1000, 300)[590:])
    assert run.firing(RULE)[0].onset_step == 599


@pytest.mark.parametrize(
    "rates",
    [
        [
            1e-3 * min(1, (step + 1) / 500) * 0.5 * (1 + math.cos(math.pi * step / 5000))
            for step in range(5000)
        ],
        [1e-3 * 0.1 ** (step // 500) for step in range(2000)],
        [1e-3] * 2000,
        [1e-3 * (1 + 0.2 * math.sin(step)) for step in range(2000)],
    ],
    ids=["warm-up and cosine", "steps down", "constant", "wavering"],
)
def test_usual_schedules_raise_no_alert(watch: Any, rates: list[float]) -> None:
    """Warm-up, decay, milestones."""
    run = watch()
    run.records(lr=rates)
    assert run.firing(RULE) == []


def test_a_restart_of_the_run_is_a_discontinuity(watch: Any) -> None:
    """A resumed run warms up again, so nothing is compared across the restart."""
    run = watch()
    run.records(lr=cosine(280, 290))
    run.records(attempt=2, start=200, lr=[5e-4] * 200)
    assert run.firing(RULE) == []


def test_thinned_records_show_it_too(watch: Any) -> None:
    """Every fiftieth step."""
    run = watch()
    run.records(every=50, lr=instant(100_000, 20_000)[::50])
    assert run.firing(RULE)


def test_the_summary_describes_the_record_that_fired(watch: Any) -> None:
    """The rise continues; the summary has the step and rate at which the alert fired."""
    run = watch()
    run.records(lr=cosine(600, 290))
    finding = run.firing(RULE)[0]
    assert f"by step {finding.step}, " in finding.summary
