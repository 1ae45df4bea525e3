"""A writer above its rate is delayed by as much as it is too fast."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tocsin_server.pace import BURST_S, Pace


def test_a_burst_passes() -> None:
    """A few seconds' worth at once is not delayed."""
    assert Pace(100, 0.0).delay(200, 0.0) == 0.0


@given(st.lists(st.integers(1, 500), min_size=1, max_size=50))
def test_the_rate_holds_in_the_long_run(batches: list[int]) -> None:
    """Whoever waits as told never gets ahead of the rate by more than the burst."""
    pace, now, sent = Pace(100, 0.0), 0.0, 0
    for records in batches:
        sent += records
        now += pace.delay(records, now)
        assert sent <= 100 * (now + BURST_S) + 1e-6
