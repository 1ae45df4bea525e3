"""An upgrade is tested on a copy, and the database is unchanged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url
from sqlalchemy.engine import URL

from tests.server.store.whole_run import write_run
from tocsin_server.store.backup import BackupError, revisions
from tocsin_server.store.database import Database, migrate, open_database
from tocsin_server.store.migration_dry_run import rehearse
from tocsin_server.store.writer import StoreWriter


@pytest.fixture
def url(tmp_path: Path) -> URL:
    """Only SQLite databases are copied."""
    return make_url(f"sqlite:///{tmp_path / 'tocsin.db'}")


@pytest.mark.parametrize("revision", revisions())
def test_each_earlier_revision_is_rehearsed(url: URL, tmp_path: Path, revision: str) -> None:
    """The report has both revisions; the file keeps its own, and no other file is left."""
    migrate(url, revision)
    database = open_database(url)
    with database.engine.begin() as connection:
        connection.exec_driver_sql("INSERT INTO project VALUES ('p', 1, '{}')")
    went = rehearse(database)
    with database.reader.begin() as connection:
        stays = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
    database.close()
    assert (went.before, went.after, stays) == (revision, revisions()[0], revision)
    assert (went.rows["project"], went.lost) == ((1, 1), [])
    assert not list(tmp_path.glob("tocsin-rehearsal-*"))


def test_a_full_database_is_rehearsed_beside_its_server(
    database: Database, store: StoreWriter, admit: Any, put: Any
) -> None:
    """While the writer uses it; every table keeps its rows."""
    write_run(database, store, admit, put)
    went = rehearse(database)
    assert not went.lost
    assert went.rows["chunk"][0] == went.rows["chunk"][1] != 0


def test_a_missing_database_is_reported(tmp_path: Path) -> None:
    """A missing file is not created."""
    database = open_database(f"sqlite:///{tmp_path / 'none.db'}")
    with pytest.raises(BackupError, match="There is no database"):
        rehearse(database)
    assert not (tmp_path / "none.db").exists()
