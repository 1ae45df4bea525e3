"""The last records of a stream, for diagnoses: what the learning rate, loss or norm was before an onset."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from tocsin_server.detect.interface.view import Values, View

KEPT = 512
"""Records a stream remembers; older ones are forgotten."""
UNFILED = 128
"""Views that wait at most."""
SIGNALS = ("loss", "grad_norm", "scale", "lr")


class History(msgspec.Struct):
    """Up to ``KEPT`` records back from any record that is being judged, none from before its seam.

    ``first`` numbers the oldest record kept, ``seams`` the records with which the stream began anew.
    """

    first: int = 0
    steps: list[int] = []
    values: dict[str, Values] = {}
    discontinuities: list[int] = []
    waiting: list[Any] = []
    """Views that were taken and not yet filed: filing is left until somebody asks."""

    def take(self, view: View) -> None:
        """Notes the records of a view; forgets what no question about them can reach any more."""
        if len(self.waiting) >= UNFILED:
            self.file()
        if len(self.steps) > 2 * KEPT:
            self._drop(len(self.steps) - KEPT)
        self.waiting.append(view)

    def file(self) -> None:
        """Puts what waits into the columns, signal by signal: views are many and often of one record."""
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
        """The stream begins anew: what was before says nothing of what comes."""
        self.file()
        self.discontinuities.append(self.first + len(self.steps))

    def has(self, base: str) -> bool:
        """Whether the signal was there in what is kept."""
        self.file()
        return base in self.values

    def _drop(self, excess: int) -> None:
        del self.steps[:excess]
        for column in self.values.values():
            del column[:excess]
        self.first += excess
        self.discontinuities = [
            discontinuity for discontinuity in self.discontinuities if discontinuity > self.first
        ]

    def compact(self) -> None:
        """Forgets all but the newest ``KEPT`` records, before the state is saved."""
        self.file()
        if len(self.steps) > KEPT:
            self._drop(len(self.steps) - KEPT)

    def between(self, base: str, start: int, stop: int, *, upto: int) -> list[tuple[int, float]]:
        """(step, value) of the records with start <= step < stop, none after record number ``upto``."""
        self.file()
        end = min(upto - self.first + 1, len(self.steps))
        discontinuity = max(
            (discontinuity for discontinuity in self.discontinuities if discontinuity <= upto), default=0
        )
        begin = max(0, end - KEPT, discontinuity - self.first)
        column = self.values.get(base)
        if column is None:
            return []
        pairs = zip(self.steps[begin:end], column[begin:end], strict=True)
        return [(step, value) for step, value in pairs if value is not None and start <= step < stop]

    def forgot(self, step: int, margin: int, *, upto: int) -> bool:
        """Whether fewer than ``margin`` records before ``step`` can still be asked for, of more that were."""
        self.file()
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


def median(values: list[float]) -> float | None:
    """The median of the finite ones, None where there is none."""
    finite = sorted(value for value in values if math.isfinite(value))
    return finite[len(finite) // 2] if finite else None
