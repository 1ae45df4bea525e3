"""MLflow's SQLite store, ``mlflow.db``: each active run of each experiment."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from ..database import columns, is_database, rows
from ..items import About, Parsed, Unread
from ..points import Numbered, Point, joined
from ..source import BROKEN, TrackedRun, UnreadableSource, reason
from ..tracker import Claim, Folder, Found, Tracker

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
    runs: list[Found] = []
    names = set()
    for name in sorted(folder.files):
        path = folder.path / name
        if not is_database(path):
            continue
        try:
            if not {"run_uuid", "is_nan"} <= columns(path, "metrics"):
                continue
            runs += _runs(path)
        except BROKEN as error:
            runs.append(UnreadableSource(path, reason(error)))
        names.add(name)
    return Claim(runs, names) if names else None


def _runs(path: Path) -> Iterator[TrackedRun]:
    for run, name, experiment in list(rows(path, _RUNS)):
        named = name or next((str(value) for (value,) in rows(path, _NAMES, run)), str(run))
        config = {str(key): value for key, value in rows(path, _PARAMS, run)}
        about = About(str(named), str(experiment or ""), config, key=f"mlflow:{run}")
        yield TrackedRun(path, "MLflow database", about, partial(_read, path, str(run)))


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


TRACKER = Tracker("MLflow database", 2, _find)
