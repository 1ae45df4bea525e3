"""Silences mute what they match, from their start to their end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin_server.core.errors import FieldError
from tocsin_server.notify.matching import parse_matchers
from tocsin_server.notify.silences import MOST, Silence, check_room, read_matchers, silenced_by

TIME = st.integers(0, 1000)


@given(TIME, TIME, TIME, st.sampled_from(["loss-spike", "plateau"]))
def test_a_silence_holds_from_its_start_to_its_end(starts: int, ends: int, now: int, rule: str) -> None:
    """Start included, end excluded; only for alerts that its matchers match."""
    silence = Silence("s1", parse_matchers(['rule="plateau"'], "m"), starts, ends, "ann", "known")
    muted = silenced_by({"rule": rule}, [silence], now)
    assert muted == (("s1",) if rule == "plateau" and starts <= now < ends else ())


def test_a_silence_has_a_state() -> None:
    """Its state is pending, active or expired."""
    silence = Silence("s1", (), 10, 20, "ann", "known")
    assert [silence.state(now) for now in (9, 10, 19, 20)] == ["pending", "active", "active", "expired"]


def test_a_silence_that_cannot_be_read_mutes_nothing() -> None:
    """Without its matchers it would mute everything."""
    silence = Silence("s1", (), 0, 1000, "ann", "known", problem="matchers[0]: expected ...")
    assert silenced_by({"rule": "plateau"}, [silence], 500) == ()


def test_there_is_room_for_so_many_silences() -> None:
    """Every alert is compared with all of them, so their number and the size of their patterns are
    bounded."""
    large = read_matchers(['rule=~".{0,150}x"'])
    plain = [Silence(f"s{at}", read_matchers(['rule="x"']), 0, 1, "ann", "known") for at in range(MOST)]
    patterns = [Silence(f"s{at}", large, 0, 1, "ann", "known") for at in range(100)]
    check_room(plain[0], plain)
    for others in (plain, patterns):
        with pytest.raises(FieldError, match="delete some first"):
            check_room(Silence("new", large, 0, 1, "ann", "known"), others)
