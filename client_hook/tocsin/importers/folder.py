"""Find the runs of every known tracker, and all other logs, in a tree of folders."""

from __future__ import annotations

import heapq
import importlib
import os
import pkgutil
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from ..core.values import counted
from . import BROKEN, UnreadableLogError, known_formats, open_log, trackers
from .formats.key_values import FORMAT as KEY_VALUES
from .source import UnreadableSource, reason
from .tracker import Folder, Found, Tracker

LOG_SUFFIXES = {".log", ".txt", ".out", ".err", ""}
"""Suffixes of ``key=value`` logs in a folder. Other files, such as settings, have such lines too."""

MAYBE = {".log", ".out", ".err", ".json", ".jsonl", ".csv", ".tsv", ".db", ".wandb", ".swanlab"}
"""Suffixes of files that are mentioned if they are skipped; event files of TensorBoard are, too."""
MENTIONED = 3
"""Maximum number of skipped files that are named."""


def skipped_text(root: Path, skipped: Sequence[Path]) -> str:
    """Return a sentence that names the first files that are not training logs."""
    names = [str(one.relative_to(root)) for one in skipped[:MENTIONED]]
    more = len(skipped) - len(names)
    listed = ", ".join(names) + (f" and {more:,} more" if more else "")
    return f"{root}: {counted(len(skipped), 'file')} skipped, not recognized as training logs: {listed}"


def nothing_found(root: Path) -> str:
    """Return a sentence that says that a folder has no training log, and which kinds are known."""
    tools = ", ".join(sorted({one.name for one in known_trackers()}))
    formats = ", ".join(one.name for one in known_formats())
    where = f"{root}: no training log in this folder or its subfolders"
    return f"{where}. Known folders: {tools}. Known files: {formats}"


@lru_cache(maxsize=1)
def known_trackers() -> tuple[Tracker, ...]:
    """Return all trackers, in the order in which they are asked."""
    names = sorted(module.name for module in pkgutil.iter_modules(trackers.__path__))
    found = [importlib.import_module(f"{trackers.__name__}.{name}").TRACKER for name in names]
    return tuple(sorted(found, key=lambda tracker: tracker.order))


def runs_in(path: Path, skipped: list[Path] | None = None) -> Iterator[Found]:
    """Yield the runs in a file or a folder, sorted by path. Hidden folders and links are not followed.

    Files in a folder that are no log are skipped. A file that belongs to a tracker and cannot be read is
    yielded with the reason, and so are a folder or a log that cannot be opened and a single file of no known
    format.

    Args:
        path: The file or folder.
        skipped: Receives the skipped files that could be logs by their names.
    """
    skipped = [] if skipped is None else skipped
    if not path.is_dir():
        found = list(_claimed(Folder(path.parent, frozenset({path.name}), frozenset()))[0])
        yield from found or [_log(path)]
        return
    denied: list[OSError] = []
    for place, folders, files in os.walk(path, onerror=denied.append):
        folders.sort()
        folder = Folder(Path(place), frozenset(_visible(files)), frozenset(_visible(folders)))
        found, left = _claimed(folder)
        folders[:] = [name for name in folders if name in left.folders]
        paths = (folder.path / name for name in sorted(left.files))
        logs = (log for path in paths if (log := _log_in_folder(path, skipped)))  # opened one by one
        found.sort(key=_path)
        yield from heapq.merge(found, logs, key=_path)
    yield from (UnreadableSource(Path(error.filename), reason(error)) for error in denied)


def _path(run: Found) -> str:
    return str(run.path)


def name_in(root: Path, path: Path) -> str:
    """Return the name of a run without one: its path in the folder that was searched."""
    inner = path.resolve().relative_to(root.resolve()) if root.is_dir() else Path(path.name)
    stem = inner if path.is_dir() else inner.with_suffix("")
    return str(stem) if stem.name else root.resolve().name


def _visible(names: list[str]) -> Iterator[str]:
    return (name for name in names if not name.startswith("."))


def _claimed(folder: Folder) -> tuple[list[Found], Folder]:
    """Return the runs of trackers in ``folder``, and the folder without what belongs to them."""
    found: list[Found] = []
    for tracker in known_trackers():
        claim = tracker.find(folder)
        if claim is not None:
            found += claim.runs
            folder = Folder(folder.path, folder.files - claim.names, folder.folders - claim.names)
    return found, folder


def _log(path: Path) -> Found:
    try:
        return open_log(path)
    except UnreadableLogError as error:
        return UnreadableSource(path, str(error).removeprefix(f"{path}: "))
    except BROKEN as error:
        return UnreadableSource(path, reason(error))


def _log_in_folder(path: Path, skipped: list[Path]) -> Found | None:
    """Return the log at ``path``, or None if it is something else."""
    if not path.is_file():
        return None
    try:
        log = open_log(path)
    except UnreadableLogError as error:
        if Path(path.name.removesuffix(".gz")).suffix in MAYBE or "tfevents" in path.name:
            if isinstance(error.__cause__, PermissionError):
                return UnreadableSource(path, reason(error.__cause__))
            skipped.append(path)
        return None
    return None if log.format is KEY_VALUES and path.suffix not in LOG_SUFFIXES else log
