"""A writer above its rate is delayed accordingly."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tocsin_server.runs.rate_limit import BURST_S, EVENT_BURST_S, Allowance, RateLimit


def test_a_burst_passes() -> None:
    """A few seconds' worth at once is not delayed."""
    assert RateLimit(100, 0.0).delay(200, 0.0) == 0.0


@given(st.lists(st.integers(1, 500), min_size=1, max_size=50))
def test_the_rate_holds_in_the_long_run(batches: list[int]) -> None:
    """A writer that obeys the delays never exceeds the rate by more than the burst."""
    rate_limit, now, sent = RateLimit(100, 0.0), 0.0, 0
    for records in batches:
        sent += records
        now += rate_limit.delay(records, now)
        assert sent <= 100 * (now + BURST_S) + 1e-6


SECOND_NS = 10**9


def test_events_created_within_the_rate_are_accepted() -> None:
    """However late they arrive: the time when they were made counts."""
    allowance = Allowance(5)
    assert all(allowance.take(no * SECOND_NS // 5, 0.0) for no in range(5000))


def test_a_loop_that_makes_events_is_rejected_and_recovers() -> None:
    """A burst passes, the rest is rejected, and after a second there is room for a second's worth."""
    allowance = Allowance(5)
    taken = [allowance.take(7, 0.0) for _ in range(1000)]
    assert taken == [True] * round(5 * EVENT_BURST_S) + [False] * 500
    assert [allowance.take(7 + SECOND_NS, 0.0) for _ in range(6)] == [True] * 5 + [False]


def test_a_clock_that_goes_back_gains_nothing() -> None:
    """Moving the clock back and forth makes no room for events."""
    allowance = Allowance(1)
    taken = [allowance.take(no % 2 * 50 * SECOND_NS, 0.0) for no in range(1000)]
    assert sum(taken) <= EVENT_BURST_S + 50


def test_a_clock_that_stays_behind_still_gets_its_rate() -> None:
    """If a clock was set back by a day, the time on the server makes room for events."""
    allowance = Allowance(1)
    while allowance.take(86_400 * SECOND_NS, 0.0):
        pass
    taken = [allowance.take(second * SECOND_NS, float(second)) for second in range(1, 1001)]
    assert all(taken)
    assert not allowance.take(1001 * SECOND_NS, 1000.0)
