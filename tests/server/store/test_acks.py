"""Acknowledgements as rows: the newest action counts."""

from __future__ import annotations

from typing import Any

from sqlalchemy import insert

from tocsin_server.store import deletion
from tocsin_server.store.acks import Ack, acks_in_force, acks_of, add_ack
from tocsin_server.store.database import Database
from tocsin_server.store.tables import alert, run

KEY = ("r1", "f", 1)


def fire(connection: Any) -> None:
    key = {"run_id": "r1", "fingerprint": "f", "episode": 1, "rule": "r", "subject": "", "summary": "s"}
    state = {"severity": "critical", "state": "firing", "onset_ns": 1, "updated_ns": 1, "late": False}
    connection.execute(insert(alert), key | state)
    named = {"project": "p", "name": "run", "host": "h", "notes": ""}
    connection.execute(insert(run), {"id": "r1", "created_ns": 0, "last_seen_ns": 0} | named)


def test_the_newest_act_counts(database: Database) -> None:
    """Acknowledged, undone, acknowledged by another user: each action is stored, also two at the same
    time."""
    with database.engine.begin() as connection:
        fire(connection)
        for ack, in_force in (
            (Ack(5, "ann", "mine"), "ann"),
            (Ack(5, "ann", "", True), None),
            (Ack(4, "bob", ""), "bob"),
        ):
            assert add_ack(connection, KEY, ack)
            found = acks_in_force(connection, ["r1"]).get(KEY)
            assert (found.actor if found else None) == in_force
        assert [ack.at_ns for ack in acks_of(connection, KEY)] == [5, 6, 7]


def test_an_unknown_alert_cannot_be_acknowledged(database: Database) -> None:
    """Nothing is stored for it."""
    with database.engine.begin() as connection:
        assert not add_ack(connection, KEY, Ack(5, "ann", ""))
        assert acks_in_force(connection, ["r1"]) == {}


def test_the_alerts_of_a_deleted_run_cannot_be_acknowledged(database: Database) -> None:
    """Its rows are deleted later; an acknowledgement would show in no list."""
    with database.engine.begin() as connection:
        fire(connection)
        assert deletion.mark(connection, "r1", 0)
        assert not add_ack(connection, KEY, Ack(5, "ann", ""))
