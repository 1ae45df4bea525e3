"""Tests of the rule step-rewind."""

from __future__ import annotations

from typing import Any

RULE = "step-rewind"


def test_steps_that_go_back_are_info(watch: Any) -> None:
    """7580 to 7520 in one process may be intended."""
    run = watch()
    run.records(steps=[*range(7400, 7581), *range(7520, 7600)], loss=[1.0] * 261)
    finding = run.firing(RULE)[0]
    assert (finding.onset_step, finding.severity) == (7520, "info")
    assert "went back 60 steps" in finding.summary


def test_a_repeated_step_is_no_rewind(watch: Any) -> None:
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


def test_resolves_when_steps_continue(watch: Any) -> None:
    """Fifty updates forward."""
    run = watch()
    run.records(steps=[*range(200), *range(100, 300)], loss=[1.0] * 400)
    assert run.states(RULE) == ["firing", "recovering", "resolved"]


def test_several_rewinds_are_counted_in_the_summary(watch: Any) -> None:
    """Dated to the first one; the summary describes the newest."""
    run = watch()
    run.records(steps=[*range(200), *range(180, 220), *range(150, 230)], loss=[1.0] * 320)
    finding = run.firing(RULE)[-1]
    assert (finding.onset_step, finding.summary) == (180, "Steps went back 2 times, the last time 219 → 150")
