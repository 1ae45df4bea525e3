"""Curves of formulas and of the spread over ranks, from layers of different density."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tocsin_server.http.computed_curves import aligned, formula_curve, spread_curve
from tocsin_server.store.results import SeriesLayer


def layer(
    x: list[float], values: list[float], attempt: int = 1, rank: int = 0, **buckets: Any
) -> SeriesLayer:
    """Return exact records, or with ``x1`` and counts the buckets that begin at ``x``."""
    first = np.array(values)
    steps, one = np.array(x), np.ones(len(x))
    bad = {
        "nan": np.isnan(first) * 1.0,
        "pinf": (first == math.inf) * 1.0,
        "ninf": (first == -math.inf) * 1.0,
    }
    fields: dict[str, Any] = {"x1": steps, "n": one, **bad} | {k: np.array(v) for k, v in buckets.items()}
    return SeriesLayer(attempt, rank, 1, not buckets, x=steps, t=steps, first=first, **fields)


def test_a_formula_is_evaluated_where_all_series_have_records() -> None:
    dense = layer([0, 1, 2, 3], [1, 2, 3, 4])
    sparse = layer([1, 3, 5], [10, 20, 30])
    curve = formula_curve([[dense], [sparse]], lambda values: values[1] - values[0])
    assert curve is not None
    assert (curve.step.tolist(), curve.low.tolist()) == ([1, 3], [8, 16])


def test_non_finite_results_are_marked() -> None:
    """1 / Inf is 0 and no mark; NaN among other records of a bucket is one."""
    values = layer([0, 1, 2], [math.inf, 0.0, math.nan])
    curve = formula_curve([[values]], lambda operands: 1 / operands[0])
    assert curve is not None
    assert list(curve.broken) == [False, True, True]
    bucket = layer([0], [1.0], x1=[9], nan=[1.0], mean=[1.0])
    mixed = formula_curve([[bucket]], lambda operands: operands[0])
    assert mixed is not None
    assert (mixed.low.tolist(), list(mixed.broken)) == ([1.0], [True])


def test_only_series_of_the_same_process_are_combined() -> None:
    """The newest attempt lacks the second series, so that the older one is drawn."""
    first = [layer([5], [1], attempt=2), layer([0, 1], [1, 2])]
    found = aligned([first, [layer([0, 1], [3, 4])]])
    assert found is not None
    assert found[0].tolist() == [0, 1]
    assert aligned([first, [layer([0], [1], rank=3)]]) is None


def test_the_spread_is_that_of_the_ranks() -> None:
    """A rank without a finite value leaves a mark; a step of one rank only has no spread."""
    ranks = [layer([0, 1, 2], [1, math.nan, 3]), layer([0, 1], [5, 6], rank=1), layer([0], [2], rank=2)]
    curve = spread_curve(ranks)
    assert curve is not None
    assert (curve.step.tolist(), curve.low.tolist()) == ([0], [4])
    pair = spread_curve(ranks[:2])
    assert pair is not None
    assert (pair.step.tolist(), list(pair.broken)) == ([0, 1], [False, True])
    assert spread_curve([ranks[0]]) is None
