"""Tests of the rule throughput-regression."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tocsin_server.detect.interface.similar_runs import SimilarRun, SimilarRuns

RULE = "throughput-regression"


def paced(count: int, seconds: float = 0.3, sigma: float = 0.1, seed: int = 1) -> list[float]:
    draw = random.Random(seed)
    return [seconds * draw.lognormvariate(0, sigma) for _ in range(count)]


def test_twice_the_time_for_two_hundred_steps_is_a_warning(watch: Any) -> None:
    """Dated to the first slow window."""
    run = watch()
    run.records(step_time=paced(500) + paced(300, 0.75))
    finding = run.firing(RULE)[-1]
    assert finding.severity == "warning"
    assert 450 <= finding.onset_step <= 550


def test_slightly_slower_is_info_only(watch: Any) -> None:
    """From 1.3 times on."""
    run = watch()
    run.records(step_time=paced(500) + paced(400, 0.45))
    assert run.severities(RULE) == ["info"]


def test_outliers_raise_no_alert(watch: Any) -> None:
    """Checkpoints take longer."""
    run = watch()
    run.records(step_time=[20.0 if step % 100 == 0 else time for step, time in enumerate(paced(5000))])
    assert run.findings == []


def test_the_start_may_be_slow(watch: Any) -> None:
    """Compilation and caches are left out of the usual pace."""
    run = watch()
    run.records(step_time=paced(50, 30.0) + paced(1000))
    assert run.findings == []


@pytest.mark.parametrize("sigma", [0.3, 0.8])
def test_a_varying_step_time_raises_no_alert(watch: Any, sigma: float) -> None:
    """A machine shared with others."""
    run = watch()
    run.records(step_time=paced(20_000, sigma=sigma))
    assert run.alarms == []


def test_four_times_slower_than_similar_runs(watch: Any) -> None:
    """Slow from the start, so only a comparison with similar runs shows it."""
    run = watch(siblings=SimilarRuns((SimilarRun("r_2", "other", step_time_s=0.25),)))
    run.records(step_time=paced(400, 1.0))
    finding = run.firing(RULE)[0]
    assert (finding.severity, "in similar runs" in finding.summary) == ("warning", True)


def test_ends_at_the_usual_pace(watch: Any) -> None:
    """Two usual windows."""
    run = watch()
    run.records(step_time=paced(500) + paced(300, 0.75) + paced(300, seed=2))
    assert run.states(RULE) == ["firing", "recovering", "resolved"]
