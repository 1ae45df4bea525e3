"""Trackio: one SQLite database for each project, ``~/.cache/huggingface/trackio/<project>.db``.

Values are JSON; Trackio writes non-finite numbers as ``"NaN"``, ``"Infinity"`` and ``"-Infinity"``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from ..database import claimed, columns, rows
from ..fields import flat
from ..items import About, Parsed, Row, Unread
from ..source import TrackedRun
from ..tracker import Claim, Folder, Tracker
from ..values import number

_WORDS = ("NaN", "Infinity", "-Infinity")


def _find(folder: Folder) -> Claim | None:
    return claimed(folder, _runs)


def _runs(path: Path) -> Iterator[TrackedRun] | None:
    """Return the runs. Versions before ``run_id`` identify a run by its name."""
    known = columns(path, "metrics")
    if not {"run_name", "step", "metrics"} <= known:
        return None
    column = "run_id" if "run_id" in known else "run_name"
    query = f"SELECT {column}, min(run_name), min(id) FROM metrics GROUP BY {column} ORDER BY 3"  # noqa: S608
    return (_run(path, column, run, name) for run, name, _ in list(rows(path, query)))


def _run(path: Path, column: str, run: str, name: Any) -> TrackedRun:
    about = About(str(name), path.stem, _config(path, column, run), key=f"trackio:{path.stem}:{run}")
    return TrackedRun(path, "Trackio database", about, partial(_read, path, column, run))


def _config(path: Path, column: str, run: str) -> dict[str, Any]:
    if column not in columns(path, "configs"):
        return {}
    found = next(rows(path, f"SELECT config FROM configs WHERE {column} = ?", run), ("{}",))  # noqa: S608
    config = _loaded(found[0]) or {}
    return {name: value for name, value in config.items() if not name.startswith("_")}


def _read(path: Path, column: str, run: str) -> Iterator[Parsed]:
    query = f"SELECT id, step, timestamp, metrics FROM metrics WHERE {column} = ? ORDER BY id"  # noqa: S608
    for line, step, time, text in rows(path, query, run):
        logged = _loaded(text)
        if logged is None or not isinstance(step, int):
            yield Unread(line, "a JSON object of metrics was expected")
            continue
        values = {
            name: known for name, value in flat(logged).items() if (known := _number(value)) is not None
        }
        if values:
            yield Row(line, values, step=float(step), time_ns=_time_ns(time), binary=True)


def _number(value: Any) -> float | None:
    """Return a number as it was logged; other text is no number, even if it looks like one."""
    return None if isinstance(value, str) and value not in _WORDS else number(value)


def _loaded(text: Any) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _time_ns(text: Any) -> int | None:
    try:
        return max(int(datetime.fromisoformat(str(text)).timestamp() * 1e9), 0)
    except (ValueError, OverflowError):
        return None


TRACKER = Tracker("Trackio", 1, _find)
