"""The pace of the demo's trainings, with a fake clock."""

from __future__ import annotations

import argparse
from itertools import islice
from typing import Any

from tocsin_server.demo.trainings import pace


class Clock:
    """A clock that advances only when the code sleeps, or when a step reports a duration."""

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
    """At 4 steps/s, eight steps that take no time need two seconds."""
    clock = Clock()
    list(paced(clock, limit=8, per_second=4.0))
    assert clock.now == 102.0


def test_slow_steps_are_not_caught_up() -> None:
    """After a step of ten seconds, the next steps keep the pace instead of speeding up."""
    clock = Clock()
    steps = paced(clock, per_second=4.0)
    next(steps)
    clock.now += 10.0
    list(islice(steps, 4))
    assert clock.now == 110.75


def test_a_training_ends_after_its_time() -> None:
    """``seconds`` limits the time, whatever the pace."""
    assert len(list(paced(Clock(), seconds=2.0, per_second=4.0))) == 8


def test_a_signal_ends_a_training_after_its_step() -> None:
    """After a signal, the current step is the last."""
    asked = [False, False, True]
    assert list(paced(Clock(), ended=lambda: asked.pop(0))) == [0, 1]


def test_the_planned_steps_are_the_tighter_limit() -> None:
    """So that progress and remaining time of the demo are shown; without a limit they are unknown."""
    options = argparse.Namespace(steps=None, seconds=60.0, steps_per_s=30.0)
    assert pace.planned_steps(options) == 1800
    options.steps = 90
    assert pace.planned_steps(options) == 90
    assert pace.planned_steps(argparse.Namespace(steps=None, seconds=None, steps_per_s=30.0)) is None
