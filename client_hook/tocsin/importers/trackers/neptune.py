"""Neptune: what neptune-exporter writes, ``<project>/<run>_part_<n>.parquet`` with a row for each value.

Reading Parquet needs the package pyarrow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..items import About, Parsed
from ..points import SeriesByStep, joined
from ..source import TrackedRun, UnreadableSource
from ..tracker import Claim, Folder, Found, Tracker

_PART = re.compile(r"(.{1,400}-[0-9a-f]{16})_part_(\d{1,9})\.parquet")
"""The name of a run is followed by a digest of it."""
SERIES = "float_series"
SETTINGS = ("float", "int", "string", "bool")
SYSTEM = ("sys/", "monitoring/", "runtime/", "scripts/", "source_code/")
"""Beginnings of the names of what Neptune itself adds."""
ROWS_AT_ONCE = 1 << 16
MISSING = "the package pyarrow is missing. Install it: pip install pyarrow"


def _find(folder: Folder) -> Claim | None:
    parts: dict[str, list[tuple[int, Path]]] = {}
    for name in folder.files:
        if found := _PART.fullmatch(name):
            parts.setdefault(found[1], []).append((int(found[2]), folder.path / name))
    if not parts:
        return None
    runs: list[Found] = []
    for _, numbered in sorted(parts.items()):
        paths = [path for _, path in sorted(numbered)]
        runs.append(_run(paths) if find_spec("pyarrow") else UnreadableSource(paths[0], MISSING))
    return Claim(runs, {path.name for numbered in parts.values() for _, path in numbered})


def _run(paths: Sequence[Path]) -> Found:
    project = run = ""
    config: dict[str, Any] = {}
    known: dict[str, Any] = {}
    tags: list[str] = []
    try:
        for row in _rows(
            paths, "project_id", "run_id", *(f"{kind}_value" for kind in (*SETTINGS, "string_set"))
        ):
            project, run, name, kind = (
                row["project_id"],
                row["run_id"],
                row["attribute_path"],
                row["attribute_type"],
            )
            if kind == "string_set" and name == "sys/tags":
                tags = [str(tag) for tag in row["string_set_value"] or ()]
            elif kind in SETTINGS:
                into = known if name.startswith(SYSTEM) else config
                into[name.removeprefix("parameters/")] = row[f"{kind}_value"]
    except OSError as error:
        return UnreadableSource(paths[0], str(error))
    named = str(known.get("sys/name") or known.get("sys/custom_run_id") or run)
    about = About(named, project.rpartition("/")[2], config, tuple(tags), f"neptune:{project}:{run}")
    return TrackedRun(paths[0], "Neptune export", about, partial(_read, paths))


def _read(paths: Sequence[Path]) -> Iterator[Parsed]:
    gathered = SeriesByStep()
    for row in _rows(paths, "step", "float_value", "timestamp"):
        if row["attribute_type"] != SERIES or row["attribute_path"].startswith(SYSTEM):
            continue
        if row["step"] is not None and row["float_value"] is not None:
            time_s = (row["timestamp"] or 0) / 1e3
            gathered.add(row["attribute_path"], row["step"], row["float_value"], time_s)
    yield from joined(gathered.points())


def _rows(paths: Sequence[Path], *columns: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of all parts with their path and type; steps are floats, times are Unix milliseconds.

    Raises:
        OSError: A part is damaged, or is no export of Neptune.
    """
    import pyarrow
    from pyarrow import parquet

    converted = {"step": pyarrow.float64(), "timestamp": pyarrow.int64()}
    wanted = ["attribute_path", "attribute_type", *columns]
    for path in paths:
        try:
            with parquet.ParquetFile(path) as file:
                for batch in file.iter_batches(ROWS_AT_ONCE, columns=wanted):
                    lists = {
                        name: batch.column(name)
                        .cast(converted.get(name, batch.column(name).type))
                        .to_pylist()
                        for name in wanted
                    }
                    for values in zip(*lists.values(), strict=True):
                        yield dict(zip(wanted, values, strict=True))
        except (pyarrow.ArrowException, KeyError) as error:
            raise OSError(f"not a readable Neptune export: {error}") from error


TRACKER = Tracker("Neptune", 6, _find)
