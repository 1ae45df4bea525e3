"""Names of the batches of bad steps."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tocsin.api.batches import BURST, LEARNED, Batches


def _calm(batches: Batches, steps: int = 2 * LEARNED) -> None:
    for step in range(steps):
        batches.named = step
        assert batches.take_if_bad((step, 0, ("loss", "grad_norm"), 1.0 + 0.01 * (step % 5), 2.0)) is None


@pytest.mark.parametrize(
    "values",
    [
        {"loss": math.nan},
        {"grad_norm": math.inf},
        {"skipped": 1.0, "stepped": 0.0},
        {"stepped": 0.0},
        {"nonfinite/batch": 1.0},
        {"loss": 5.0},
        {"loss": 1.0, "grad_norm": 40.0},
    ],
)
def test_the_batch_of_a_bad_step_is_reported_once(values: dict[str, float]) -> None:
    """Not finite, skipped, abandoned, bad inputs, or far above the run's usual level."""
    batches = Batches()
    _calm(batches)
    batches.named = "shard 7"
    item: tuple[Any, ...] = (50, 0, tuple(values), *values.values())
    assert [batches.take_if_bad(item), batches.take_if_bad(item)] == ["shard 7", None]


def test_a_diverged_run_reports_a_bounded_number_of_batches() -> None:
    """A burst, then one in twenty steps."""
    batches = Batches()
    reported = 0
    for step in range(1000):
        batches.named = step
        reported += batches.take_if_bad((step, 0, ("loss",), math.nan)) is not None
    assert reported == BURST + (1000 - BURST) // 20
