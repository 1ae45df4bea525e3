"""A duration: a number of steps, or of seconds by the records' times."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from tocsin_server.core.errors import FieldError

MOST_STEPS = 1_000_000
UNITS = {"s": 10**9, "min": 60 * 10**9, "h": 3600 * 10**9, "d": 86_400 * 10**9}
MOST_NS = 30 * UNITS["d"]
_TEXT = re.compile(r"\s*(\d{1,15}(?:\.\d{1,9})?)\s*(steps?|s|min|h|d)\s*")
EXPECTED = '"20 steps", "90 s", "5 min", "2 h" or "1 d"'

Moment = tuple[int, int]
"""Step and time in ns of a record."""


@dataclass(frozen=True, slots=True)
class Span:
    """``amount`` steps, or nanoseconds if ``timed``."""

    amount: int
    timed: bool = False

    def __str__(self) -> str:
        if not self.timed:
            return f"{self.amount} {'step' if self.amount == 1 else 'steps'}"
        whole = [unit for unit, ns in UNITS.items() if self.amount >= ns and self.amount % ns == 0]
        unit = whole[-1] if whole else "s"
        return f"{self.amount / UNITS[unit]:.9f}".rstrip("0").rstrip(".") + f" {unit}"

    def x(self, moment: Moment) -> int:
        """Return the step or the time of ``moment``, whichever this span measures."""
        return moment[1] if self.timed else moment[0]

    def since(self, start: Moment, now: Moment) -> int:
        """Return the time since ``start``, in steps or ns; never below 0."""
        return max(0, self.x(now) - self.x(start))


NOTHING, NEWEST = Span(0), Span(1)


def read_span(given: object, field: str, *, least: int = 0) -> Span:
    """Parse a span.

    Args:
        given: Text such as ``20 steps`` or ``5 min``.
        field: Name of the field, for errors.
        least: Minimum number of steps.

    Raises:
        FieldError: The text is not a span of at least ``least``; names ``field``.
    """
    found = _TEXT.fullmatch(given) if isinstance(given, str) else None
    if found is None:
        raise FieldError(field, EXPECTED, given)
    number, unit = float(found[1]), found[2]
    if unit.startswith("step"):
        if number != int(number) or not least <= number <= MOST_STEPS:
            raise FieldError(field, f"{least} to {MOST_STEPS} whole steps", given)
        return Span(int(number))
    amount = math.floor(number * UNITS[unit] + 0.5)
    if not least <= amount <= MOST_NS:
        raise FieldError(field, "a time above 0 of at most 30 d" if least else "at most 30 d", given)
    return Span(amount, timed=True)
