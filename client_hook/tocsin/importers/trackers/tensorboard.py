"""TensorBoard: each folder with event files is a run, as TensorBoard shows it.

``SummaryWriter.add_hparams`` writes the settings of a run into a folder in it, whose name is the time. It is
no run: its settings are those of the run, and its metrics are the run's summary.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from .. import Log, open_log
from ..event_settings import settings_in
from ..formats.tensorboard import FORMAT
from ..items import About, Fact, Parsed, Row, Unread
from ..settings_file import scalars
from ..source import BROKEN, TrackedRun, reason
from ..tracker import Claim, Folder, Tracker

SETTINGS = "hparams.yaml"
"""Lightning's ``TensorBoardLogger`` writes it beside the event files."""

TIME = re.compile(r"1\d{9}\.\d{1,18}")
"""Name of a folder of ``add_hparams``."""


def is_event_file(name: str) -> bool:
    """Return whether a file of this name is an event file."""
    return "tfevents" in name and not name.endswith(".profile-empty")


def events_of(paths: list[Path]) -> Iterator[Parsed]:
    """Yield the rows of the event files of one run. A damaged file does not end the others."""
    for path in paths:
        try:
            for item in Log(path, FORMAT).rows():
                yield Unread(item.line, f"{path.name}: {item.why}") if isinstance(item, Unread) else item
        except BROKEN as error:
            yield Unread(0, f"{path.name}: {reason(error)}")


def _find(folder: Folder) -> Claim | None:
    names = sorted(name for name in folder.files if is_event_file(name))
    paths = [folder.path / name for name in names if _is_readable(folder.path / name)]
    if not paths:
        return None
    added = dict(_added(folder))
    config = scalars(folder.path / SETTINGS)
    for path in (*paths, *added.values()):
        config = (settings_in(path) or {}) | config
    key = (FORMAT.about(paths[0]) or About()).key

    def read() -> Iterator[Parsed]:
        yield from events_of(paths)
        yield from _summary(added.values())

    run = TrackedRun(folder.path, FORMAT.name, About(config=config, key=key), read)
    return Claim([run], {*names, *added, SETTINGS})


def _added(folder: Folder) -> Iterator[tuple[str, Path]]:
    """Yield the folders of ``add_hparams`` by name, with the event file of each."""
    for name in sorted(filter(TIME.fullmatch, folder.folders)):
        files = list((folder.path / name).iterdir())
        if len(files) == 1 and is_event_file(files[0].name) and settings_in(files[0]) is not None:
            yield name, files[0]


def _summary(paths: Iterable[Path]) -> Iterator[Fact]:
    """Yield the metrics that were passed to ``add_hparams``."""
    rows = (row for row in events_of(list(paths)) if isinstance(row, Row))
    if found := {name: value for row in rows for name, value in row.values.items()}:
        yield Fact(0, "environment", {"summary": found})


def _is_readable(path: Path) -> bool:
    try:
        return open_log(path).format is FORMAT
    except (ValueError, OSError):
        return False


TRACKER = Tracker("TensorBoard", 20, _find)
