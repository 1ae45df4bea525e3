"""After a restart, runs are restored in the background: no client waits for another run."""

from __future__ import annotations

import math
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from tocsin_server.runs import registry, watchdog

Start = Callable[..., Any]
Dial = Callable[..., Any]
LATER_NS = 60_000_000_000


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """While it is not set, the run "slow" cannot be read."""
    go, recall = threading.Event(), registry.load_engine
    go.set()

    def recalling(reader: Any, facts: Any, *begin: Any) -> Any:
        if facts.id == "slow":
            assert go.wait(60)
        return recall(reader, facts, *begin)

    monkeypatch.setattr(registry, "load_engine", recalling)
    return go


def leave(run_server: Start, dial: Dial) -> None:
    """Run a server that ends while two runs are active; an alert of "slow" fires."""
    server = run_server()
    slow, quick = (dial(server.base, name, server.token) for name in ("slow", "quick"))
    quick.acked(quick.train([0, 1], loss=[1.0, 2.0]))
    slow.acked(slow.train([0, 1], loss=[1.0, math.nan]))
    server.stop()


def test_a_trainer_does_not_wait_for_the_runs_of_others(
    run_server: Start, dial: Dial, tmp_path: Path, held: threading.Event, eventually: Any
) -> None:
    """While one run cannot be read, another is acked; the fleet lists both, and no alert has changed."""
    leave(run_server, dial)
    held.clear()
    server = run_server(tmp_path, restored=False)
    client = dial(server.base, "quick", server.token)
    client.acked(client.train([2], loss=[1.0]))
    rows = {row["id"]: row["alerts"] for row in server.rows()}
    assert rows == {"slow": 1, "quick": 0}
    server.call(lambda: watchdog.look(server.pipeline, server.pipeline.clock() + LATER_NS))
    (alert,) = server.services.reader.alerts("slow")
    assert alert.alert.state == "firing"
    assert server.health()["restoring"] == 1
    held.set()
    eventually(lambda: not server.pipeline.restorer.waiting, "the other run to be restored")
    assert [one.rule for one in server.pipeline.registry.active["slow"].tracker.open()] == ["nonfinite-loss"]


def test_a_run_that_is_restored_late_can_become_lost(
    run_server: Start, dial: Dial, tmp_path: Path, held: threading.Event, eventually: Any
) -> None:
    """It is not evaluated before it is restored; then it is lost if its client is."""
    leave(run_server, dial)
    held.clear()
    server = run_server(tmp_path, restored=False)
    held.set()
    eventually(lambda: not server.pipeline.restorer.waiting, "the runs to be restored")
    server.call(lambda: watchdog.look(server.pipeline, server.pipeline.clock() + LATER_NS))
    states = {row["id"]: row["state"] for row in server.rows()}
    assert states == {"slow": "lost", "quick": "lost"}


def test_a_client_restores_its_own_run(
    run_server: Start, dial: Dial, tmp_path: Path, held: threading.Event, eventually: Any
) -> None:
    """If its handshake and the restoration coincide, the run is loaded once and continues."""
    leave(run_server, dial)
    held.clear()
    server = run_server(tmp_path, restored=False)
    threading.Timer(0.2, held.set).start()
    client = dial(server.base, "slow", server.token)
    assert client.welcome.seq == 1
    client.acked(client.train([2], loss=[1.0]))
    eventually(lambda: not server.pipeline.restorer.waiting, "the runs to be restored")
    assert server.pipeline.registry.active["slow"].connected


def test_a_database_outage_leaves_out_no_run(
    run_server: Start, dial: Dial, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, eventually: Any
) -> None:
    """A run whose first read fails is read again, even if its client never returns."""
    leave(run_server, dial)
    recall, failures = registry.load_engine, iter([True, True])

    def failing(reader: Any, facts: Any, *begin: Any) -> Any:
        if next(failures, False):
            raise OperationalError("SELECT", {}, Exception("server closed the connection"))
        return recall(reader, facts, *begin)

    monkeypatch.setattr(registry, "load_engine", failing)
    server = run_server(tmp_path, restored=False)
    eventually(lambda: not server.pipeline.restorer.waiting, "the runs to be restored")
    assert sorted(server.pipeline.registry.active) == ["quick", "slow"]


def test_a_run_with_a_damaged_batch_continues(
    run_server: Start, dial: Dial, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Unreadable parts are logged and left out; new records are stored."""
    leave(run_server, dial)
    with closing(sqlite3.connect(tmp_path / "tocsin.db")) as database:
        database.execute("UPDATE tail SET body = x'00ff' WHERE run_id = 'slow'")
        database.commit()
    server = run_server(tmp_path)
    client = dial(server.base, "slow", server.token)
    client.acked(client.train([2, 3], loss=[1.0, 2.0]))
    facts = server.services.reader.run("slow")
    assert [(who.records, who.last_step) for who in facts.writers] == [(2, 3)]
    assert "Run slow, writer 0, records 0 to 1 of the tail: the records are damaged" in caplog.text
