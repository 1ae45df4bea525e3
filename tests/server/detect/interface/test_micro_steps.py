"""A changed number of whole losses per step is a discontinuity; a short last step is not."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tocsin_server.detect.interface.micro_steps import MicroSteps
from tocsin_server.detect.interface.view import View


def _rows(counts: list[float], *, divided: bool = False, tracker: MicroSteps | None = None) -> list[int]:
    """Where steps of so many losses change; ``divided``: by a script that divides them."""
    sums = [None if divided or count == 1 else count for count in counts]
    columns: dict[str, list[float | None]] = {"loss_n": [*counts], "loss_sum": sums}
    view = View(range(len(counts)), list(range(len(counts))), [0] * len(counts), columns)
    return (tracker or MicroSteps()).changes(view)


@pytest.mark.parametrize(
    ("counts", "rows"),
    [
        ([1.0] * 20, []),
        ([1, 1, 2, 2, 3, 3, 3], [2, 4]),
        ([4, 4, 4, 2, 4, 4, 1, 4], []),
        ([4] * 3 + [2] * 20, [10]),
        ([4] * 3 + [1] * 20, [10]),
    ],
)
def test_more_at_once_and_fewer_when_they_stay(counts: list[float], rows: list[int]) -> None:
    """More whole losses make larger gradients at once; fewer may be the end of an epoch."""
    assert _rows(counts) == rows


def test_divided_losses_raise_no_alert() -> None:
    """Their gradients are those of a mean, however many there are."""
    assert _rows([1, 1, 4, 4, 2, 8], divided=True) == []


def test_the_same_losses_with_another_meaning_are_a_change_at_once() -> None:
    """The hook found that they were parts of one: ``loss`` is their sum from here on."""
    tracker = MicroSteps()
    assert _rows([4, 4, 4], tracker=tracker) == []
    assert _rows([4, 4, 4], tracker=tracker, divided=True) == [0]


def test_a_growing_accumulation_is_no_explosion(watch: Any) -> None:
    """YOLO's warm-up: 32 undivided losses instead of one make a norm 32 times as large, and no alert."""
    draw, run = random.Random(0), watch()
    counts = [1.0] * 200 + [32.0] * 200
    run.records(
        loss=[2 + draw.gauss(0, 0.05) for _ in counts],
        loss_n=counts,
        loss_sum=[None if count == 1 else 2 * count for count in counts],
        grad_norm=[count * (1 + draw.gauss(0, 0.05)) for count in counts],
    )
    assert run.alarms == []
    assert not run.firing("step-rewind")


def test_the_same_jump_of_one_loss_is_an_explosion(watch: Any) -> None:
    """The control: a jump that the number of micro-steps does not explain is reported."""
    draw, run = random.Random(0), watch()
    levels = [1.0] * 200 + [32.0] * 200
    run.records(
        loss=[2 + draw.gauss(0, 0.05) for _ in levels],
        loss_n=[1.0] * len(levels),
        grad_norm=[level * (1 + draw.gauss(0, 0.05)) for level in levels],
    )
    assert run.alarms
