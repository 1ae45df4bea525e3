"""Merged ranks keep every extreme and every non-finite value."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tocsin_server.report.ranks import merged_ranks
from tocsin_server.store.results import SeriesLayer

ANY = st.floats(allow_nan=True, allow_infinity=True, width=64)


def exact(values: Sequence[float], rank: int, attempt: int = 1) -> SeriesLayer:
    """Return exact values, one per step."""
    value, step = np.array(values, dtype=float), np.arange(len(values), dtype=float)
    counts = (np.ones(len(values)), np.isnan(value), value == np.inf, value == -np.inf)
    numbers = [count.astype(float) for count in counts]
    return SeriesLayer(attempt, rank, 0, True, step, step, step, value, *numbers)


@given(st.lists(st.lists(ANY, min_size=1, max_size=40), min_size=3, max_size=6))
def test_merged_ranks_hold_every_extreme_and_every_nonfinite_value(ranks: list[list[float]]) -> None:
    """The lowest rank is unchanged; the curve of the others has their range and their counts."""
    layers = [exact(values, rank) for rank, values in enumerate(ranks)]
    lowest, merged = merged_ranks(layers)
    assert lowest is layers[0]
    assert merged.min is not None
    assert merged.max is not None
    values = np.concatenate([one.first for one in layers[1:]])
    finite = values[np.isfinite(values)]
    assert merged.n.sum() == values.size
    assert (merged.nan.sum(), merged.pinf.sum()) == (np.isnan(values).sum(), (values == np.inf).sum())
    assert merged.ninf.sum() == (values == -np.inf).sum()
    if finite.size:
        assert (np.nanmin(merged.min), np.nanmax(merged.max)) == (finite.min(), finite.max())
    else:
        assert np.isnan(merged.min).all()


def test_a_nonfinite_value_stays_at_its_step() -> None:
    """Up to 600 steps, each has its own bucket."""
    values = np.ones(500)
    values[123] = np.nan
    _, merged = merged_ranks([exact(np.ones(500).tolist(), 0), *(exact(values.tolist(), k) for k in (1, 2))])
    assert merged.x[merged.nan > 0].tolist() == [123.0]
    assert merged.nan.sum() == 2


def test_attempts_and_pairs_of_ranks_are_not_merged() -> None:
    """Each attempt has its own curves; with two ranks, both stay exact."""
    layers = [exact([1.0], rank, attempt) for attempt in (2, 1) for rank in (0, 1)]
    assert list(merged_ranks(layers)) == layers
