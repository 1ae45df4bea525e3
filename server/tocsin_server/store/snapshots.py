"""Flight records as rows: which alerts lack one, and what is frozen of each. Functions of a Connection."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, and_, func, or_, select

from tocsin_server.core.models import AlertState
from tocsin_server.store.alert_rows import alert_key
from tocsin_server.store.row_builder import upsert
from tocsin_server.store.run_rows import ENDED, is_there
from tocsin_server.store.tables import alert, flight, latest, run, writer

FIRED = (AlertState.FIRING, AlertState.RECOVERING, AlertState.RESOLVED)


@dataclass(frozen=True, slots=True)
class FlightRow:
    """What is frozen of one alert; ``whole``: nothing more will come."""

    fingerprint: str
    episode: int
    made_ns: int
    whole: bool
    body: bytes


@dataclass(frozen=True, slots=True)
class Lacking:
    """An alert without a whole flight record. ``is_begun``: part of it is frozen."""

    alert_id: str
    run_id: str
    onset_step: int | None
    newest_step: int | None
    """The step at which its run is now."""
    run_over: bool
    is_begun: bool


def lacking(connection: Connection, since_ns: int, limit: int) -> list[Lacking]:
    """Alerts that fired, changed after ``since_ns`` and have no flight record; and all whose is not whole."""
    same = and_(
        flight.c.run_id == alert.c.run_id,
        flight.c.fingerprint == alert.c.fingerprint,
        flight.c.episode == alert.c.episode,
    )
    begun = flight.c.whole.is_not(None)
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
        .outerjoin(flight, same)
        .where(alert.c.state.in_(FIRED), alert.c.fired_ns.is_not(None))
        .where(or_(flight.c.whole.is_(False), and_(flight.c.whole.is_(None), alert.c.updated_ns > since_ns)))
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
    """Where the newest attempt of a run is now: earlier ones, and steps before a rewind, may be further."""
    same = and_(writer.c.run_id == latest.c.run_id, writer.c.writer_no == latest.c.writer_no)
    order = (writer.c.attempt_no.desc(), writer.c.rank, latest.c.seq.desc())
    query = select(latest.c.step).join_from(latest, writer, same).where(latest.c.run_id == run_id)
    return connection.execute(query.order_by(*order).limit(1)).scalar()


def read_flight(connection: Connection, alert_id: str) -> FlightRow | None:
    """What is frozen of an alert, or None."""
    key = alert_key(alert_id)
    if key is None:
        return None
    own = (flight.c.run_id == key[0], flight.c.fingerprint == key[1], flight.c.episode == key[2])
    row = connection.execute(select(flight).where(*own)).first()
    return None if row is None else FlightRow(row.fingerprint, row.episode, row.made_ns, row.whole, row.body)


def count_flights(connection: Connection, run_id: str) -> int:
    """How many alerts of a run have one."""
    query = select(func.count()).select_from(flight).where(flight.c.run_id == run_id)
    return int(connection.execute(query).scalar_one())


def flight_rows(connection: Connection, run_id: str) -> list[FlightRow]:
    """All of a run's."""
    order = (flight.c.fingerprint, flight.c.episode)
    found = connection.execute(select(flight).where(flight.c.run_id == run_id).order_by(*order))
    return [FlightRow(row.fingerprint, row.episode, row.made_ns, row.whole, row.body) for row in found]


def keep_flight(connection: Connection, run_id: str, row: FlightRow) -> bool:
    """Freezes it, unless a whole one is there; False where the run was deleted meanwhile."""
    if not is_there(connection, run_id):
        return False
    insert = upsert(connection, flight)
    values = {"made_ns": row.made_ns, "whole": row.whole, "body": row.body}
    key = {"run_id": run_id, "fingerprint": row.fingerprint, "episode": row.episode}
    connection.execute(
        insert.on_conflict_do_update(index_elements=list(key), set_=values, where=flight.c.whole.is_(False)),
        key | values,
    )
    return True
