"""Tests of what is derived from a loss scale."""

from __future__ import annotations

from typing import Any

import pytest

from tocsin_server.detect.interface.loss_scale import ScalerTrack, backoffs
from tocsin_server.detect.interface.view import View


def view(steps: list[int], **columns: list[float | None]) -> View:
    return View(range(len(steps)), steps, [step * 10 for step in steps], dict(columns))


@pytest.mark.parametrize(
    ("before", "after", "factor", "count"),
    [(1024, 512, 0.5, 1), (65536, 4096, 0.5, 4), (100, 1, 0.1, 2), (8, 0, 0.5, 1)],
)
def test_backoffs(before: float, after: float, factor: float, count: int) -> None:
    """How many backoffs lead from one scale to the other."""
    assert backoffs(before, after, factor) == count


def test_a_skip_is_counted_once() -> None:
    """The skip, and the halved scale in the record after, are one overflow."""
    records = view([10, 11, 12], scale=[64.0, 64.0, 32.0], skipped=[0.0, 1.0, 0.0])
    ScalerTrack().follow(records, None)
    assert list(records.overflows) == [(1, 1, 11)]
    assert list(records.moves) == [(2, 64.0, 32.0)]


def test_a_fall_between_records_apart_counts_its_backoffs() -> None:
    """Ten updates apart and an eighth: three overflows somewhere between."""
    records = view([10, 20], scale=[64.0, 8.0])
    ScalerTrack().follow(records, None)
    assert list(records.overflows) == [(1, 3, 11)]


@pytest.mark.parametrize(("scale", "active"), [(1.0, False), (2.0, True), (0.5, True)])
def test_a_constant_one_is_no_scaler(scale: float, active: bool) -> None:
    """bf16 and ``enabled=False`` report a constant 1.0."""
    records = view([0, 1], scale=[scale, scale])
    ScalerTrack().follow(records, None)
    assert records.has_scaler(1) is active


def test_the_growth_interval_is_learned() -> None:
    """From a backoff at 100 to the growth at 600."""
    track: Any = ScalerTrack()
    track.follow(view([99, 100, 600, 601], scale=[8.0, 4.0, 8.0, 8.0]), None)
    assert track.evidence(None).growth_interval == 500
