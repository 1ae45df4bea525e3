"""One server at a time for a database, under any of its names, on both databases."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.engine import URL

from tests.server.conftest import error_text
from tocsin_server.app.serve import sole_server
from tocsin_server.core.errors import StartError
from tocsin_server.core.settings import Settings
from tocsin_server.store import ownership
from tocsin_server.store.database import HardLinksError, WriteGate, open_database
from tocsin_server.store.ownership import PostgresLock, sole_on_file

Start = Callable[..., Any]
Run = Callable[..., Any]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait for a lock that is not released."""
    monkeypatch.setattr(ownership, "WAIT_S", 0.2)
    monkeypatch.setattr(ownership, "RETRY_S", 0.05)


def names_of(file: Path) -> dict[str, Path]:
    """Return other names of the same file."""
    folder = file.parent
    (folder / "link.db").symlink_to(file)
    (folder / "chain.db").symlink_to("link.db")
    (folder / "elsewhere").symlink_to(folder)
    (folder / "sub").mkdir()
    return {
        "link": folder / "link.db",
        "chain": folder / "chain.db",
        "folder": folder / "elsewhere" / file.name,
        "dots": folder / "sub" / ".." / file.name,
    }


@pytest.mark.parametrize("there", [True, False], ids=["there", "not made yet"])
def test_a_file_has_one_lock_by_all_its_names(tmp_path: Path, there: bool) -> None:
    """Symbolic links, chains of them, linked folders and dots."""
    file = tmp_path / "tocsin.db"
    if there:
        file.touch()
    for name in names_of(file).values():
        with sole_on_file(file), pytest.raises(StartError, match="in use"), sole_on_file(name):
            pass
        with sole_on_file(name), pytest.raises(StartError, match="in use"), sole_on_file(file):
            pass


def test_files_that_differ_in_their_ending_are_two(tmp_path: Path) -> None:
    """Each has a separate lock."""
    with sole_on_file(tmp_path / "a.db"), sole_on_file(tmp_path / "a.sqlite"):
        assert {each.name for each in tmp_path.glob("*.lock")} == {"a.db.lock", "a.sqlite.lock"}


@pytest.mark.parametrize("use", [sole_on_file, lambda file: open_database(f"sqlite:///{file}")])
def test_a_file_with_several_hard_links_is_rejected(tmp_path: Path, use: Callable[..., Any]) -> None:
    """Under either name, because SQLite would use two logs. The error says how to find the other name."""
    file, other = tmp_path / "tocsin.db", tmp_path / "other.db"
    file.touch()
    os.link(file, other)
    for name in (file, other):
        with pytest.raises(HardLinksError, match=r"2 names.*-samefile"):
            use(name).__enter__()
    other.unlink()
    open_database(f"sqlite:///{file}").close()


@pytest.fixture
def postgres(own_postgres: Any) -> Iterator[URL]:
    """An empty database; tests may end its sessions."""
    return own_postgres.new_database()  # type: ignore[no-any-return]


@pytest.fixture
def locked() -> Iterator[Callable[..., PostgresLock]]:
    """``locked(url)``: acquire a lock, released at the end."""
    held: list[PostgresLock] = []

    def take(url: URL) -> PostgresLock:
        lock = PostgresLock(url, "the database")
        held.append(lock)
        lock.take()
        return lock

    yield take
    for lock in held:
        lock.release()


def end_sessions(url: URL) -> None:
    """End the lock's connection, as an administrator, a failover or a firewall does."""
    engine = create_engine(url)
    with engine.connect() as connection:
        query = (
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name LIKE 'tocsin-server,%' AND datname = current_database()"
        )
        assert connection.execute(text(query)).all()
    engine.dispose()


@pytest.mark.postgres
def test_a_schema_has_one_lock(postgres: URL, locked: Any) -> None:
    """The error names the owner; another schema of the same database belongs to another server."""
    locked(postgres)
    with pytest.raises(StartError, match=r"in use by another tocsin-server \(tocsin-server, process \d+ on "):
        locked(postgres)
    engine = create_engine(postgres)
    with engine.begin() as connection:
        connection.execute(text("CREATE SCHEMA other"))
    engine.dispose()
    locked(postgres.update_query_dict({"options": "-csearch_path=other"}))


class Noting(WriteGate):
    """Record each change that it is notified of."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[str] = []

    def close(self, reason: str) -> None:
        super().close(reason)
        self.events.append(reason)

    def open(self) -> None:
        if self.closed is not None:
            self.events.append("open")
        super().open()


@pytest.mark.postgres
def test_a_lost_lock_is_acquired_again(postgres: URL, locked: Any, eventually: Any) -> None:
    """Meanwhile nothing is written."""
    lock, gate = locked(postgres), Noting()
    lock.monitor(gate, displaced=gate.events.append)
    end_sessions(postgres)
    eventually(lambda: gate.events[1:] == ["open"], "the lock to be lost and taken again")
    assert gate.events[0] == "the lock on the database was lost; the server is trying to get it back"
    with pytest.raises(StartError, match="in use"):
        locked(postgres)


@pytest.mark.postgres
def test_a_crash_of_postgres_displaces_no_server(own_postgres: Any, locked: Any, eventually: Any) -> None:
    """The lock is acquired again, because no other server held it meanwhile."""
    url = own_postgres.new_database()
    lock, gate = locked(url), Noting()
    lock.monitor(gate, displaced=gate.events.append)
    own_postgres.stop_at_once()
    own_postgres.start_again()
    eventually(lambda: len(gate.events) == 2, "the lock to be lost and taken again")
    assert gate.events[1] == "open"


@pytest.mark.postgres
def test_a_server_that_was_replaced_ends(
    postgres: URL, locked: Any, eventually: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another server had the lock meanwhile, so what is in memory is outdated."""
    first, gate = locked(postgres), WriteGate()
    reported: list[str] = []
    held_up = threading.Event()
    connect = PostgresLock._connect
    monkeypatch.setattr(first, "_connect", lambda: held_up.wait(60) and connect(first))
    first.monitor(gate, displaced=reported.append)
    end_sessions(postgres)
    eventually(lambda: gate.closed, "the loss to be noticed")
    second = PostgresLock(postgres, "the database")
    second.take()
    second.release()
    held_up.set()
    eventually(lambda: reported, "the first one to be notified")
    assert "another tocsin-server has taken over" in reported[0]
    assert gate.closed == reported[0]


@pytest.mark.postgres
def test_an_own_session_that_lingers_is_ended(postgres: URL, locked: Any) -> None:
    """After a network failure, Postgres may hold the lock for a dead connection."""
    lock = locked(postgres)
    lingering, lock._connection = lock._connection, None
    assert not lock._connect()
    lock._end_own_ghost()
    lock._disconnect()
    lock.take()
    lingering.invalidate()
    lingering.close()


@pytest.mark.usefixtures("url")
def test_nothing_is_written_while_the_gate_is_closed(
    run_server: Start, dial: Any, make_hello: Any, eventually: Any
) -> None:
    """Records are not acknowledged, health and readiness report it, and they are stored later."""
    server = run_server()
    client = dial(server.base, "r1", server.token)
    server.services.database.gate.close("the lock is lost")
    client.train([0], loss=[1.0])
    ready = f"{server.base}/api/v1/ready"
    eventually(lambda: httpx.get(ready).status_code == 503, "readiness to say so")
    late = dial(server.base)
    late.send(make_hello("r2", server.token))
    assert late.ended() == 4503
    assert server.services.reader.records("r1", limit=10).n == 0
    assert server.health()["failing"] == "the lock is lost"
    server.services.database.gate.open()
    client.acked(0)
    assert httpx.get(ready).status_code == 200


def test_a_second_server_is_rejected(
    start_server: Start, url: URL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real command is rejected on both databases; SIGKILL releases the lock."""
    first = start_server(data_dir=tmp_path)
    settings = Settings(data_dir=tmp_path, database_url=url.render_as_string(hide_password=False))
    with pytest.raises(StartError, match="in use by another tocsin-server"), sole_server(settings):
        pass
    first.stop(signal.SIGKILL)
    wait = 0.2 if url.get_backend_name() == "sqlite" else 60.0  # Postgres has to notice it
    monkeypatch.setattr(ownership, "WAIT_S", wait)
    with sole_server(settings):
        pass


def test_a_restore_over_a_live_database_is_rejected(tocsin: Run, tmp_path: Path) -> None:
    """By its own name, by a symbolic link and by a hard link; other commands work while the server runs."""
    assert tocsin("migrate").returncode == 0
    assert tocsin("backup", "copy.db").returncode == 0
    file = tmp_path / "tocsin.db"
    Path("link.db").symlink_to(file)
    before = file.stat().st_ino
    with sole_on_file(file):
        for name in ("tocsin.db", "link.db"):
            refused = error_text(tocsin("restore", "copy.db", "--database-url", f"sqlite:///{name}"))
            assert "in use by another tocsin-server" in refused
        assert tocsin("token", "create", "x", "--scope", "read").returncode == 0
        assert tocsin("migrate").returncode == 0
        os.link(file, "hard.db")
        assert "2 names" in error_text(tocsin("restore", "copy.db", "--database-url", "sqlite:///hard.db"))
        create = ("token", "create", "y", "--scope", "read")
        assert "2 names" in error_text(tocsin(*create, "--database-url", "sqlite:///hard.db"))
    assert file.stat().st_ino == before


def test_a_restore_by_a_link_keeps_the_link(tocsin: Run, tmp_path: Path) -> None:
    """The target of the link is replaced."""
    (tmp_path / "disk").mkdir()
    Path("tocsin.db").symlink_to(tmp_path / "disk" / "real.db")
    assert tocsin("migrate").returncode == 0
    assert tocsin("backup", "copy.db").returncode == 0
    assert tocsin("restore", "copy.db").returncode == 0
    assert Path("tocsin.db").is_symlink()
    assert len(list((tmp_path / "disk").glob("real.db.before-restore-*"))) == 1
