"""A table of numbers in columns, for NumPy, pandas, polars and Arrow, or as plain lists.

Columns are compact arrays, 8 bytes a number. None of the four libraries is needed or imported until a method
asks for it. A missing value is not NaN: it is None in lists, masked in NumPy, and null in the others.
"""

from __future__ import annotations

import importlib
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Union

if TYPE_CHECKING:
    import numpy
    import pandas
    import polars
    import pyarrow

Values = Union["array[float]", "array[int]", "list[str]"]


@dataclass(frozen=True)
class Column:
    """Values of one column. ``rows`` are the rows that have one, None if all have."""

    values: Values
    rows: array[int] | None = None

    def dense(self, n: int) -> list[Any]:
        """Return ``n`` values, None where one is missing."""
        if self.rows is None:
            return list(self.values)
        found: list[Any] = [None] * n
        for row, value in zip(self.rows, self.values, strict=True):
            found[row] = value
        return found

    def take(self, rows: Sequence[int], n: int) -> Column:
        """Return the column of these of ``n`` rows."""
        dense = self.dense(n)
        found = [dense[row] for row in rows]
        known = [place for place, value in enumerate(found) if value is not None]
        values = [found[place] for place in known]
        typed = values if isinstance(self.values, list) else array(self.values.typecode, values)
        return Column(typed, None if len(known) == len(found) else array("q", known))


@dataclass(frozen=True)
class Table:
    """``n`` rows of named columns.

    ``is_exact``: every row is one record or value. Otherwise, a row may stand for a bucket of several.
    ``cursor``: pass it as ``since`` to ``Api.follow`` to continue after these records.
    """

    n: int
    columns: Mapping[str, Column] = field(repr=False)
    is_exact: bool = True
    cursor: int = -1

    def __len__(self) -> int:
        return self.n

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return list(self.columns)

    def __iter__(self) -> Iterator[str]:
        """Yield the names of the columns."""
        return iter(self.columns)

    def __getitem__(self, name: str) -> list[Any]:
        """Return a column as a list; None where a value is missing.

        In a table with the column ``series``, the name of a series stands for the column ``value`` of its
        rows. With several series, :meth:`of` returns the rows of one.

        Raises:
            KeyError: There is no such column or series; the message has the names.
        """
        if name in self.columns:
            return self.columns[name].dense(self.n)
        return self.of(name)["value"]

    def of(self, series: str) -> Table:
        """Return the rows of one series of a table with the column ``series``.

        Raises:
            KeyError: There is no such series; the message has the names.
        """
        every = self["series"] if "series" in self.columns else []
        rows = [row for row, each in enumerate(every) if each == series]
        if not rows:
            names = dict.fromkeys([*self.columns, *every])
            raise KeyError(f"There is no column or series {series!r}, only {', '.join(names)}.")
        return replace(self, n=len(rows), columns={n: c.take(rows, self.n) for n, c in self.columns.items()})

    def lists(self) -> dict[str, list[Any]]:
        """Return each column as a list; None where a value is missing."""
        return {name: column.dense(self.n) for name, column in self.columns.items()}

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield each row as a dict without its missing values."""
        found = self.lists()
        for row in zip(*found.values(), strict=True):
            yield {name: value for name, value in zip(found, row, strict=True) if value is not None}

    def numpy(self) -> dict[str, numpy.ndarray[Any, Any]]:
        """Return each column as an array; a masked one if a value is missing. Needs numpy."""
        np = _library("numpy")
        found = {}
        for name, column in self.columns.items():
            values = _array(np, column.values)
            if column.rows is not None:
                values = np.ma.MaskedArray(*_spread(np, column, values, self.n))
            found[name] = values
        return found

    def pandas(self) -> pandas.DataFrame:
        """Return a data frame; columns with missing values have the type Float64. Needs pandas."""
        pd, np = _library("pandas"), _library("numpy")
        found = {}
        for name, column in self.columns.items():
            values = _array(np, column.values)
            if column.rows is not None:
                values = pd.arrays.FloatingArray(*_spread(np, column, values, self.n))
            found[name] = values
        frame: pandas.DataFrame = pd.DataFrame(found, index=pd.RangeIndex(self.n))
        return frame

    def polars(self) -> polars.DataFrame:
        """Return a data frame. Needs polars."""
        pl = _library("polars")
        kinds = (pl.Float64, pl.Int64, pl.String)
        frame: polars.DataFrame = pl.DataFrame(
            [
                pl.Series(name, _sequence(column, self.n), dtype=_kind(column, kinds))
                for name, column in self.columns.items()
            ]
        )
        return frame

    def arrow(self) -> pyarrow.Table:
        """Return an Arrow table. Needs pyarrow."""
        pa = _library("pyarrow")
        kinds = (pa.float64(), pa.int64(), pa.string())
        arrays = [_arrow(pa, column, self.n, _kind(column, kinds)) for column in self.columns.values()]
        table: pyarrow.Table = pa.Table.from_arrays(arrays, names=self.names)
        return table


def _library(name: str) -> Any:
    """Return a library. It is optional, so it is imported here only.

    Raises:
        ImportError: It is not installed; the message says what to do.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        advice = f"Install it with `pip install {name}`, or use lists() or rows(), which need no library."
        raise ImportError(f"{name} cannot be imported ({error}). {advice}") from error


def _kind(column: Column, kinds: Sequence[Any]) -> Any:
    """Return which of the kinds (float, whole number, text) a column has."""
    values = column.values
    return kinds[2] if isinstance(values, list) else kinds[0] if values.typecode == "d" else kinds[1]


def _array(np: Any, values: Values) -> Any:
    if isinstance(values, list):
        return np.array(values, dtype=object)
    return np.frombuffer(values, dtype=values.typecode) if len(values) else np.array([], values.typecode)


def _sequence(column: Column, n: int) -> Any:
    """Return a column as an array where NumPy is installed and no value is missing, else as a list."""
    if column.rows is None and not isinstance(column.values, list):
        try:
            return _array(importlib.import_module("numpy"), column.values)
        except ImportError:
            pass
    return column.dense(n)


def _spread(np: Any, column: Column, values: Any, n: int) -> tuple[Any, Any]:
    """Return ``n`` values and a mask that is True where one is missing."""
    dense, missing = np.zeros(n, dtype=values.dtype), np.ones(n, dtype=bool)
    rows = _array(np, column.rows or array("q"))
    dense[rows], missing[rows] = values, False
    return dense, missing


def _arrow(pa: Any, column: Column, n: int, kind: Any) -> Any:
    if column.rows is None and not isinstance(column.values, list):
        return pa.Array.from_buffers(kind, n, [None, pa.py_buffer(column.values)])
    return pa.array(column.dense(n), kind)


class Gathering:
    """Joins tables with the same kinds of columns into one, in place: only the result is in memory."""

    def __init__(self) -> None:
        self._n = 0
        self._cursor = -1
        self._values: dict[str, Any] = {}
        self._rows: dict[str, array[int]] = {}
        self._dense: dict[str, int] = {}
        """Number of rows up to which a column has every value."""

    def add(self, table: Table) -> None:
        """Append the rows of a table."""
        for name, column in table.columns.items():
            if name not in self._values:
                self._values[name] = column.values[:0]
                self._dense[name] = 0
            rows = self._rows.get(name)
            if rows is None and (column.rows is not None or self._dense[name] != self._n):
                rows = self._rows[name] = array("q", range(self._dense[name]))
            if rows is not None:
                own = range(table.n) if column.rows is None else column.rows
                rows.extend(self._n + row for row in own)
            else:
                self._dense[name] = self._n + table.n
            self._values[name].extend(column.values)
        self._n += table.n
        self._cursor = max(self._cursor, table.cursor)

    def table(self) -> Table:
        """Return the table of all rows so far."""
        found = {}
        for name, values in self._values.items():
            rows = self._rows.get(name)
            if rows is None and self._dense[name] != self._n:
                rows = array("q", range(self._dense[name]))
            found[name] = Column(values, rows)
        return Table(self._n, found, cursor=self._cursor)
