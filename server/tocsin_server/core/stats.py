"""Counters and timings since the start of this process, for ``/metrics``. Pure code.

No lock is needed: each value is written by one thread, and readers may see a slightly old one.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the buckets of :class:`Durations`; longer durations fall into an additional bucket."""


class Durations:
    """A Prometheus histogram of seconds: counts per bucket, their total and their sum."""

    def __init__(self, bounds_s: tuple[float, ...] = BOUNDS_S) -> None:
        self.bounds_s = bounds_s
        self.sum_s = 0.0
        self._counts = [0] * (len(bounds_s) + 1)

    def take(self, seconds: float) -> None:
        """Add one duration."""
        self._counts[bisect_left(self.bounds_s, seconds)] += 1
        self.sum_s += seconds

    def cumulative(self) -> list[tuple[str, float]]:
        """Return (upper bound, observations up to that bound) for each bucket; the last bound is ``+Inf``."""
        found, total = [], 0
        bounds = [*(f"{bound:g}" for bound in self.bounds_s), "+Inf"]
        for bound, count in zip(bounds, self._counts, strict=True):
            total += count
            found.append((bound, float(total)))
        return found


@dataclass(slots=True)
class IngestCounts:
    """Counters of the ingest path: records, values, batches, events, and seconds spent evaluating rules."""

    records: int = 0
    points: int = 0
    batches: int = 0
    events: int = 0
    evaluated_s: float = 0.0
    refused: int = 0
    """Rejections reported to training processes."""
    gaps: int = 0
    """Records that training processes dropped by their own policy."""
