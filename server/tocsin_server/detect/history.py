"""The last records of a stream, for diagnoses: what the learning rate, loss or norm was before an onset."""

from __future__ import annotations

import math

import msgspec

from tocsin_server.detect.view import Values, View

KEPT = 512
"""Records a stream remembers; older ones are forgotten."""
SIGNALS = ("loss", "grad_norm", "scale", "lr")


class History(msgspec.Struct):
    """Up to ``KEPT`` records back from any record that is being judged, none from before its seam.

    ``first`` numbers the oldest record kept, ``seams`` the records with which the stream began anew.
    """

    first: int = 0
    steps: list[int] = []
    values: dict[str, Values] = {}
    seams: list[int] = []

    def take(self, view: View) -> None:
        """Appends the records of a view; forgets what no question can reach any more."""
        for base in SIGNALS:
            column = view.bases.get(base)
            kept = self.values.get(base)
            if column is not None:
                if kept is None:
                    kept = self.values[base] = [None] * len(self.steps)
                kept.extend(column)
            elif kept is not None:
                kept.extend([None] * view.n)
        self.steps.extend(view.step)

    def seam(self) -> None:
        """The stream begins anew: what was before says nothing of what comes."""
        self.seams.append(self.first + len(self.steps))

    def trim(self) -> None:
        """Forgets all but the newest ``KEPT`` records, now and then."""
        excess = len(self.steps) - KEPT
        if excess > KEPT:
            self._drop(excess)

    def _drop(self, excess: int) -> None:
        del self.steps[:excess]
        for column in self.values.values():
            del column[:excess]
        self.first += excess
        self.seams = [seam for seam in self.seams if seam > self.first]

    def compact(self) -> None:
        """Forgets all but the newest ``KEPT`` records, before the state is saved."""
        if len(self.steps) > KEPT:
            self._drop(len(self.steps) - KEPT)

    def between(self, base: str, start: int, stop: int, *, upto: int) -> list[tuple[int, float]]:
        """(step, value) of the records with start <= step < stop, none after record number ``upto``."""
        end = min(upto - self.first + 1, len(self.steps))
        seam = max((seam for seam in self.seams if seam <= upto), default=0)
        begin = max(0, end - KEPT, seam - self.first)
        column = self.values.get(base)
        if column is None:
            return []
        pairs = zip(self.steps[begin:end], column[begin:end], strict=True)
        return [(step, value) for step, value in pairs if value is not None and start <= step < stop]


def median(values: list[float]) -> float | None:
    """The median of the finite ones, None where there is none."""
    finite = sorted(value for value in values if math.isfinite(value))
    return finite[len(finite) // 2] if finite else None
