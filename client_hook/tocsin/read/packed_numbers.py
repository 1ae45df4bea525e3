"""Decode the arrays of the API (``format=packed`` and ``series``) into tables. Pure."""

from __future__ import annotations

import binascii
import sys
from array import array
from typing import Callable, Dict, List, Optional

import msgspec

from .errors import UnreachableError
from .table import Column, Table

_CODES = {"f8": "d", "i8": "q", "u4": "I"}
COORDINATES = ("attempt", "rank", "step", "time_ns")
"""Columns of a table of records besides the series."""


class Packed(msgspec.Struct, frozen=True):
    """An array as base64 of little-endian numbers."""

    dtype: str
    bdata: str

    def array(self) -> array:  # type: ignore[type-arg]
        """Return the numbers, bit for bit.

        Raises:
            UnreachableError: It is not an array that this version knows.
        """
        code = _CODES.get(self.dtype)
        if code is None:
            raise UnreachableError(
                f"The server sent numbers of an unknown type, {self.dtype}. Update tocsin."
            )
        found = array(code)
        found.frombytes(binascii.a2b_base64(self.bdata))
        if sys.byteorder == "big":  # pragma: no cover - not tested on a big-endian machine
            found.byteswap()
        return found


class PackedColumn(msgspec.Struct, frozen=True):
    """The values of one series; ``rows`` is None if every record has one."""

    name: str
    values: Packed
    rows: Optional[Packed]


class RecordPage(msgspec.Struct, frozen=True):
    """A page of records. ``cursor``: the newest arrival when it was read."""

    n: int
    attempt: Packed
    rank: Packed
    step: Packed
    time_ns: Packed
    arrival: Packed
    columns: List[PackedColumn]
    next: Optional[str]
    cursor: int
    state: str
    """State of the run before the page was read."""

    def table(self) -> Table:
        """Return all records of the page."""
        found = {name: Column(getattr(self, name).array()) for name in COORDINATES}
        for column in self.columns:
            rows = None if column.rows is None else array("q", column.rows.array())
            found[heading(column.name)] = Column(column.values.array(), rows)
        return Table(self.n, found, cursor=self.cursor)

    def until(self, cursor: int) -> Table:
        """Return the records that arrived up to ``cursor``; the later ones belong to another page."""
        arrival = self.arrival.array()
        found = self.table()
        if not self.n or max(arrival) <= cursor:
            return Table(found.n, found.columns, cursor=cursor)
        kept = [row for row in range(self.n) if arrival[row] <= cursor]
        place = {row: at for at, row in enumerate(kept)}
        columns = {name: _kept(column, kept, place) for name, column in found.columns.items()}
        return Table(len(kept), columns, cursor=cursor)


def heading(name: str) -> str:
    """Return the column of a series; a name of a coordinate gets a prefix, as in exports."""
    return f"value:{name}" if name in COORDINATES or name.startswith("value:") else name


def _kept(column: Column, kept: List[int], place: Dict[int, int]) -> Column:
    values = column.values[:0]
    if column.rows is None:
        values.extend([column.values[row] for row in kept])  # type: ignore[misc]
        return Column(values)
    rows = array("q")
    for row, value in zip(column.rows, column.values, strict=True):
        if row in place:
            rows.append(place[row])
            values.append(value)  # type: ignore[arg-type]
    return Column(values, rows)


class Layer(msgspec.Struct, frozen=True):
    """One series of one attempt and rank: exact values, or buckets."""

    attempt: int
    rank: int
    x: Packed
    x1: Packed
    t: Packed
    first: Packed
    n: Packed
    nan: Packed
    pinf: Packed
    ninf: Packed
    exact: bool
    min: Optional[Packed] = None
    max: Optional[Packed] = None
    mean: Optional[Packed] = None
    last: Optional[Packed] = None


class Grid(msgspec.Struct, frozen=True):
    """The positions that layers of one process share: records if ``exact``, else buckets."""

    attempt: int
    rank: int
    exact: bool
    x: Packed
    t: Packed
    x1: Optional[Packed] = None
    n: Optional[Packed] = None


class GridLayer(msgspec.Struct, frozen=True):
    """A series on a grid; a count that is missing is zero everywhere."""

    grid: int
    first: Optional[Packed] = None
    min: Optional[Packed] = None
    max: Optional[Packed] = None
    mean: Optional[Packed] = None
    last: Optional[Packed] = None
    nan: Optional[Packed] = None
    pinf: Optional[Packed] = None
    ninf: Optional[Packed] = None

    def on(self, grid: Grid) -> Layer:
        """Return the layer with its positions and counts. ``first`` of buckets is their mean."""
        values = self.first or self.mean
        assert values is not None
        exact = values.array() if grid.exact else []
        size = len(grid.x.array())

        def counts(sent: Optional[Packed], is_one: Callable[[float], bool]) -> Packed:
            return sent or packed([float(is_one(v)) for v in exact] if grid.exact else [0.0] * size)

        return Layer(
            grid.attempt,
            grid.rank,
            x=grid.x,
            x1=grid.x1 or grid.x,
            t=grid.t,
            first=values,
            n=grid.n or packed([1.0] * size),
            nan=counts(self.nan, lambda v: v != v),
            pinf=counts(self.pinf, lambda v: v == float("inf")),
            ninf=counts(self.ninf, lambda v: v == -float("inf")),
            exact=grid.exact,
            min=self.min,
            max=self.max,
            mean=self.mean,
            last=self.last,
        )


def packed(numbers: List[float]) -> Packed:
    """Return numbers as the server sends them."""
    made = array("d", numbers)
    if sys.byteorder == "big":  # pragma: no cover - not tested on a big-endian machine
        made.byteswap()
    return Packed("f8", binascii.b2a_base64(made.tobytes(), newline=False).decode("ascii"))


class Failure(msgspec.Struct, frozen=True):
    """Why a run is missing in a comparison."""

    status: int
    detail: str


class ComparedRun(msgspec.Struct, frozen=True):
    """A line of the answer of ``POST /compare``."""

    id: str
    error: Optional[Failure] = None
    cursor: int = 0
    grids: List[Grid] = []
    series: Dict[str, List[GridLayer]] = {}

    def table(self) -> Table:
        """Return the rows of ``SeriesAnswer.table``, without ``first``, which buckets do not have here."""
        layers = {
            name: [layer.on(self.grids[layer.grid]) for layer in found] for name, found in self.series.items()
        }
        whole = SeriesAnswer(self.cursor, layers).table()
        columns = {name: column for name, column in whole.columns.items() if name != "first"}
        return Table(whole.n, columns, is_exact=whole.is_exact, cursor=whole.cursor)

    def newest(self, name: str) -> Table:
        """Return the rows of one series of the newest attempt, of the lowest rank that has it."""
        return msgspec.structs.replace(self, series={name: self.series[name][:1]}).table()


class SeriesAnswer(msgspec.Struct, frozen=True):
    """The answer of ``GET /runs/{id}/series``."""

    cursor: int
    series: Dict[str, List[Layer]]

    def table(self) -> Table:
        """Return one row for each value or bucket; see ``Api.metrics``."""
        series: List[str] = []
        whole = {
            name: array("q") for name in ("attempt", "rank", "step", "step_end", "n", "nan", "pinf", "ninf")
        }
        real = {name: array("d") for name in ("time_ms", "value", "min", "max", "first", "last")}
        for name, layers in self.series.items():
            for layer in layers:
                n = len(layer.x.array())
                series += [name] * n
                whole["attempt"].extend(array("q", [layer.attempt]) * n)
                whole["rank"].extend(array("q", [layer.rank]) * n)
                for column, packed in (("step", layer.x), ("step_end", layer.x1), ("n", layer.n)):
                    whole[column].extend(map(int, packed.array()))
                for column, packed in (("nan", layer.nan), ("pinf", layer.pinf), ("ninf", layer.ninf)):
                    whole[column].extend(map(int, packed.array()))
                real["time_ms"].extend(layer.t.array())
                first = layer.first.array()
                real["first"].extend(first)
                for column, part in (("value", layer.mean), ("min", layer.min), ("max", layer.max)):
                    real[column].extend(first if part is None else part.array())
                real["last"].extend(first if layer.last is None else layer.last.array())
        order = ("attempt", "rank", "step", "step_end", "time_ms", "value", "min", "max", "first", "last")
        found = {"series": Column(series)}
        for name in (*order, "n", "nan", "pinf", "ninf"):
            found[name] = Column(whole[name] if name in whole else real[name])
        exact = all(layer.exact for layers in self.series.values() for layer in layers)
        return Table(len(series), found, is_exact=exact, cursor=self.cursor)
