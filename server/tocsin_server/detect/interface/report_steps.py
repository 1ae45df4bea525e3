"""Counting that spares words: at which counts an episode is worth telling again."""

from __future__ import annotations

import math


def ladder(n: int) -> int:
    """The rung of ``n`` on the ladder 1, 2, 5, 10, 20, 50, 100 ...: 1, 2, 3, 4 ...; 0 below 1."""
    if n < 1:
        return 0
    decade = int(math.log10(n) + 1e-9)
    mantissa = n / 10**decade
    return 3 * decade + (3 if mantissa >= 5 else 2 if mantissa >= 2 else 1)
