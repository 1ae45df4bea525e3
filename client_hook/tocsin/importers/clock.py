"""Read times and ranks at the beginning of a line, such as ``[2026-04-24 21:02:08 name]`` or ``[rank3]:``."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from functools import lru_cache

_STAMP = re.compile(r"(\d{4})[-/](\d\d)[-/](\d\d)[ T](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?")
_RANK = re.compile(
    r"^\s*(?:\[(?:default|rank|worker|gpu) ?(\d{1,9})\]|rank[ =:]?(\d{1,9})\s*[:|])", re.IGNORECASE
)
_WINDOW = 160


def stamp_ns(line: str) -> int | None:
    """Return the time near the beginning of ``line``, Unix ns, or None. Without a zone it is read as UTC."""
    found = _STAMP.search(line, 0, _WINDOW)
    if found is None:
        return None
    seconds = _seconds(found[1], found[2], found[3], found[4], found[5])
    if seconds is None:
        return None
    fraction = int((found[7] or "0").ljust(9, "0"))
    return (seconds + int(found[6])) * 1_000_000_000 + fraction


@lru_cache(maxsize=64)
def _seconds(year: str, month: str, day: str, hour: str, minute: str) -> int | None:
    try:
        moment = datetime(int(year), int(month), int(day), int(hour), int(minute), tzinfo=timezone.utc)
    except ValueError:
        return None
    return int(moment.timestamp())


def rank_of(line: str) -> int | None:
    """Return the rank that torchrun, srun and others write at the beginning of a line, or None."""
    found = _RANK.match(line)
    return int(found[1] or found[2]) if found else None
