"""Store incident snapshots, and find alerts that lack one. Functions of a Connection."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, and_, func, or_, select

from tocsin_server.core.models import AlertState
from tocsin_server.store.alert_rows import alert_key
from tocsin_server.store.row_builder import upsert
from tocsin_server.store.run_rows import ENDED, is_there
from tocsin_server.store.tables import alert, incident_snapshot, latest, run, writer

FIRED = (AlertState.FIRING, AlertState.RECOVERING, AlertState.RESOLVED)


@dataclass(frozen=True, slots=True)
class IncidentSnapshotRow:
    """The stored snapshot of one alert; ``whole`` means that it is complete."""

    fingerprint: str
    episode: int
    made_ns: int
    whole: bool
    body: bytes


@dataclass(frozen=True, slots=True)
class Lacking:
    """An alert without a complete incident snapshot. ``is_begun``: an incomplete one is stored."""

    alert_id: str
    run_id: str
    onset_step: int | None
    newest_step: int | None
    """The current step of its run."""
    run_over: bool
    is_begun: bool


def lacking(connection: Connection, since_ns: int, limit: int) -> list[Lacking]:
    """Return fired alerts that changed after ``since_ns`` and have no snapshot, or an incomplete one."""
    same = and_(
        incident_snapshot.c.run_id == alert.c.run_id,
        incident_snapshot.c.fingerprint == alert.c.fingerprint,
        incident_snapshot.c.episode == alert.c.episode,
    )
    begun = incident_snapshot.c.whole.is_not(None)
    query = (
        select(
            alert.c.run_id,
            alert.c.fingerprint,
            alert.c.episode,
            alert.c.onset_step,
            run.c.state,
            begun.label("begun"),
        )
        .join(run, run.c.id == alert.c.run_id)
        .outerjoin(incident_snapshot, same)
        .where(alert.c.state.in_(FIRED), alert.c.fired_ns.is_not(None))
        .where(
            or_(
                incident_snapshot.c.whole.is_(False),
                and_(incident_snapshot.c.whole.is_(None), alert.c.updated_ns > since_ns),
            )
        )
        .order_by(begun, alert.c.updated_ns)
        .limit(limit)
    )
    rows = connection.execute(query).all()
    newest = {run_id: _newest_step(connection, run_id) for run_id in {row.run_id for row in rows}}
    return [
        Lacking(
            f"{row.run_id}.{row.fingerprint}.{row.episode}",
            row.run_id,
            row.onset_step,
            newest[row.run_id],
            row.state in ENDED,
            bool(row.begun),
        )
        for row in rows
    ]


def _newest_step(connection: Connection, run_id: str) -> int | None:
    """Return the current step of the newest attempt.

    Earlier attempts, and steps before a rewind, may be higher.
    """
    same = and_(writer.c.run_id == latest.c.run_id, writer.c.writer_no == latest.c.writer_no)
    order = (writer.c.attempt_no.desc(), writer.c.rank, latest.c.seq.desc())
    query = select(latest.c.step).join_from(latest, writer, same).where(latest.c.run_id == run_id)
    return connection.execute(query.order_by(*order).limit(1)).scalar()


def read_incident_snapshot(connection: Connection, alert_id: str) -> IncidentSnapshotRow | None:
    """Return the stored snapshot of an alert, or None."""
    key = alert_key(alert_id)
    if key is None:
        return None
    own = (
        incident_snapshot.c.run_id == key[0],
        incident_snapshot.c.fingerprint == key[1],
        incident_snapshot.c.episode == key[2],
    )
    row = connection.execute(select(incident_snapshot).where(*own)).first()
    return (
        None
        if row is None
        else IncidentSnapshotRow(row.fingerprint, row.episode, row.made_ns, row.whole, row.body)
    )


def count_incident_snapshots(connection: Connection, run_id: str) -> int:
    """Return how many alerts of a run have a stored snapshot."""
    query = select(func.count()).select_from(incident_snapshot).where(incident_snapshot.c.run_id == run_id)
    return int(connection.execute(query).scalar_one())


def incident_snapshot_rows(connection: Connection, run_id: str) -> list[IncidentSnapshotRow]:
    """Return all snapshots of a run."""
    order = (incident_snapshot.c.fingerprint, incident_snapshot.c.episode)
    found = connection.execute(
        select(incident_snapshot).where(incident_snapshot.c.run_id == run_id).order_by(*order)
    )
    return [
        IncidentSnapshotRow(row.fingerprint, row.episode, row.made_ns, row.whole, row.body) for row in found
    ]


def keep_incident_snapshot(connection: Connection, run_id: str, row: IncidentSnapshotRow) -> bool:
    """Store a snapshot unless a complete one exists; return False if the run was deleted meanwhile."""
    if not is_there(connection, run_id):
        return False
    insert = upsert(connection, incident_snapshot)
    values = {"made_ns": row.made_ns, "whole": row.whole, "body": row.body}
    key = {"run_id": run_id, "fingerprint": row.fingerprint, "episode": row.episode}
    connection.execute(
        insert.on_conflict_do_update(
            index_elements=list(key), set_=values, where=incident_snapshot.c.whole.is_(False)
        ),
        key | values,
    )
    return True
