"""Declare the query parameters that several routes share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Annotated, Any, TypeVar

from fastapi import Query
from pydantic import BeforeValidator, Field

from tocsin_server.core.responses import Problem
from tocsin_server.store.reader import StoreReader
from tocsin_server.store.results import StoredRun

LARGEST = 1 << 53
"""Integers up to this are exact in JSON, browsers and float64; steps, times and limits stay within it."""
T = TypeVar("T")

_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")


def _whole(given: object) -> object:
    """Reject strings that only Python accepts as integers: with spaces, underscores or a decimal point."""
    if isinstance(given, str) and not (given.removeprefix("-").isdecimal() and given.isascii()):
        raise ValueError("a whole number")
    return given


def _number(given: object) -> object:
    if isinstance(given, str) and not _NUMBER.fullmatch(given):
        raise ValueError("a number")
    return given


def _flag(given: object) -> object:
    if given not in ("true", "false", True, False):
        raise ValueError("true or false")
    return given


WHOLE = BeforeValidator(_whole)
"""Parses a number in a URL as JSON does. Put it after the bounds, or the description lacks them."""
Step = Annotated[int, Field(ge=-LARGEST, le=LARGEST), WHOLE]
"""A step, at most 2^53 in absolute value."""
Real = Annotated[float, Field(ge=-LARGEST, le=LARGEST, allow_inf_nan=False), BeforeValidator(_number)]
"""A finite number in JSON notation, at most 2^53 in absolute value."""
Flag = Annotated[bool, BeforeValidator(_flag)]
"""Exactly ``true`` or ``false``."""

Names = Annotated[
    list[str] | None,
    Query(description="Series, comma separated. If the parameter is repeated, each value is one name."),
]
First = Annotated[Step | None, Query(alias="from", description="First step.")]
Last = Annotated[Step | None, Query(alias="to", description="Last step, included.")]


def cursor(pattern: str, description: str = "`next` of an earlier page.") -> Any:
    """Return the declaration of a cursor. The route validates it and reports where to get one."""
    return Query(description=description, json_schema_extra={"pattern": pattern})


AFTER = "Read pages: empty for the first one, else `next` of the one before."


def some_of(known: Iterable[str]) -> Any:
    """Return the declaration of a comma-separated list of ``known`` values, for :func:`chosen`."""
    one = "|".join(known)
    extra = {"pattern": f"^(({one})(,({one}))*)?$"}
    return Query(description="One or several, comma separated.", json_schema_extra=extra)


def one_of(values: Iterable[str]) -> str:
    """Return values as text: ``a, b or c``."""
    *others, last = values
    return f"{', '.join(others)} or {last}" if others else last


def chosen(name: str, given: str | None, known: Iterable[str]) -> list[str] | None:
    """Return the values of a comma-separated parameter, or None for all.

    Raises:
        Problem: 422 for a value that is not among ``known``.
    """
    if not given:
        return None
    values, possible = given.split(","), list(known)
    for value in values:
        if value not in possible:
            raise Problem(422, subject=name, expected=one_of(possible), got=value)
    return values


def names_of(given: list[str] | None) -> list[str] | None:
    """Return the requested series, or None for all. Repeat ``names`` for a name that contains a comma."""
    if not given:
        return None
    found = given[0].split(",") if len(given) == 1 else given
    return list(dict.fromkeys(name for name in found if name)) or None


def known_run(reader: StoreReader, run_id: str) -> StoredRun:
    """Return the run with this id. Raises a 404 Problem if there is none."""
    stored = reader.run(run_id)
    if stored is None:
        raise Problem(404, subject="run", expected="the id of a run", got=run_id)
    return stored


def page_of(read: Callable[[], T], after: str | None) -> T:
    """Return the result of ``read``. Raises a 422 Problem if it rejects ``after`` as a cursor."""
    try:
        return read()
    except ValueError as error:
        raise Problem(422, subject="after", expected="`next` of an earlier page", got=after or "") from error
