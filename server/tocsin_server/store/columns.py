"""Column types: numbers that keep every bit, text from outside, strict JSON.

Times are Unix nanoseconds on the server's clock.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from sqlalchemy import BigInteger, Column, Dialect, Double, Integer, Text, TypeDecorator

from tocsin_server.core import exact_json
from tocsin_server.store.damage import read_json, read_number

LARGEST = (1 << 63) - 1
"""Largest value of a ``number_column``; comparing with a larger one would fail."""
LARGEST_SMALL = (1 << 31) - 1


class ExactDouble(TypeDecorator[float]):
    """A float64 scalar that SQLite stores exactly; it would store NaN as NULL and -0.0 as 0.

    In SQLite, NaN is stored as the text ``NaN`` and -0.0 as the blob ``-0.0``, because text that looks like
    a number would be converted to one. Never aggregate such a column in SQL: SQLite's AVG counts text as 0.
    """

    impl = Double
    cache_ok = True

    def bind_processor(self, dialect: Dialect) -> Callable[[float | None], Any]:
        """Skip the processor of the base type, which would convert the text back to a float."""
        return _for_sqlite if dialect.name == "sqlite" else _as_it_is

    def process_result_value(self, value: Any, dialect: Dialect) -> float | None:
        return None if value is None else float(value)


def _for_sqlite(value: float | None) -> Any:
    if value is None or (value and value == value):
        return value
    if value != value:
        return "NaN"
    return b"-0.0" if math.copysign(1.0, value) < 0 else value


def _as_it_is(value: float | None) -> Any:
    return value


class SafeText(TypeDecorator[str]):
    """Text from outside. Postgres cannot store NUL in text: both databases get U+FFFD instead."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return value.replace("\x00", "\ufffd") if value is not None else None

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], str | None] | None:
        """Read bytes and numbers as text, because a SQLite column can hold any type."""
        return _as_text if dialect.name == "sqlite" else None


def _as_text(value: Any) -> str | None:
    if value is None or type(value) is str:
        return value
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


class ShownNumber(TypeDecorator[int]):
    """A number that is shown or compared but does not number records.

    A SQLite column can hold any type: a value that is not a whole number is read as a 0 that stores the
    reason (see ``damage``), so that one damaged row does not fail a query over many rows.
    """

    impl: type[Integer] = BigInteger
    cache_ok = True

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], int | None] | None:
        """Check values on SQLite only; Postgres enforces the type."""
        return _as_number if dialect.name == "sqlite" else None


class ShownSmallNumber(ShownNumber):
    """A 32-bit :class:`ShownNumber`."""

    impl = Integer
    cache_ok = True


def _as_number(value: Any) -> int | None:
    return value if value is None or type(value) is int else read_number(value)


class ExactJson(TypeDecorator[Any]):
    """Data as strict JSON text, non-finite numbers as their names (see ``exact_json``).

    ``kind`` is dict, list, or object for any. A value that is not JSON of that kind is read as an empty value
    that stores the reason (see ``damage``).
    """

    impl = Text
    cache_ok = True

    def __init__(self, kind: type = object) -> None:
        super().__init__()
        self.kind = kind

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:
        return None if value is None else exact_json.dumps(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        return None if value is None else read_json(value, self.kind)


def number_column(name: str, *, nullable: bool = False, default: str | None = None) -> Column[int]:
    """Return a column of whole numbers of 64 bits."""
    return Column(name, BigInteger, nullable=nullable, server_default=default)


def small_column(name: str, *, nullable: bool = False, default: str | None = None) -> Column[int]:
    """Return a column of whole numbers of 32 bits."""
    return Column(name, Integer, nullable=nullable, server_default=default)


def shown_number(name: str, *, nullable: bool = False, default: str | None = None) -> Column[int]:
    """Return a column of 64 bits whose damaged values are read as text, so that a list can name them."""
    return Column(name, ShownNumber, nullable=nullable, server_default=default)


def shown_small(name: str, *, nullable: bool = False, default: str | None = None) -> Column[int]:
    """Return a column of 32 bits whose damaged values are read as text, so that a list can name them."""
    return Column(name, ShownSmallNumber, nullable=nullable, server_default=default)


def text_column(name: str, *, nullable: bool = False, default: str | None = None) -> Column[str]:
    """Return a column of text, in which NUL is replaced."""
    return Column(name, SafeText, nullable=nullable, server_default=default)


def json_column(name: str, default: str | None = None, *, kind: type = dict) -> Column[Any]:
    """Return a column of JSON that keeps NaN and infinities."""
    return Column(name, ExactJson(kind), nullable=default is None, server_default=default)


def run_column() -> Column[str]:
    """Return the column that names the run of a row."""
    return Column("run_id", SafeText, nullable=False)
