"""``tocsin export``: real DuckDB reads what a real server stored."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import duckdb
import pytest

import tocsin
from tests.conftest import Tower
from tests.hook.read.conftest import begun
from tests.import_graph import ROOT
from tocsin.cli.commands import main
from tocsin.read.folder_export import export_runs

PAGE = (ROOT / "docs" / "how-to" / "query.md").read_text("utf-8")
LOSS = "FROM metrics_long WHERE run_name = 'trained' AND series = 'loss'"


@pytest.fixture(scope="module")
def folder(shared_tower: Tower, trained: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Exported are the trained run, one with another series, and one without records."""
    folder = tmp_path_factory.mktemp("export") / "it's"
    for name in ("other", "empty"):
        run = begun(shared_tower, name, tmp_path_factory.mktemp("spool"), tags=["lake"])
        if name == "other":
            run.step(loss=1.0, psnr=30.0)
        run.finish()
    with tocsin.Api(shared_tower.base, shared_tower.token) as api:
        for text in ("tag:lake", f"id:{trained}"):
            assert all(each.is_new for each in export_runs(api, folder, text))
        list(export_runs(api, folder, "project:read"))
    return folder


def rows(folder: Path, query: str) -> list[Any]:
    with duckdb.connect() as database:
        database.execute((folder / "views.sql").read_text("utf-8"))
        return database.execute(query).fetchall()


def test_every_value_is_there_exactly(folder: Path) -> None:
    values = [value for (value,) in rows(folder, f"SELECT value {LOSS} ORDER BY step LIMIT 6")]
    assert math.isnan(values[0])
    assert str(values[1:]) == "[inf, -inf, -0.0, 5e-324, 0.1]"
    counts = rows(folder, f"SELECT count(*), sum(nan), sum(pinf), sum(ninf), max(max) {LOSS}")
    assert counts == [(3000, 1, 1, 1, 1 / 6)]


def test_a_missing_value_has_no_row(folder: Path) -> None:
    found = rows(folder, "SELECT count(*), max(step) FROM metrics_long WHERE series = 'val/x'")
    assert found == [(300, 2990)]
    assert rows(folder, "SELECT run_name, value FROM metrics_long WHERE series = 'psnr'") == [("other", 30.0)]


def test_runs_alerts_and_incidents_are_there(folder: Path, trained: str) -> None:
    query = "SELECT name, tags, config ->> '$.model.name', year(created_at) > 2000 FROM runs"
    assert rows(folder, f"{query} WHERE id = '{trained}'") == [("trained", ["fp16"], "swin", True)]
    assert ("nonfinite-loss",) in rows(folder, f"SELECT rule FROM alerts WHERE run_id = '{trained}'")
    assert rows(folder, "SELECT count(*) > 0 FROM incidents") == [(True,)]


def test_an_acknowledgement_has_its_author_and_time(
    trained: str, shared_tower: Tower, tmp_path: Path
) -> None:
    with tocsin.Api(shared_tower.base, shared_tower.token) as api:
        incident = next(iter(api.incidents(trained)))
        api.acknowledge_incident(incident.id, "seen")
        ack = api.incident(incident.id).ack
        list(export_runs(api, tmp_path, f"id:{trained}"))
    assert ack is not None
    assert ack.by
    for table, id in (("incidents", incident.id), ("alerts", incident.alerts[0].id)):
        query = f"SELECT acknowledged_by, epoch_us(acknowledged_at) FROM {table} WHERE id = '{id}'"
        ((by, at_us),) = rows(tmp_path, query)
        assert (by, at_us / 1000) == (ack.by, pytest.approx(ack.at_ms, rel=0, abs=0.01))


def test_a_run_that_ended_is_written_once(
    folder: Path, trained: str, shared_tower: Tower, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = ["--url", shared_tower.base, "--token", shared_tower.token, "--filter", f"id:{trained}"]
    assert main(["export", str(tmp_path), *place]) == main(["export", str(tmp_path), *place]) == 0
    out = capsys.readouterr().out
    assert "1 run, 1 written" in out
    assert "1 run, 0 written" in out


def test_the_queries_of_the_cookbook_run_on_the_export(folder: Path) -> None:
    """Except those about views and columns that only the database has."""
    found = re.findall(r'```(?:sql|duckdb) title="(.+?)"\n(.+?);\n```', PAGE, flags=re.DOTALL)
    assert len(found) > 9
    for title, query in found:
        if not re.search("metrics_latest|nonfinite_values", query):
            assert isinstance(rows(folder, query), list), title
