"""After a kill, a restart or a full disk, everything sent is stored exactly once, bit for bit, with its
alerts.

``benchmarks/bench_kills.py`` is the long version.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from sqlalchemy import event, make_url
from sqlalchemy.engine import URL

from tests.matrix import ALL, LONG
from tests.server import siege
from tests.server.own_postgres import OwnPostgres
from tests.small_disk import fill
from tocsin.protocol import Ack
from tocsin.transport.outbox import Outbox
from tocsin.transport.sender import Sender
from tocsin_server.runs.commit_queue import WIDEST_TICK_MS
from tocsin_server.store.backup import check
from tocsin_server.store.database import open_database
from tocsin_server.store.integrity import issues
from tocsin_server.store.reader import StoreReader

Start = Callable[..., Any]

KILLS, TRAINERS = (4, 3) if ALL else (2, 2)


@pytest.mark.both_databases
def test_kills_under_load_lose_and_double_nothing(url: URL, tmp_path: Path) -> None:
    """SIGKILL at random moments, while every client has unacknowledged records: all arrive exactly once."""
    scene = siege.Siege(url, tmp_path, clients=TRAINERS, seed=7)
    records, _ = scene.run(KILLS)
    siege.check(url, records, TRAINERS)


class Training:
    """The hook's outbox, spool and sender of one run, without a model."""

    def __init__(self, server: Any, run: str, folder: Path, make_hello: Any) -> None:
        self.outbox = Outbox()
        self.steps = 0
        self.sender = Sender(
            self.outbox,
            lambda: make_hello(run, server.token),
            url=server.base,
            spool_dir=folder / run,
            exit_timeout=60.0,
        )

    def train(self, steps: int) -> None:
        """Record that many steps; the loss encodes the step."""
        for step in range(self.steps, self.steps + steps):
            self.outbox.put((step, time.time_ns(), ("loss",), float(step)))
        self.steps += steps
        self.sender.start()


@pytest.mark.postgres
def test_postgres_restarts_under_load(
    own_postgres: OwnPostgres,
    run_server: Start,
    make_hello: Any,
    tmp_path: Path,
    eventually: Any,
) -> None:
    """While the database is down, clients buffer on disk and health reports it; then everything arrives."""
    address = own_postgres.migrated_database().render_as_string(hide_password=False)
    server = run_server(database_url=address)
    trainings = [Training(server, f"r{no}", tmp_path / "spool", make_hello) for no in range(3)]
    for training in trainings:
        training.train(500)
    eventually(lambda: all(t.sender.stats.acked_seq == 499 for t in trainings), "the first steps")
    own_postgres.stop_at_once()
    try:
        for training in trainings:
            training.train(500)
        eventually(lambda: server.health()["failing"], "health to say so")
        eventually(lambda: all(t.sender.stats.spooled_bytes > 0 for t in trainings), "trainers to spool")
        assert [t.sender.stats.acked_seq for t in trainings] == [499] * 3
    finally:
        own_postgres.start_again()
    for training in trainings:
        training.train(500)
        training.sender.close()
    for training in trainings:
        assert training.sender.stats.acked_seq == 1499
    for no in range(3):
        page = server.services.reader.records(f"r{no}", limit=10_000)
        assert page.seq.tolist() == list(range(1500))
        np.testing.assert_array_equal(page.columns["loss"].v, np.arange(1500.0))
    eventually(lambda: server.health()["failing"] is None, "health to say that the database works")


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def on_small_disk(request: pytest.FixtureRequest, small_disk: Path) -> Iterator[URL]:
    """An empty database on the small disk, on SQLite and on Postgres."""
    if request.param == "sqlite":
        yield make_url(f"sqlite:///{small_disk / 'tocsin.db'}")
        return
    server: OwnPostgres = request.getfixturevalue("own_postgres")
    with server.database_on(small_disk) as url:
        yield url


def test_a_full_disk_is_reported_and_survived(
    start_server: Start, dial: Any, watch: Any, small_disk: Path, on_small_disk: URL, eventually: Any
) -> None:
    """On a full disk nothing is acknowledged, and health and pages report it; with free space all is
    stored."""
    address = on_small_disk.render_as_string(hide_password=False)
    server = start_server("--database-url", address, TOCSIN_LIMIT_RECORDS_PER_S="1000000")
    client = dial(server.base, "r1", server.client_token)
    loss = np.random.default_rng(0).normal(size=40_000)
    client.acked(client.train(range(10_000), loss=loss[:10_000].tolist()))
    ballast = fill(small_disk)
    last = client.train(range(10_000, 40_000), loss=loss[10_000:].tolist())
    reported = eventually(
        lambda: (health := httpx.get(f"{server.base}/api/v1/health").json())["status"] != "ok" and health,
        "health to say so",
    )
    assert reported["status"] == "failing"
    page = watch(server.base, server.token)
    reason = page.receive("heartbeat", lambda beat: beat["failing"])["failing"]
    assert "full" in reason or "No space left on device" in reason
    ballast.unlink()
    client.acked(last)
    assert page.receive("heartbeat", lambda beat: beat["failing"] is None)
    assert server.stop() == 0
    database = open_database(on_small_disk)
    with database.reader.begin() as connection:
        assert list(issues(connection)) == []
    if database.dialect == "sqlite":
        check(small_disk / "tocsin.db")
    stored = StoreReader(database).records("r1", limit=100_000)
    np.testing.assert_array_equal(stored.columns["loss"].v, loss)
    database.close()


@LONG
def test_slow_commits_slow_clients_down(url: URL, run_server: Start, dial: Any, eventually: Any) -> None:
    """With slow commits memory is bounded: acks wait, flushes get larger, health reports it, all data
    arrives."""
    limit, size, batches, clients = 400_000, 1000, 40, 3
    address = url.render_as_string(hide_password=False)
    server = run_server(database_url=address, backlog_bytes=limit, limit_records_per_s=10**9)
    sockets = [dial(server.base, f"r{no}", server.token) for no in range(clients)]
    enough = threading.Event()

    @event.listens_for(server.services.database.engine, "commit")
    def delayed(_connection: Any) -> None:
        enough.wait(1.0)  # the delay is what is tested; no machine is too slow to send enough meanwhile

    senders = [threading.Thread(target=flood, args=(socket, size, batches)) for socket in sockets]
    for sender in senders:
        sender.start()
    seen: list[dict[str, Any]] = []
    eventually(lambda: looked(server, seen)["pressed"], "pressure")
    for _ in range(50):
        looked(server, seen)
    assert max(reported["backlog_bytes"] for reported in seen) < limit + clients * size * 50
    assert max(reported["flush_ms"] for reported in seen) == server.settings.flush_ms_max
    assert max(reported["tick_ms"] for reported in seen) == WIDEST_TICK_MS
    enough.set()
    for socket in sockets:
        socket.acked(size * batches - 1)
    for sender in senders:
        sender.join(60)
    slowed = [received for socket in sockets for received in socket.received if isinstance(received, Ack)]
    assert max(ack.flush_ms or 0 for ack in slowed) > server.settings.flush_ms
    for no in range(clients):
        assert server.services.reader.records(f"r{no}", limit=10**6).n == size * batches


def looked(server: Any, seen: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the current health, and append it to ``seen``."""
    seen.append(server.health())
    return seen[-1]


def flood(socket: Any, size: int, batches: int) -> None:
    """Send batches as fast as the server reads them."""
    for no in range(batches):
        socket.train(range(no * size, no * size + size), loss=[0.5] * size)
