"""A batch as rules see it: one view a stream, that is the records of one writer about one optimizer.

Column names follow docs/protocol.md: ``loss`` is the primary optimizer's, ``loss/D`` belongs to the
optimizer ``D``, ``lr/g1`` is a parameter group of the primary one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from tocsin_server.detect.context import RunContext, ScalerFacts
from tocsin_server.domain import Column, RecordBatch

SIGNALS = (
    "loss", "loss_n", "grad_norm", "scale", "lr", "skipped", "stepped", "found_inf", "step_time",
    "data_time", "gpu_util",
)  # fmt: skip
"""Base names that belong to a stream; every other name is an extra of the script."""

WIDE = "*"
"""Suffix of the stream of what lies beside the optimizers' own signals."""
BESIDE = ("val/", "nonfinite/")
"""Names that begin so belong to it."""

Values = list[float | None]
DEFAULT_SCALER = ScalerFacts()
_GROUP = re.compile(r"(?:^|/)g\d+$")


@lru_cache(maxsize=4096)
def split_name(name: str) -> tuple[str, str] | None:
    """A column's base name and optimizer suffix: ``lr/D/g1`` is (``lr/g1``, ``D``). None for an extra."""
    base, _, rest = name.partition("/")
    if base not in SIGNALS:
        return None
    group = _GROUP.search(rest)
    if group:
        return base + "/" + group.group().lstrip("/"), rest[: group.start()]
    return base, rest


class View:
    """Records ``0 .. n-1`` of one stream in a batch. Missing values are None, a missing signal is None.

    ``rows`` are their rows in the batch, ``first`` is the number of the first within the stream,
    ``before`` is step and time of the stream's record before the first, None at its beginning,
    ``age`` counts updates since the stream began (or began anew at a seam).
    """

    __slots__ = (
        "_columns", "before", "first", "first_step", "grad_norm", "loss", "lr", "moves", "n",
        "overflows", "rows", "scale", "scaled", "scaler", "skipped", "step", "stepped", "time_ns",
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
        self._columns = columns
        self.first = first
        self.before: tuple[int, int] | None = None
        self.first_step = first_step
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
        """The signal ``base`` of this stream, e.g. ``step_time``."""
        return self._columns.get(base)

    def groups(self, base: str) -> list[Values]:
        """The signal of all parameter groups, the first group's first."""
        prefix = base + "/g"
        return [values for name, values in self._columns.items() if name == base or name.startswith(prefix)]

    @property
    def bases(self) -> Mapping[str, Values]:
        """All signals of this stream by base name."""
        return self._columns

    def age(self, row: int) -> int:
        """Updates since the stream began."""
        return self.step[row] - self.first_step

    def has_scaler(self, row: int) -> bool:
        """Whether a loss scaler was seen at work at or before ``row`` (a constant 1.0 is none)."""
        return row >= self.scaled

    def cut(self, start: int, stop: int, *, first: int, first_step: int) -> View:
        """The records ``start .. stop-1`` as a view of their own."""
        return View(
            self.rows[start:stop],
            self.step[start:stop],
            self.time_ns[start:stop],
            {base: values[start:stop] for base, values in self._columns.items()},
            first=first,
            first_step=first_step,
        )

    def part(self, start: int, stop: int) -> View:
        """The records ``start .. stop-1`` after the scaler was followed: with what it did in them."""
        part = self.cut(start, stop, first=self.first + start, first_step=self.first_step)
        part.before = self.before if start == 0 else (self.step[start - 1], self.time_ns[start - 1])
        part.scaled = min(max(self.scaled - start, 0), part.n)
        part.scaler = self.scaler
        part.overflows = [(row - start, n, at) for row, n, at in self.overflows if start <= row < stop]
        part.moves = [(row - start, old, new) for row, old, new in self.moves if start <= row < stop]
        return part


def split(batch: RecordBatch, context: RunContext) -> dict[str, View]:
    """The views of a batch by optimizer suffix, the primary's (``""``) among them where it has records.

    Terms of a loss (``loss/<component>``) belong to no optimizer: see :func:`beside`.
    """
    streams: dict[str, dict[str, Column]] = {}
    for name, column in batch.columns.items():
        known = split_name(name)
        if known is not None and not context.is_component(known[1]):
            streams.setdefault(known[1], {})[known[0]] = column
    step, time_ns = batch.step.tolist(), batch.time_ns.tolist()
    return {suffix: _view(step, time_ns, columns) for suffix, columns in sorted(streams.items())}


def beside(batch: RecordBatch, *, begun: bool) -> View | None:
    """The view of scope ``wide``: columns by their full names, all ``loss...`` and ``grad_norm`` among them.

    None where there is nothing beside one optimizer's signals and there was nothing before
    (``begun``); else from the first record on that has something.
    """
    named = [name for name in batch.columns if name.startswith(BESIDE) or name.startswith("loss/")]
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


def _first_row(column: Column) -> int:
    return int(column.at[0]) if column.at is not None and column.at.size else 0


def moment(row: int, step: int, time_ns: int) -> View:
    """A view of one record without values: a point in the run at which something is told."""
    return View([row], [step], [time_ns], {})


def _view(step: list[int], time_ns: list[int], columns: dict[str, Column]) -> View:
    n = len(step)
    dense = [column.at is None for column in columns.values()]
    if all(dense):
        return View(range(n), step, time_ns, {base: column.v.tolist() for base, column in columns.items()})
    if any(dense):
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
