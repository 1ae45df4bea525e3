"""``name value (average)`` and ``name: value (average)``: how image classifiers print their meters."""

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
    """The present values by name; of the gradient norm the average of the epoch too.

    An average over an epoch stays non-finite once one value was, so it never stands for the value.
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
