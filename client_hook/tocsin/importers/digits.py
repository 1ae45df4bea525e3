"""Infer how precisely a log prints each column. Pure.

A loss of ``0.0`` in a column with one decimal is anything below 0.05. Rules need the quantum, the distance
between two numbers that the column can print, so that they do not take such a loss for 0. It is the smallest
one that the values so far allow, so it only gets finer, with one exception (see ``_Column.quantum``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from .values import FULL, Printed, is_in_full, places_of

KIND = "precision"
"""Kind of the fact with a column's name and quantum; 0 means that its numbers are printed in full."""
CHECKED = ("loss", "grad_norm", "lr", "val")
"""Signals whose precision matters to a rule."""
CHANGES = 10
"""Number of changes of a learning rate with few decimals that no constant rate or step schedule has."""

ENOUGH = 2
"""Number of values from which a quantum is reported: one may be short, unless it ends with a 0."""


class Precision:
    """The quanta of one file's columns."""

    def __init__(self) -> None:
        self._columns: dict[str, _Column] = {}
        self._full = False
        """Whether any column has numbers that are printed in full."""

    def take(self, values: Mapping[str, float]) -> Iterator[tuple[str, float]]:
        """Take the values of a row; yield the name and the quantum of each column whose quantum changes."""
        for name, value in values.items():
            column = self._columns.get(name)
            if column is None:
                base = name.partition("/")[0]
                if base not in CHECKED:
                    continue
                column = self._columns[name] = _Column(is_rate=base == "lr")
            if (column.places >= FULL and self._full) or not math.isfinite(value):
                continue
            column.add(value)
            self._full = self._full or is_in_full(value)
            quantum = column.quantum(full=self._full)
            if quantum != column.reported and (column.fixed or column.values >= ENOUGH):
                column.reported = quantum
                yield name, quantum


class _Column:
    """What the numbers of one column reveal about their format."""

    __slots__ = (
        "changes",
        "fixed",
        "is_rate",
        "last",
        "nonzero",
        "places",
        "reported",
        "values",
        "zero_places",
    )

    def __init__(self, *, is_rate: bool) -> None:
        self.is_rate = is_rate
        self.places = 0
        """Most decimals of any number; ``FULL`` if numbers are printed in full."""
        self.zero_places = FULL
        """Fewest decimals of a 0."""
        self.fixed = False
        """Whether a number had a 0 at its end, so that all have the same number of decimals."""
        self.nonzero = False
        self.values = 0
        self.changes = 0
        self.last = 0.0
        self.reported = 0.0

    def add(self, value: float) -> None:
        """Take a finite value."""
        self.values += 1
        places = places_of(value)
        self.fixed = self.fixed or (isinstance(value, Printed) and value.fixed)
        self.places = max(self.places, places)
        if value == 0.0:
            self.zero_places = min(self.zero_places, places)
        self.changes += self.nonzero and value != self.last
        self.nonzero = self.nonzero or value != 0.0
        self.last = value

    def quantum(self, *, full: bool) -> float:
        """Return the distance between two numbers that can be printed, or 0 if they are printed in full.

        ``0.0`` is what Python prints for exactly 0. In a file that prints other columns in full, a column
        that is always ``0`` or ``0.0`` is taken to be exact; if it turns out not to be, its quantum gets
        coarser. A learning rate of 0.001 is usually exact as well: it is a setting.
        """
        if self.places >= FULL:
            return 0.0
        if self.is_rate and not self.fixed:
            by_repr = self.nonzero and self.zero_places < self.places
            if by_repr or (full and self.changes < CHANGES):
                return 0.0
        elif full and not self.nonzero and not self.fixed:
            return 0.0
        return 10.0**-self.places
