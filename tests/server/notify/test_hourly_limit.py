"""The hourly limit of notifications, and the times of digests."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tocsin_server.notify.hourly_limit import DIGEST_NS, LATE_MOST_NS, LATE_NS, digest_due, is_over, late_due


@given(st.integers(0, 200), st.integers(0, 200))
def test_the_limit_is_reached_after_that_many(sent: int, limit: int) -> None:
    """0 means no limit."""
    assert is_over(sent, limit) is (limit > 0 and sent >= limit)


@given(st.none() | st.integers(0, 10**13), st.integers(10**12, 10**13))
def test_digests_of_a_channel_have_a_minimum_interval(last_sent: int | None, now: int) -> None:
    """What is held back is sent within ten minutes, and there are never two digests within ten minutes."""
    due = digest_due(None, last_sent, now)
    assert due >= now
    assert due <= max(now, last_sent or 0) + DIGEST_NS
    assert not last_sent or due >= last_sent + DIGEST_NS
    assert digest_due(due, last_sent, now + 1) == due


@given(st.integers(0, 10**12), st.integers(0, 10**13))
def test_the_digest_of_late_alerts_waits_a_limited_time(first: int, after: int) -> None:
    """Until a minute after the newest alert, at most ten minutes after the first."""
    due = late_due(first, first + after)
    assert due == min(first + after + LATE_NS, first + LATE_MOST_NS)
