"""Recent records of a stream, which give the learning rate, loss or norm before an onset to a diagnosis."""

from __future__ import annotations

import math
from bisect import bisect_left
from typing import Any

import msgspec

from tocsin_server.detect.interface.view import Values, View

KEPT = 512
"""Number of records kept per stream."""
UNMERGED = 128
"""Maximum number of views that are not yet in the columns."""
SIGNALS = ("loss", "grad_norm", "scale", "lr")


class History(msgspec.Struct):
    """The newest records of a stream, with at least ``KEPT`` before the record being checked.

    ``first`` is the number of the oldest record kept; ``discontinuities`` are the numbers of the
    records that follow a discontinuity.
    """

    first: int = 0
    steps: list[int] = []
    values: dict[str, Values] = {}
    discontinuities: list[int] = []
    highest_rate: float = 0.0
    """Highest learning rate among the dropped records."""
    waiting: list[Any] = []
    """Views that are not yet in the columns; they are merged when a query needs them."""

    def take(self, view: View) -> None:
        """Add the records of a view, and drop records that no query can reach."""
        if len(self.waiting) >= UNMERGED:
            self.merge()
        if len(self.steps) > 2 * KEPT:
            self._drop(len(self.steps) - KEPT)
        self.waiting.append(view)

    def merge(self) -> None:
        """Move the waiting views into the columns.

        This is done signal by signal, because there are many views and most have one record.
        """
        views = self.waiting
        if not views:
            return
        for base in SIGNALS:
            columns = [view.bases.get(base) for view in views]
            kept = self.values.get(base)
            if kept is None:
                if columns.count(None) == len(columns):
                    continue
                kept = self.values[base] = [None] * len(self.steps)
            for view, column in zip(views, columns, strict=True):
                kept += column if column is not None else [None] * view.n
        for view in views:
            self.steps += view.step
        views.clear()

    def mark_discontinuity(self) -> None:
        """Mark a discontinuity after the newest record; earlier records do not describe later ones."""
        self.merge()
        self.discontinuities.append(self.first + len(self.steps))

    def has(self, base: str) -> bool:
        """Return whether the signal is in the kept records."""
        self.merge()
        return base in self.values

    def peak_rate(self, stop: int, *, upto: int) -> float:
        """Return the highest finite learning rate before step ``stop``, or 0 if none is known.

        Args:
            stop: Step after the last one.
            upto: Number of the last record to use.
        """
        self.merge()
        end = max(0, upto - self.first + 1)
        pairs = zip(self.steps[:end], self.values.get("lr", ())[:end], strict=False)
        kept = [value for step, value in pairs if step < stop]
        return max(self.highest_rate, _highest(kept))

    def _drop(self, excess: int) -> None:
        self.highest_rate = max(self.highest_rate, _highest(self.values.get("lr", [])[:excess]))
        del self.steps[:excess]
        for column in self.values.values():
            del column[:excess]
        self.first += excess
        self.discontinuities = [
            discontinuity for discontinuity in self.discontinuities if discontinuity > self.first
        ]

    def compact(self) -> None:
        """Drop all but the newest ``KEPT`` records, before the state is saved."""
        self.merge()
        if len(self.steps) > KEPT:
            self._drop(len(self.steps) - KEPT)

    def between(self, base: str, start: int, stop: int, *, upto: int) -> list[tuple[int, float]]:
        """Return (step, value) of the records with start <= step < stop.

        Args:
            base: Base name of the signal.
            start: First step.
            stop: Step after the last one.
            upto: Number of the last record to use.
        """
        self.merge()
        end = min(upto - self.first + 1, len(self.steps))
        discontinuity = max(
            (discontinuity for discontinuity in self.discontinuities if discontinuity <= upto), default=0
        )
        begin = max(0, end - KEPT, discontinuity - self.first)
        column = self.values.get(base)
        if column is None:
            return []
        steps = self.steps[begin:end]
        if steps == sorted(steps):  # always, except in the stream of shared metrics
            end = begin + bisect_left(steps, stop)
            begin += bisect_left(steps, start)
        pairs = zip(self.steps[begin:end], column[begin:end], strict=True)
        return [(step, value) for step, value in pairs if value is not None and start <= step < stop]

    def forgot(self, step: int, margin: int, *, upto: int) -> bool:
        """Return whether records close to ``step`` were dropped.

        That is the case if fewer than ``margin`` of the kept records precede ``step`` and older ones
        existed.
        """
        self.merge()
        end = min(upto - self.first + 1, len(self.steps))
        begin = max(0, end - KEPT)
        discontinuity = max(
            (discontinuity for discontinuity in self.discontinuities if discontinuity <= upto), default=0
        )
        return (
            end > begin
            and self.first + begin > discontinuity
            and self.steps[min(begin + margin, end - 1)] > step
        )


def _highest(values: Values) -> float:
    try:
        if values and math.isfinite(sum(values)):  # type: ignore[arg-type]
            return max(values)  # type: ignore[type-var,return-value]
    except TypeError:
        pass
    return max((value for value in values if value is not None and math.isfinite(value)), default=0.0)


def median(values: list[float]) -> float | None:
    """Return the median (the upper one for an even count) of the finite values, or None if there are none."""
    finite = sorted(value for value in values if math.isfinite(value))
    return finite[len(finite) // 2] if finite else None
