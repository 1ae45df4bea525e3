"""Published rules and common fixed limits, as pure functions from a series to the positions of its alarms.

They are compared with tocsin in the table of detection. Each is implemented as its source gives it, with its
defaults. Unless a rule says otherwise, values that are not finite are not spikes and enter no mean.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

Alarms = Callable[[Sequence[float]], list[int]]
"""Values in their order; the indices of those that alarm."""


def above_sigmas(values: Sequence[float], sigmas: float, window: int) -> list[int]:
    """Above the mean by ``sigmas`` standard deviations (n - 1) of the last ``window`` finite values."""
    last: deque[float] = deque(maxlen=window)
    found = []
    for at, value in enumerate(values):
        if not math.isfinite(value):
            continue
        if len(last) == window and value > fmean(last) + sigmas * stdev(last):
            found.append(at)
        last.append(value)
    return found


def olmo(values: Sequence[float]) -> list[int]:
    """OLMo-core, StabilityMonitor: mean + 6 standard deviations of the last 128."""
    return above_sigmas(values, 6.0, 128)


def three_sigma(values: Sequence[float]) -> list[int]:
    """The usual control chart: mean + 3 standard deviations of the last 100."""
    return above_sigmas(values, 3.0, 100)


def lightning(values: Sequence[float], window: int = 10, rtol: float = 2.0) -> list[int]:
    """PyTorch Lightning, SpikeDetection: not finite, or worse than the value before and at least ``rtol``
    times the mean away from the mean of the ``window`` values before that one."""
    last: deque[float] = deque(maxlen=window)
    found = []
    previous: float | None = None
    for at, value in enumerate(values):
        if not math.isfinite(value):
            found.append(at)
            continue
        if last and previous is not None and value > previous:
            mean = fmean(last)
            if abs(value - mean) >= rtol * abs(mean):
                found.append(at)
        if previous is not None:
            last.append(previous)
        previous = value
    return found


def megatron(values: Sequence[float], first: int = 100, factor: float = 10.0) -> list[int]:
    """Megatron-LM, rerun_state_machine: not finite, or ``factor`` times the largest of ``first`` values."""
    largest = max((value for value in values[:first] if math.isfinite(value)), default=math.inf)
    return [
        at
        for at, value in enumerate(values)
        if not math.isfinite(value) or (at >= first and value >= factor * largest)
    ]


def not_decreasing(values: Sequence[float], every: int = 10, percent: float = 0.1) -> list[int]:
    """SageMaker Debugger, LossNotDecreasing: each ``every`` values it must be ``percent`` lower."""
    return [
        at
        for at in range(every, len(values), every)
        if values[at] > values[at - every] - abs(values[at - every]) * percent / 100
    ]


def norm_above_10(values: Sequence[float]) -> list[int]:
    """A fixed limit of many scripts: gradient norm above 10."""
    return [at for at, value in enumerate(values) if value > 10.0]


def scale_below_16384(values: Sequence[float]) -> list[int]:
    """A fixed limit of many scripts: loss scale below 2^14."""
    return [at for at, value in enumerate(values) if value < 16384.0]


@dataclass(frozen=True)
class Published:
    """A rule, and the series that it evaluates."""

    name: str
    series: str
    alarms: Alarms


PUBLISHED = (
    Published("OLMo-core 6 sigma/128, loss", "loss", olmo),
    Published("OLMo-core 6 sigma/128, grad norm", "grad_norm", olmo),
    Published("Lightning SpikeDetection (10, 2.0)", "loss", lightning),
    Published("Megatron 10 x max of first 100", "loss", megatron),
    Published("SageMaker LossNotDecreasing", "loss", not_decreasing),
    Published("3 sigma/100", "loss", three_sigma),
    Published("grad norm > 10", "grad_norm", norm_above_10),
    Published("scale < 16384", "scale", scale_below_16384),
)
