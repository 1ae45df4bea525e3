"""Convert alerts to rows and back. Functions of a Connection."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Union

import msgspec
from sqlalchemy import Connection, Row, Select, bindparam, func, literal, or_, select, tuple_

from tocsin_server.core import exact_json
from tocsin_server.core.models import RUN_FAILED, Alert, AlertState, Diagnosis, Evidence, Remedy, Severity
from tocsin_server.store.change_cursor import change_cursor, place_of_change
from tocsin_server.store.damage import Damaged, choice, place_of, values_of, warn
from tocsin_server.store.results import AlertPage, AlertStep, StoredAlert
from tocsin_server.store.tables import alert, alert_transition, attempt, run

LIVES = tuple(AlertState)
"""Alert states in the order in which an alert passes through them."""
UNREADABLE = Diagnosis("The stored diagnosis cannot be read. `tocsin-server check` says why.")
_KEY = (alert.c.run_id, alert.c.fingerprint, alert.c.episode)
OPEN_STATES = (AlertState.PENDING, AlertState.FIRING, AlertState.RECOVERING)


def read_alerts(
    connection: Connection,
    run_id: str | Collection[str] | None,
    states: Sequence[str] | None,
    severities: Sequence[str] | None,
    limit: int,
) -> list[StoredAlert]:
    """Return alerts; see ``StoreReader.alerts``."""
    query = _with_run()
    if run_id is not None:
        query = query.where(alert.c.run_id.in_([run_id] if isinstance(run_id, str) else run_id))
    if severities is not None:
        query = query.where(alert.c.severity.in_([str(severity) for severity in severities]))
    query = query.order_by(alert.c.updated_ns.desc(), alert.c.run_id, alert.c.fingerprint)
    if states is not None:
        chosen = query.where(alert.c.state.in_([str(state) for state in states])).limit(limit)
        return [_stored(row) for row in connection.execute(chosen)]
    still_open = query.where(alert.c.state.in_(OPEN_STATES))
    ended, resolved = (
        query.where(alert.c.state == state).limit(limit) for state in (AlertState.ENDED, AlertState.RESOLVED)
    )
    return [_stored(row) for part in (still_open, ended, resolved) for row in connection.execute(part)]


def read_alert_page(
    connection: Connection,
    run_id: str | None,
    states: Sequence[str] | None,
    severities: Sequence[str] | None,
    after: str,
    limit: int,
) -> AlertPage:
    """Return a page of alerts; see ``StoreReader.alert_page``."""
    wanted = list(AlertState) if states is None else states
    query = _with_run().where(alert.c.state.in_([str(state) for state in wanted]))
    if run_id is not None:
        query = query.where(alert.c.run_id == run_id)
    if severities is not None:
        query = query.where(alert.c.severity.in_([str(severity) for severity in severities]))
    place = place_of_change(after)
    if place is not None:
        key = alert_key(place[1])
        if key is None:
            raise ValueError(f"after: expected the `next` of a page, got {after!r}")
        later = (alert.c.updated_ns == place[0]) & (tuple_(*_KEY) > tuple_(*map(literal, key)))
        query = query.where(or_(alert.c.updated_ns < place[0], later))
    rows = connection.execute(query.order_by(alert.c.updated_ns.desc(), *_KEY).limit(limit + 1)).all()
    items = [_stored(row) for row in rows[:limit]]
    more = len(rows) > limit
    return AlertPage(items, change_cursor(rows[limit - 1].updated_ns, items[-1].alert.id) if more else None)


def read_alerts_since(connection: Connection, fired_ns: int, limit: int) -> list[StoredAlert]:
    """Return alerts; see ``StoreReader.alerts_since``."""
    states = alert.c.state.in_([state.value for state in AlertState])  # the index begins with the state
    lately = (alert.c.updated_ns >= fired_ns) & (alert.c.fired_ns >= fired_ns)
    query = _with_run().where(states, lately).order_by(alert.c.fired_ns.desc(), alert.c.fingerprint)
    return [_stored(row) for row in connection.execute(query.limit(limit))]


def read_alert(connection: Connection, alert_id: str) -> StoredAlert | None:
    """Return the alert with this id, or None."""
    key = alert_key(alert_id)
    if key is None:
        return None
    row = connection.execute(_with_run().where(*_is(alert, key))).first()
    return None if row is None else _stored(row)


def read_history(connection: Connection, alert_id: str) -> list[AlertStep]:
    """Return the transitions of an alert, oldest first; empty if the alert is unknown."""
    key = alert_key(alert_id)
    if key is None:
        return []
    query = select(alert_transition).where(*_is(alert_transition, key))
    found = [
        AlertStep(
            choice(AlertState.RESOLVED, row.state, alert_transition, row, "state").value,
            choice(Severity.CRITICAL, row.severity, alert_transition, row, "severity"),
            row.previous,
            row.at_ns,
            row.step,
            row.summary,
        )
        for row in connection.execute(query)
    ]
    return sorted(found, key=_place)


def _place(step: AlertStep) -> tuple[int, int, int]:
    """Return the sort key of a transition. Those of one commit share a time: order by step, then state."""
    return step.at_ns, -1 if step.step is None else step.step, LIVES.index(AlertState(step.state))


def turns(connection: Connection, run_id: str, since_ns: int, until_ns: int | None) -> list[tuple[int, str]]:
    """Return the failures and new attempts of a run while an alert of it was open, as (Unix ns, sentence)."""
    last = until_ns or (1 << 62)
    failed = select(alert.c.onset_ns, alert.c.summary).where(
        alert.c.run_id == run_id, alert.c.rule == RUN_FAILED
    )
    begun = select(attempt.c.started_ns, attempt.c.attempt_no).where(attempt.c.run_id == run_id)
    found = [
        (row.onset_ns, f"The run failed: {row.summary}")
        for row in connection.execute(failed.where(alert.c.onset_ns.between(since_ns, last)))
    ]
    found += [
        (row.started_ns, f"Attempt {row.attempt_no} began")
        for row in connection.execute(begun.where(attempt.c.started_ns.between(since_ns + 1, last)))
        if row.attempt_no > 1
    ]
    return sorted(found)


def _newest() -> Select[Any]:
    of_run = alert.c.run_id == bindparam("of_run")
    newest = (
        select(alert.c.fingerprint, func.max(alert.c.episode).label("episode"))
        .where(of_run)
        .group_by(alert.c.fingerprint)
        .subquery()
    )
    same = (alert.c.fingerprint == newest.c.fingerprint) & (alert.c.episode == newest.c.episode)
    return select(alert).join(newest, same).where(of_run).order_by(alert.c.onset_ns)


_NEWEST = _newest()


def newest_episodes(connection: Connection, run_id: str) -> list[Alert]:
    """Return the newest episode of each fingerprint of a run, including those that are over."""
    return [alert_of(row) for row in connection.execute(_NEWEST, {"of_run": run_id})]


def alert_key(alert_id: str) -> tuple[str, str, int] | None:
    """Return (run id, fingerprint, episode) of an alert's id, or None if it is malformed."""
    parts = alert_id.rsplit(".", 2)
    if len(parts) != 3 or not parts[2].isdecimal() or len(parts[2]) > 9:
        return None
    return parts[0], parts[1], int(parts[2])


def alert_of(row: Row[Any]) -> Alert:
    """Return the alert in a row; named non-finite values in its evidence become floats again."""
    values = values_of(alert, row)
    values |= {
        "severity": choice(Severity.CRITICAL, row.severity, alert, row, "severity"),
        "state": choice(AlertState.RESOLVED, row.state, alert, row, "state"),
        "diagnosis": _readable(row),
        "labels": {str(name): str(value) for name, value in values["labels"].items()},
    }
    return Alert(**values)


def _readable(row: Row[Any]) -> Diagnosis:
    if isinstance(row.diagnosis, Damaged):
        return UNREADABLE
    try:
        return diagnosis_of(row.diagnosis)
    except ValueError as error:
        warn(alert.name, place_of(alert, row), "diagnosis", str(error)[:200])
        return UNREADABLE


def _with_run() -> Select[Any]:
    return select(alert, run.c.name.label("run_name"), run.c.project).join(run, run.c.id == alert.c.run_id)


def _is(table: Any, key: tuple[str, str, int]) -> tuple[Any, ...]:
    return table.c.run_id == key[0], table.c.fingerprint == key[1], table.c.episode == key[2]


def _stored(row: Row[Any]) -> StoredAlert:
    return StoredAlert(alert_of(row), row.run_name, row.project)


class _Evidence(msgspec.Struct):
    name: str
    value: Union[float, int, str, bool, None]
    unit: str = ""
    step: Union[int, None] = None


class _Remedy(msgspec.Struct):
    text: str
    code: str = ""


class _Diagnosis(msgspec.Struct):
    """Schema of a stored diagnosis. Pages and reports rely on these types."""

    cause: str = ""
    evidence: list[_Evidence] = []
    alternatives: list[str] = []
    remedies: list[_Remedy] = []
    how_to_confirm: str = ""
    timeline: list[tuple[int, str, str]] = []


msgspec.msgpack.Decoder(_Diagnosis)  # msgspec crashes if two threads are the first to convert to a type


def diagnosis_of(reported: Mapping[str, Any]) -> Diagnosis:
    """Return the diagnosis in a decoded JSON object.

    Raises:
        ValueError: ``reported`` does not have the fields of a diagnosis.
    """
    try:
        read = msgspec.convert(reported, _Diagnosis)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error
    return Diagnosis(
        read.cause,
        tuple(Evidence(item.name, _number(item.value), item.unit, item.step) for item in read.evidence),
        tuple(read.alternatives),
        tuple(Remedy(item.text, item.code) for item in read.remedies),
        read.how_to_confirm,
        tuple(read.timeline),
    )


def _number(value: Any) -> Any:
    named = value in (exact_json.NAN, exact_json.PINF, exact_json.NINF)
    return exact_json.parse_number(value) if named else value
