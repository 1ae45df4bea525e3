"""Databases and folders of MLflow and Trackio, as the real trackers wrote them: see ``tracked/write.py``."""

from __future__ import annotations

import math
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.hook.importers.tracked.write import NONFINITE, STEPS
from tocsin.importers import LogRecord, UnreadableSource
from tocsin.importers.folder import runs_in

FIXTURES = Path(__file__).with_name("tracked")
KINDS = ("mlflow.db", "mlruns", "speech.db")


def restored(kind: str, folder: Path) -> Path:
    """Return a copy of what a tracker wrote."""
    if kind == "mlruns":
        return Path(shutil.copytree(FIXTURES / kind, folder / kind))
    dump = {"mlflow.db": "mlflow.sql", "speech.db": "trackio.sql"}[kind]
    with closing(sqlite3.connect(folder / kind)) as database:
        database.executescript((FIXTURES / dump).read_text())
    return folder / kind


def records(run: Any) -> list[LogRecord]:
    """Return the records of a run."""
    return [item for item in run.items() if isinstance(item, LogRecord)]


@pytest.fixture(params=KINDS)
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """What one of the trackers wrote: two runs of 24 steps."""
    return restored(request.param, tmp_path)


def by_name(path: Path) -> dict[str, Any]:
    """Return the runs that are found, by name."""
    found: list[Any] = list(runs_in(path))
    return {run.about.name: run for run in found}


def test_each_run_has_name_project_and_settings(stored: Path) -> None:
    """As the tracker shows them, found in a folder too."""
    for root in (stored, stored.parent):
        runs = by_name(root)
        assert sorted(runs) == ["bad", "good"]
        assert {run.about.project for run in runs.values()} == {"speech"}
        assert float(runs["bad"].about.config["lr"]) == 0.1
        assert runs["bad"].about.config["model"] == "tiny"


def test_every_value_is_read_at_its_step(stored: Path) -> None:
    """Under tocsin's names; NaN and infinities survive; the text "1.5" is no number."""
    read = records(by_name(stored)["bad"])
    assert [record.step for record in read] == list(range(STEPS))
    for record in read:
        values = {"loss": 2.0 / (record.step + 1), "grad_norm": 1.0}
        if record.step == NONFINITE:
            assert math.isnan(record.values["loss"])
            values = {"loss": record.values["loss"], "grad_norm": -math.inf}
        evaluated = {"val/accuracy": record.step / 100} if "val/accuracy" in record.values else {}
        assert record.values == {**values, **evaluated}


def test_a_run_keeps_its_identity_when_it_grows(tmp_path: Path) -> None:
    """Rows that are added come after those before."""
    path = restored("speech.db", tmp_path)
    before = by_name(path)["good"]
    old = records(before)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(
            "INSERT INTO metrics (run_id, timestamp, run_name, step, metrics) SELECT run_id, timestamp, "
            "run_name, 24, '{\"train/loss\": 0.01}' FROM metrics WHERE run_name = 'good' LIMIT 1"
        )
    after = by_name(path)["good"]
    assert after.about.key == before.about.key
    *same, added = records(after)
    assert same == old
    assert (added.step, added.values) == (24, {"loss": 0.01})


def test_a_deleted_run_of_mlflow_is_left_out(tmp_path: Path) -> None:
    """In both stores."""
    path = restored("mlflow.db", tmp_path)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE runs SET lifecycle_stage = 'deleted' WHERE name = 'bad'")
    meta = next(
        file for file in restored("mlruns", tmp_path).glob("*/*/meta.yaml") if "bad" in file.read_text()
    )
    meta.write_text(meta.read_text().replace("stage: active", "stage: deleted"))
    assert [run.about.name for run in runs_in(tmp_path) if not isinstance(run, UnreadableSource)] == [
        "good"
    ] * 2


def test_runs_without_steps_are_numbered(tmp_path: Path) -> None:
    """MLflow stores a missing step as 0."""
    path = restored("mlflow.db", tmp_path)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE metrics SET step = 0")
    assert [record.step for record in records(by_name(path)["good"])] == list(range(STEPS))


@pytest.mark.parametrize("kind", ["mlflow.db", "speech.db"])
def test_a_truncated_database_is_named(kind: str, tmp_path: Path) -> None:
    """With the reason, and other runs of the folder are read."""
    path = restored(kind, tmp_path)
    path.write_bytes(path.read_bytes()[:5000])
    restored("mlruns", tmp_path)
    found = list(runs_in(tmp_path))
    (damaged,) = [run for run in found if isinstance(run, UnreadableSource)]
    assert damaged.path == path
    assert "malformed" in damaged.why
    assert len(found) == 3


def test_rows_that_are_no_metrics_are_counted(tmp_path: Path) -> None:
    """Named by their place; the others are read."""
    path = restored("speech.db", tmp_path)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE metrics SET metrics = '[[' WHERE step = 3")
    run = by_name(path)["good"]
    assert len(records(run)) == STEPS - 1
    assert [(item.line, item.why) for item in run.counts.first_unread] == [
        (4, "a JSON object of metrics was expected")
    ]


def test_a_database_is_not_changed(stored: Path) -> None:
    """No log of SQLite is left beside it."""
    if stored.is_dir():
        return
    before = stored.read_bytes()
    list(by_name(stored)["good"].items())
    assert stored.read_bytes() == before
    assert [path.name for path in stored.parent.iterdir()] == [stored.name]
