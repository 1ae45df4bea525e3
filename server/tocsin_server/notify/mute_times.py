"""Mute times: weekly intervals in a named time zone during which nothing is notified. Pure.

They use the local time of the zone: 22:00 to 07:00 covers the whole night also when the clocks change, so
that it is an hour longer or shorter.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

from tocsin_server.core.errors import FieldError
from tocsin_server.notify.fields import only, text

DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
MINUTES = 24 * 60


@dataclass(frozen=True, slots=True)
class Stretch:
    """On each of ``days`` (0: Monday) from minute ``start`` to ``end``, which is on the next day if not
    later.
    """

    days: frozenset[int]
    start: int
    end: int

    def covers(self, day: int, minute: int) -> bool:
        """Return whether minute ``minute`` of weekday ``day`` is in it."""
        if self.start < self.end:
            return day in self.days and self.start <= minute < self.end
        evening = day in self.days and minute >= self.start
        return evening or ((day - 1) % 7 in self.days and minute < self.end)


@dataclass(frozen=True, slots=True)
class MuteTime:
    """A named set of intervals."""

    name: str
    zone: str
    stretches: tuple[Stretch, ...]

    def covers(self, now_ns: int) -> bool:
        """Return whether this moment is muted."""
        local = dt.datetime.fromtimestamp(now_ns // 10**9, tz=_zone(self.zone))
        minute = local.hour * 60 + local.minute
        return any(stretch.covers(local.weekday(), minute) for stretch in self.stretches)


def read_mute_time(item: Any, field: str) -> MuteTime:
    """Parse a mute time from user input. Raises :class:`FieldError`."""
    only(item, {"name", "zone", "times"}, field)
    zone = text(item, "zone", field, "UTC")
    try:
        _zone(zone)
    except (KeyError, ValueError, OSError):
        raise FieldError(
            f"{field}.zone", "the IANA name of a time zone, such as Europe/Berlin", zone
        ) from None
    times = item.get("times")
    if not isinstance(times, list) or not 0 < len(times) <= 50:
        raise FieldError(f"{field}.times", "a list of 1 to 50 periods", times)
    stretches = tuple(_stretch(each, f"{field}.times[{at}]") for at, each in enumerate(times))
    return MuteTime(text(item, "name", field), zone, stretches)


def plain(mute: MuteTime) -> dict[str, Any]:
    """Return the mute time in the format of :func:`read_mute_time`."""
    times = [
        {"days": [DAYS[day] for day in sorted(each.days)], "from": _clock(each.start), "to": _clock(each.end)}
        for each in mute.stretches
    ]
    return {"name": mute.name, "zone": mute.zone, "times": times}


def _stretch(item: Any, field: str) -> Stretch:
    only(item, {"days", "from", "to"}, field)
    days = item.get("days", list(DAYS))
    if not isinstance(days, list) or not days or not all(day in DAYS for day in days):
        raise FieldError(f"{field}.days", f"a list of {', '.join(DAYS)}", days)
    start, end = _minute(item, "from", field), _minute(item, "to", field)
    return Stretch(frozenset(DAYS.index(day) for day in days), start % MINUTES, end)


def _minute(item: Mapping[str, Any], name: str, field: str) -> int:
    """Return the minutes since midnight of ``HH:MM``; 24:00 is the end of a day."""
    given = text(item, name, field)
    hours, colon, minutes = given.partition(":")
    if colon and len(given) == 5 and hours.isdecimal() and minutes.isdecimal() and given.isascii():
        total = int(hours) * 60 + int(minutes)
        if int(minutes) < 60 and total <= MINUTES:
            return total
    raise FieldError(f"{field}.{name}", "a time of day from 00:00 to 24:00", given)


def _clock(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"


@lru_cache(maxsize=256)
def _zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)
