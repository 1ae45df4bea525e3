"""MLflow's file store: ``mlruns/<experiment>/<run>`` with ``meta.yaml``, ``metrics`` and ``params``.

Each line of a file in ``metrics`` is ``<Unix ms> <value> <step>``; old versions wrote no step.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..items import About, Parsed, Unread
from ..points import Numbered, Point, joined
from ..settings_file import scalars
from ..source import TrackedRun
from ..tracker import Claim, Folder, Tracker
from ..values import text_number

META, METRICS, PARAMS, TAGS = "meta.yaml", "metrics", "params", "tags"
PARAM_BYTES = 8 << 10
"""Maximum bytes of a parameter that are read; MLflow allows 6000 characters."""
FILES = 400
"""Maximum number of metrics of a run that are read, and files that are open at the same time."""


def _find(folder: Folder) -> Claim | None:
    if META not in folder.files or METRICS not in folder.folders:
        return None
    meta = scalars(folder.path / META)
    run = str(meta.get("run_id") or meta.get("run_uuid") or "")
    if not run:
        return None
    names = {*folder.files, *folder.folders}
    if meta.get("lifecycle_stage", "active") != "active":
        return Claim([], names)
    name = _text(folder.path / TAGS / "mlflow.runName") or str(meta.get("run_name") or run)
    experiment = str(scalars(folder.path.parent / META).get("name") or "")
    about = About(name, experiment, _params(folder.path / PARAMS), key=f"mlflow:{run}")
    read = TrackedRun(folder.path, "MLflow files", about, lambda: _read(folder.path / METRICS))
    return Claim([read], names)


def _params(folder: Path) -> dict[str, Any]:
    paths = sorted(path for path in folder.rglob("*") if path.is_file())[:FILES]
    return {path.relative_to(folder).as_posix(): _text(path) for path in paths}


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(PARAM_BYTES).decode("utf-8", "replace").strip()
    except OSError:
        return ""


def _read(folder: Path) -> Iterator[Parsed]:
    paths = sorted(path for path in folder.rglob("*") if path.is_file())[:FILES]
    has_steps = any(point.step for path in paths for point in _file(path, folder) if isinstance(point, Point))
    found = heapq.merge(*(_file(path, folder) for path in paths), key=_order)
    numbered = Numbered()
    return joined(point if has_steps or isinstance(point, Unread) else numbered.of(point) for point in found)


def _order(point: Point | Unread) -> tuple[int, float]:
    """Order by time, then by step: many steps fit into a millisecond."""
    return (point.time_ns or 0, point.step) if isinstance(point, Point) else (0, 0.0)


def _file(path: Path, folder: Path) -> Iterator[Point | Unread]:
    """Yield the points of a metric in the order of its file."""
    name = path.relative_to(folder).as_posix()
    with path.open("rb") as file:
        for line, data in enumerate(file, 1):
            point = _point(line, name, data[:200].split())
            yield (
                Unread(line, f"{METRICS}/{name}: time, value and step were expected")
                if point is None
                else point
            )


def _point(line: int, name: str, words: list[bytes]) -> Point | None:
    numbers = [text_number(word.decode("utf-8", "replace")) for word in words]
    if len(numbers) not in (2, 3, 5) or numbers[0] is None or numbers[1] is None:
        return None
    step = numbers[2] if len(numbers) > 2 else 0.0
    if step is None or not float(step).is_integer() or not 0 <= numbers[0] < 9.2e12:
        return None
    return Point(line, name, float(step), float(numbers[1]), int(numbers[0]) * 1_000_000)


TRACKER = Tracker("MLflow", 3, _find)
