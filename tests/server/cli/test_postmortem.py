"""``tocsin-server postmortem``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from tests.server.store.whole_run import write_run_to
from tocsin_server.store.database import migrate, open_database


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data directory with the run r1, which has an incident."""
    url = f"sqlite:///{tmp_path / 'tocsin.db'}"
    migrate(url)
    database = open_database(url)
    write_run_to(database, "r1")
    with database.engine.begin() as connection:
        connection.execute(text("UPDATE alert SET incident = fingerprint || '.' || episode"))
    database.close()
    return tmp_path


def test_the_postmortem_of_a_run_is_written_to_a_folder(tocsin: Any, folder: Path) -> None:
    done = tocsin("postmortem", "r1", "-o", "out")
    assert done.returncode == 0, done.stderr
    assert (folder / "out" / "postmortem.md").read_text().startswith("# ")
    assert [Path(line).is_file() for line in done.stdout.split()] == [True] * len(done.stdout.split())


def test_an_unknown_incident_is_an_error(tocsin: Any, folder: Path) -> None:
    done = tocsin("postmortem", "nothing")
    assert (done.returncode, "There is no run 'nothing'" in done.stderr) == (2, True)
