"""Non-finite inputs are reported by name and kind."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from tests.hook.captured import watched
from tocsin.api.nonfinite_inputs import LISTED, describe

BAD = torch.tensor([1.0, math.nan, math.inf, -math.inf])


@pytest.mark.parametrize(
    ("batch", "name"),
    [
        (BAD, "batch"),
        ({"image": BAD, "label": torch.ones(2)}, "image"),
        ([torch.ones(2), {"views": (BAD,)}], "1.views.0"),
        ({"image": BAD.numpy()}, "image"),
        (np.array(BAD.tolist()), "batch"),
    ],
)
def test_kinds_are_counted_by_name(batch: Any, name: str) -> None:
    """Tensors and arrays at any depth; finite ones are not listed."""
    assert describe(batch) == [{"name": name, "nan": 1, "pinf": 1, "ninf": 1, "of": 4}]


def test_descriptions_are_bounded() -> None:
    """A batch of a thousand bad inputs lists a few."""
    assert len(describe([BAD] * 1000)) == LISTED


def test_a_bad_batch_is_an_event_with_its_step() -> None:
    """``run.check`` reports which input it was; nothing for a finite batch."""
    with watched(patch=False) as (run, outbox):
        run.check(batch={"x": torch.ones(3)}, step=4)
        run.check(batch={"x": torch.ones(3), "y": BAD}, step=5)
    (event,) = outbox.events("nonfinite-input")
    assert (event["step"], [one["name"] for one in event["inputs"]]) == (5, ["y"])
    assert outbox.series("nonfinite/batch") == [(4, 0.0), (5, 1.0)]
