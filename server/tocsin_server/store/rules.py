"""Store custom rules and settings of built-in rules. Functions of a Connection.

Every change updates the version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, update

from tocsin_server.store.damage import checked, values_of
from tocsin_server.store.notification_config import read_choice, write_choice
from tocsin_server.store.rule_tables import custom_rule, rule_tuning
from tocsin_server.store.tables import audit

VERSION = "rules.version"
"""A setting that changes with every change of rules, so that other processes notice it."""
ACTIONS = ("rule.create", "rule.change", "rule.delete", "rule.settings")


@dataclass(frozen=True, slots=True)
class CustomRuleRow:
    """A custom rule; ``body`` holds its fields except ``id`` and ``enabled``."""

    id: str
    body: Mapping[str, Any]
    enabled: bool = True
    source: str = ""
    created_ns: int = 0
    created_by: str = ""
    updated_ns: int = 0
    updated_by: str = ""


@dataclass(frozen=True, slots=True)
class TuningRow:
    """Changed settings of a built-in rule in one project, or in all (``*``)."""

    rule: str
    project: str
    body: Mapping[str, Any] = field(default_factory=dict)
    source: str = ""
    updated_ns: int = 0
    updated_by: str = ""


@dataclass(frozen=True, slots=True)
class Act:
    """One entry of the audit log about rules."""

    at_ns: int
    actor: str
    action: str
    subject: str
    details: Mapping[str, Any]


def read_custom_rules(connection: Connection) -> list[CustomRuleRow]:
    """Return every custom rule, by identifier."""
    return [_own(row) for row in connection.execute(select(custom_rule).order_by(custom_rule.c.id))]


def read_custom_rule(connection: Connection, rule_id: str) -> CustomRuleRow | None:
    """Return one custom rule, or None."""
    row = connection.execute(select(custom_rule).where(custom_rule.c.id == rule_id)).first()
    return None if row is None else _own(row)


def add_rule(connection: Connection, row: CustomRuleRow) -> None:
    """Create a custom rule.

    Raises:
        IntegrityError: The id exists already.
    """
    connection.execute(insert(custom_rule), _values(row, custom_rule))
    _moved(connection, row.updated_ns)


def put_rule(connection: Connection, row: CustomRuleRow) -> None:
    """Update a custom rule."""
    values = _values(row, custom_rule)
    connection.execute(update(custom_rule).where(custom_rule.c.id == row.id).values(values))
    _moved(connection, row.updated_ns)


def delete_rule(connection: Connection, rule_id: str, now_ns: int) -> bool:
    """Delete a custom rule; return False if there is none."""
    gone = connection.execute(delete(custom_rule).where(custom_rule.c.id == rule_id)).rowcount
    _moved(connection, now_ns)
    return bool(gone)


def tunings(connection: Connection) -> list[TuningRow]:
    """Return the changed settings of built-in rules, by rule and project."""
    query = select(rule_tuning).order_by(rule_tuning.c.rule, rule_tuning.c.project)
    return [_tuning(row) for row in connection.execute(query)]


def put_tuning(connection: Connection, row: TuningRow) -> None:
    """Create or update the settings of a built-in rule in a project."""
    values = _values(row, rule_tuning)
    if connection.execute(update(rule_tuning).where(_is(row.rule, row.project)).values(values)).rowcount == 0:
        connection.execute(insert(rule_tuning), values)
    _moved(connection, row.updated_ns)


def delete_tuning(connection: Connection, rule: str, project: str, now_ns: int) -> bool:
    """Restore the default settings; return False if they were not changed."""
    gone = connection.execute(delete(rule_tuning).where(_is(rule, project))).rowcount
    _moved(connection, now_ns)
    return bool(gone)


def version(connection: Connection) -> Any:
    """Return a value that differs after every change, or None before the first one."""
    return read_choice(connection, VERSION)


def acts(connection: Connection, *, limit: int = 200, subjects: Sequence[str] | None = None) -> list[Act]:
    """Return entries of the audit log about rules, newest first; with ``subjects`` only about these rules."""
    query = select(audit).where(audit.c.action.in_(ACTIONS)).order_by(audit.c.at_ns.desc()).limit(limit)
    if subjects is not None:
        query = query.where(audit.c.subject.in_(list(subjects)))
    rows = connection.execute(query)
    return [
        Act(row.at_ns, row.actor, row.action, row.subject, checked(row.details, audit, row, "details") or {})
        for row in rows
    ]


def _moved(connection: Connection, now_ns: int) -> None:
    before = read_choice(connection, VERSION)
    count = before[0] + 1 if isinstance(before, list) and before and isinstance(before[0], int) else 1
    write_choice(connection, VERSION, [count, now_ns], now_ns)


def _is(rule: str, project: str) -> Any:
    return (rule_tuning.c.rule == rule) & (rule_tuning.c.project == project)


def _values(row: CustomRuleRow | TuningRow, table: Any) -> dict[str, Any]:
    return {name: getattr(row, name) for name in table.c.keys()}  # noqa: SIM118 - not a dict


def _own(row: Row[Any]) -> CustomRuleRow:
    return CustomRuleRow(**values_of(custom_rule, row))


def _tuning(row: Row[Any]) -> TuningRow:
    return TuningRow(**values_of(rule_tuning, row))
