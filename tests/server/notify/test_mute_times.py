"""Mute times follow the wall clock of their time zone."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin_server.core.errors import FieldError
from tocsin_server.notify.mute_times import DAYS, Stretch, plain, read_mute_time

NIGHTS = {"name": "nights", "zone": "Europe/Berlin", "times": [{"from": "22:00", "to": "07:00"}]}
WEEKENDS = {"name": "w", "zone": "Asia/Tokyo", "times": [
    {"days": ["saturday", "sunday"], "from": "00:00", "to": "24:00"}]}  # fmt: skip


def ns(zone: str, *clock: int, fold: int = 0) -> int:
    return int(dt.datetime(*clock, tzinfo=ZoneInfo(zone), fold=fold).timestamp()) * 10**9  # type: ignore[misc, arg-type]


@pytest.mark.parametrize(
    ("clock", "muted"),
    [
        ((2026, 7, 1, 21, 59), False),
        ((2026, 7, 1, 22, 0), True),
        ((2026, 7, 2, 6, 59), True),
        ((2026, 7, 2, 7, 0), False),
        ((2026, 1, 5, 3, 0), True),
    ],
)
def test_a_mute_time_may_span_midnight(clock: tuple[int, ...], muted: bool) -> None:
    """From 22:00 to 07:00 of the next day, in summer and in winter by the same wall clock."""
    assert read_mute_time(NIGHTS, "m").covers(ns("Europe/Berlin", *clock)) is muted


@pytest.mark.parametrize(("night", "hours"), [((2026, 3, 28), 8), ((2026, 10, 24), 10), ((2026, 6, 1), 9)])
def test_the_night_of_a_clock_change_is_as_long_as_it_is(night: tuple[int, int, int], hours: int) -> None:
    """22:00 to 07:00 is 8 h on March's change, 10 h on October's, else 9 h; all of it is muted."""
    mute, began = read_mute_time(NIGHTS, "m"), ns("Europe/Berlin", *night, 22, 0)
    quarter = 900 * 10**9
    assert all(mute.covers(began + at * quarter) for at in range(hours * 4))
    assert not mute.covers(began - quarter)
    assert not mute.covers(began + hours * 4 * quarter)


def test_weekends_are_those_of_the_zone() -> None:
    """Saturday morning in Tokyo is Friday evening in UTC."""
    weekend = read_mute_time(WEEKENDS, "m")
    assert weekend.covers(ns("UTC", 2026, 11, 20, 16, 0))
    assert not weekend.covers(ns("UTC", 2026, 11, 20, 14, 59))
    assert not weekend.covers(ns("UTC", 2026, 11, 22, 15, 0))


MINUTE = st.integers(0, 24 * 60 - 1)


@given(st.sets(st.integers(0, 6), min_size=1), MINUTE, MINUTE, st.integers(0, 6), MINUTE)
def test_a_stretch_is_the_minutes_from_start_to_end(
    days: set[int], start: int, end: int, day: int, minute: int
) -> None:
    """The same as counting minutes of the week from each day's start, across midnight and Sunday."""
    length = (end - start) % 1440 or 1440
    week = {(d * 1440 + start + m) % (7 * 1440) for d in days for m in range(length)}
    assert Stretch(frozenset(days), start, end).covers(day, minute) is (day * 1440 + minute in week)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"zone": "Mars/Olympus"}, "m.zone"),
        ({"zone": "../etc/passwd"}, "m.zone"),
        ({"times": []}, "m.times"),
        ({"times": [{"from": "25:00", "to": "07:00"}]}, "m.times[0].from"),
        ({"name": ""}, "m.name"),
        ({"times": [{"from": "1:00", "to": "07:00"}]}, "m.times[0].from"),
        ({"colour": 1}, "m.colour"),
        ({"times": [{"from": "01:00", "to": "07:00", "days": ["noday"]}]}, "m.times[0].days"),
        ({"times": [{"from": "01:00", "to": "07:00", "days": [["monday"]]}]}, "m.times[0].days"),
    ],
)
def test_invalid_fields_are_named(change: dict[str, Any], field: str) -> None:
    """The error has the field, what was expected and what was found."""
    with pytest.raises(FieldError, match=re.escape(f"{field}: expected")):
        read_mute_time(NIGHTS | change, "m")


def test_a_mute_time_survives_a_round_trip() -> None:
    """The plain form parses to the same mute time."""
    for item in (NIGHTS, WEEKENDS):
        mute = read_mute_time(item, "m")
        assert read_mute_time(plain(mute), "m") == mute
    assert plain(read_mute_time(NIGHTS, "m"))["times"][0]["days"] == list(DAYS)
