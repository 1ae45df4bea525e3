"""Write what a server returns for people: numbers and ages. Pure."""

from __future__ import annotations

import math
import time


def shown(text: object) -> str:
    """Return recorded text for a terminal: control characters, which could steer it, are escaped."""
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in str(text)
    )


def likely(cause: str) -> str:
    """Return a cause without its first word "Likely", for a line that already begins with it."""
    rest = cause.removeprefix("Likely ")
    return rest[:1].upper() + rest[1:]


def number(value: float | None) -> str:
    """Return a number with at most four significant figures, "" for None."""
    if value is None:
        return ""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Inf" if value > 0 else "-Inf"
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e6 else f"{value:.4g}"


def ago(time_ms: float | None, now_ms: float | None = None) -> str:
    """Return how long ago a time was, such as ``5 min``."""
    if time_ms is None:
        return ""
    seconds = max(0.0, ((time.time() * 1e3 if now_ms is None else now_ms) - time_ms) / 1e3)
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return f"{int(seconds)} s"
