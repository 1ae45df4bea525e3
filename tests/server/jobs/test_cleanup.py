"""Deletion of marked runs and of runs past their retention, also after an interruption."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import select, update

from tests.server.store.whole_run import rows_of, write_run_to
from tocsin_server.core.settings import Settings
from tocsin_server.jobs.cleanup import Housekeeper
from tocsin_server.jobs.retention import DAY_NS
from tocsin_server.runs.pipeline import Pipeline
from tocsin_server.runs.pubsub import Hub
from tocsin_server.store import deletion
from tocsin_server.store.database import Database
from tocsin_server.store.reader import StoreReader
from tocsin_server.store.tables import audit, run
from tocsin_server.store.writer import StoreWriter

ENDED_NS = 10**18 + 5


@pytest.fixture
def database(database: Database) -> Database:
    """A database with one ended run that has rows in every table."""
    write_run_to(database)
    return database


@pytest.fixture
def keeper(database: Database) -> Iterator[Callable[..., Housekeeper]]:
    """``keeper(retention_days=1.0, now_ns=...)``: on a running writer."""
    writer = StoreWriter(database, interval_s=0.005)
    writer.start()

    def made(now_ns: int = ENDED_NS, **reported: Any) -> Housekeeper:
        settings = Settings(**reported)
        pipeline = Pipeline(settings, writer, StoreReader(database), Hub())
        times = iter([now_ns - 10**15])
        return Housekeeper(settings, database, writer, pipeline, clock=lambda: next(times, now_ns))

    yield made
    writer.stop(10.0)


def test_a_run_past_its_time_goes(database: Database, keeper: Callable[..., Housekeeper]) -> None:
    """All its rows are deleted, despite an open alert; the audit log has the reason."""
    assert [alert.alert.state for alert in StoreReader(database).alerts("r1", ["firing"])] == ["firing"]
    asyncio.run(keeper(ENDED_NS + 31 * DAY_NS, retention_days=30.0).look())
    assert not any(rows_of(database, "r1").values())
    with database.reader.begin() as connection:
        row = connection.execute(select(audit.c.actor, audit.c.action, audit.c.subject)).one()
    assert tuple(row) == ("retention", "run.delete", "r1")


@pytest.mark.parametrize(
    ("days", "state"),
    [({}, "failed"), ({"retention_days": 32.0}, "failed"), ({"retention_days": 1.0}, "running")],
)
def test_other_runs_stay(
    database: Database, keeper: Callable[..., Housekeeper], days: dict[str, float], state: str
) -> None:
    """Runs without a retention time, before it, or still running."""
    with database.engine.begin() as connection:
        connection.execute(update(run).values(state=state))
    before = rows_of(database, "r1")
    asyncio.run(keeper(ENDED_NS + 31 * DAY_NS, **days).look())
    assert rows_of(database, "r1") == before


@pytest.mark.both_databases
def test_what_a_kill_interrupted_is_finished(database: Database, keeper: Callable[..., Housekeeper]) -> None:
    """The mark in the database is sufficient."""
    with database.engine.begin() as connection:
        deletion.mark(connection, "r1", 1)
        deletion.sweep(connection, "r1", rows=3)
    assert sum(rows_of(database, "r1").values()) > 3
    asyncio.run(keeper().look())
    assert not any(rows_of(database, "r1").values())


def test_a_failing_look_is_tried_again(database: Database, keeper: Callable[..., Housekeeper]) -> None:
    """The task continues, and deletes the run once the database works."""
    housekeeper, failures = keeper(), iter([OSError("no room")])
    look = housekeeper.look

    async def failing() -> None:
        for error in failures:
            raise error
        await look()

    async def until_gone() -> None:
        housekeeper.look = failing  # type: ignore[method-assign]
        task = asyncio.create_task(housekeeper.keep(interval_s=0.01))
        while rows_of(database, "r1")["tail"]:  # noqa: ASYNC110 - the database sends no event
            await asyncio.sleep(0.01)
        task.cancel()

    with database.engine.begin() as connection:
        deletion.mark(connection, "r1", 1)
    asyncio.run(asyncio.wait_for(until_gone(), 60))
