"""Counts and durations for Prometheus."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tocsin_server.core.stats import BOUNDS_S, Durations


@given(st.lists(st.floats(0, 100)))
def test_every_duration_is_in_one_bucket(seconds: list[float]) -> None:
    """Cumulative counts never fall, end at the number of durations, and hold what is at most their bound."""
    durations = Durations()
    for each in seconds:
        durations.take(each)
    reported = durations.cumulative()
    counts = [count for _, count in reported]
    assert counts == sorted(counts)
    assert (reported[-1][0], counts[-1], durations.sum_s) == ("+Inf", len(seconds), sum(seconds))
    assert counts[:-1] == [sum(each <= bound for each in seconds) for bound in BOUNDS_S]
