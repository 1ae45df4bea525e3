"""Parse numbers as they occur in logs. NaN and infinities are numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

NAN, INF = math.nan, math.inf

_WORDS = {
    "nan": NAN, "+nan": NAN, "-nan": NAN, "n/a": NAN, "#n/a": NAN, "na": NAN, "nan(ind)": NAN,
    "-nan(ind)": NAN, "1.#qnan": NAN, "-1.#ind": NAN, "1.#ind": NAN,
    "inf": INF, "+inf": INF, "infinity": INF, "+infinity": INF, "1.#inf": INF, "∞": INF,
    "-inf": -INF, "-infinity": -INF, "-1.#inf": -INF, "-∞": -INF,
}  # fmt: skip

NUMBER = (
    r"(?:[-+]?(?:\d{1,3}(?:,\d{3})+(?:\.\d*)?|\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"
    r"|[-+]?(?:∞|inf(?:inity)?|nan)|-?1\.#(?:inf|qnan|ind)|n/a|na)"
)
"""A number in text. Compile it with ``re.IGNORECASE``."""

LONGEST = 1_100
"""Maximum characters. A 64-bit float has at most 1,075 digits."""
_WRAPPED = re.compile(r"^(?:tensor|array|float|np\.float\d*)\(\s*\[?\s*([^,\])]+)", re.IGNORECASE)


FULL = 9
"""A number with this many decimals is printed in full."""


class Printed(float):
    """A number whose value alone does not tell with how many decimals it was printed: 0.000, 2.50, 3e-06."""

    __slots__ = ("fixed", "places")
    places: int
    """Number of decimals. With an exponent, ``FULL`` is added, because it is precise at any size."""
    fixed: bool
    """Whether it ends with a 0 that Python's ``repr`` would not print."""


def printed(text: str) -> float:
    """Return ``float(text)``, as :class:`Printed` if decimals would be lost.

    Raises:
        ValueError: It is not a number.
    """
    value = float(text)
    if not (value.is_integer() or -1e-3 < value < 1e-3 or text.endswith("0")):
        return value
    found = Printed(value)
    mantissa, exponent, _ = text.strip().lower().partition("e")
    decimals = mantissa.partition(".")[2]
    found.places = FULL + len(decimals) if exponent else len(decimals)
    found.fixed = not exponent and len(decimals) > 1 and decimals.endswith("0")
    return found


def places_of(value: float) -> int:
    """Return the number of decimals with which a finite value was printed, at least ``FULL`` if in full."""
    if isinstance(value, Printed):
        return value.places
    text = repr(value)
    return FULL if "e" in text else len(text.partition(".")[2])


def is_in_full(value: float) -> bool:
    """Return whether a finite value has the digits of ``repr``, unlike ``1.000e-05`` and ``0.0003``."""
    return places_of(value) >= (2 * FULL if isinstance(value, Printed) else FULL)


def total(terms: Iterable[float]) -> float:
    """Return the sum of ``terms``, with as many decimals as the term that has most of them."""
    terms = list(terms)
    found = sum(terms)
    if not math.isfinite(found):
        return found
    places = max(map(places_of, terms))
    summed = Printed(found if places >= FULL else round(found, places))
    summed.places, summed.fixed = places, False
    return summed


def number(value: Any) -> float | None:
    """Return ``value`` as a float, or None if it is not a number. ``True`` and ``False`` are 1 and 0."""
    if isinstance(value, float):
        return value
    if isinstance(value, int):
        return _whole(value)
    return text_number(value) if isinstance(value, str) else None


def _whole(value: int) -> float:
    try:
        found = Printed(value)
    except OverflowError:
        return INF if value > 0 else -INF
    found.places, found.fixed = 0, False
    return found


def text_number(text: str) -> float | None:
    """Return a number in text, such as ``1e-3``, ``1,024.5``, ``90.3%``, ``N/A``, ``-Infinity`` or
    ``tensor(0.5)``.
    """
    if len(text) > LONGEST:
        return None
    try:
        return printed(text) if "_" not in text else None
    except ValueError:
        return _odd(text.strip())


def _odd(text: str) -> float | None:
    wrapped = _WRAPPED.match(text)
    text = (wrapped[1] if wrapped else text).strip().removesuffix("%").rstrip()
    word = _WORDS.get(text.lower())
    if word is not None:
        return word
    try:
        return printed(text)
    except ValueError:
        return _thousands(text)


def _thousands(text: str) -> float | None:
    if not re.fullmatch(r"[-+]?\d{1,3}(?:,\d{3})+(?:\.\d*)?", text):
        return None
    return printed(text.replace(",", ""))


def nanoseconds(seconds: float) -> int | None:
    """Return Unix seconds as nanoseconds, or None if it is not a time after 1970 that fits into 64 bits."""
    return int(seconds * 1e9) if 0 <= seconds < 9.2e9 else None


def is_null(value: Any) -> bool:
    """Return whether the value represents a missing number: null, None."""
    return value is None or (isinstance(value, str) and value.strip().lower() in ("null", "none"))
