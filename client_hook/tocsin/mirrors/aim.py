"""Mirror Aim: ``run.track``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .feed import Row, follow
from .write_back import Note, Targets


def install(aim: Any) -> None:
    """Mirror the runs of Aim."""
    follow("aim", aim.Run, "track", _row)


def _row(
    run: Any,
    value: Any,
    name: Any = None,
    step: Any = None,
    epoch: Any = None,
    *_: Any,
    context: Any = None,
    **__: Any,
) -> Iterable[Row]:
    """Return the values under their names, after those of the context: ``val/loss`` for ``subset="val"``."""
    _runs.add(run)
    values = value if isinstance(value, Mapping) else {name: value}
    words = context.values() if isinstance(context, Mapping) else ()
    return [Row({"/".join(map(str, (*words, one))): number for one, number in values.items()}, step)]


def _write(run: Any, note: Note) -> None:
    """Write an alert to the log of the run if it fires, and keep the state among its parameters.

    A closed run, which no longer has its resources, accepts neither.
    """
    if getattr(run, "_resources", run) is None:
        return
    log = {"critical": "log_error", "warning": "log_warning"}.get(note.severity, "log_info")
    if note.fires and hasattr(run, log):
        getattr(run, log)(f"{note.title}: {note.text}")
    values = {"status": note.status, "alerts": note.count, "last_alert": f"{note.rule}: {note.line}"}
    run["tocsin"] = {**values, "url": note.url, "incident": note.incident_url}


_runs = Targets("aim", _write)
