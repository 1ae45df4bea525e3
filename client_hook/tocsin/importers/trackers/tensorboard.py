"""TensorBoard: each folder with event files is a run, as TensorBoard shows it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .. import Log, open_log
from ..formats.tensorboard import FORMAT
from ..items import About, Parsed, Unread
from ..settings_file import scalars
from ..source import BROKEN, TrackedRun, reason
from ..tracker import Claim, Folder, Tracker

SETTINGS = "hparams.yaml"
"""Lightning's ``TensorBoardLogger`` writes it beside the event files."""


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
    about = FORMAT.about(paths[0]) or About()
    about = About(config=scalars(folder.path / SETTINGS), key=about.key)
    run = TrackedRun(folder.path, FORMAT.name, about, lambda: events_of(paths))
    return Claim([run], {*names, SETTINGS})


def _is_readable(path: Path) -> bool:
    try:
        return open_log(path).format is FORMAT
    except (ValueError, OSError):
        return False


TRACKER = Tracker("TensorBoard", 20, _find)
