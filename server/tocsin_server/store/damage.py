"""Read damaged stored values without affecting other rows.

A JSON column that cannot be decoded, or contains data of another kind than expected, is read as an empty
value that stores the reason (:class:`Damaged`); an invalid number is read as such a 0. Code that converts
rows to objects uses :func:`values_of`, which logs the damage once. ``tocsin-server check`` finds and repairs
damaged values.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any, TypeVar

from sqlalchemy import Table

from tocsin_server.core import exact_json

Choice = TypeVar("Choice", bound=enum.Enum)
log = logging.getLogger("tocsin.store")

REASON_CHARACTERS = 200
FACTS_LISTS = ("scalers", "optimizers", "schedulers")
"""Members of a run's environment that are lists of maps."""


class Damaged:
    """A stand-in for a value that cannot be read; ``reason`` says why."""

    reason = ""


class DamagedMap(dict[str, Any], Damaged):
    """An empty map instead of a damaged one."""


class DamagedList(list[Any], Damaged):
    """An empty list instead of a damaged one."""


class DamagedNumber(int, Damaged):
    """Zero instead of a damaged number."""


_STANDS_FOR: dict[type, type[Damaged]] = {dict: DamagedMap, list: DamagedList}
_NAMES = {dict: "a map", list: "a list", str: "a text", bool: "true or false", type(None): "null"}


def decoded(text: Any, kind: type) -> Any:
    """Return the data in a JSON text.

    Raises:
        ValueError: ``text`` is not JSON, or its data is not of type ``kind``.
    """
    try:
        found = exact_json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except TypeError:
        raise ValueError(f"expected JSON text, got {type(text).__name__}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 at byte {error.start}") from None
    except ValueError as error:
        raise ValueError(f"not JSON: {error}"[:REASON_CHARACTERS]) from None
    if not isinstance(found, kind):
        raise ValueError(f"expected {_NAMES.get(kind, kind.__name__)}, got {named(found)}")
    return found


def named(value: Any) -> str:
    """Return the JSON type of ``value`` in words."""
    return _NAMES.get(type(value), "a number")


def read_json(text: Any, kind: type) -> Any:
    """Return the data in a JSON text, or an empty :class:`Damaged` value of ``kind``."""
    try:
        return decoded(text, kind)
    except ValueError as error:
        stand_in = _STANDS_FOR.get(kind, Damaged)()
        stand_in.reason = str(error)
        return stand_in


def read_number(value: Any) -> int:
    """Return a stored number, or a :class:`DamagedNumber` if it is not a whole number."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    stand_in = DamagedNumber()
    stand_in.reason = number_fault(value)
    return stand_in


def number_fault(value: Any) -> str:
    """Return what is wrong with a stored value that should be a whole number."""
    kind = "text" if isinstance(value, str) else "bytes" if isinstance(value, bytes) else "a fraction"
    return f"expected a whole number, got {kind}: {value!r:.40}"


def valid_environment(environment: Any) -> dict[str, Any]:
    """Return the environment of a run (a JSON column) without known members of the wrong type."""
    if not isinstance(environment, Mapping):
        return {}
    return {name: value for name, value in environment.items() if _is_valid(name, value)}


def texts(values: Any) -> tuple[str, ...]:
    """Return the members of a stored list as strings; tolerates a damaged list."""
    return tuple(str(one) for one in values or ())


def _is_valid(name: str, value: Any) -> bool:
    if name in FACTS_LISTS:
        return isinstance(value, list) and all(isinstance(one, Mapping) for one in value)
    if name == "hosts":
        return isinstance(value, list) and all(isinstance(one, str) for one in value)
    if name == "versions":
        return isinstance(value, Mapping) and all(isinstance(one, str) for one in value.values())
    if name == "edited":
        return isinstance(value, Mapping) and all(isinstance(one, (int, float)) for one in value.values())
    return isinstance(value, Mapping) if name == "imported" else True


def values_of(table: Table, row: Any) -> dict[str, Any]:
    """Return the columns of ``table`` in ``row`` by name; log a damaged one, once per process."""
    values = {name: getattr(row, name) for name in _names(table)}
    for value in values.values():
        if isinstance(value, Damaged):
            _log(table, row)
            break
    return values


def checked(value: Any, table: Table, row: Any, column: str) -> Any:
    """Return one value of a row; log it once per process if it is damaged."""
    if isinstance(value, Damaged):
        warn(table.name, place_of(table, row), column, value.reason)
    return value


def choice(stand_in: Choice, text: Any, table: Table, row: Any, column: str) -> Choice:
    """Return the enumeration member stored in a column, or ``stand_in`` if the value is invalid."""
    kind = type(stand_in)
    try:
        return kind(text)
    except ValueError:
        warn(table.name, place_of(table, row), column, f"expected one of {_members(kind)}, got {text!r:.40}")
        return stand_in


def place_of(table: Table, row: Any) -> str:
    """Return the primary key of a row as text."""
    return ".".join(str(getattr(row, column.name, "?")) for column in table.primary_key)


@lru_cache(maxsize=1_000)
def warn(table: str, place: str, column: str, reason: str) -> None:
    """Log a damaged value once per process, because every request would log it again."""
    log.error(
        "%s %s: column %s is damaged (%s), so an empty or default value is used. "
        "List damaged rows with `tocsin-server check`; repair them with `tocsin-server check --repair`.",
        table, place, column, reason,
    )  # fmt: skip


@lru_cache(maxsize=1_000)
def warn_of_records(run_id: str, place: str, reason: str) -> None:
    """Log records that were skipped because they cannot be read, once per process."""
    log.error(
        "Run %s, %s: the records are damaged (%s) and are left out. Records cannot be repaired: restore a "
        "backup, or delete the run.",
        run_id, place, reason,
    )  # fmt: skip


def _log(table: Table, row: Any) -> None:
    for name in _names(table):
        value = getattr(row, name)
        if isinstance(value, Damaged):
            warn(table.name, place_of(table, row), name, value.reason)


@cache
def _names(table: Table) -> tuple[str, ...]:
    return tuple(column.name for column in table.columns)


@cache
def _members(kind: type[enum.Enum]) -> str:
    return ", ".join(str(member.value) for member in kind)
