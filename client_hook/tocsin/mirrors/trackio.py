"""Mirror Trackio: ``trackio.log`` and ``run.log``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .feed import Row, follow
from .write_back import LEVELS, Note, Targets


def install(trackio: Any) -> None:
    """Mirror the runs of Trackio."""
    follow("trackio", trackio.Run, "log", _row)


def _row(run: Any, metrics: Mapping[str, Any], step: Any = None, *_: Any, **__: Any) -> Iterable[Row]:
    _runs.add(run)
    return [Row(metrics, step)]


def _write(run: Any, note: Note) -> None:
    """Send an alert of Trackio if it fires."""
    if note.fires and hasattr(run, "alert"):
        import sys

        level = getattr(sys.modules["trackio"].AlertLevel, LEVELS[note.severity])
        run.alert(note.title, note.text, level, step=note.step)


_runs = Targets("trackio", _write)
