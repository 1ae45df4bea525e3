"""Times of delivery attempts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin_server.notify.backoff import FIRST_S, LONGEST_ASKED_S, LONGEST_S, is_too_old, pause_s

CHANCE = st.floats(0, 1, exclude_max=True)


@given(st.integers(1, 10_000), CHANCE)
def test_pauses_grow_to_a_bound(attempts: int, chance: float) -> None:
    """At least three quarters of the first pause, at most the longest, and never decreasing."""
    assert 0.75 * FIRST_S <= pause_s(attempts, chance) <= LONGEST_S
    assert pause_s(attempts + 1, chance) >= pause_s(attempts, chance)


@given(st.integers(1, 20), CHANCE, st.floats(0, 10**6))
def test_a_receiver_that_names_a_time_is_not_called_before(
    attempts: int, chance: float, asked: float
) -> None:
    """Retry-After up to an hour."""
    assert pause_s(attempts, chance, asked) >= min(asked, LONGEST_ASKED_S)


@pytest.mark.parametrize(("hours", "old"), [(23.9, False), (24.1, True)])
def test_after_a_day_it_is_given_up(hours: float, old: bool) -> None:
    """A notification is given up after a day."""
    assert is_too_old(0, int(hours * 3600e9)) is old
