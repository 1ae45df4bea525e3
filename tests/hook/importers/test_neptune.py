"""Exports of Neptune, written in the schema of neptune-exporter: a row for each value."""

from __future__ import annotations

import hashlib
import math
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from tocsin.importers import LogRecord, UnreadableSource
from tocsin.importers.folder import runs_in
from tocsin.importers.trackers import neptune

SCHEMA = pa.schema(
    {
        "project_id": pa.string(),
        "run_id": pa.string(),
        "attribute_path": pa.string(),
        "attribute_type": pa.string(),
        "step": pa.decimal128(18, 6),
        "timestamp": pa.timestamp("ms", tz="UTC"),
        "int_value": pa.int64(),
        "float_value": pa.float64(),
        "string_value": pa.string(),
        "bool_value": pa.bool_(),
        "datetime_value": pa.timestamp("ms", tz="UTC"),
        "string_set_value": pa.list_(pa.string()),
    }
)
START = datetime(2026, 1, 2, tzinfo=UTC)
LOSSES = [2.0, 1.5, math.nan, math.inf, 0.25]


def part_of(folder: Path, run: str, number: int) -> Path:
    """Return the file of a part, as neptune-exporter names it."""
    digest = hashlib.blake2b(run.encode(), digest_size=8).hexdigest()
    return folder / f"{run}-{digest}_part_{number}.parquet"


def value(name: str, kind: str, given: Any = None, **more: Any) -> dict[str, Any]:
    """Return the row of a value."""
    row = dict.fromkeys(SCHEMA.names)
    return {
        **row,
        "attribute_path": name,
        "attribute_type": kind,
        **({} if given is None else {f"{kind}_value": given}),
        **more,
    }


def series(name: str, values: list[float], every: int = 1) -> list[dict[str, Any]]:
    """Return the rows of a series."""
    return [
        value(name, "float_series", step=Decimal(place * every), timestamp=START, float_value=each)
        for place, each in enumerate(values)
    ]


def write(path: Path, rows: list[dict[str, Any]], run: str = "RUN-1") -> None:
    """Write one part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [{**row, "project_id": "team/speech", "run_id": run} for row in rows]
    parquet.write_table(pa.Table.from_pylist(rows, SCHEMA), path)


@pytest.fixture
def export(tmp_path: Path) -> Path:
    """An export of a run in two parts."""
    write(
        part_of(tmp_path, "RUN-1", 0),
        [
            value("sys/name", "string", "swift owl"),
            value("sys/tags", "string_set", ["fp16"]),
            value("sys/running_time", "float", 12.5),
            value("parameters/lr", "float", 0.1),
            value("parameters/amp", "bool", given=True),
            *series("monitoring/cpu", [50.0]),
            *series("train/loss", LOSSES),
        ],
    )
    write(part_of(tmp_path, "RUN-1", 1), series("val/accuracy", [0.5, 0.75], every=2))
    return tmp_path


def test_all_parts_are_one_run_with_name_project_settings_and_tags(export: Path) -> None:
    (run,) = runs_in(export)
    assert not isinstance(run, UnreadableSource)
    assert (run.kind, run.about.name, run.about.project) == ("Neptune export", "swift owl", "speech")
    assert (run.about.config, run.about.tags) == ({"lr": 0.1, "amp": True}, ("fp16",))
    assert run.about.key == "neptune:team/speech:RUN-1"


def test_values_of_a_step_are_one_record_with_their_time(export: Path) -> None:
    (run,) = runs_in(export)
    assert not isinstance(run, UnreadableSource)
    records = [item for item in run.items() if isinstance(item, LogRecord)]
    assert [record.step for record in records] == [0, 1, 2, 3, 4]
    assert [str(record.values["loss"]) for record in records] == [str(loss) for loss in LOSSES]
    assert [record.values.get("val/accuracy") for record in records] == [0.5, None, 0.75, None, None]
    assert {record.time_ns for record in records} == {int(START.timestamp() * 1e9)}
    assert set(records[0].values) == {"loss", "val/accuracy"}


def test_a_damaged_part_is_named(export: Path) -> None:
    path = part_of(export, "RUN-2", 0)
    path.write_bytes(b"PAR1 and then nothing")
    parquet.write_table(pa.table({"a": [1]}), part_of(export, "RUN-3", 0))
    found = list(runs_in(export))
    damaged = [run for run in found if isinstance(run, UnreadableSource)]
    assert [run.path.name[:5] for run in damaged] == ["RUN-2", "RUN-3"]
    assert all("not a readable Neptune export" in run.why for run in damaged)


def test_without_pyarrow_the_reason_is_given(export: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neptune, "find_spec", lambda _name: None)
    (run,) = runs_in(export)
    assert isinstance(run, UnreadableSource)
    assert "pip install pyarrow" in run.why
