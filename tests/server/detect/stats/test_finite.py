"""The fast check for values of at least 0."""

from __future__ import annotations

import math

from hypothesis import example, given
from hypothesis import strategies as st

from tocsin_server.detect.stats.finite import not_negative


@given(st.lists(st.none() | st.floats() | st.sampled_from([0.0, math.inf, math.nan]), max_size=5))
@example([1.0, math.nan])
@example([math.inf, -math.inf])
def test_exactly_the_values_of_at_least_0_are_returned(values: list[float | None]) -> None:
    """Neither a NaN after a number nor a missing value passes unnoticed."""
    assert not_negative(values) == [value for value in values if value is not None and value >= 0]
