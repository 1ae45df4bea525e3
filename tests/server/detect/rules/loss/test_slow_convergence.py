"""Tests of the rule slow-convergence."""

from __future__ import annotations

import random
from typing import Any

RULE = "slow-convergence"


def known(watch: Any, rate: float | None = 1e-3) -> Any:
    """Return a run with one finished similar run, whose loss fell from 3 to 1 in 2000 steps."""
    run = watch()
    steps = list(range(0, 2001, 100))
    run.reported_by_server(
        "similar-runs",
        runs=[{"run_id": "r_0", "name": "first", "steps": steps, "peak_lr": rate,
               "losses": [3.0 - step / 1000 for step in steps]}],
    )  # fmt: skip
    return run


def losses(slope: float, count: int = 2000) -> list[float]:
    draw = random.Random(1)
    return [3.0 - slope * step / 1000 + 0.02 * draw.gauss(0, 1) for step in range(count)]


def test_behind_a_similar_run_for_500_steps(watch: Any) -> None:
    """Half as fast: info, with both numbers."""
    run = known(watch)
    run.records(loss=losses(0.5))
    finding = run.firing(RULE)[0]
    assert finding.severity == "info"
    assert any(item.name == "compared with" and item.value == "first" for item in finding.diagnosis.evidence)


def test_a_rate_far_below_theirs_is_the_cause(watch: Any) -> None:
    """A hundredth of the similar run's rate."""
    run = known(watch)
    run.records(loss=losses(0.3), lr=[1e-5] * 2000)
    assert "far below" in run.firing(RULE)[0].diagnosis.cause


def test_as_fast_as_a_similar_run_raises_no_alert(watch: Any) -> None:
    """The same curve with noise."""
    run = known(watch)
    run.records(loss=losses(1.0))
    assert run.firing(RULE) == []


def test_without_similar_runs_there_is_no_alert(watch: Any) -> None:
    """Nothing to compare with."""
    run = watch()
    run.records(loss=losses(0.1))
    assert run.firing(RULE) == []


def test_a_script_cannot_send_similar_runs(watch: Any) -> None:
    """The event is accepted from the server only."""
    run = watch()
    run.event("similar-runs", runs=[{"run_id": "r_0", "name": "x", "steps": [0, 9000], "losses": [0.0, 0.0]}])
    run.records(loss=losses(0.1))
    assert run.firing(RULE) == []


def test_resolved_when_it_has_caught_up(watch: Any) -> None:
    """No longer behind for 500 updates."""
    run = known(watch)
    run.records(loss=losses(0.5, 1200) + losses(1.0)[1200:])
    assert run.states(RULE) == ["firing", "recovering", "resolved"]
