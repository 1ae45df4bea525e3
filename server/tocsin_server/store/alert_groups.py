"""Store alert groups, and find transitions that are not routed yet. Functions of a Connection."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Row, delete, func, or_, select, text, tuple_, update

from tocsin_server.core.models import Alert, AlertState
from tocsin_server.store.acks import Key
from tocsin_server.store.alert_rows import OPEN_STATES, alert_of
from tocsin_server.store.damage import texts, values_of
from tocsin_server.store.row_builder import upsert
from tocsin_server.store.tables import alert, alert_transition, event, group_member, notify_group, run

AT_ONCE = 500
"""Maximum transitions that one transaction routes, to keep it within a few milliseconds."""

LOCK = 0x746F6374
"""Key of the Postgres lock that lets one server route at a time."""


@dataclass(frozen=True, slots=True)
class GroupRow:
    """An alert group; ``members`` maps each alert to the severity level last notified, or -1 if none."""

    id: str
    kind: str
    route: str
    channel_id: str
    labels: Mapping[str, str]
    first_ns: int
    due_ns: int | None
    notified_ns: int | None
    members: Mapping[Key, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Known:
    """An alert with the metadata of its run."""

    alert: Alert
    run_name: str
    project: str
    host: str
    tags: tuple[str, ...]
    imported: bool


def is_anything_due(connection: Connection, now_ns: int) -> tuple[bool, int | None]:
    """Return whether there is something to route now, and when the next group is due."""
    unrouted = select(alert_transition.c.at_ns).where(alert_transition.c.routed_ns.is_(None)).limit(1)
    due = connection.execute(select(func.min(notify_group.c.due_ns))).scalar()
    return connection.execute(unrouted).first() is not None or (due is not None and due <= now_ns), due


def take_unrouted(connection: Connection, now_ns: int, without: Collection[str] = ()) -> dict[Key, set[str]]:
    """Mark transitions as routed and return their alerts.

    Args:
        connection: A writing connection.
        now_ns: Time with which the transitions are marked.
        without: Runs whose transitions stay unrouted.

    Returns:
        The states that each alert entered, oldest transition first; at most AT_ONCE transitions.
    """
    table = alert_transition.c
    query = select(table.run_id, table.fingerprint, table.episode, table.state, table.severity)
    wanted = table.routed_ns.is_(None) & table.run_id.not_in(sorted(without))
    rows = connection.execute(query.where(wanted).order_by(table.at_ns).limit(AT_ONCE)).all()
    if rows:
        own = tuple_(table.run_id, table.fingerprint, table.episode, table.state, table.severity)
        connection.execute(
            update(alert_transition).where(own.in_([tuple(row) for row in rows])).values(routed_ns=now_ns)
        )
    found: dict[Key, set[str]] = {}
    for row in rows:
        found.setdefault((row.run_id, row.fingerprint, row.episode), set()).add(row.state)
    return found


def put_back(connection: Connection, run_ids: Collection[str], now_ns: int) -> None:
    """Undo :func:`take_unrouted` for these runs, whose transitions could not be routed."""
    mine = alert_transition.c.run_id.in_(sorted(run_ids)) & (alert_transition.c.routed_ns == now_ns)
    connection.execute(update(alert_transition).where(mine).values(routed_ns=None))


def known_alerts(connection: Connection, keys: Iterable[Key]) -> dict[Key, Known]:
    """Return these alerts in their current state; those of deleted runs are missing."""
    wanted = sorted(set(keys))
    own = tuple_(alert.c.run_id, alert.c.fingerprint, alert.c.episode)
    found: dict[Key, Known] = {}
    for at in range(0, len(wanted), AT_ONCE):
        found |= _known(connection, own.in_(wanted[at : at + AT_ONCE]))
    return found


def open_alerts(connection: Connection, run_ids: Iterable[str] | None = None) -> dict[Key, Known]:
    """Return all pending, firing and recovering alerts of these runs, or of all runs."""
    query = alert.c.state.in_([str(state) for state in OPEN_STATES])
    return _known(connection, query if run_ids is None else query & alert.c.run_id.in_(sorted(set(run_ids))))


def lately_over(connection: Connection, since_ns: int, ended_since_ns: int) -> dict[Key, Known]:
    """Return alerts that fired and were resolved after ``since_ns``, or ended after ``ended_since_ns``."""
    resolved = (alert.c.state == AlertState.RESOLVED) & (alert.c.updated_ns > since_ns)
    ended = (alert.c.state == AlertState.ENDED) & (alert.c.updated_ns > ended_since_ns)
    return _known(connection, or_(resolved, ended) & alert.c.fired_ns.is_not(None))


def ended_alerts(connection: Connection, limit: int) -> dict[Key, Known]:
    """Return the alerts that were firing when their run ended, the newest ``limit``."""
    newest = select(alert.c.run_id, alert.c.fingerprint, alert.c.episode).where(
        alert.c.state == AlertState.ENDED
    )
    newest = newest.order_by(alert.c.updated_ns.desc()).limit(limit)
    keys = [tuple(row) for row in connection.execute(newest)]
    return known_alerts(connection, keys)


def route_again(connection: Connection) -> None:
    """Return the firing alerts to the inbox, so that new routes and channels receive them.

    A group that has already notified an alert does not notify it again.
    """
    own = (alert_transition.c.run_id, alert_transition.c.fingerprint, alert_transition.c.episode)
    firing = select(alert.c.run_id, alert.c.fingerprint, alert.c.episode).where(
        alert.c.state == AlertState.FIRING, alert.c.late.is_(False)
    )
    wanted = (alert_transition.c.state == AlertState.FIRING) & tuple_(*own).in_(firing)
    connection.execute(update(alert_transition).where(wanted).values(routed_ns=None))


def _known(connection: Connection, condition: Any) -> dict[Key, Known]:
    imported = select(event.c.run_id).where(event.c.run_id == run.c.id, event.c.kind == "imported").exists()
    columns = (run.c.name.label("run_name"), run.c.project, run.c.host, run.c.tags, run.c.environment)
    query = select(alert, *columns, imported.label("imported")).join(run, run.c.id == alert.c.run_id)
    found = {}
    for row in connection.execute(query.where(condition)):
        away = bool(row.imported) or "imported" in (row.environment or {})
        known = Known(alert_of(row), row.run_name, row.project, row.host, texts(row.tags), away)
        found[row.run_id, row.fingerprint, row.episode] = known
    return found


def groups_to_look_at(connection: Connection, ids: Iterable[str], now_ns: int) -> dict[str, GroupRow]:
    """Return the groups that are due and the groups with these ids, with their members."""
    wanted = or_(notify_group.c.due_ns <= now_ns, notify_group.c.id.in_(sorted(set(ids))))
    rows = connection.execute(select(notify_group).where(wanted).limit(AT_ONCE)).all()
    members = _members(connection, [row.id for row in rows])
    return {row.id: _group(row, members.get(row.id, {})) for row in rows}


def shift(connection: Connection, jump_ns: int) -> None:
    """Move the times of all groups by ``jump_ns`` after the clock was set."""
    own = notify_group.c
    times = {name: own[name] + jump_ns for name in ("first_ns", "due_ns", "notified_ns")}
    connection.execute(update(notify_group).values(times))


def groups_of(connection: Connection, keys: Sequence[Key]) -> set[str]:
    """Return the ids of the groups that contain any of these alerts."""
    own = tuple_(group_member.c.run_id, group_member.c.fingerprint, group_member.c.episode)
    query = select(group_member.c.group_id).where(own.in_(list(keys)))
    return set(connection.execute(query).scalars()) if keys else set()


def put_group(connection: Connection, group: GroupRow) -> None:
    """Store a group with its members."""
    insert = upsert(connection, notify_group)
    values = {name: getattr(group, name) for name in notify_group.c.keys()}  # noqa: SIM118 - not a dict
    later = {name: insert.excluded[name] for name in values if name != "id"}
    connection.execute(insert.on_conflict_do_update(index_elements=["id"], set_=later), values)
    connection.execute(delete(group_member).where(group_member.c.group_id == group.id))
    rows = [
        {
            "run_id": key[0],
            "fingerprint": key[1],
            "episode": key[2],
            "group_id": group.id,
            "notified_level": reported,
        }
        for key, reported in group.members.items()
    ]
    if rows:
        connection.execute(group_member.insert(), rows)


def drop_group(connection: Connection, group_id: str) -> None:
    """Delete a group and its members."""
    connection.execute(delete(group_member).where(group_member.c.group_id == group_id))
    connection.execute(delete(notify_group).where(notify_group.c.id == group_id))


def prune(connection: Connection, before_ns: int) -> int:
    """Delete empty groups that were notified before ``before_ns`` and are not due; return how many."""
    reported = (notify_group.c.notified_ns < before_ns) & notify_group.c.due_ns.is_(None)
    has = select(group_member.c.group_id).where(group_member.c.group_id == notify_group.c.id).exists()
    return connection.execute(delete(notify_group).where(reported, ~has)).rowcount


def _members(connection: Connection, ids: list[str]) -> dict[str, dict[Key, int]]:
    found: dict[str, dict[Key, int]] = {}
    for row in connection.execute(select(group_member).where(group_member.c.group_id.in_(ids))):
        found.setdefault(row.group_id, {})[row.run_id, row.fingerprint, row.episode] = row.notified_level
    return found


def _group(row: Row[Any], members: Mapping[Key, int]) -> GroupRow:
    return GroupRow(**values_of(notify_group, row), members=members)


def lock(connection: Connection) -> None:
    """Let one routing pass run at a time across servers. SQLite needs no lock: it has a single writer."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": LOCK})
