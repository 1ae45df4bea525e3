"""Numbers as logs spell them. What is not finite counts as what it is; what is no number is None."""

from __future__ import annotations

import math
import re
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
"""A number in running text, to be compiled with ``re.IGNORECASE``."""

LONGEST = 1_100
"""Characters: a 64-bit float has at most 1,075 digits in full."""
_WRAPPED = re.compile(r"^(?:tensor|array|float|np\.float\d*)\(\s*\[?\s*([^,\])]+)", re.IGNORECASE)


def number(value: Any) -> float | None:
    """``value`` as a float; None where it is no number. ``True`` and ``False`` are 1 and 0."""
    if isinstance(value, (float, int)):
        return _whole(value)
    return text_number(value) if isinstance(value, str) else None


def _whole(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return INF if value > 0 else -INF


def text_number(text: str) -> float | None:
    """Return a spelled number: ``1e-3``, ``1,024.5``, ``90.3%``, ``N/A``, ``-Infinity``, ``tensor(0.5)``."""
    if len(text) > LONGEST:
        return None
    try:
        return float(text) if "_" not in text else None
    except ValueError:
        return _odd(text.strip())


def _odd(text: str) -> float | None:
    wrapped = _WRAPPED.match(text)
    text = (wrapped[1] if wrapped else text).strip().removesuffix("%").rstrip()
    word = _WORDS.get(text.lower())
    if word is not None:
        return word
    try:
        return float(text)
    except ValueError:
        return _thousands(text)


def _thousands(text: str) -> float | None:
    if not re.fullmatch(r"[-+]?\d{1,3}(?:,\d{3})+(?:\.\d*)?", text):
        return None
    return float(text.replace(",", ""))


def nanoseconds(seconds: float) -> int | None:
    """A time in Unix seconds as nanoseconds; None for what is no time after 1970 that 64 bits hold."""
    return int(seconds * 1e9) if 0 <= seconds < 9.2e9 else None


def is_null(value: Any) -> bool:
    """Whether this is "nothing" where a number might have been: null, None."""
    return value is None or (isinstance(value, str) and value.strip().lower() in ("null", "none"))
