"""What a script calls its run, as the server takes it: names, tags, notes, identifiers, counts. Pure.

A hello with a name that is too long, or a count that is none, is refused, and with it every record of
the run: so what does not fit is made to, and a warning says what became of it. Limits are those of the
server (docs/protocol.md).
"""

from __future__ import annotations

import logging
import math
import re
import unicodedata
from collections.abc import Iterable
from typing import Any

from .reading import text, whole

LOG = logging.getLogger("tocsin")
NAME_BYTES = 256
TAGS = 64
NOTES = 1 << 18
"""Characters of notes."""
COUNT = 1 << 62
_FOREIGN = re.compile(r"[^A-Za-z0-9._:-]")
"""What the identifier of a run may not hold: it stands in addresses and file names."""


def name_of(given: Any, what: str) -> str:
    """``given`` on one line, without control characters, in at most NAME_BYTES bytes."""
    plain = "".join(" " if unicodedata.category(letter) in ("Cc", "Cs") else letter for letter in text(given))
    fit = plain.encode()[:NAME_BYTES].decode("utf-8", "ignore")
    if fit != text(given):
        _say(what, f"at most {NAME_BYTES} bytes without control characters", given, fit)
    return fit


def tags_of(given: Any) -> list[str]:
    """Up to TAGS tags; one word alone is one tag, None is none."""
    if given is None:
        return []
    several = isinstance(given, Iterable) and not isinstance(given, (str, bytes))
    tags = [name_of(tag, "tag") for tag in (given if several else [given])]
    if len(tags) > TAGS:
        _say("tags", f"at most {TAGS}", len(tags), f"the first {TAGS}")
    return tags[:TAGS]


def notes_of(given: Any) -> str:
    """Free text, cut at NOTES characters."""
    return "" if given is None else text(given)[:NOTES]


def run_of(given: Any) -> str:
    """An earlier run's identifier; what none may hold becomes a hyphen, the same each time."""
    known = text(given)
    fit = _FOREIGN.sub("-", known)[:NAME_BYTES]
    if fit != known:
        _say("run id", "letters, digits and . _ : -", known, fit)
    return fit


def count_of(given: Any, what: str) -> int | None:
    """A whole number from 0, also where it is a float, of NumPy or a tensor; None where it is none."""
    if given is None:
        return None
    number = whole(given)
    if number is None or not 0 <= number < COUNT:
        _say(what, "a whole number from 0", given, "left out")
        return None
    return number


def seconds_of(given: Any, default: float) -> float:
    """A time to wait at most, in seconds: from 0 to a day."""
    try:
        seconds = float(default if given is None else given)
    except (TypeError, ValueError):
        seconds = math.nan
    if math.isnan(seconds):
        _say("exit_timeout", "seconds", given, f"{default:g}")
        return default
    return min(max(seconds, 0.0), 86_400.0)


def _say(what: str, expected: str, given: Any, became: str) -> None:
    LOG.warning("tocsin: %s: expected %s, got %.80r: %s", what, expected, given, became)
