"""Tests of the rule stalled."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tocsin.protocol import BETWEEN_CELLS
from tocsin_server.detect.interface.liveness import Liveness
from tocsin_server.detect.rules.system.stalled import check

S = 10**9
RUNNING = Liveness(
    opened_ns=0,
    last_record_ns=1000 * S,
    last_step=41,
    intervals_s=(0.2,) * 100,
    phase="",
    phase_since_ns=None,
    connected=True,
    silent_since_ns=None,
    server_started_ns=0,
    ended=False,
)


def verdicts(liveness: Liveness, silence_s: float) -> list[str]:
    return [f"{item.state} {item.severity}" for item in check(liveness, (1000 + int(silence_s)) * S)]


def test_a_notebook_between_cells_is_never_stalled() -> None:
    """An open alert resolves."""
    idle = replace(RUNNING, phase=BETWEEN_CELLS, phase_since_ns=1000 * S)
    assert verdicts(idle, 10 * 86_400) == []
    assert verdicts(replace(idle, open=frozenset({"stalled"})), 200) == ["resolved info"]


@pytest.mark.parametrize(
    ("silence_s", "expected"),
    [(119, []), (121, ["firing warning"]), (1799, ["firing warning"]), (1801, ["firing critical"])],
)
def test_two_minutes_at_least_and_half_an_hour(silence_s: Any, expected: Any) -> None:
    """A fast run is stalled after 120 s, critically after 1800 s."""
    assert verdicts(RUNNING, silence_s) == expected


def test_the_limit_follows_the_runs_own_pace() -> None:
    """A run whose longest step took 100 s may take 500 s."""
    slow = replace(RUNNING, intervals_s=(90.0, 100.0, 80.0))
    assert verdicts(slow, 499) == []
    assert verdicts(slow, 501) == ["firing warning"]


def test_a_slow_run_is_critical_at_three_times_its_limit() -> None:
    """Steps of 200 s: a warning after 1000 s, critical after 3000 s."""
    slow = replace(RUNNING, intervals_s=(200.0,) * 3)
    assert [verdicts(slow, at) for at in (999, 1001, 2999, 3001)] == [
        [], ["firing warning"], ["firing warning"], ["firing critical"],
    ]  # fmt: skip


def test_a_pause_as_long_as_one_before_is_no_stall() -> None:
    """If an undeclared evaluation took five minutes, a later one may take ten."""
    pausing = replace(RUNNING, longest_pause_s=300.0)
    assert verdicts(pausing, 599) == []
    assert verdicts(pausing, 601) == ["firing warning"]


def test_the_first_steps_may_be_slow() -> None:
    """Until the step time is known, steps of 100 s or an LBFGS step are not a stall."""
    beginning = replace(RUNNING, intervals_s=(1.0, 100.0))
    assert verdicts(beginning, 1199) == []
    assert verdicts(beginning, 1201) == ["firing warning"]


def test_the_first_step_gets_twenty_minutes() -> None:
    """Compilation and data loading come before it."""
    starting = replace(RUNNING, opened_ns=1000 * S, last_record_ns=None, last_step=None, intervals_s=())
    assert verdicts(starting, 1199) == []
    assert verdicts(starting, 1201) == ["firing warning"]


def test_a_declared_phase_is_no_stall() -> None:
    """An evaluation of half an hour was declared."""
    assert verdicts(replace(RUNNING, phase="eval", phase_since_ns=1001 * S), 1800) == []


@pytest.mark.parametrize("change", [{"ended": True}, {"connected": False}])
def test_ended_or_unconnected_runs_are_not_stalled(change: Any) -> None:
    """A run that has finished, or whose client is lost, is handled elsewhere."""
    assert verdicts(replace(RUNNING, **change), 4000) == []


def test_counted_from_the_start_of_the_server() -> None:
    """An hour of downtime of the server does not count as a stall."""
    assert verdicts(replace(RUNNING, server_started_ns=4000 * S), 3030) == []


def test_resolves_at_the_next_record() -> None:
    """Without an open alert there is no finding."""
    again = replace(RUNNING, open=frozenset({"stalled"}))
    assert verdicts(again, 1) == ["resolved info"]
