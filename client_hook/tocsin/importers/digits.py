"""Detect learning rates and gradient norms that were printed with too few digits to be checked."""

from __future__ import annotations

import re

_FIXED = re.compile(r"(?<![A-Za-z])(?:lr|learning[_ ]rate)\W{1,4}(0\.(\d{4,40}))(?![\deE.])", re.IGNORECASE)
_ZERO_NORM = re.compile(r"(?:grad(?:ient)?[_ ]?norm|gnorm)\W{1,4}0\.0{2,3}(?![\deE.])", re.IGNORECASE)
LEAST = 10
"""A rate below this many units of its last decimal has less than two significant digits."""


def coarse_signals(line: str) -> tuple[str, ...]:
    """Return the signals of ``line`` (``lr``, ``grad_norm``) that have too few digits to be checked.

    ``lr``: A rate with fixed decimals, below ten units of the last one. ``0.000002`` may be anything from
    1.5e-6 to 2.5e-6, and ``0.000000`` need not be 0; Python prints exact numbers as ``2e-06`` and ``0.0``.
    ``grad_norm``: A norm of ``0.00`` or ``0.000``. The norms of many healthy runs are below 0.005.
    """
    if "0.0" not in line:
        return ()
    rate = any(_is_coarse(text, decimals) for text, decimals in _FIXED.findall(line))
    return ("lr",) * rate + ("grad_norm",) * (_ZERO_NORM.search(line) is not None)


def _is_coarse(text: str, decimals: str) -> bool:
    value = float(text)
    fixed = decimals.endswith("0") or (len(decimals) >= 5 and value < 1e-4)
    return fixed and round(value * 10 ** len(decimals)) < LEAST
