"""Tests of the rule restart-loop."""

from __future__ import annotations

from typing import Any

RULE = "restart-loop"


def attempts(run: Any, *ends: int, start: int = 50) -> None:
    """Attempts that begin at ``start`` and fail at these steps."""
    for number, end in enumerate(ends, 1):
        first = 0 if number == 1 else start
        run.records(attempt=number, start=first, loss=[1.0 + 0.01 * (step % 7) for step in range(first, end)])


def test_three_restarts_without_progress(watch: Any) -> None:
    """Reported when the third one starts."""
    run = watch()
    attempts(run, 100, 100, 98, 100)
    finding = run.firing(RULE)[0]
    assert (finding.onset_step, finding.severity) == (99, "warning")
    assert finding.summary == "3 restarts without passing step 99"


def test_restarts_that_get_further_are_healthy(watch: Any) -> None:
    """Preemption costs steps, not progress."""
    run = watch()
    attempts(run, 100, 160, 220, 300, 390, 500)
    assert run.firing(RULE) == []


def test_two_restarts_are_not_a_loop(watch: Any) -> None:
    """Two restarts may be a coincidence."""
    run = watch()
    attempts(run, 100, 100, 100)
    assert run.firing(RULE) == []


def test_ends_beyond_the_furthest_step(watch: Any) -> None:
    """The fifth attempt gets past it."""
    run = watch()
    attempts(run, 100, 100, 100, 100, 200)
    assert run.states(RULE) == ["firing", "recovering", "resolved"]
