"""Finds stored values that cannot be read, and repairs the texts among them.

Looked at: every text and JSON column of every table, every batch of records against its checksum, and what
the server derives from records and can derive again: saved states of rules, and flight records.
A repair replaces a damaged text by an empty value, or by one that is rebuilt from what is sound, and deletes
what the server can derive again; before that the damaged bytes are appended to a file. Records are never
changed: of those a backup is the only copy.
"""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
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

from tocsin_server.core.models import AlertState, RecordBatch, RunState, Severity
from tocsin_server.core.outage import line
from tocsin_server.core.permissions import Scope
from tocsin_server.detect.engine.engine import Engine, SnapshotError
from tocsin_server.detect.interface.context import RunContext
from tocsin_server.notify.matching import parse_matchers
from tocsin_server.offline.snapshot import FlightError, unpacked
from tocsin_server.rules.documents import rule_of
from tocsin_server.runs.registry import card_of
from tocsin_server.runs.run_summary import RunBoard, RunCard
from tocsin_server.store import integrity, rules
from tocsin_server.store.alert_rows import diagnosis_of
from tocsin_server.store.columns import ExactJson, ShownNumber, Words
from tocsin_server.store.damage import decoded, number_fault, sound_facts
from tocsin_server.store.database import Database
from tocsin_server.store.reader import StoreReader
from tocsin_server.store.rules import OwnRow
from tocsin_server.store.tables import flight, metadata, rule_state, run, setting, silence

ROWS_AT_ONCE = 256
CHOICES: Mapping[str, tuple[type[Any], Any]] = {
    "run.state": (RunState, RunState.LOST),
    "alert.severity": (Severity, Severity.CRITICAL),
    "alert.state": (AlertState, AlertState.RESOLVED),
    "token.scope": (Scope, Scope.READ),
}
"""Columns that hold one of a few words, and what a damaged one becomes."""
WHOLE = (Integer, ShownNumber, Boolean)
REPAIRED = (ShownNumber, Boolean)
"""Types of columns that hold whole numbers, and those of them that a repair may change: the others number
records, and a wrong number would mix them up."""
Reader = Callable[[Any], object]


@dataclass(frozen=True)
class Damage:
    """One value that cannot be read. ``raw``: its bytes; ``where``: its row, None without a repair."""

    table: str
    run_id: str
    key: str
    column: str
    reason: str
    raw: bytes = b""
    where: ColumnElement[bool] | None = field(default=None, compare=False)

    def __str__(self) -> str:
        """One line: table, run, row, column, reason; between tabs."""
        told = (self.table, self.run_id or "-", self.key or "-", self.column or "-", self.reason)
        return "\t".join("".join(c if c.isprintable() else "?" for c in part) for part in told)


def damages(connection: Connection) -> Iterator[Damage]:
    """Yield everything that cannot be read, texts first."""
    if connection.dialect.name == "sqlite":
        yield from _file(connection)
    for table in metadata.sorted_tables:
        try:
            yield from _texts(connection, table)
            if connection.dialect.name == "sqlite":
                yield from _numbers(connection, table)
        except DBAPIError as error:
            yield Damage(table.name, "", "", "", f"the table cannot be read: {line(error)}")
    for table, look in DERIVED.items():
        yield from _derived(connection, table, look)
    try:
        for fault in integrity.faults(connection):
            yield Damage(fault.table, fault.run_id, fault.place, "body", fault.reason)
    except DBAPIError as error:
        yield Damage("records", "", "", "", f"they cannot be read: {line(error)}")


def _file(connection: Connection) -> Iterator[Damage]:
    try:
        found = [str(row[0]) for row in connection.exec_driver_sql("PRAGMA integrity_check(20)")]
    except DBAPIError as error:
        found = [line(error)]
    for reason in found if found != ["ok"] else ():
        yield Damage("the database file", "", "", "", reason)


def _texts(connection: Connection, table: Table) -> Iterator[Damage]:
    columns = [column for column in table.columns if isinstance(column.type, (Words, ExactJson))]
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
            reason = None if value is None else _reason(table, column, value, kind)
            if reason is not None:
                yield _damage(table, column, row, reason, value, sqlite)


def _numbers(connection: Connection, table: Table) -> Iterator[Damage]:
    """The values of a table's numeric columns that are no whole numbers; SQLite accepts any."""
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
    """The bodies of a table that cannot be read."""
    query = select(*table.primary_key, table.c.body).execution_options(yield_per=ROWS_AT_ONCE)
    try:
        for row in connection.execute(query):
            try:
                look(row.body)
            except (SnapshotError, FlightError, TypeError) as error:
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
        where, reason = None, f"{reason} (part of the row's key: it is not repaired)"
    elif sqlite:
        where = literal_column(f'"{table.name}".rowid') == int(row.own)
    else:
        where = and_(*(table.c[name] == value for name, value in keys.items()))
    raw = value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")
    return Damage(table.name, run_id, ".".join(others), column.name, reason, raw, where)


def _reason(table: Table, column: Any, value: bytes | str, kind: str) -> str | None:
    """Why a value cannot be read, None where it can."""
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
            READERS.get(place, _anything)(decoded(text, column.type.kind))
        elif place in CHOICES:
            CHOICES[place][0](text)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        told = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        return told[:200]
    return None


NOBODY = RunCard("", "", "")
"""The run of a board that is only read to see whether it can be."""


def _anything(_value: Any) -> None:
    """Whatever is JSON of the right kind can be read."""


def _board(value: Any) -> None:
    int(value["arrival"])
    RunBoard.restore(NOBODY, value)


def _facts(value: Any) -> None:
    wrong = sorted(value.keys() - sound_facts(value).keys())
    if wrong:
        raise ValueError(f"expected lists and maps, got others in {', '.join(wrong)}")


def _texts_only(value: Any) -> None:
    if not all(isinstance(one, str) for one in value):
        raise ValueError("expected texts, got other values")


def _tuning(value: Any) -> None:
    if not all(isinstance(name, str) for name in value):
        raise ValueError("expected names of settings")


READERS: Mapping[str, Reader] = {
    "run.board": _board,
    "run.facts": _facts,
    "run.tags": _texts_only,
    "alert.diagnosis": diagnosis_of,
    "alert.labels": lambda value: _texts_only(value.values()),
    "silence.matchers": lambda value: parse_matchers(value, "matchers", least=1),
    "user_rule.body": lambda value: rule_of(OwnRow("any", value)),
    "rule_tuning.body": _tuning,
}
"""Beyond being JSON: what reads the value when the server runs."""


DERIVED: Mapping[Table, Reader] = {
    rule_state: lambda body: Engine.restore(RunContext(), body),
    flight: unpacked,
}
"""Tables of what the server derives from records, and what reads their bodies."""


# Repair


def keep(file: Path, found: Iterable[Damage]) -> int:
    """Append the damaged bytes to a file of JSON lines that only its owner can read; how many."""
    count = 0
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as out:
        for one in found:
            told = {"table": one.table, "run": one.run_id, "key": one.key, "column": one.column}
            told |= {"reason": one.reason, "base64": base64.b64encode(one.raw).decode("ascii")}
            out.write(json.dumps(told) + "\n")
            count += 1
        out.flush()
        os.fsync(out.fileno())
    return count


def repair(connection: Connection, one: Damage, now_ns: int) -> bool:
    """Replace a damaged text; False where nothing is known to put in its place."""
    if one.where is None:
        return False
    table = metadata.tables[one.table]
    if table in DERIVED:
        connection.execute(delete(table).where(one.where))
        return True
    place = f"{one.table}.{one.column}"
    decides = one.table in ("user_rule", "rule_tuning", "setting", "silence")
    if decides and isinstance(table.c[one.column].type, ExactJson):
        return _deleted(connection, table, one, one.where, now_ns)
    values: dict[str, Any] = {one.column: _instead(table, one)}
    values |= _beside(place, now_ns)
    try:
        with connection.begin_nested():
            connection.execute(update(table).where(one.where).values(values))
    except IntegrityError:  # the repaired row would be another one's twin
        connection.execute(delete(table).where(one.where))
    return True


def _deleted(
    connection: Connection, table: Table, one: Damage, where: ColumnElement[bool], now_ns: int
) -> bool:
    """A rule, setting or silence that cannot be read decides nothing: it goes, and the default holds."""
    if table in (setting, silence):
        connection.execute(delete(table).where(where))
        return True
    if table.name == "user_rule":
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
    """What else changes in the row, so that the empty value means nothing wrong."""
    if place in ("channel.config", "channel.secret"):
        return {"enabled": False}
    if place == "notification.body":
        return {"state": "failed", "error": "The stored notification was damaged."}
    return {"revoked_ns": now_ns} if place in ("token.scope", "token.revoked_ns") else {}


def rebuild_board(database: Database, run_id: str) -> bool:
    """Make the row of the list of runs again from the records; False where there is no such run."""
    reader = StoreReader(database)
    facts = reader.run(run_id)
    if facts is None:
        return False
    board, recovery = RunBoard(card_of(facts)), reader.recovery(run_id, anew=True)
    for item in recovery.replay:
        if isinstance(item, RecordBatch):
            board.take(item, int(item.time_ns[-1]))
    made = {"arrival": recovery.last_arrival, **board.saved(), "pulse": {}}
    with database.engine.begin() as connection:
        connection.execute(update(run).where(run.c.id == run_id, run.c.board.is_(None)).values(board=made))
    return True


def copy_name(folder: Path, now_s: float) -> Path:
    """Return where the damaged bytes of a repair at this moment are kept."""
    return folder / f"damaged-{time.strftime('%Y%m%d-%H%M%S', time.localtime(now_s))}.jsonl"
