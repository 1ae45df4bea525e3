"""Aim: a repository ``.aim``. Names, experiments and tags are in ``run_metadata.sqlite``, values in RocksDB.

Reading RocksDB needs the package aimrocks, which is installed with Aim.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..aim_storage import items, key_of
from ..database import rows
from ..items import About, Parsed
from ..points import SeriesByStep, joined
from ..source import BROKEN, TrackedRun, UnreadableSource, reason
from ..tracker import Claim, Folder, Found, Tracker

REPOSITORY, METADATA = ".aim", "run_metadata.sqlite"
OWN = "__"
"""Beginning of the names of what Aim itself adds: system metrics, and the environment with its secrets."""
MISSING = (
    "the package aimrocks is missing. Install it (pip install aimrocks), or import where Aim is installed"
)
MOST_SETTINGS = 1000
_RUNS = """SELECT r.hash, r.name, e.name, (SELECT group_concat(t.name, char(0)) FROM run_tag
           JOIN tag t ON t.id = tag_id WHERE run_id = r.id)
           FROM run r LEFT JOIN experiment e ON e.id = r.experiment_id ORDER BY r.created_at, r.id"""


def _find(folder: Folder) -> Claim | None:
    is_inside = folder.path.name == REPOSITORY
    place = folder.path if is_inside else folder.path / REPOSITORY
    if not (place / METADATA).is_file() or not (place / "seqs" / "chunks").is_dir():
        return None
    names = {*folder.files, *folder.folders} if is_inside else set()
    if find_spec("aimrocks") is None:
        return Claim([UnreadableSource(place, MISSING)], names)
    runs: list[Found] = []
    try:
        for run in list(rows(place / METADATA, _RUNS)):
            runs += _run(place, *run)
    except BROKEN as error:
        runs.append(UnreadableSource(place / METADATA, reason(error)))
    return Claim(runs, names)


def _run(place: Path, run: str, name: Any, experiment: Any, tags: Any) -> Iterator[Found]:
    """Yield the run if it has logged something."""
    path = place / "seqs" / "chunks" / run
    if not path.is_dir():
        return
    try:
        config = _settings(place, run)
    except BROKEN as error:
        yield UnreadableSource(path, reason(error))
        return
    named = str(name or run)
    about = About(named, str(experiment or ""), config, tuple((tags or "").split("\0")), f"aim:{run}")
    about = about if tags else About(named, about.project, config, key=about.key)
    yield TrackedRun(path, "Aim repository", about, partial(_read, place, run))


def _settings(place: Path, run: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path, value in items(place / "meta" / "chunks" / run, key_of("meta", "chunks", run, "attrs")):
        name = "/".join(map(str, path))
        if value is not None and not name.startswith(OWN) and len(found) < MOST_SETTINGS:
            found[name.removeprefix("hparams/")] = value
    return found


def _contexts(place: Path, run: str) -> dict[int, list[str]]:
    """Return the words of each context, such as ``train``, which go before the names of its series."""
    words: dict[int, list[str]] = {}
    for path, value in items(place / "meta" / "chunks" / run, key_of("meta", "chunks", run, "contexts")):
        if len(path) > 1 and value is not None:
            words.setdefault(int(path[0]), []).append(str(value))
    return words


def _read(place: Path, run: str) -> Iterator[Parsed]:
    contexts = _contexts(place, run)
    gathered = SeriesByStep()
    for prefix in (("seqs", "v2", "chunks", run), ("seqs", "chunks", run)):
        for (context, name), fields in _series(place / "seqs" / "chunks" / run, key_of(*prefix)):
            if not name.startswith(OWN):
                _gather(gathered, "/".join([*contexts.get(context, ()), name]), fields)
    yield from joined(gathered.points())


def _series(database: Path, prefix: bytes) -> Iterator[tuple[tuple[int, str], dict[str, dict[Any, Any]]]]:
    """Yield each series of a run: its columns, such as ``val`` and ``time``, by the index of the value."""
    newest: tuple[int, str] | None = None
    fields: dict[str, dict[Any, Any]] = {}
    for path, value in items(database, prefix):
        if len(path) != 4:
            continue
        context, name, field, index = path
        if newest is not None and newest != (context, name):
            yield newest, fields
            fields = {}
        newest = (int(context), str(name))
        fields.setdefault(str(field), {})[index] = value
    if newest is not None:
        yield newest, fields


def _gather(gathered: SeriesByStep, name: str, fields: dict[str, dict[Any, Any]]) -> None:
    """Add the numbers of a series. Old versions have no column of steps: the index is the step."""
    steps, times = fields.get("step", {}), fields.get("time", {})
    for index, value in fields.get("val", {}).items():
        if isinstance(value, (bool, int, float)):
            time_s = times.get(index)
            known_s = float(time_s) if isinstance(time_s, (int, float)) else 0.0
            gathered.add(name, float(steps.get(index, index)), float(value), known_s)


TRACKER = Tracker("Aim", 4, _find)
