"""Check every stored value, and repair damaged text values.

Checked are the text and JSON columns of every table, every batch of records against its checksum, and
data that the server derives from records. A repair replaces damaged text with an empty value, and
deletes derived data, which the server creates again. Records are never changed. Functions of a Connection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import (
    Boolean,
    ColumnElement,
    Connection,
    Integer,
    LargeBinary,
    Table,
    Text,
    and_,
    cast,
    delete,
    func,
    literal_column,
    null,
    or_,
    select,
    type_coerce,
    update,
)
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.types import NullType

from tocsin_server.core.errors import TocsinError
from tocsin_server.core.models import AlertState, RunState, Severity
from tocsin_server.core.permissions import Scope
from tocsin_server.store import integrity, rules
from tocsin_server.store.columns import ExactJson, SafeText, ShownNumber
from tocsin_server.store.damage import decoded, number_fault
from tocsin_server.store.outage import line
from tocsin_server.store.tables import metadata, rule_state, run, setting, silence

ROWS_AT_ONCE = 256
CHOICES: Mapping[str, tuple[type[Any], Any]] = {
    "run.state": (RunState, RunState.LOST),
    "alert.severity": (Severity, Severity.CRITICAL),
    "alert.state": (AlertState, AlertState.RESOLVED),
    "token.scope": (Scope, Scope.READ),
}
"""Enumeration columns, and the value that replaces a damaged one."""
WHOLE = (Integer, ShownNumber, Boolean)
REPAIRED = (ShownNumber, Boolean)
"""Types of whole-number columns, and those that a repair may change.

The others number records, and a wrong number would mix them up.
"""
DERIVED = (rule_state,)
"""Tables that the server derives from records; the caller's checks read their bodies."""
Reader = Callable[[Any], object]


@dataclass(frozen=True)
class Checks:
    """Functions that read stored values as the server does. They raise if a value cannot be read."""

    json: Mapping[str, Reader]
    """Readers by ``table.column``."""
    derived: Mapping[str, Reader]
    """Readers by table, for the bodies in :data:`DERIVED`."""


@dataclass(frozen=True)
class Damage:
    """One value that cannot be read.

    ``raw`` is its bytes; ``where`` selects its row, or is None if it cannot be repaired.
    """

    table: str
    run_id: str
    key: str
    column: str
    reason: str
    raw: bytes = b""
    where: ColumnElement[bool] | None = field(default=None, compare=False)

    def __str__(self) -> str:
        """Return one line: table, run, row, column and reason, separated by tabs."""
        reported = (self.table, self.run_id or "-", self.key or "-", self.column or "-", self.reason)
        return "\t".join("".join(c if c.isprintable() else "?" for c in part) for part in reported)


def damages(connection: Connection, checks: Checks) -> Iterator[Damage]:
    """Yield everything that cannot be read, text values first."""
    if connection.dialect.name == "sqlite":
        yield from _file(connection)
    for table in metadata.sorted_tables:
        try:
            yield from _texts(connection, table, checks.json)
            if connection.dialect.name == "sqlite":
                yield from _numbers(connection, table)
        except DBAPIError as error:
            yield Damage(table.name, "", "", "", f"the table cannot be read: {line(error)}")
    for table in DERIVED:
        yield from _derived(connection, table, checks.derived[table.name])
    try:
        for issue in integrity.issues(connection):
            yield Damage(issue.table, issue.run_id, issue.place, "body", issue.reason)
    except DBAPIError as error:
        yield Damage("records", "", "", "", f"they cannot be read: {line(error)}")


def _file(connection: Connection) -> Iterator[Damage]:
    try:
        found = [str(row[0]) for row in connection.exec_driver_sql("PRAGMA integrity_check(20)")]
    except DBAPIError as error:
        found = [line(error)]
    for reason in found if found != ["ok"] else ():
        yield Damage("the database file", "", "", "", reason)


def _texts(connection: Connection, table: Table, readers: Mapping[str, Reader]) -> Iterator[Damage]:
    columns = [column for column in table.columns if isinstance(column.type, (SafeText, ExactJson))]
    if not columns:
        return
    sqlite = connection.dialect.name == "sqlite"
    keys = [type_coerce(key, Text).label(f"key_{key.name}") for key in table.primary_key]
    wanted: list[Any] = list(keys)
    for column in columns:
        value = cast(column, LargeBinary) if sqlite else type_coerce(column, Text)
        wanted += [value.label(f"value_{column.name}")]
        wanted += [func.typeof(column).label(f"type_{column.name}")] if sqlite else []
    own: Any = literal_column(f'"{table.name}".rowid' if sqlite else "0").label("own")
    query = select(own, *wanted).select_from(table).execution_options(yield_per=ROWS_AT_ONCE)
    for row in connection.execute(query):
        for column in columns:
            value = getattr(row, f"value_{column.name}")
            kind = getattr(row, f"type_{column.name}", "text")
            reason = None if value is None else _reason(table, column, value, kind, readers)
            if reason is not None:
                yield _damage(table, column, row, reason, value, sqlite)


def _numbers(connection: Connection, table: Table) -> Iterator[Damage]:
    """Yield values in numeric columns that are not whole numbers; SQLite accepts any type."""
    columns = [column for column in table.columns if isinstance(column.type, WHOLE)]
    if not columns:
        return
    keys = [type_coerce(key, Text).label(f"key_{key.name}") for key in table.primary_key]
    own: Any = literal_column(f'"{table.name}".rowid').label("own")
    raw = [type_coerce(column, NullType()).label(f"value_{column.name}") for column in columns]
    wrong = or_(*(func.typeof(column).not_in(("integer", "null")) for column in columns))
    query = select(own, *keys, *raw).select_from(table).where(wrong)
    for row in connection.execute(query):
        for column in columns:
            value = getattr(row, f"value_{column.name}")
            if value is not None and type(value) is not int:
                found = _damage(table, column, row, number_fault(value), value, True)
                yield found if isinstance(column.type, REPAIRED) else replace(found, where=None)


def _derived(connection: Connection, table: Table, look: Reader) -> Iterator[Damage]:
    """Yield the bodies of a table that cannot be read."""
    query = select(*table.primary_key, table.c.body).execution_options(yield_per=ROWS_AT_ONCE)
    try:
        for row in connection.execute(query):
            try:
                look(row.body)
            except (TocsinError, ValueError, TypeError) as error:
                keys = {key.name: getattr(row, key.name) for key in table.primary_key}
                where = and_(*(table.c[name] == value for name, value in keys.items()))
                place = ".".join(str(value) for name, value in keys.items() if name != "run_id")
                raw = row.body if isinstance(row.body, bytes) else str(row.body).encode()
                yield Damage(table.name, row.run_id, place, "body", str(error)[:200], raw, where)
    except DBAPIError as error:
        yield Damage(table.name, "", "", "", f"the table cannot be read: {line(error)}")


def _damage(table: Table, column: Any, row: Any, reason: str, value: Any, sqlite: bool) -> Damage:
    keys = {key.name: getattr(row, f"key_{key.name}") for key in table.primary_key}
    run_id = str(keys.get("run_id") or (keys["id"] if table is run else "") or "")
    others = [str(value) for name, value in keys.items() if name != "run_id" and table is not run]
    if column.primary_key:
        where, reason = None, f"{reason} (part of the row's key, so it cannot be repaired)"
    elif sqlite:
        where = literal_column(f'"{table.name}".rowid') == int(row.own)
    else:
        where = and_(*(table.c[name] == value for name, value in keys.items()))
    raw = value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")
    return Damage(table.name, run_id, ".".join(others), column.name, reason, raw, where)


def _reason(
    table: Table, column: Any, value: bytes | str, kind: str, readers: Mapping[str, Reader]
) -> str | None:
    """Return why a value cannot be read, or None."""
    if kind != "text":
        return f"expected text, got {kind}"
    try:
        text = value.decode() if isinstance(value, bytes) else value
    except UnicodeDecodeError as error:
        return f"not UTF-8 at byte {error.start}"
    if "\0" in text:
        return f"holds NUL at character {text.index(chr(0))}"
    place = f"{table.name}.{column.name}"
    try:
        if isinstance(column.type, ExactJson):
            found = decoded(text, column.type.kind)
            if place in readers:
                readers[place](found)
        elif place in CHOICES:
            CHOICES[place][0](text)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        reported = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        return reported[:200]
    return None


def repair(connection: Connection, one: Damage, now_ns: int) -> bool:
    """Replace a damaged value, or delete its row; return False if it cannot be repaired."""
    if one.where is None:
        return False
    table = metadata.tables[one.table]
    if table in DERIVED:
        connection.execute(delete(table).where(one.where))
        return True
    place = f"{one.table}.{one.column}"
    decides = one.table in ("custom_rule", "rule_tuning", "setting", "silence")
    if decides and isinstance(table.c[one.column].type, ExactJson):
        return _deleted(connection, table, one, one.where, now_ns)
    values: dict[str, Any] = {one.column: _instead(table, one)}
    values |= _beside(place, now_ns)
    try:
        with connection.begin_nested():
            connection.execute(update(table).where(one.where).values(values))
    except IntegrityError:  # the repaired row would duplicate another one
        connection.execute(delete(table).where(one.where))
    return True


def _deleted(
    connection: Connection, table: Table, one: Damage, where: ColumnElement[bool], now_ns: int
) -> bool:
    """Delete an unreadable rule, setting or silence, so that the default applies."""
    if table in (setting, silence):
        connection.execute(delete(table).where(where))
        return True
    if table.name == "custom_rule":
        return rules.delete_rule(connection, one.key, now_ns)
    rule, _, project = one.key.partition(".")
    return rules.delete_tuning(connection, rule, project, now_ns)


def _instead(table: Table, one: Damage) -> Any:
    column = table.c[one.column]
    if isinstance(column.type, ExactJson):
        if column.nullable:
            return null()
        return column.type.kind() if column.type.kind is not object else {}
    if isinstance(column.type, WHOLE):
        return null() if column.nullable else int(getattr(column.server_default, "arg", 0))
    place = f"{one.table}.{one.column}"
    if place in CHOICES:
        return CHOICES[place][1].value
    return one.raw.decode("utf-8", "replace").replace("\0", "�")


def _beside(place: str, now_ns: int) -> dict[str, Any]:
    """Return other columns to change, so that the replaced value has no further effect."""
    if place in ("channel.config", "channel.secret"):
        return {"enabled": False}
    if place == "notification.body":
        return {"state": "failed", "error": "The stored notification was damaged."}
    return {"revoked_ns": now_ns} if place in ("token.scope", "token.revoked_ns") else {}
