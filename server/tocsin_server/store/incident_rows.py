"""Read incidents: alerts grouped by the alert that opened their incident. Functions of a Connection."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, case, func, literal, or_, select, tuple_

from tocsin_server.core.causal_order import by_cause
from tocsin_server.core.incidents import Incident, IncidentState, state_of
from tocsin_server.core.models import Alert, AlertState
from tocsin_server.store.acks import AT_ONCE, Key
from tocsin_server.store.alert_rows import alert_key, alert_of
from tocsin_server.store.change_cursor import change_cursor, place_of_change
from tocsin_server.store.outbox import ALERTS
from tocsin_server.store.results import IncidentPage, StoredIncident
from tocsin_server.store.tables import alert, notification, notified_alert, run

MOST_SHOWN = 50
"""Alerts of one incident that are read, the most severe and oldest first; the others are counted."""
_COUNTED = (AlertState.FIRING, AlertState.RECOVERING, AlertState.ENDED, AlertState.RESOLVED)
_HAS = {state_of([state]): state for state in _COUNTED}
"""State of an incident -> state that one of its alerts has."""
_ID = case(
    (alert.c.incident.like("%.%.%"), alert.c.incident),  # the incident of another run
    else_=alert.c.run_id + literal(".") + alert.c.incident,
)
_KEY = (alert.c.run_id, alert.c.fingerprint, alert.c.episode)
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
    ids: dict[str, None] = {}
    for state in wanted:
        ids |= dict.fromkeys(_ids(connection, run_id, project, _HAS[state], limit))
    found = [each for each in _read(connection, list(ids)) if each.state in wanted]
    counts = dict.fromkeys(IncidentState, 0)
    kept = []
    for each in sorted(found, key=lambda one: (-one.incident.updated_ns, one.incident.id)):
        counts[each.state] += 1
        if counts[each.state] <= limit:
            kept.append(each)
    return kept


def read_incident_page(
    connection: Connection, run_id: str | None, states: Collection[str] | None, after: str, limit: int
) -> IncidentPage:
    """Return a page of incidents; see ``StoreReader.incident_page``."""
    counted = alert.c.state.in_([state.value for state in _COUNTED])
    query = select(_ID.label("incident_id"), func.max(alert.c.updated_ns).label("changed"))
    query = query.where(counted, alert.c.incident != "")
    if run_id is not None:
        query = query.where(alert.c.run_id == run_id)
    each_one = query.group_by("incident_id").subquery()
    changed, name = each_one.c.changed, each_one.c.incident_id
    page = select(changed, name).order_by(changed.desc(), name).limit(limit + 1)
    place = place_of_change(after)
    if place is not None:
        page = page.where(or_(changed < place[0], and_(changed == place[0], name > place[1])))
    rows = connection.execute(page).all()
    known = {each.incident.id: each for each in _read(connection, [row.incident_id for row in rows[:limit]])}
    found = [known[row.incident_id] for row in rows[:limit] if row.incident_id in known]
    last = rows[limit - 1] if len(rows) > limit else None
    return IncidentPage(
        [each for each in found if states is None or each.state in states],
        None if last is None else change_cursor(last.changed, last.incident_id),
    )


def read_incident(connection: Connection, incident_id: str) -> StoredIncident | None:
    """Return one incident, or None."""
    found = _read(connection, [incident_id])
    return found[0] if found else None


def alert_keys(connection: Connection, incident_id: str) -> list[Key]:
    """Return the keys of every alert of an incident; empty if there is no such incident."""
    rows = connection.execute(select(*_KEY).where(_of([incident_id])))
    return [(row.run_id, row.fingerprint, row.episode) for row in rows]


def incident_ids(connection: Connection, keys: Iterable[Key]) -> set[str]:
    """Return the ids of the incidents to which these alerts belong."""
    wanted, found = sorted(set(keys)), set()
    for at in range(0, len(wanted), AT_ONCE):
        mine = tuple_(*_KEY).in_(wanted[at : at + AT_ONCE])
        query = select(_ID.label("incident_id")).where(mine, alert.c.incident != "").distinct()
        found |= {row.incident_id for row in connection.execute(query)}
    return found


def incidents_by_run(connection: Connection, run_ids: Sequence[str]) -> dict[str, int]:
    """Return the number of incidents with an alert above info, of those of these runs that have any."""
    found: dict[str, int] = {}
    for at in range(0, len(run_ids), AT_ONCE):
        mine = alert.c.run_id.in_(run_ids[at : at + AT_ONCE])
        serious = and_(alert.c.incident != "", alert.c.severity.in_(("warning", "critical")))
        number = func.count(alert.c.incident.distinct()).label("n")
        query = select(alert.c.run_id, number).where(mine, serious).group_by(alert.c.run_id)
        rows = connection.execute(query)
        found |= {row.run_id: row.n for row in rows}
    return found


def notified_severities(
    connection: Connection, channel_id: str, ids: Collection[str]
) -> set[tuple[str, str]]:
    """Return (incident id, severity) of the alerts of these incidents of which a channel was notified."""
    reported = [notified_alert.c[column.name] == column for column in _KEY]
    mine = (notification.c.channel_id == channel_id) & (notification.c.kind == ALERTS)
    query = (
        select(_ID.label("incident_id"), alert.c.severity)
        .join(notified_alert, and_(*reported))
        .join(notification, notification.c.id == notified_alert.c.notification_id)
        .where(_of(sorted(ids)), mine)
    )
    return {(row.incident_id, row.severity) for row in connection.execute(query.distinct())}


def count_open(connection: Connection) -> int:
    """Return the number of incidents with a firing alert."""
    firing = alert.c.state == AlertState.FIRING.value
    found = select(_ID.label("incident_id")).where(firing, alert.c.incident != "").distinct()
    return connection.execute(select(func.count()).select_from(found.subquery())).scalar_one()


def _of(ids: Sequence[str]) -> ColumnElement[bool]:
    """Return the condition that an alert belongs to one of these incidents."""
    keys = [key for each in ids if (key := alert_key(each)) is not None]
    own = [(run_id, f"{fingerprint}.{episode}") for run_id, fingerprint, episode in keys]
    return or_(tuple_(alert.c.run_id, alert.c.incident).in_(own), alert.c.incident.in_(list(ids)))


def _ids(
    connection: Connection, run_id: str | None, project: str | None, state: AlertState, limit: int
) -> list[str]:
    query = select(_ID.label("incident_id")).where(alert.c.state == state.value, alert.c.incident != "")
    if run_id is not None:
        query = query.where(alert.c.run_id == run_id)
    if project is not None:
        query = query.where(alert.c.run_id.in_(select(run.c.id).where(run.c.project == project)))
    newest = query.group_by("incident_id").order_by(func.max(alert.c.updated_ns).desc(), "incident_id")
    # An incident has alerts in several states, so some of these turn out to be in another one.
    return [row.incident_id for row in connection.execute(newest.limit(2 * limit))]


def _read(connection: Connection, ids: Sequence[str]) -> list[StoredIncident]:
    found = []
    for at in range(0, len(ids), MOST_SHOWN):
        part = _of(ids[at : at + MOST_SHOWN])
        alerts = _alerts(connection, part)
        totals: dict[str, list[Row[Any]]] = {}
        for row in connection.execute(_totals().where(part)):
            totals.setdefault(row.incident_id, []).append(row)
        for name, rows in totals.items():
            runs = {row.run_id for row in rows}
            known = [each for each in alerts.get(name, ()) if each.run_id in runs]
            if known:  # else its runs are being deleted
                found.append(_stored(name, tuple(by_cause(known)), rows))
    return found


def _stored(incident_id: str, alerts: tuple[Alert, ...], rows: list[Row[Any]]) -> StoredIncident:
    """Return an incident from its first alerts and the totals of each of its runs."""
    incident = Incident(incident_id, alerts)
    lead = incident.lead.run_id
    rows = sorted(rows, key=lambda row: (row.run_id != lead, row.run_name, row.run_id))
    return StoredIncident(
        incident=incident,
        state=state_of(each for each in _COUNTED if any(getattr(row, each.value) for row in rows)),
        count=sum(row.alerts for row in rows),
        run_name=rows[0].run_name,
        project=rows[0].project,
        runs={row.run_id: row.run_name for row in rows},
    )


def _totals() -> Select[Any]:
    def counted(state: AlertState) -> Any:
        return func.sum(case((alert.c.state == state.value, 1), else_=0)).label(state.value)

    return (
        select(
            _ID.label("incident_id"),
            alert.c.run_id,
            run.c.name.label("run_name"),
            run.c.project,
            func.count().label("alerts"),
            *map(counted, _COUNTED),
        )
        .join(run, run.c.id == alert.c.run_id)
        .group_by("incident_id", alert.c.run_id, run.c.name, run.c.project)
    )


def _alerts(connection: Connection, part: ColumnElement[bool]) -> dict[str, list[Alert]]:
    order = func.row_number().over(partition_by=_ID, order_by=(_level.desc(), alert.c.onset_ns))
    numbers = select(*_KEY, order.label("number")).where(part).subquery()
    same = (
        (alert.c.run_id == numbers.c.run_id)
        & (alert.c.fingerprint == numbers.c.fingerprint)
        & (alert.c.episode == numbers.c.episode)
    )
    found: dict[str, list[Alert]] = {}
    for row in connection.execute(select(alert).join(numbers, same & (numbers.c.number <= MOST_SHOWN))):
        each = alert_of(row)
        found.setdefault(each.incident_id, []).append(each)
    return found
