"""Convert rows of records to columns. Pure; runs in the sender thread."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import Any

from ..protocol import MOST_STEP, Column, Sparse, little_endian
from .values import step_of, whole

Row = tuple[Any, ...]


def columns_of(rows: Sequence[Row]) -> tuple[list[int], list[int], dict[str, Column]]:
    """Return the steps, the times (ns) and the columns of ``rows``.

    A column that every row has is dense; any other is Sparse. None, and a value that is not a number, is
    missing. A step that is not an integer, or above ``MOST_STEP``, becomes -1, which the server rejects.

    Args:
        rows: Tuples ``(step, t_ns, names, *values)``.
    """
    steps = [_step(row[0]) for row in rows]
    times = [_int64(row[1]) for row in rows]
    names = rows[0][2]
    if all(row[2] is names for row in rows):
        columns = {name: _column(values, len(rows)) for name, values in _transposed(names, rows)}
    else:
        columns = _mixed(rows)
    return steps, times, {name: column for name, column in columns.items() if column is not None}


def _transposed(names: Sequence[str], rows: Iterable[Row]) -> Iterable[tuple[str, Sequence[Any]]]:
    columns = list(zip(*rows, strict=False))[3:]
    return zip(names, columns, strict=False)


def _column(values: Sequence[Any], n: int) -> Column | None:
    try:
        return little_endian("d", values)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return _packed(dict(enumerate(values)), n)


def _mixed(rows: Sequence[Row]) -> dict[str, Column | None]:
    """Return the columns of rows with different names, such as those of two optimizers."""
    shapes: dict[tuple[str, ...], list[int]] = {}
    for index, row in enumerate(rows):
        shapes.setdefault(row[2], []).append(index)
    found: dict[str, dict[int, Any]] = {}
    for names, indices in shapes.items():
        for name, values in _transposed(names, [rows[index] for index in indices]):
            found.setdefault(name, {}).update(zip(indices, values, strict=True))
    return {name: _packed(values, len(rows)) for name, values in found.items()}


def _packed(values: dict[int, Any], n: int) -> Column | None:
    """Return ``values`` (row -> value) as a column: dense if every row has one; None if it is empty."""
    at, column = array("I"), array("d")
    for index in sorted(values):
        number = _float(values[index])
        if number is not None:
            at.append(index)
            column.append(number)
    if not at:
        return None
    if len(at) == n:
        return little_endian("d", column)
    return Sparse(little_endian("I", at), little_endian("d", column))


def _float(value: Any) -> float | None:
    try:
        return None if value is None else float(value)
    except Exception:
        return None


def _step(value: Any) -> int:
    if type(value) is int and -MOST_STEP <= value <= MOST_STEP:
        return value
    found = step_of(value)
    return -1 if found is None else found


def _int64(value: Any) -> int:
    found = whole(value)
    return -1 if found is None else found
