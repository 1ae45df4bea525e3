"""The rank barrier: which steps are closed when, and with whose reports."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tocsin_server.detect.interface.ranks import MOST_OPEN, RankBarrier, RankReports
from tocsin_server.detect.interface.view import View

SECOND = 10**9


def record(step: int, time_s: float, **values: float) -> View:
    return View([0], [step], [int(time_s * SECOND)], {name: [value] for name, value in values.items()})


def say(roll: RankBarrier, rank: int, step: int, time_s: float, **values: float) -> list[RankReports]:
    return roll.take(rank, 1, rank, record(step, time_s, **values), 0)


def test_a_step_is_closed_when_all_have_reported() -> None:
    """With the values of each process."""
    roll = RankBarrier()
    for step in range(3):
        say(roll, 0, step, step, loss=1.0)
        closed = say(roll, 1, step, step + 0.1, loss=2.0)
    assert [reports.step for reports in closed] == [2]
    assert [report.values["loss"] for report in closed[0].reports] == [1.0, 2.0]


def test_a_silent_rank_is_waited_for_ten_seconds() -> None:
    """By the records' own time."""
    roll = RankBarrier()
    for rank in range(3):
        say(roll, rank, 0, 0.0, loss=1.0)
    for rank in range(2):
        assert say(roll, rank, 1, 1.0, loss=1.0) == []
    assert [reports.step for reports in say(roll, 0, 2, 11.5, loss=1.0)] == [1]


def test_one_process_waits_for_nobody() -> None:
    """Its steps are closed immediately."""
    roll = RankBarrier()
    assert [reports for step in range(50) for reports in say(roll, 0, step, step, loss=1.0)] == []
    assert roll.alone(0)
    assert not roll.waiting


def test_steps_that_wait_are_bounded() -> None:
    """The oldest are closed as they are."""
    roll = RankBarrier()
    say(roll, 1, 0, 0.0)
    for step in range(3 * MOST_OPEN):
        say(roll, 0, step, 0.001 * step)
    assert len(roll.waiting) <= MOST_OPEN


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 30)), max_size=80))
def test_no_step_is_closed_twice(arrivals: list[tuple[int, int]]) -> None:
    """In any order of the reports, with or without a snapshot."""
    roll, other = RankBarrier(), RankBarrier()
    closed: list[Any] = []
    for at, (rank, step) in enumerate(arrivals):
        closed += (reports := say(roll, rank, step, 0.1 * at, loss=1.0))
        other = msgspec.msgpack.decode(msgspec.msgpack.encode(other), type=RankBarrier)
        assert say(other, rank, step, 0.1 * at, loss=1.0) == reports
    assert all(len(facts.reports) > 1 for facts in closed)
