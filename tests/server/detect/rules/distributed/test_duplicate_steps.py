"""Tests of the rule duplicate-steps."""

from __future__ import annotations

from typing import Any

import pytest

RULE = "duplicate-steps"


def reported(run: Any, steps: int, processes: int, *, spread: float = 0.0, attempts: bool = False) -> None:
    """Processes of world size 1 that report the same steps in turns of five."""
    for first in range(0, steps, 5):
        for process in range(processes):
            loss = [2.0 / (1 + step) + spread * process for step in range(first, first + 5)]
            source = {"attempt": 1 + process} if attempts else {"process": process}
            run.records(start=first, loss=loss, lr=[1e-3] * 5, **source)


@pytest.mark.parametrize("attempts", [False, True])
def test_four_processes_without_ranks_are_reported(watch: Any, attempts: bool) -> None:
    """Each reports as rank 0 of 1; their number is reported, as one attempt or as four."""
    run = watch()
    reported(run, 60, 4, attempts=attempts)
    finding = run.firing(RULE)[-1]
    assert (finding.severity, finding.summary) == (
        "warning", "4 processes of the same rank report each step, with the same values",
    )  # fmt: skip
    assert "torchrun" in finding.diagnosis.remedies[0].code


def test_different_values_are_different_runs(watch: Any) -> None:
    """One identity, two runs."""
    run = watch()
    reported(run, 60, 2, spread=0.1)
    assert "one run id" in run.firing(RULE)[0].diagnosis.cause


def test_ranks_are_no_duplicates(watch: Any) -> None:
    """Every rank reports with its own number."""
    run = watch(world_size=4)
    for first in range(0, 60, 5):
        for rank in range(4):
            run.records(rank=rank, start=first, loss=[1.0] * 5, lr=[1e-3] * 5)
    assert run.firing(RULE) == []


def test_a_restart_that_replays_steps_is_no_duplicate(watch: Any) -> None:
    """Deterministic training gives the same values again, but only one process is running."""
    run = watch()
    loss = [2.0 / (1 + step) for step in range(300)]
    run.records(loss=loss[:200])
    run.records(attempt=2, start=100, loss=loss[100:])
    assert run.firing(RULE) == []


def test_quick_restarts_that_repeat_steps_are_no_duplicates(watch: Any) -> None:
    """A dead process counts as live for 10 s, so the steps of the second attempt wait for the first one."""
    run = watch()
    for attempt, first, last in ((1, 0, 120), (2, 100, 120), (3, 100, 220)):
        run.records(attempt=attempt, start=first, loss=[attempt / (1 + step) for step in range(first, last)])
    assert run.firing(RULE) == []


def test_a_single_process_has_no_duplicates(watch: Any) -> None:
    """Every step is reported once."""
    run = watch()
    reported(run, 200, 1)
    assert run.firing(RULE) == []


@pytest.mark.parametrize(("project", "code"), [("", ""), ("vision", "unset TOCSIN_RUN_ID")])
def test_a_log_file_gets_no_advice_about_variables(watch: Any, project: str, code: str) -> None:
    """Only a run that was reported belongs to a project and has an identity."""
    run = watch(project=project)
    reported(run, 60, 2, spread=0.1)
    assert run.firing(RULE)[0].diagnosis.remedies[0].code == code
