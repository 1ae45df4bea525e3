"""Numbers in summaries (four significant figures, true minus, powers of two), and when to report again."""

from __future__ import annotations

import math

_ONE = {"records": "record", "steps": "step", "updates": "update", "evaluations": "evaluation"}
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number(value: float) -> str:
    """Format ``value`` with four significant figures.

    Below 1e-3 and from 1e5 the format is 1.304e-4. Non-finite values become NaN, +Inf and −Inf.
    """
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "−Inf"
    size = abs(value)
    if value == int(value) and size < 1e5:
        text = str(int(value))
    elif 1e-3 <= size < 9999.5:
        text = f"{value:.4g}"
    elif 9999.5 <= size < 1e5:  # .4g would write an exponent here
        text = f"{round(value, -1):.0f}"
    else:
        mantissa, exponent = f"{value:.3e}".split("e")
        text = f"{mantissa.rstrip('0').removesuffix('.')}e{int(exponent)}"
    return "−" + text[1:] if value < 0 else text


def scale(value: float) -> str:
    """Format a loss scale as 2¹⁷ if it is a power of two, else as a number."""
    if value > 0 and math.isfinite(value):
        mantissa, exponent = math.frexp(value)
        if mantissa == 0.5:
            return "2" + str(exponent - 1).translate(_SUPERSCRIPT)
    return number(value)


def of_unit(value: float, unit: str) -> str:
    """Return ``unit`` in the singular or plural for ``value``: ``record`` for 1, else ``records``."""
    return _ONE.get(unit, unit) if value == 1 else unit


def count(n: int, noun: str) -> str:
    """Format ``1 step``, ``5 steps``."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def grade(n: float) -> int:
    """Return the position of ``n`` in the series 1, 2, 5, 10, 20, 50, ...: 1, 2, 3, ...; 0 below 1.

    Episodes are reported again at these counts, so that updates get rarer as one continues. Above 1e15 all
    numbers are equal: a ratio of two numbers may be infinite.
    """
    if not n >= 1:
        return 0
    n = int(min(n, 1e15))
    decade = int(math.log10(n) + 1e-9)
    mantissa = n / 10**decade
    return 3 * decade + (3 if mantissa >= 5 else 2 if mantissa >= 2 else 1)
