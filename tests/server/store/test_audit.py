"""Actions are logged in the transaction that makes them."""

from __future__ import annotations

from sqlalchemy import select

from tocsin_server.store.audit import note
from tocsin_server.store.database import Database
from tocsin_server.store.tables import audit


def test_an_act_is_noted(database: Database) -> None:
    """User, action, object, time, and details."""
    with database.engine.begin() as connection:
        note(connection, 5, "t1 me", "run.delete", "r1", {"n": 1})
    with database.reader.begin() as connection:
        row = connection.execute(select(audit)).one()
    found = (row.at_ns, row.actor, row.action, row.subject, row.details)
    assert found == (5, "t1 me", "run.delete", "r1", {"n": 1})


def test_a_failed_action_is_not_logged(database: Database) -> None:
    """The entry is rolled back with its transaction."""
    with database.engine.connect() as connection:
        note(connection, 5, "t1 me", "run.delete", "r1")
        connection.rollback()
    with database.reader.begin() as connection:
        assert connection.execute(select(audit)).all() == []
