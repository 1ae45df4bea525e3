"""Silences mute what they match, from their start to their end."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tocsin_server.notify.matching import parse_matchers
from tocsin_server.notify.silences import Silence, silenced_by

TIME = st.integers(0, 1000)


@given(TIME, TIME, TIME, st.sampled_from(["loss-spike", "plateau"]))
def test_a_silence_holds_from_its_start_to_its_end(starts: int, ends: int, now: int, rule: str) -> None:
    """Start included, end not; and only what its matchers mean."""
    silence = Silence("s1", parse_matchers(['rule="plateau"'], "m"), starts, ends, "ann", "known")
    muted = silenced_by({"rule": rule}, [silence], now)
    assert muted == (("s1",) if rule == "plateau" and starts <= now < ends else ())


def test_its_state_says_when() -> None:
    """pending, active, expired."""
    silence = Silence("s1", (), 10, 20, "ann", "known")
    assert [silence.state(now) for now in (9, 10, 19, 20)] == ["pending", "active", "active", "expired"]
