"""Counts at which an episode is reported again, so that updates get rarer as it continues."""

from __future__ import annotations

import math


def grade(n: int) -> int:
    """Return the position of ``n`` in the series 1, 2, 5, 10, 20, 50, ...: 1, 2, 3, ...; 0 below 1."""
    if n < 1:
        return 0
    decade = int(math.log10(n) + 1e-9)
    mantissa = n / 10**decade
    return 3 * decade + (3 if mantissa >= 5 else 2 if mantissa >= 2 else 1)
