"""Detect learning rates that were printed with too few digits to be checked."""

from __future__ import annotations

import re

_FIXED = re.compile(r"(?<![A-Za-z])(?:lr|learning[_ ]rate)\W{1,4}(0\.(\d{4,40}))(?![\deE.])", re.IGNORECASE)
LEAST = 10
"""A rate below this many units of its last decimal has less than two significant digits."""


def is_coarse(line: str) -> bool:
    """Return whether a rate in ``line`` has fixed decimals and is below ten units of the last decimal.

    ``0.000002`` may be anything from 1.5e-6 to 2.5e-6, and ``0.000000`` need not be 0. Python prints exact
    numbers as ``2e-06`` and ``0.0``.
    """
    if "0.0" not in line:
        return False
    return any(_is_coarse(text, decimals) for text, decimals in _FIXED.findall(line))


def _is_coarse(text: str, decimals: str) -> bool:
    value = float(text)
    fixed = decimals.endswith("0") or (len(decimals) >= 5 and value < 1e-4)
    return fixed and round(value * 10 ** len(decimals)) < LEAST
