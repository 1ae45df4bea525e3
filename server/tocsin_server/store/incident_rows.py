"""Read incidents: alerts grouped by the alert that opened their incident. Functions of a Connection."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, case, func, select, tuple_

from tocsin_server.core.causal_order import by_cause
from tocsin_server.core.incidents import Incident, IncidentState, state_of
from tocsin_server.core.models import Alert, AlertState
from tocsin_server.store.acks import AT_ONCE, Key
from tocsin_server.store.alert_rows import alert_key, alert_of
from tocsin_server.store.results import StoredIncident
from tocsin_server.store.tables import alert, run

MOST_SHOWN = 50
"""Alerts of one incident that are read, the most severe and oldest first; the others are counted."""
IncidentKey = tuple[str, str]
"""(run id, fingerprint and episode of the alert that opened it)."""

_COUNTED = (AlertState.FIRING, AlertState.RECOVERING, AlertState.ENDED, AlertState.RESOLVED)
_HAS = {state_of([state]): state for state in _COUNTED}
"""State of an incident -> state that one of its alerts has."""
_OWN = (alert.c.run_id, alert.c.incident)
_level = case({"critical": 2, "warning": 1}, value=alert.c.severity, else_=0)


def read_incidents(
    connection: Connection,
    run_id: str | None,
    states: Collection[str] | None,
    limit: int,
    project: str | None = None,
) -> list[StoredIncident]:
    """Return incidents, the newest change first; at most ``limit`` of each state.

    Args:
        connection: The database.
        run_id: Only those of this run, or None.
        states: Only those in these states, or None.
        limit: Maximum number of each state.
        project: Only those of the runs of this project, or None.
    """
    wanted = [state for state in IncidentState if states is None or state in states]
    keys: dict[IncidentKey, None] = {}
    for state in wanted:
        keys |= dict.fromkeys(_keys(connection, run_id, project, _HAS[state], limit))
    found = [each for each in _read(connection, list(keys)) if each.state in wanted]
    counts = dict.fromkeys(IncidentState, 0)
    kept = []
    for each in sorted(found, key=lambda one: (-one.incident.updated_ns, one.incident.id)):
        counts[each.state] += 1
        if counts[each.state] <= limit:
            kept.append(each)
    return kept


def read_incident(connection: Connection, incident_id: str) -> StoredIncident | None:
    """Return one incident, or None."""
    key = alert_key(incident_id)
    found = _read(connection, [] if key is None else [(key[0], f"{key[1]}.{key[2]}")])
    return found[0] if found else None


def alert_keys(connection: Connection, incident_id: str) -> list[Key]:
    """Return the keys of every alert of an incident; empty if there is no such incident."""
    key = alert_key(incident_id)
    if key is None:
        return []
    query = select(alert.c.run_id, alert.c.fingerprint, alert.c.episode)
    mine = (alert.c.run_id == key[0]) & (alert.c.incident == f"{key[1]}.{key[2]}")
    return [(row.run_id, row.fingerprint, row.episode) for row in connection.execute(query.where(mine))]


def count_open(connection: Connection) -> int:
    """Return the number of incidents with a firing alert."""
    firing = select(*_OWN).where(alert.c.state == AlertState.FIRING.value, alert.c.incident != "").distinct()
    return connection.execute(select(func.count()).select_from(firing.subquery())).scalar_one()


def incident_ids(connection: Connection, keys: Iterable[Key]) -> set[str]:
    """Return the ids of the incidents to which these alerts belong."""
    wanted, found = sorted(set(keys)), set()
    for at in range(0, len(wanted), AT_ONCE):
        mine = tuple_(alert.c.run_id, alert.c.fingerprint, alert.c.episode).in_(wanted[at : at + AT_ONCE])
        rows = connection.execute(select(*_OWN).where(mine, alert.c.incident != "").distinct())
        found |= {f"{row.run_id}.{row.incident}" for row in rows}
    return found


def _keys(
    connection: Connection, run_id: str | None, project: str | None, state: AlertState, limit: int
) -> list[IncidentKey]:
    query = select(*_OWN).where(alert.c.state == state.value, alert.c.incident != "")
    if run_id is not None:
        query = query.where(alert.c.run_id == run_id)
    if project is not None:
        query = query.where(alert.c.run_id.in_(select(run.c.id).where(run.c.project == project)))
    newest = query.group_by(*_OWN).order_by(func.max(alert.c.updated_ns).desc(), *_OWN)
    # An incident has alerts in several states, so some of these turn out to be in another one.
    return [(row.run_id, row.incident) for row in connection.execute(newest.limit(2 * limit))]


def _read(connection: Connection, keys: Sequence[IncidentKey]) -> list[StoredIncident]:
    found = []
    for at in range(0, len(keys), MOST_SHOWN):
        part = tuple_(*_OWN).in_(keys[at : at + MOST_SHOWN])
        alerts = _alerts(connection, part)
        for row in connection.execute(_totals().where(part)):
            shown = tuple(by_cause(alerts[row.run_id, row.incident]))
            state = state_of(each for each in _COUNTED if getattr(row, each.value))
            incident = Incident(f"{row.run_id}.{row.incident}", shown)
            found.append(StoredIncident(incident, state, row.alerts, row.run_name, row.project))
    return found


def _totals() -> Any:
    def counted(state: AlertState) -> Any:
        return func.sum(case((alert.c.state == state.value, 1), else_=0)).label(state.value)

    return (
        select(
            *_OWN,
            run.c.name.label("run_name"),
            run.c.project,
            func.count().label("alerts"),
            *map(counted, _COUNTED),
        )
        .join(run, run.c.id == alert.c.run_id)
        .group_by(*_OWN, run.c.name, run.c.project)
    )


def _alerts(connection: Connection, part: Any) -> dict[IncidentKey, list[Alert]]:
    order = func.row_number().over(partition_by=_OWN, order_by=(_level.desc(), alert.c.onset_ns))
    numbered = select(alert.c.run_id, alert.c.fingerprint, alert.c.episode, order.label("number"))
    numbers = numbered.where(part).subquery()
    same = (
        (alert.c.run_id == numbers.c.run_id)
        & (alert.c.fingerprint == numbers.c.fingerprint)
        & (alert.c.episode == numbers.c.episode)
    )
    found: dict[IncidentKey, list[Alert]] = {}
    for row in connection.execute(select(alert).join(numbers, same & (numbers.c.number <= MOST_SHOWN))):
        found.setdefault((row.run_id, row.incident), []).append(alert_of(row))
    return found
