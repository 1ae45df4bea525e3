"""A batch as rules see it: one view per stream. A stream is the records of one writer for one optimizer.

Column names follow docs/internals/protocol.md: ``loss`` is the primary optimizer's, ``loss/D`` belongs
to the optimizer ``D``, ``lr/g1`` is a parameter group of the primary one.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import isfinite
from typing import NamedTuple, cast

from tocsin_server.core.models import Column, RecordBatch
from tocsin_server.detect.interface.context import ScalerSettings

SIGNALS = (
    "loss", "loss_n", "loss_sum", "grad_norm", "scale", "lr", "skipped", "stepped", "found_inf", "step_time",
    "data_time", "gpu_util",
)  # fmt: skip
"""Base names of the signals of a stream; every other name is an extra metric of the script."""

WIDE = "*"
"""Suffix of the stream of metrics that belong to no single optimizer."""
BESIDE = ("val/", "train/", "nonfinite/batch")
"""Prefixes of the names in that stream."""

Values = list[float | None]
DEFAULT_SCALER = ScalerSettings()
_GROUP = re.compile(r"(?:^|/)g\d+$")


@lru_cache(maxsize=4096)
def split_name(name: str) -> tuple[str, str] | None:
    """Return a column's base name and optimizer suffix, or None for an extra metric.

    ``lr/D/g1`` gives (``lr/g1``, ``D``).
    """
    if name == "nonfinite/weights":
        return name, ""
    base, _, rest = name.partition("/")
    if base not in SIGNALS:
        return None
    group = _GROUP.search(rest)
    if group:
        return base + "/" + group.group().lstrip("/"), rest[: group.start()]
    return base, rest


class View:
    """Records ``0 .. n-1`` of one stream in a batch. Missing values are None, a missing signal is None.

    ``rows`` are their rows in the batch and ``first`` is the number of the first record within the
    stream. ``before`` is the step and time of the stream's previous record, or None at its start.
    ``age`` counts updates since the stream started or since its last discontinuity. ``rewound_from`` is
    the highest earlier step if steps have just gone back. ``steady`` means that the scale did not
    change and nothing overflowed.
    """

    __slots__ = (
        "_finite", "bases", "before", "first", "first_step", "grad_norm", "loss", "lr", "moves", "n",
        "overflows", "relearned",
        "rewound_from", "rows", "scale", "scaled", "scaler", "skipped", "steady", "step",
        "stepped", "time_ns",
    )  # fmt: skip

    def __init__(
        self,
        rows: Sequence[int],
        step: list[int],
        time_ns: list[int],
        columns: dict[str, Values],
        *,
        first: int = 0,
        first_step: int = 0,
    ) -> None:
        self.rows = rows
        self.n = len(step)
        self.step = step
        self.time_ns = time_ns
        self.bases: Mapping[str, Values] = columns
        """All signals of this stream by base name."""
        self._finite: tuple[Sequence[int], list[float]] | None = None
        self.first = first
        self.before: tuple[int, int] | None = None
        self.first_step = first_step
        self.rewound_from: int | None = None
        self.steady = False
        self.relearned: Sequence[tuple[int, ScalerSettings]] = ()
        self.loss = columns.get("loss")
        self.grad_norm = columns.get("grad_norm")
        self.scale = columns.get("scale")
        self.lr = columns.get("lr")
        self.skipped = columns.get("skipped")
        self.stepped = columns.get("stepped")
        self.scaled = self.n
        self.scaler = DEFAULT_SCALER
        self.overflows: Sequence[tuple[int, int, int]] = ()
        self.moves: Sequence[tuple[int, float, float]] = ()

    def column(self, base: str) -> Values | None:
        """Return the signal ``base`` of this stream, such as ``step_time``."""
        return self.bases.get(base)

    def value(self, base: str, row: int) -> float | None:
        """Return the value of the signal ``base`` at ``row``, or None if it is missing."""
        column = self.bases.get(base)
        return None if column is None else column[row]

    def place(self, row: int) -> tuple[int, int]:
        """Return step and time (Unix ns) of a record."""
        return self.step[row], self.time_ns[row]

    @property
    def losses(self) -> tuple[Sequence[int], list[float]]:
        """Return the rows and values of the finite losses; computed once and shared by all rules."""
        if self._finite is None:
            self._finite = _finite_of(self.loss or [])
        return self._finite

    def losses_between(self, start: int, stop: int) -> tuple[Sequence[int], list[float]]:
        """Return the rows ``start .. stop-1`` with a finite loss, and these losses."""
        rows, values = self.losses
        if isinstance(rows, range):
            return rows[start:stop], values[start:stop]
        low, high = bisect_left(rows, start), bisect_left(rows, stop)
        return rows[low:high], values[low:high]

    def newest(self, column: Values | None) -> float | None:
        """Return the last value of ``column`` in this view that is not None."""
        return next((value for value in reversed(column or ()) if value is not None), None)

    def groups(self, base: str) -> list[Values]:
        """Return the signal ``base`` of all parameter groups, starting with the first group."""
        prefix = base + "/g"
        return [values for name, values in self.bases.items() if name == base or name.startswith(prefix)]

    def age(self, row: int) -> int:
        """Return the number of updates since the stream started."""
        return self.step[row] - self.first_step

    def has_scaler(self, row: int) -> bool:
        """Return whether a loss scaler was active at or before ``row`` (a constant 1.0 is not)."""
        return row >= self.scaled

    def scaler_at(self, row: int) -> ScalerSettings:
        """Return the scaler settings known before ``row``; a growth interval may be learned within a view."""
        known = self.scaler
        for at, scaler_settings in self.relearned:
            known = scaler_settings if at < row else known
        return known

    @property
    def calm(self) -> bool:
        """Return whether nothing is unusual: finite nonzero values, no skipped steps and a steady scale."""
        if not self.steady or self.rewound_from is not None or "nonfinite/weights" in self.bases:
            return False
        if self.stepped is not None and not all(self.stepped):
            return False
        return _usual(self.loss) and _usual(self.grad_norm)

    def cut(self, start: int, stop: int, *, first: int, first_step: int) -> View:
        """Return the records ``start .. stop-1`` as a new view, without scaler information.

        Args:
            start: Index of the first record.
            stop: Index after the last record.
            first: Number of the first record in the stream.
            first_step: First step of the stream.
        """
        return View(
            self.rows[start:stop],
            self.step[start:stop],
            self.time_ns[start:stop],
            {base: values[start:stop] for base, values in self.bases.items()},
            first=first,
            first_step=first_step,
        )

    def part(self, start: int, stop: int) -> View:
        """Return the records ``start .. stop-1`` as a new view, with the scaler's changes in them."""
        part = self.cut(start, stop, first=self.first + start, first_step=self.first_step)
        part.before = self.before if start == 0 else (self.step[start - 1], self.time_ns[start - 1])
        part.scaled = min(max(self.scaled - start, 0), part.n)
        part.scaler = self.scaler
        part.overflows = [(row - start, n, at) for row, n, at in self.overflows if start <= row < stop]
        part.moves = [(row - start, old, new) for row, old, new in self.moves if start <= row < stop]
        return part


class Layout(NamedTuple):
    """Assignment of the columns of a batch to streams."""

    streams: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    """By suffix: pairs of base name and column name."""
    named: tuple[str, ...]
    """Columns that belong to no single optimizer."""


@lru_cache(maxsize=1024)
def layout(names: tuple[str, ...], components: tuple[str, ...]) -> Layout:
    """Return the layout of the columns ``names``; cached, because batches usually have the same columns.

    Terms of a loss (``loss/<component>``) belong to no optimizer: see :func:`beside`.
    """
    streams: dict[str, list[tuple[str, str]]] = {}
    for name in names:
        known = split_name(name)
        if known is not None and known[1] not in components:
            streams.setdefault(known[1], []).append((known[0], name))
    named = tuple(name for name in names if name.startswith((*BESIDE, "loss/")))
    return Layout(tuple((suffix, tuple(pairs)) for suffix, pairs in sorted(streams.items())), named)


def split(batch: RecordBatch, places: Layout) -> dict[str, View]:
    """Return the views of a batch by optimizer suffix; the primary optimizer's suffix is ``""``."""
    columns = batch.columns
    step, time_ns = batch.step.tolist(), batch.time_ns.tolist()
    return {
        suffix: _view(step, time_ns, {base: columns[name] for base, name in pairs})
        for suffix, pairs in places.streams
    }


def beside(batch: RecordBatch, places: Layout, *, begun: bool) -> View | None:
    """Return the view of scope ``wide``, with columns by their full names.

    It includes ``loss``, ``loss/...`` and ``grad_norm``. If the batch has no other metrics and none
    came before (``begun`` is False), return None. The first view starts at the first record that has a
    metric.

    Args:
        batch: The batch.
        places: Its layout.
        begun: Whether an earlier batch had a metric.
    """
    named = places.named
    if not begun and not named:
        return None
    chosen = [*named, *(name for name in ("loss", "grad_norm") if name in batch.columns)]
    if not chosen:
        return None
    columns = {name: batch.columns[name] for name in chosen}
    view = _view(batch.step.tolist(), batch.time_ns.tolist(), columns)
    if begun:
        return view
    start = min(_first_row(batch.columns[name]) for name in named)
    from_place = next(place for place, row in enumerate(view.rows) if row >= start)
    return view.cut(from_place, view.n, first=0, first_step=view.step[from_place])


def _finite_of(values: Values) -> tuple[Sequence[int], list[float]]:
    """Return the rows and values of the finite values. Do not modify the list: it may be ``values``."""
    try:
        if isfinite(sum(values)):  # type: ignore[arg-type]
            return range(len(values)), cast(list[float], values)
    except TypeError:
        pass
    kept = [(row, value) for row, value in enumerate(values) if value is not None and isfinite(value)]
    return [row for row, _ in kept], [value for _, value in kept]


def _usual(values: Values | None) -> bool:
    """Return whether all values are present, finite and nonzero; an absent signal counts as usual."""
    try:
        return values is None or (math.isfinite(sum(values)) and 0.0 not in values)  # type: ignore[arg-type]
    except TypeError:
        return False


def _first_row(column: Column) -> int:
    return int(column.at[0]) if column.at is not None and column.at.size else 0


def moment(row: int, step: int, time_ns: int) -> View:
    """Return a view of one record without values, which marks a time in the run."""
    return View([row], [step], [time_ns], {})


def _view(step: list[int], time_ns: list[int], columns: dict[str, Column]) -> View:
    n = len(step)
    whole = {base: column.v.tolist() for base, column in columns.items() if column.at is None}
    if len(whole) == len(columns):
        return View(range(n), step, time_ns, whole)
    if whole:
        return View(range(n), step, time_ns, {base: _dense(column, n) for base, column in columns.items()})
    rows = sorted({row for column in columns.values() if column.at is not None for row in column.at.tolist()})
    place = {row: index for index, row in enumerate(rows)}
    packed = {base: _packed(column, place) for base, column in columns.items()}
    return View(rows, [step[row] for row in rows], [time_ns[row] for row in rows], packed)


def _dense(column: Column, n: int) -> Values:
    if column.at is None:
        values: Values = column.v.tolist()
        return values
    return column.dense(n)


def _packed(column: Column, place: dict[int, int]) -> Values:
    out: Values = [None] * len(place)
    if column.at is not None:
        for row, value in zip(column.at.tolist(), column.v.tolist(), strict=True):
            out[place[row]] = value
    return out
