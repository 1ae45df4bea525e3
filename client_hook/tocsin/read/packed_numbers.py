"""Decode the arrays of the API (``format=packed`` and ``series``) into tables. Pure."""

from __future__ import annotations

import binascii
import sys
from array import array
from typing import Dict, List, Optional

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
