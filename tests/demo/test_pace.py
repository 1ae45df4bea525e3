"""The pace of the demo's trainings, with a clock made by hand."""

from __future__ import annotations

from itertools import islice
from typing import Any

from tocsin_server.demo.trainings import pace


class Clock:
    """A clock that moves only when someone rests, or when a step says that it took time."""

    def __init__(self) -> None:
        self.now = 100.0

    def read(self) -> float:
        return self.now

    def rest(self, seconds: float) -> None:
        self.now += seconds


def paced(clock: Clock, **options: Any) -> Any:
    return pace.steps(clock=clock.read, rest=clock.rest, **({"ended": lambda: False} | options))


def test_steps_end_at_the_limit() -> None:
    """Steps count from 0, as many as asked for."""
    assert list(paced(Clock(), limit=3)) == [0, 1, 2]


def test_the_pace_is_an_upper_bound() -> None:
    """At 4 a second, eight steps take two seconds where the work takes none."""
    clock = Clock()
    list(paced(clock, limit=8, per_second=4.0))
    assert clock.now == 102.0


def test_slow_steps_are_not_caught_up() -> None:
    """After a step of ten seconds the next ones keep the pace instead of rushing."""
    clock = Clock()
    steps = paced(clock, per_second=4.0)
    next(steps)
    clock.now += 10.0
    list(islice(steps, 4))
    assert clock.now == 110.75


def test_time_ends_a_training() -> None:
    """``seconds`` bounds the time, whatever the pace."""
    assert len(list(paced(Clock(), seconds=2.0, per_second=4.0))) == 8


def test_a_signal_ends_a_training_after_its_step() -> None:
    """Once asked to end, the step under way is the last."""
    asked = [False, False, True]
    assert list(paced(Clock(), ended=lambda: asked.pop(0))) == [0, 1]
