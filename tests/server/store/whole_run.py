"""A run with data of every kind: chunks, tail, gaps, two attempts, events, alerts, saved rules."""

from __future__ import annotations

import math
import struct
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from sqlalchemy import Connection, select, text

from tests.server.store.conftest import Admit, batch, hello, sealed
from tocsin_server.core.models import (
    Alert,
    AlertState,
    Diagnosis,
    Evidence,
    RecordBatch,
    RunEvent,
    RunState,
    SavedRuleState,
    Severity,
    Transition,
    WriteBatch,
    Writer,
)
from tocsin_server.detect.engine.engine import Engine
from tocsin_server.detect.interface.context import RunContext
from tocsin_server.store.chunks import RECORDS
from tocsin_server.store.compactor import pack_tail
from tocsin_server.store.database import Database
from tocsin_server.store.embed_links import EmbedLink, add_link
from tocsin_server.store.registration import Registered, register
from tocsin_server.store.tables import (
    acknowledgement,
    embed_link,
    group_member,
    metadata,
    notified_alert,
    run,
)
from tocsin_server.store.writer import StoreWriter

QUIET_NAN, SIGNALLING_NAN = (
    struct.unpack("<d", bits.to_bytes(8, "little"))[0]
    for bits in (0x7FF8_0000_0000_BEEF, 0x7FF0_0000_0000_0001)
)
NASTY = [math.nan, QUIET_NAN, SIGNALLING_NAN, math.inf, -math.inf, -0.0, 5e-324, 0.1, 1.7e308]
"""Values that must be preserved bit by bit; two NaNs have payloads."""
SERIES = 5
"""Pairs of a writer and one of its series."""
DELIVERED = (group_member, notified_alert, embed_link)
"""Tables that belong to the installation: their rows are deleted with the run, but not exported."""
LATE = 41
"""Records after the seal."""


def write_run(
    database: Database, store: StoreWriter, admit: Admit, put: Callable[..., None], run_id: str = "r1"
) -> None:
    """Store the run, sealed, packed and in batches; wait up to a second for its newest values."""
    _submit(database, store, admit, put, run_id)
    ends = time.monotonic() + 60
    while rows_of(database, run_id)["latest"] < SERIES:
        assert time.monotonic() < ends, "waited 60 s for the newest values"
        time.sleep(0.02)


def _submit(
    database: Database, store: StoreWriter, admit: Admit, put: Callable[..., None], run_id: str
) -> None:
    first = admit(run_id, config={"lr": math.inf}, tags=["a", "b"]).writer
    second = admit(run_id, attempt="a2", rank=1).writer
    random = np.random.default_rng(3)
    for seq in range(0, RECORDS + LATE, 97):
        n = min(97, RECORDS + LATE - seq)
        loss = np.resize(np.array(NASTY), n) if seq % 2 else random.normal(size=n)
        put(batch(first, seq, list(range(seq, seq + n)), 1 + seq, loss=loss, rank=([0, n - 1], [1.5, -0.0])))
    steps = [7, 7, 3, 2**41 + 1]
    put(batch(second, 10, steps, 5000, **{"value:rank": NASTY[:4], 'a "name", with\nlines': NASTY[5:9]}))
    put(batch(second, 20, [8], 5001, loss=[2.5]))
    store.submit(
        WriteBatch(run_id, event=RunEvent(first, 5002, 0, "note", 10**18, None, {"x": "NaN", "ü": [1]}))
    )
    store.submit(WriteBatch(run_id, event=RunEvent(second, 5003, 0, "phase", 10**18 + 1, 4, {})))
    _ring(store, run_id, second)
    sealed(database, 1, run_id)
    store.call(lambda connection: store.cache.over.clear()).result(30)  # the second writer's tail stays
    store.call(lambda connection: pack_tail(connection, run_id, first.writer_no)).result(30)


def write_run_to(database: Database, run_id: str = "r1") -> None:
    """Store the run with a separate writer, which writes the newest values when it stops."""
    store = StoreWriter(database, interval_s=0.005)
    store.start()

    def admit(run: str, **more: Any) -> Registered:
        return store.call(lambda connection: register(connection, hello(run, **more), 2_000)).result(30)

    def put(*batches: RecordBatch) -> None:
        for one in batches:
            store.submit(WriteBatch(one.run_id, batch=one))

    try:
        _submit(database, store, admit, put, run_id)
    finally:
        store.stop(10.0)


def _ring(store: StoreWriter, run_id: str, who: Writer) -> None:
    evidence = (Evidence("loss", math.nan), Evidence("step", 4.0, "", 4))
    fired = Alert(
        run_id, "f1", 1, "loss-nonfinite", "loss", Severity.CRITICAL, AlertState.FIRING, 4, 400, 399, 5, 410,
        None, None, "Loss is NaN", Diagnosis("a cause", evidence), {"rank": "1"}, False, 410,
    )  # fmt: skip
    over = replace(fired, state=AlertState.RESOLVED, resolved_step=9, resolved_ns=500, updated_ns=500)
    open_one = replace(fired, fingerprint="f2", severity=Severity.WARNING)
    reported = (
        Transition(fired, AlertState.PENDING, 410),
        Transition(over, AlertState.FIRING, 500),
        Transition(open_one, None, 411),
    )
    ended = {
        "state": RunState.FAILED,
        "ended_ns": 10**18 + 5,
        "error": {"type": "Oops"},
        "summary": {"arrival": 1},
    }
    snapshot = SavedRuleState(run_id, 5003, Engine(RunContext()).save())
    store.submit(
        WriteBatch(
            run_id, transitions=reported, rule_state=snapshot, changes=ended, rejected_to_seq=(who, 30)
        )
    )
    store.call(lambda connection: _notify(connection, run_id)).result(60)
    store.call(lambda connection: None).result(60)


def _notify(connection: Connection, run_id: str) -> None:
    """Store a notification and an acknowledgement of an alert, and a link to a chart."""
    key = {"run_id": run_id, "fingerprint": "f1", "episode": 1}
    taken = {"at_ns": 430, "actor": "ann", "note": "mine", "undone": False}
    connection.execute(acknowledgement.insert(), key | taken)
    connection.execute(group_member.insert(), key | {"group_id": "g1", "notified_level": 2})
    connection.execute(notified_alert.insert(), key | {"notification_id": "n1", "state": "firing"})
    add_link(connection, EmbedLink(f"link-{run_id}", run_id, "loss", "ann", 440, 2**40), 0)


def rows_of(database: Database, run_id: str) -> dict[str, int]:
    """Return each table's number of rows of a run, for all tables of the schema that name it."""
    counts = {}
    with database.reader.begin() as connection:
        for table in metadata.sorted_tables:
            if "run_id" in table.c:
                query = text(f"SELECT count(*) FROM {table.name} WHERE run_id = :run")
                counts[table.name] = connection.execute(query, {"run": run_id}).scalar_one()
        counts["run"] = len(connection.execute(select(run.c.id).where(run.c.id == run_id)).all())
    return counts


def everything(database: Database, run_id: str) -> dict[str, list[Any]]:
    """Return every row of a run, for comparing before and after, without this installation's
    notifications."""
    found: dict[str, list[Any]] = {}
    with database.reader.begin() as connection:
        for table in metadata.sorted_tables:
            if "run_id" in table.c and table not in DELIVERED:
                columns = [column for column in table.c if column.name != "routed_ns"]
                query = select(*columns).where(table.c.run_id == run_id).order_by(*table.primary_key)
                found[table.name] = [tuple(row) for row in connection.execute(query)]
    return found
