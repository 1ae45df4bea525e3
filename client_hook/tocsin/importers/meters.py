"""Parse ``name value (average)`` and ``name: value (average)``, as image classifiers print them."""

from __future__ import annotations

import re

from .values import NUMBER, text_number

_METER = re.compile(
    r"(?<![A-Za-z_])([A-Za-z_][\w@./\-]{0,200}):?\s+("
    + NUMBER
    + r")s?(?![\w:/]|\.\d)(?:\s*\(\s*("
    + NUMBER
    + r")s?\s*\))?",
    re.IGNORECASE,
)
_TIME = {"time": "step_time", "data": "data_time"}
_LEFT = {"eta", "mem", "max", "memory", "epoch", "iter", "max_mem"}


def meters(text: str) -> dict[str, float]:
    """Return the current values by name, and the epoch's average of the gradient norm.

    An average stays non-finite after one non-finite value, so it never replaces a value.
    """
    values: dict[str, float] = {}
    for name, now, average in _METER.findall(text):
        value = text_number(now)
        key = _TIME.get(name.lower(), name)
        if value is None or key.lower() in _LEFT:
            continue
        values.setdefault(key, value)
        if average and key == "grad_norm":
            values.setdefault("grad_norm_epoch_avg", text_number(average) or 0.0)
    return values
