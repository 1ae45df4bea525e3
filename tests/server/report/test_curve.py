"""A report's curves keep extremes and non-finite values when buckets are merged."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.server.report.conftest import curve
from tocsin_server.report.curve import band, stretches

ANY = st.floats(allow_nan=True, allow_infinity=True, width=64)


@given(st.lists(st.lists(ANY, min_size=1, max_size=40), min_size=1, max_size=5), st.integers(1, 30))
def test_a_band_holds_every_extreme_and_every_fault(ranks: list[list[float]], slots: int) -> None:
    """With any number of buckets: smallest and largest finite value, and the count of each non-finite
    kind."""
    merged = band([curve(values, rank=rank) for rank, values in enumerate(ranks)], slots)
    assert merged is not None
    values = np.array([value for rank in ranks for value in rank])
    finite = values[np.isfinite(values)]
    assert merged.n.sum() == values.size
    assert (merged.nan.sum(), merged.pinf.sum()) == (np.isnan(values).sum(), (values == np.inf).sum())
    assert merged.ninf.sum() == (values == -np.inf).sum()
    if finite.size:
        assert (np.nanmin(merged.low), np.nanmax(merged.high)) == (finite.min(), finite.max())


def test_what_a_restart_did_again_is_faint_and_nothing_is_lost() -> None:
    """Attempt 2 started at step 2: attempt 1 is drawn normally before it and faint from there."""
    first, second = curve([1.0, 2.0, 3.0, 4.0]), curve([9.0, 9.0], attempt=2, start=2)
    drawn = [(one.curve.attempt, one.curve.x0.tolist(), one.faint) for one in stretches([first, second])]
    assert drawn == [(2, [2.0, 3.0], False), (1, [2.0, 3.0], True), (1, [0.0, 1.0], False)]
