"""Tests of the roll call: which steps are closed when, and with whose reports."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tocsin_server.detect.interface.ranks import MOST_OPEN, RankFacts, RollCall
from tocsin_server.detect.interface.view import View

SECOND = 10**9


def record(step: int, time_s: float, **values: float) -> View:
    return View([0], [step], [int(time_s * SECOND)], {name: [value] for name, value in values.items()})


def say(roll: RollCall, rank: int, step: int, time_s: float, **values: float) -> list[RankFacts]:
    return roll.take(rank, 1, rank, record(step, time_s, **values), 0)


def test_a_step_is_closed_when_all_have_reported() -> None:
    """With what each of them said."""
    roll = RollCall()
    for step in range(3):
        say(roll, 0, step, step, loss=1.0)
        closed = say(roll, 1, step, step + 0.1, loss=2.0)
    assert [facts.step for facts in closed] == [2]
    assert [report.values["loss"] for report in closed[0].reports] == [1.0, 2.0]


def test_a_silent_rank_is_waited_for_ten_seconds() -> None:
    """By the records' own time."""
    roll = RollCall()
    for rank in range(3):
        say(roll, rank, 0, 0.0, loss=1.0)
    for rank in range(2):
        assert say(roll, rank, 1, 1.0, loss=1.0) == []
    assert [facts.step for facts in say(roll, 0, 2, 11.5, loss=1.0)] == [1]


def test_one_process_waits_for_nobody() -> None:
    """Its steps are closed at once, without facts."""
    roll = RollCall()
    assert [facts for step in range(50) for facts in say(roll, 0, step, step, loss=1.0)] == []
    assert roll.alone(0)
    assert not roll.waiting


def test_steps_that_wait_are_bounded() -> None:
    """The oldest are closed as they are."""
    roll = RollCall()
    say(roll, 1, 0, 0.0)
    for step in range(3 * MOST_OPEN):
        say(roll, 0, step, 0.001 * step)
    assert len(roll.waiting) <= MOST_OPEN


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 30)), max_size=80))
def test_no_step_is_closed_twice_and_a_snapshot_changes_nothing(said: list[tuple[int, int]]) -> None:
    """Whatever order the reports come in."""
    roll, other = RollCall(), RollCall()
    closed: list[Any] = []
    for at, (rank, step) in enumerate(said):
        closed += (facts := say(roll, rank, step, 0.1 * at, loss=1.0))
        other = msgspec.msgpack.decode(msgspec.msgpack.encode(other), type=RollCall)
        assert say(other, rank, step, 0.1 * at, loss=1.0) == facts
    assert all(len(facts.reports) > 1 for facts in closed)
