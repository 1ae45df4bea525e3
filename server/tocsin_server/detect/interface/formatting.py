"""How numbers are written in summaries: four significant figures, true minus, powers of two for scales."""

from __future__ import annotations

import math

_ONE = {"records": "record", "steps": "step", "updates": "update", "evaluations": "evaluation"}
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number(value: float) -> str:
    """``value`` with four significant figures, 1.3e-4 below 1e-3 and from 1e5; NaN, +Inf, −Inf in words."""
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
        mantissa, exponent = f"{value:.1e}".split("e")
        text = f"{mantissa.removesuffix('.0')}e{int(exponent)}"
    return "−" + text[1:] if value < 0 else text


def scale(value: float) -> str:
    """A loss scale as power of two where it is one: 2¹⁷; else as number."""
    if value > 0 and math.isfinite(value):
        mantissa, exponent = math.frexp(value)
        if mantissa == 0.5:
            return "2" + str(exponent - 1).translate(_SUPERSCRIPT)
    return number(value)


def of_unit(value: float, unit: str) -> str:
    """``unit`` behind ``value``: ``records`` is ``record`` behind 1."""
    return _ONE.get(unit, unit) if value == 1 else unit


def count(n: int, noun: str) -> str:
    """``1 step``, ``5 steps``."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
