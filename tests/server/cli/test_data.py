"""The data commands as a user runs them, with and without a running server."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.engine import URL

from tests.server.conftest import error_text
from tests.server.store.whole_run import rows_of, write_run_to
from tocsin_server.core.settings import Settings
from tocsin_server.runs.registry import RunRegistry
from tocsin_server.store.database import migrate, open_database
from tocsin_server.store.reader import StoreReader

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """A SQLite database with a complete run, in the default place."""
    file = tmp_path / "tocsin.db"
    fill(f"sqlite:///{file}", "r1")
    return file


def fill(url: URL | str, *run_ids: str) -> None:
    migrate(url)
    database = open_database(url)
    for run_id in run_ids:
        write_run_to(database, run_id)
    database.close()


def rows(url: URL | str, run_id: str) -> int:
    database = open_database(url)
    count = sum(rows_of(database, run_id).values())
    database.close()
    return count


@pytest.mark.both_databases
def test_a_project_is_exported_deleted_and_imported(tocsin: Run, url: URL, tmp_path: Path) -> None:
    """This works on both databases; a second import does nothing."""
    fill(url, "r1", "r2")
    at = ("--database-url", url.render_as_string(hide_password=False))
    out = str(tmp_path / "out")
    done = tocsin("export", "--project", "deblur", "--out", out, *at)
    assert done.stderr.count("4142 records, 2 events, 2 alerts") == 2
    assert "Deleted 2 runs." in tocsin("delete", "--project", "deblur", "--yes", *at).stdout
    assert rows(url, "r1") == rows(url, "r2") == 0
    assert tocsin("import", out, *at).stdout.count("4142 records") == 2
    assert tocsin("import", out, *at).stdout.count("nothing to do") == 2


def test_records_are_exported_to_the_given_file(tocsin: Run, whole: Path, tmp_path: Path) -> None:
    """To a file, in every format; the count is printed."""
    for form in ("jsonl", "csv", "parquet"):
        done = tocsin("export", "r1", "--format", form, "-o", str(tmp_path / form))
        assert done.stderr.splitlines()[-1] == "4,142 records"
        assert (tmp_path / form).stat().st_size > 10_000


def test_a_folder_that_could_not_be_imported_is_not_written(tocsin: Run, whole: Path, tmp_path: Path) -> None:
    """Only JSON Lines can be imported; the error names the other way to get the format."""
    for form in ("csv", "parquet"):
        done = tocsin("export", "r1", "--format", form, "--out", str(tmp_path / "out"))
        assert f"Export the records alone with --format {form} --output FILE" in error_text(done)
    assert not (tmp_path / "out").exists()


def test_a_missing_pyarrow_is_reported(tocsin: Run, whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error contains the command that installs pyarrow."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert "pip install 'tocsin-server[parquet]'" in error_text(tocsin("export", "r1", "--format", "parquet"))


def test_a_running_server_removes_the_rows(
    tocsin: Run, whole: Path, start_server: Callable[..., Any], eventually: Callable[..., Any]
) -> None:
    """An import while it runs is on its page; a restore is rejected."""
    server = start_server()
    assert tocsin("export", "r1", "--out", "out").returncode == 0
    assert "the running server removes the rows" in tocsin("delete", "r1", "--yes").stdout
    eventually(lambda: rows(f"sqlite:///{whole}", "r1") == 0, "the rows to go")
    assert "4142 records" in tocsin("import", "out").stdout
    assert [row["id"] for row in server.get("/runs")["items"]] == ["r1"]
    assert tocsin("backup", "copy.db").returncode == 0
    assert "is in use by another tocsin-server" in error_text(tocsin("restore", "copy.db"))


def test_a_backup_is_restored(tocsin: Run, whole: Path, tmp_path: Path) -> None:
    """The run is restored after its deletion; the replaced file is kept."""
    before = rows(f"sqlite:///{whole}", "r1")
    assert "checked" in tocsin("backup", "copy.db").stdout
    assert tocsin("delete", "r1", "--yes").returncode == 0
    done = tocsin("restore", "copy.db")
    assert "The old one is" in done.stdout
    assert rows(f"sqlite:///{whole}", "r1") == before
    assert len(list(tmp_path.glob("tocsin.db.before-restore-*"))) == 1


def test_prune_reports_first_and_then_deletes(tocsin: Run, whole: Path, tmp_path: Path) -> None:
    """Only runs past their retention; without a retention none."""
    assert "0 runs to delete." in tocsin("prune").stdout
    (tmp_path / "tocsin.toml").write_text("retention_days = 30\n[retention_projects]\nkept = 0\n")
    done = tocsin("prune", "--dry-run")
    assert "r1" in done.stdout
    assert "1 run to delete." in done.stdout
    assert rows(f"sqlite:///{whole}", "r1") > 0
    assert "Deleted 1 run." in tocsin("prune").stdout
    assert rows(f"sqlite:///{whole}", "r1") == 0


def test_data_commands_print_json(tocsin: Run, whole: Path, tmp_path: Path) -> None:
    (tmp_path / "tocsin.toml").write_text("retention_days = 30\n")
    pruned = json.loads(tocsin("prune", "--dry-run", "--json").stdout)
    assert (pruned["dry_run"], [run["id"] for run in pruned["runs"]]) == (True, ["r1"])
    (damage,) = json.loads(tocsin("check", "--json").stdout)["damages"]
    assert (damage["table"], damage["column"]) == ("run", "summary")
    assert json.loads(tocsin("backup", "copy.db", "--json").stdout)["issues"] == []
    tocsin("export", "r1", "--out", "out")
    (again,) = json.loads(tocsin("import", "out", "--json").stdout)
    assert (again["run"], again["was_there"]) == ("r1", True)
    assert json.loads(tocsin("prune", "--json").stdout)["dry_run"] is False


def test_an_upgrade_is_rehearsed(tocsin: Run, tmp_path: Path) -> None:
    """The revision of the database is unchanged."""
    migrate(f"sqlite:///{tmp_path / 'tocsin.db'}", "initial")
    done = tocsin("migrate", "--rehearse")
    assert "Revision initial -> " in done.stdout
    assert "Integrity: ok" in done.stdout
    with closing(sqlite3.connect(tmp_path / "tocsin.db")) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [("initial",)]


def test_an_import_removes_what_an_interrupted_one_left(tocsin: Run, whole: Path) -> None:
    """If no server runs, nothing else can be importing."""
    assert tocsin("export", "r1", "--out", "out").returncode == 0
    with closing(sqlite3.connect(whole)) as connection:
        connection.execute("DELETE FROM run")
        connection.execute("INSERT INTO deletion VALUES ('r1', 9000000000000000000, NULL)")
        connection.commit()
    done = tocsin("import", "out/r1")
    assert "4142 records" in done.stdout, done.stderr


def test_an_imported_run_is_not_evaluated(tocsin: Run, whole: Path) -> None:
    """A run that had not ended is lost in the copy: the server shows it without evaluating it."""
    with closing(sqlite3.connect(whole)) as connection:
        connection.execute("UPDATE run SET state = 'running', ended_ns = NULL")
        connection.commit()
    tocsin("export", "r1", "--out", "out")
    tocsin("delete", "r1", "--yes")
    tocsin("import", "out")
    database = open_database(f"sqlite:///{whole}")
    registry = RunRegistry(Settings(), StoreReader(database))
    assert asyncio.run(registry.seed()) == []
    database.close()
    assert registry.active == {}
    assert [summary.metadata.state for summary in registry.newest_first()] == ["lost"]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["export", "nothing"], "There is no run"),
        (["export"], "Pass either RUN or --project"),
        (["export", "--project", "p"], "Pass --out FOLDER"),
        (["delete", "r1"], "Pass --yes"),
        (["delete", "nothing", "--yes"], "There is no run"),
        (["delete", "--project", "nothing", "--yes"], "has no runs"),
        (["delete", "--yes"], "Pass either RUN or --project"),
        (["import", "nowhere"], "expected a folder that `tocsin-server export --out` wrote"),
        (["backup", "tocsin.db"], "already exists"),
        (["restore", "nowhere.db"], "There is no backup at nowhere.db"),
        (["backup", "x", "--database-url", "postgresql://me:secret@db/t"], "pg_dump --format=custom"),
        (["restore", "x", "--database-url", "postgresql://me:secret@db/t"], "pg_restore"),
        (["migrate", "--rehearse", "--database-url", "postgresql://me:secret@db/t"], "createdb"),
        (["backup", "x", "--data-dir", "empty"], "no such file"),
    ],
)
def test_impossible_requests_fail(tocsin: Run, tmp_path: Path, command: list[str], words: str) -> None:
    """One message, exit status 2; no password is shown."""
    migrate(f"sqlite:///{tmp_path / 'tocsin.db'}")
    if command[:2] == ["delete", "r1"]:
        fill(f"sqlite:///{tmp_path / 'tocsin.db'}", "r1")
    message = error_text(tocsin(*command))
    assert words in message
    assert "secret" not in message
