"""State of one optimizer between two steps, and the names of its records."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tocsin.capture.optimizer_tracker import (
    GROUPS,
    HAS_LOSS,
    HAS_NORM,
    HAS_SCALE,
    Loss,
    OptimizerTracker,
    fold,
    total_of,
)


def _stepper(optimizer: Any) -> OptimizerTracker:
    tracker = OptimizerTracker(lambda: optimizer)
    tracker.look()
    return tracker


@given(st.lists(st.integers(-1000, 1000), min_size=2, max_size=40))
def test_a_folded_accumulation_keeps_its_sum_and_its_count(values: list[int]) -> None:
    """However often they are folded, two losses remain, the newest unchanged."""
    waiting: list[Loss] = []
    for value in values:
        waiting.append(Loss(float(value)))
        if len(waiting) > 2:
            fold(waiting)
    fold(waiting)
    assert len(waiting) == 2
    assert total_of(waiting) == sum(values)
    assert sum(loss.count for loss in waiting) == len(values)
    assert waiting[-1].value == values[-1]


def test_a_nan_among_micro_steps_is_the_sum() -> None:
    """Folding hides no non-finite loss."""
    waiting = [Loss(1.0), Loss(math.nan), Loss(2.0)]
    fold(waiting)
    assert math.isnan(total_of(waiting))


def test_names_of_a_record_follow_its_values_and_its_optimizer() -> None:
    """The primary's have no suffix, another's its name, those of further groups their number."""
    tracker = _stepper(torch.optim.SGD([torch.ones(1)], lr=0.1))
    tracker.lr_groups = (0, 1)
    flags = HAS_LOSS | HAS_NORM | HAS_SCALE
    names = ("loss", "loss_n", "grad_norm", "scale", "skipped", "stepped", "lr", "lr/g1")
    assert tracker.record_names(flags) == names
    assert tracker.record_names(flags) is tracker.record_names(flags)
    tracker.append("/D")
    assert tracker.record_names(HAS_LOSS) == (
        "loss/D", "loss_n/D", "skipped/D", "stepped/D", "lr/D", "lr/D/g1",
    )  # fmt: skip


@pytest.mark.parametrize("in_place", [False, True])
def test_a_backward_is_seen_by_its_probes(in_place: bool) -> None:
    """A gradient that is new, and one that was written to, both count; nothing else does."""
    net = torch.nn.Linear(3, 2)
    tracker = _stepper(torch.optim.SGD(net.parameters(), lr=0.1))
    if in_place:
        net(torch.ones(3)).sum().backward()
    marks = tracker.marks()
    assert not tracker.changed(marks)
    net(torch.ones(3)).sum().backward()
    assert tracker.changed(marks)


def test_parameters_added_later_are_looked_at() -> None:
    """``add_param_group`` of unfrozen layers moves the probes."""
    one, other = torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(one.parameters(), lr=0.1)
    tracker = _stepper(optimizer)
    optimizer.add_param_group({"params": list(other.parameters())})
    tracker.look()
    assert id(other.bias) in tracker.params
    assert any(probe is other.weight for probe in tracker.probes)


def test_rates_of_very_many_groups_are_bounded() -> None:
    """A group a layer: the first 64 are reported."""
    groups = [{"params": [torch.ones(1)]} for _ in range(GROUPS + 5)]
    tracker = _stepper(optimizer := torch.optim.SGD(groups, lr=0.1))
    tracker.read_rates(optimizer, lambda rate: rate)
    assert (len(tracker.lrs), tracker.lr_groups[-1]) == (GROUPS, GROUPS - 1)
