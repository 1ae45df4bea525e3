"""After kills, restarts, full disks and lost connections, everything acknowledged is stored exactly once."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import func, select, text
from sqlalchemy.engine import URL

from tests.matrix import ALL
from tests.server.store.conftest import batch
from tocsin_server.core.models import WriteBatch
from tocsin_server.store.database import Database, open_database
from tocsin_server.store.reader import StoreReader
from tocsin_server.store.tables import chunk_dir
from tocsin_server.store.writer import StoreWriter

pytestmark = pytest.mark.both_databases  # SQL and locking differ

PROGRAM = Path(__file__).with_name("reporting_process.py")
KILLS = 5 if ALL else 2


def killed_once(url: URL, chance: random.Random, acknowledged: dict[str, int]) -> None:
    """Run the reporting process, kill it at a random time after its first ack, and record its acks."""
    address = url.render_as_string(hide_password=False)
    child = subprocess.Popen([sys.executable, str(PROGRAM), address], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    reported = [child.stdout.readline()]
    time.sleep(chance.uniform(0.0, 0.7))  # not a wait: the random moment of the kill
    child.kill()
    reported += child.stdout.read().splitlines()
    child.stdout.close()
    child.wait()
    for line in reported:
        who, number = line.split()
        acknowledged[who] = max(acknowledged.get(who, -1), int(number))


def test_what_was_acknowledged_survives_kill_9(url: URL) -> None:
    """After several kills every acknowledged record and event is there once, without gaps."""
    acknowledged: dict[str, int] = {}
    chance = random.Random(11)
    for _ in range(KILLS):
        killed_once(url, chance, acknowledged)
    database = open_database(url)
    try:
        reader = StoreReader(database)
        page = reader.records("r1", limit=10**7)
        events = reader.events("r1", limit=10**7).items
        for rank in (0, 1):
            own = page.rank == rank
            assert page.seq[own].tolist() == list(range(int(own.sum())))
            np.testing.assert_array_equal(page.columns["loss"].v[own], np.sqrt(page.seq[own]))
            assert int(own.sum()) > acknowledged[str(rank)]
            numbers = [e.no for e in events if e.writer.rank == rank]
            assert sorted(numbers) == list(range(len(numbers)))
            assert len(numbers) > acknowledged[f"event{rank}"]
        with database.reader.connect() as connection:
            assert connection.execute(select(func.count()).select_from(chunk_dir)).scalar_one() > 0
    finally:
        database.close()


def until(condition: Any) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_full_disk_is_waited_out(database: Database, admit: Any, store: StoreWriter) -> None:
    """Without room nothing is acked and `failing` has the reason; with room all of it is stored."""
    if database.dialect != "sqlite":
        pytest.skip("the limit on pages is SQLite's")
    who = admit().writer
    done: list[int] = []

    def limit(pages: int) -> None:
        store.call(lambda c: c.execute(text(f"PRAGMA max_page_count={pages}"))).result(30)

    limit(1)  # SQLite uses the present size if the limit is below it
    for seq in range(200):
        numbers = list(range(seq * 100, seq * 100 + 100))
        one = batch(who, seq * 100, numbers, loss=np.random.default_rng(seq).normal(size=100))
        store.submit(WriteBatch("r1", batch=one, done=lambda seq=seq: done.append(seq)))  # type: ignore[misc]
    until(lambda: store.failing is not None)
    assert "full" in str(store.failing)
    acked = len(done)
    assert StoreReader(database).records("r1", limit=10**6).n == acked * 100
    assert store.backlog_bytes > 0
    limit(2**30)
    until(lambda: len(done) == 200)
    assert (store.failing, store.backlog_bytes) == (None, 0)
    assert StoreReader(database).records("r1", limit=10**6).n == 20_000


def test_cut_connections_are_made_again(database: Database, admit: Any, store: StoreWriter) -> None:
    """If Postgres repeatedly closes every connection under load, nothing is lost or duplicated."""
    if database.dialect != "postgresql":
        pytest.skip("SQLite has no connections to cut")
    who = admit().writer
    done: list[int] = []
    cut = text(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    for seq in range(300):
        one = batch(who, seq * 10, list(range(seq * 10, seq * 10 + 10)), loss=np.full(10, float(seq)))
        store.submit(WriteBatch("r1", batch=one, done=lambda seq=seq: done.append(seq)))  # type: ignore[misc]
        if seq % 100 == 50:
            with database.reader.connect() as connection:
                connection.execute(cut)
    until(lambda: len(done) == 300)
    page = StoreReader(database).records("r1", limit=10**6)
    assert page.seq.tolist() == list(range(3000))
