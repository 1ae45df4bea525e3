"""Store acknowledgements: who acknowledged an alert, when, with which note. Functions of a Connection."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass

from sqlalchemy import Connection, func, select

from tocsin_server.store.tables import acknowledgement, alert

Key = tuple[str, str, int]
"""(run id, fingerprint, episode)."""


@dataclass(frozen=True, slots=True)
class Ack:
    """An acknowledgement of an alert, or its withdrawal (``undone``)."""

    at_ns: int
    actor: str
    note: str
    undone: bool = False


def add_ack(connection: Connection, key: Key, ack: Ack) -> bool:
    """Store an acknowledgement. Its time is moved past that of the newest one.

    Returns:
        False if there is no such alert.
    """
    if not _exists(connection, key):
        return False
    row = {"run_id": key[0], "fingerprint": key[1], "episode": key[2]}
    newest = connection.execute(select(func.max(acknowledgement.c.at_ns)).where(*_is(key))).scalar()
    at_ns = max(ack.at_ns, (newest or 0) + 1)
    values = {"at_ns": at_ns, "actor": ack.actor, "note": ack.note, "undone": ack.undone}
    connection.execute(acknowledgement.insert(), row | values)
    return True


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


def _exists(connection: Connection, key: Key) -> bool:
    query = select(alert.c.run_id).where(
        alert.c.run_id == key[0], alert.c.fingerprint == key[1], alert.c.episode == key[2]
    )
    return connection.execute(query).first() is not None


def _is(key: Key):  # type: ignore[no-untyped-def] # columns of SQLAlchemy
    table = acknowledgement.c
    return table.run_id == key[0], table.fingerprint == key[1], table.episode == key[2]
