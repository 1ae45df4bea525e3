"""MLflow's SQLite store, ``mlflow.db``: each active run of each experiment."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from ..database import claimed, columns, rows
from ..items import About, Parsed, Unread
from ..points import Numbered, Point, joined
from ..source import TrackedRun
from ..tracker import Claim, Folder, Tracker

LARGEST = 1.7976931348623157e308
"""What MLflow stores for an infinity."""
_RUNS = """SELECT r.run_uuid, r.name, e.name FROM runs r LEFT JOIN experiments e USING (experiment_id)
           WHERE r.lifecycle_stage = 'active' ORDER BY r.start_time, r.run_uuid"""
_NAMES = "SELECT value FROM tags WHERE run_uuid = ? AND key = 'mlflow.runName'"
_PARAMS = "SELECT key, value FROM params WHERE run_uuid = ? ORDER BY key"
_STEPS = "SELECT 1 FROM metrics WHERE run_uuid = ? AND step != 0 LIMIT 1"
_METRICS = """SELECT rowid, key, step, value, is_nan, timestamp FROM metrics
              WHERE run_uuid = ? ORDER BY timestamp, rowid"""


def _find(folder: Folder) -> Claim | None:
    return claimed(folder, _runs)


def _runs(path: Path) -> Iterator[TrackedRun] | None:
    if not {"run_uuid", "is_nan"} <= columns(path, "metrics"):
        return None
    return (_run(path, *row) for row in list(rows(path, _RUNS)))


def _run(path: Path, run: str, name: Any, experiment: Any) -> TrackedRun:
    named = name or next((str(value) for (value,) in rows(path, _NAMES, run)), str(run))
    config = {str(key): value for key, value in rows(path, _PARAMS, run)}
    about = About(str(named), str(experiment or ""), config, key=f"mlflow:{run}")
    return TrackedRun(path, "MLflow database", about, partial(_read, path, str(run)))


def _read(path: Path, run: str) -> Iterator[Parsed]:
    has_steps = any(True for _ in rows(path, _STEPS, run))
    return joined(_points(path, run, has_steps))


def _points(path: Path, run: str, has_steps: bool) -> Iterator[Point | Unread]:
    numbered = Numbered()
    for line, key, step, value, is_nan, time_ms in rows(path, _METRICS, run):
        if not isinstance(value, (int, float)) or not isinstance(step, int):
            yield Unread(line, f"metric {str(key)[:100]!r}: a number was expected")
            continue
        number = math.nan if is_nan else float(value)
        number = math.copysign(math.inf, number) if abs(number) >= LARGEST else number
        time_ns = time_ms * 1_000_000 if isinstance(time_ms, int) and 0 <= time_ms < 9.2e12 else None
        point = Point(line, str(key), float(step), number, time_ns)
        yield point if has_steps else numbered.of(point)


TRACKER = Tracker("MLflow", 2, _find)
