"""A name that a script gives both to tocsin and to a tracker."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from tests.hook.captured import watched
from tocsin.mirrors import options, own_values
from tocsin.mirrors.feed import Row, feed


@pytest.fixture(autouse=True)
def _no_leftover_mirrors() -> Iterator[None]:
    """Forget the options of a test, and the rows that wait for a run."""
    yield
    options.chosen.clear()
    feed.__init__()  # type: ignore[misc]


def tracked(value: Any, step: int | None = None, tracker: str = "wandb") -> None:
    """Log a value to a tracker."""
    feed.take(tracker, Row({"acc": value}, step))


def trained(count: int) -> Iterator[int]:
    """Yield after each step of an optimizer."""
    net = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(count):
        net(torch.ones(2)).sum().backward()
        optimizer.step()
        yield step


@pytest.mark.parametrize("value", [0.5, math.nan, math.inf, -math.inf, 2])
@pytest.mark.parametrize("is_first", [False, True])
def test_an_equal_value_is_recorded_once(value: float, is_first: bool, caplog: Any) -> None:
    """Whichever call comes first, from the second step on, where the script is known to log the name."""
    with watched() as (run, outbox):
        run.log(acc=value, step=0)
        for step in (1, 2, 3):
            if is_first:
                tracked(value, step)
            run.log(acc=value, step=step)
            if not is_first:
                tracked(torch.tensor(value), step)
    assert [step for step, _ in outbox.series("acc")] == [0, 1, 2, 3]
    assert [set(record) for record in outbox.records] == [{"step", "acc"}] * 4
    assert caplog.records == []


def test_another_value_has_the_name_of_its_tracker(caplog: pytest.LogCaptureFixture) -> None:
    """From the first difference on; one warning names both."""
    with watched() as (run, outbox):
        for step, value in enumerate((0.1, 0.2, 0.3)):
            run.log(acc=value, step=step)
            tracked(value if step != 1 else 9.0, step)
    assert outbox.series("acc") == [(0, 0.1), (1, 0.2), (2, 0.3)]
    assert outbox.series("wandb/acc") == [(1, 9.0), (2, 0.3)]
    (warning,) = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    assert '"acc" is logged both to tocsin and to wandb' in warning


def test_the_same_values_at_other_steps_are_others() -> None:
    """Such as a tracker's steps that count samples; none of them is lost."""
    with watched() as (run, outbox):
        for step in range(3):
            run.log(acc=0.5, step=step)
            tracked(0.5, 100 + step)
    assert [step for step, _ in outbox.series("acc")] == [0, 1, 2]
    assert [step for step, _ in outbox.series("wandb/acc")] == [100, 101, 102]


@pytest.mark.parametrize("is_first", [False, True])
def test_values_without_a_step_are_compared_in_their_order(is_first: bool) -> None:
    """The script gives neither call a step; an optimizer counts them."""
    with watched() as (run, outbox):
        run.log(acc=1.0)
        for step in trained(4):
            calls = (tracked, lambda value: run.log(acc=value))
            for call in calls if is_first else reversed(calls):
                call(step / 8)
    assert [value for _, value in outbox.series("acc")] == [1, 0, 1 / 8, 2 / 8, 3 / 8]
    assert outbox.series("wandb/acc") == []


def test_calls_that_count_the_steps_are_not_counted_twice() -> None:
    """Without an optimizer, a name that is logged again starts the next step; the tracker's is none."""
    with watched() as (run, outbox):
        for step in range(4):
            run.log(acc=step / 8)
            tracked(step / 8)
    assert outbox.series("acc") == [(step, step / 8) for step in range(4)]


def test_a_value_that_waits_at_the_end_is_recorded() -> None:
    """The script's own did not follow."""
    with watched() as (run, outbox):
        run.log(acc=0.1, step=0)
        tracked(0.2, 1)
    assert outbox.series("wandb/acc") == [(1, 0.2)]


def test_values_of_run_step_and_evaluate_are_own_too() -> None:
    """They are compared by the names that are recorded."""
    with watched(patch=False) as (run, outbox):
        run.step(loss=1.0)
        run.evaluate(acc=0.5)
        feed.take("wandb", Row({"loss": 1.0, "val/acc": 0.5}, 0))
    assert [record["step"] for record in outbox.records] == [0, 0]


@pytest.mark.parametrize("is_inference", [False, True])
def test_a_value_on_a_device_is_equal_if_it_is_the_same_memory(
    monkeypatch: pytest.MonkeyPatch, is_inference: bool
) -> None:
    """It is not read. Here the device is the CPU."""
    monkeypatch.setattr(own_values, "is_on_device", lambda value: isinstance(value, torch.Tensor))
    monkeypatch.setattr(own_values, "is_foreign", lambda value: False)
    with watched() as (run, outbox), torch.inference_mode(is_inference):
        loss = torch.tensor(0.5)
        run.log(acc=loss, step=0)
        tracked(loss, 0)
        run.log(acc=loss, step=1)
        tracked(loss.clone(), 1)
    assert outbox.series("acc") == [(0, 0.5), (1, 0.5)]
    assert outbox.series("wandb/acc") == [(1, 0.5)]
