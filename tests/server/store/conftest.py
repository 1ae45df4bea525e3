"""A store on each of the two databases, and test data."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest
from sqlalchemy import func, select

from tocsin.protocol import Hello, WriterId
from tocsin_server.core.models import Column, RecordBatch, WriteBatch, Writer
from tocsin_server.store.database import Database
from tocsin_server.store.registration import Registered, register
from tocsin_server.store.tables import chunk_dir
from tocsin_server.store.writer import StoreWriter


def hello(run: str = "r1", *, rank: int = 0, attempt: str = "a1", **more: object) -> Hello:
    """Return the hello of one process; its writer is (attempt, rank)."""
    fields: dict[str, object] = {
        "version": 1,
        "token": "t",
        "project": "deblur",
        "name": "mdt",
        "run": run,
        "writer": WriterId(attempt, rank, "boot", 100 + rank, 1),
        "world_size": 1,
        "host": "node",
        "time_ns": 1_000,
    }
    return Hello(**(fields | more))  # type: ignore[arg-type]


Admit = Callable[..., Registered]


@pytest.fixture
def admit(store: StoreWriter) -> Admit:
    """Register a hello with the running writer."""

    def admitted(run: str = "r1", *, now_ns: int = 2_000, **more: object) -> Registered:
        greeting = hello(run, **more)  # type: ignore[arg-type]
        return store.call(lambda connection: register(connection, greeting, now_ns)).result(30)

    return admitted


def batch(
    writer: Writer, seq: int, steps: list[int], arrival: int | None = None, **columns: object
) -> RecordBatch:
    """Return a batch of records at ``steps``; a column is a list [n] or a pair (rows, values)."""
    made = {}
    for name, values in columns.items():
        at, v = values if isinstance(values, tuple) else (None, values)
        rows = None if at is None else np.array(at, dtype=np.uint32)
        made[name] = Column(np.array(v, dtype=np.float64), rows)
    step = np.array(steps, dtype=np.int64)
    return RecordBatch(
        writer, seq if arrival is None else arrival, seq, len(steps), step, 10**18 + step * 10**6, made
    )


@pytest.fixture
def put(store: StoreWriter) -> Callable[..., None]:
    """Submit batches and return once they are durable."""

    def stored(*batches: RecordBatch) -> None:
        for one in batches:
            store.submit(WriteBatch(one.run_id, batch=one))
        store.call(lambda connection: None).result(60)

    return stored


def sealed(database: Database, chunks: int, run_id: str = "r1") -> None:
    """Wait until the run has that many chunks."""
    deadline = time.monotonic() + 60
    query = select(func.count()).select_from(chunk_dir).where(chunk_dir.c.run_id == run_id)
    while True:
        with database.reader.connect() as connection:
            found = connection.execute(query).scalar_one()
        if found >= chunks:
            return
        assert time.monotonic() < deadline, f"expected {chunks} chunks, got {found}"
        time.sleep(0.01)
