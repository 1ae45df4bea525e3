"""Slow changes: medians of stretches of records, and distribution-free tests for trends."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from operator import mul

import msgspec

from tocsin_server.detect.interface.view import View
from tocsin_server.detect.stats.rolling import middle

PLAUSIBLE_K = (
    2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 15, 16, 18, 19, 20, 21, 24, 25, 32, 37, 40, 47, 50, 62, 64,
    80, 91, 100, 101, 102, 120, 128, 150, 196, 200, 256, 257, 365, 400, 500, 512, 1000, 1024, 2000, 4096,
    5000, 8192, 10000, 16384, 21841, 21843, 28996, 30000, 30522, 32000, 32100, 32128, 32768, 50257,
    50265, 50272, 50304, 65024, 65536, 100000, 100277, 128000, 128256, 151936, 152064, 172800, 250002,
    250112, 256000,
)  # fmt: skip
"""Common numbers of classes, words or prototypes; a cross-entropy of ln K is chance level."""


_LOGS = tuple((k, math.log(k)) for k in PLAUSIBLE_K)
_LOG_VALUES = [log for _, log in _LOGS]
ALMOST = 1 - 1e-9
"""Factor that makes up for rounding where a range is only narrowed down."""


def chance(loss: float, tolerance: float) -> int | None:
    """Return the K of :data:`PLAUSIBLE_K` with ln K within ``tolerance`` (relative) of ``loss``, else None.

    Of several, prefer a power of ten, then the nearest.
    """
    least, most = loss / (1 + tolerance), loss / (1 - tolerance) if tolerance < 1 else math.inf
    start, stop = bisect_left(_LOG_VALUES, least * ALMOST), bisect_right(_LOG_VALUES, most / ALMOST)
    near = [k for k, log in _LOGS[start:stop] if abs(log - loss) <= tolerance * log]
    return min(near, key=lambda k: (k not in (10, 100, 1000, 10_000), abs(math.log(k) - loss)), default=None)


class Bins(msgspec.Struct):
    """Medians of ``size`` records each, the last ``keep`` of them, with the first step of each.

    With ``grow`` nothing is dropped: if there are too many bins, neighbors are merged and ``size``
    doubles.
    """

    size: int
    keep: int
    grow: bool = False
    medians: list[float] = []
    steps: list[int] = []
    waiting: list[float] = []
    since: int = 0

    def push(self, step: int, value: float) -> bool:
        """Add a finite value; return whether it completed a bin."""
        if not self.waiting:
            self.since = step
        self.waiting.append(value)
        if len(self.waiting) < self.size:
            return False
        self._complete()
        return True

    def extend(self, view: View) -> Iterator[int]:
        """Add the finite losses of ``view``; yield the row of each record that completed a bin.

        The row is yielded before later records are added, so results do not depend on how records were
        split.
        """
        return self.fill(view, *view.losses)

    def fill(self, view: View, rows: Sequence[int], values: list[float]) -> Iterator[int]:
        """Add finite values at ``rows`` of ``view``, as :meth:`extend` does."""
        at, n = 0, len(values)
        while at < n:
            if not self.waiting:
                self.since = view.step[rows[at]]
            more = min(self.size - len(self.waiting), n - at)
            self.waiting += values[at : at + more]
            at += more
            if len(self.waiting) >= self.size:
                self._complete()
                yield rows[at - 1]

    def _complete(self) -> None:
        self.medians.append(middle(sorted(self.waiting)))
        self.steps.append(self.since)
        self.waiting = []
        if len(self.medians) > self.keep:
            self._shrink()

    def _shrink(self) -> None:
        if not self.grow:
            del self.medians[0], self.steps[0]
            return
        odd = [self.medians[-1]] if len(self.medians) % 2 else []
        pairs = zip(self.medians[::2], self.medians[1::2], strict=False)
        self.waiting = odd * self.size + self.waiting
        self.since = self.steps[-1] if odd else self.since
        self.medians = [(first + second) / 2 for first, second in pairs]
        self.steps = self.steps[: len(self.medians) * 2 : 2]
        self.size *= 2


def kendall(values: Sequence[float]) -> float:
    """Return the z score of the Mann-Kendall test: above 0 rising, below 0 falling.

    There is no correction for ties.
    """
    n, score = len(values), 0
    before: list[float] = []
    for value in values:
        at = bisect_left(before, value)
        score += at + bisect_right(before, value) - len(before)
        before.insert(at, value)
    sigma = math.sqrt(n * (n - 1) * (2 * n + 5) / 18)
    return (score - math.copysign(1, score)) / sigma if score and sigma else 0.0


def falls(before: Sequence[float], after: Sequence[float]) -> float:
    """Return the z score of the Mann-Whitney test that ``after`` is below ``before``.

    A score above 3 is significant.
    """
    below = sum((late < early) + 0.5 * (late == early) for early in before for late in after)
    m, n = len(before), len(after)
    return (below - m * n / 2) / math.sqrt(m * n * (m + n + 1) / 12)


def autocorrelations(values: Sequence[float], lags: Iterable[int]) -> list[float]:
    """Return the autocorrelation of ``values`` less their mean at each of ``lags``; 0 if they do not vary."""
    mean = sum(values) / len(values)
    rest = [value - mean for value in values]
    power = sum(map(mul, rest, rest))
    if power <= 0 or not math.isfinite(power):
        return [0.0 for _ in lags]
    return [float(sum(map(mul, rest, rest[lag:])) / power) for lag in lags]
