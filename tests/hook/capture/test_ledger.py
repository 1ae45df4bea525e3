"""Captured values equal those that the loop measured itself."""

from __future__ import annotations

import functools
import math

import pytest
import torch

from tests.hook.captured import KeptOutbox, watched
from tests.hook.loops import LOOPS
from tests.hook.truth import Truth


def _same(reported: dict[str, float], true: dict[str, float]) -> None:
    reported = {name: value for name, value in reported.items() if not name.startswith("step_time")}
    assert sorted(reported) == sorted(true)
    for name, value in true.items():
        assert reported[name] == pytest.approx(value, rel=2e-5, nan_ok=True), (name, true)


@functools.cache
def _watched(style: str) -> tuple[Truth, KeptOutbox, torch.nn.Module]:
    """Run the loop under a watch, once for all tests; return its truth, what was recorded, its weights."""
    truth = Truth()
    with watched() as (_, outbox):
        net = LOOPS[style](truth)
    return truth, outbox, net


@pytest.mark.parametrize("style", LOOPS)
def test_records_equal_what_the_loop_measured(style: str) -> None:
    """Every attempted step is a record with the values that the loop measured."""
    truth, outbox, _ = _watched(style)
    assert len(outbox.records) == len(truth.rows)
    for reported, true in zip(outbox.records, truth.rows, strict=True):
        _same(reported, true)


@pytest.mark.parametrize("style", LOOPS)
def test_scale_changes_are_events(style: str) -> None:
    """Every growth and backoff of a scaler is an event with its step, from and to."""
    truth, outbox, _ = _watched(style)
    reported = [(one["step"], one["from"], one["to"]) for one in outbox.events("scaler")]
    assert reported == truth.changes
    for one in outbox.events("scaler"):
        assert one["change"] == ("growth" if one["to"] > one["from"] else "backoff")


@pytest.mark.parametrize("style", LOOPS)
def test_weights_are_bit_identical(style: str) -> None:
    """A watched training ends with exactly the weights of an unwatched one."""
    _, _, seen = _watched(style)
    unwatched = LOOPS[style](Truth())
    for one, other in zip(unwatched.parameters(), seen.parameters(), strict=True):
        assert torch.equal(one, other) or (math.isnan(one.sum()) and math.isnan(other.sum()))
