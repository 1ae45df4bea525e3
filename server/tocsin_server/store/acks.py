"""Store acknowledgements: who acknowledged an alert, when, with which note. Functions of a Connection."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass

from sqlalchemy import Connection, func, select, tuple_

from tocsin_server.store.tables import acknowledgement, alert, run

Key = tuple[str, str, int]
"""(run id, fingerprint, episode)."""

AT_ONCE = 500
"""Number of alerts that one statement names."""


@dataclass(frozen=True, slots=True)
class Ack:
    """An acknowledgement of an alert, or its withdrawal (``undone``)."""

    at_ns: int
    actor: str
    note: str
    undone: bool = False


def add_acks(connection: Connection, keys: Iterable[Key], ack: Ack) -> list[Key]:
    """Store an acknowledgement of each of these alerts. Its time is moved past that of the newest one.

    Returns:
        The keys of the alerts that exist.
    """
    wanted, stored = sorted(set(keys)), dict[Key, int]()
    for at in range(0, len(wanted), AT_ONCE):
        for key, newest in _newest(connection, wanted[at : at + AT_ONCE]).items():
            stored[key] = max(ack.at_ns, (newest or 0) + 1)
    given = {"actor": ack.actor, "note": ack.note, "undone": ack.undone}
    rows = [
        {"run_id": key[0], "fingerprint": key[1], "episode": key[2], "at_ns": at_ns} | given
        for key, at_ns in stored.items()
    ]
    if rows:
        connection.execute(acknowledgement.insert(), rows)
    return list(stored)


def add_ack(connection: Connection, key: Key, ack: Ack) -> bool:
    """Store an acknowledgement of one alert; return False if there is no such alert."""
    return bool(add_acks(connection, [key], ack))


def _newest(connection: Connection, keys: list[Key]) -> dict[Key, int | None]:
    """Return the time of the newest acknowledgement of each of these alerts that exists."""
    own = (alert.c.run_id, alert.c.fingerprint, alert.c.episode)
    table = acknowledgement.c
    same = (table.run_id == own[0]) & (table.fingerprint == own[1]) & (table.episode == own[2])
    query = select(*own, func.max(table.at_ns).label("at_ns")).outerjoin(acknowledgement, same)
    query = query.join(run, run.c.id == alert.c.run_id)  # the alerts of a deleted run are deleted later
    found = connection.execute(query.where(tuple_(*own).in_(keys)).group_by(*own))
    return {(row.run_id, row.fingerprint, row.episode): row.at_ns for row in found}


def acks_of(connection: Connection, key: Key) -> list[Ack]:
    """Return all acknowledgements and withdrawals of an alert, oldest first."""
    query = select(acknowledgement).where(*_is(key)).order_by(acknowledgement.c.at_ns)
    return [Ack(row.at_ns, row.actor, row.note, bool(row.undone)) for row in connection.execute(query)]


def acks_in_force(connection: Connection, run_ids: Iterable[str]) -> dict[Key, Ack]:
    """Return the acknowledgements in effect for all alerts of these runs."""
    order = acknowledgement.c.at_ns
    query = select(acknowledgement).where(acknowledgement.c.run_id.in_(sorted(set(run_ids)))).order_by(order)
    found: dict[Key, Ack] = {}
    for row in connection.execute(query):
        found[row.run_id, row.fingerprint, row.episode] = Ack(
            row.at_ns, row.actor, row.note, bool(row.undone)
        )
    return {key: ack for key, ack in found.items() if not ack.undone}


@dataclass(frozen=True, slots=True)
class AckRow:
    """A row of the table, without its run."""

    fingerprint: str
    episode: int
    at_ns: int
    actor: str
    note: str
    undone: bool


def ack_rows(connection: Connection, run_id: str) -> list[AckRow]:
    """Return all acknowledgements and withdrawals of a run's alerts, oldest first."""
    table = acknowledgement.c
    query = select(acknowledgement).where(table.run_id == run_id)
    found = connection.execute(query.order_by(table.at_ns, table.fingerprint, table.episode))
    return [
        AckRow(row.fingerprint, row.episode, row.at_ns, row.actor, row.note, bool(row.undone))
        for row in found
    ]


def put_ack_rows(connection: Connection, run_id: str, rows: Iterable[AckRow]) -> None:
    """Store imported rows unchanged."""
    reported = [{"run_id": run_id, **asdict(row)} for row in rows]
    if reported:
        connection.execute(acknowledgement.insert(), reported)


def _is(key: Key):  # type: ignore[no-untyped-def] # columns of SQLAlchemy
    table = acknowledgement.c
    return table.run_id == key[0], table.fingerprint == key[1], table.episode == key[2]
