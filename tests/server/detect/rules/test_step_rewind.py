"""Tests of the rule step-rewind."""

from __future__ import annotations

from typing import Any

RULE = "step-rewind"


def test_steps_that_go_back_are_told(watch: Any) -> None:
    """7580 to 7520, in one process: info, for it may be meant."""
    run = watch()
    run.records(steps=[*range(7400, 7581), *range(7520, 7600)], loss=[1.0] * 261)
    finding = run.firing(RULE)[0]
    assert (finding.onset_step, finding.severity) == (7520, "info")
    assert "went back 60 steps" in finding.summary


def test_a_step_that_comes_twice_is_no_rewind(watch: Any) -> None:
    """Resumed logs repeat one step."""
    run = watch()
    run.records(steps=[*range(100), 99, *range(100, 200)], loss=[1.0] * 201)
    assert run.firing(RULE) == []


def test_a_new_attempt_is_no_rewind(watch: Any) -> None:
    """A restart from a checkpoint is another process."""
    run = watch()
    run.records(loss=[1.0] * 100)
    run.records(attempt=2, start=50, loss=[1.0] * 100)
    assert run.firing(RULE) == []


def test_ends_when_steps_go_on(watch: Any) -> None:
    """Fifty updates forward."""
    run = watch()
    run.records(steps=[*range(200), *range(100, 300)], loss=[1.0] * 400)
    assert run.states(RULE) == ["firing", "recovering", "resolved"]
