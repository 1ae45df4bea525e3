"""Mirror SwanLab: ``swanlab.log`` and ``run.log``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .feed import Row, follow
from .write_back import Note, Targets


def install(swanlab: Any) -> None:
    """Mirror the runs of SwanLab."""
    follow("swanlab", swanlab.Run, "log", _row)


def _row(run: Any, data: Mapping[str, Any], step: Any = None, *_: Any, **__: Any) -> Iterable[Row]:
    _runs.add(run)
    return [Row(data, step)]


def _write(run: Any, note: Note) -> None:
    """Keep the state in the configuration: a logged text would change the steps that SwanLab counts."""
    values = {"status": note.status, "alerts": note.count, "last_alert": f"{note.rule}: {note.line}"}
    run.config["tocsin"] = {**values, "url": note.url, "incident": note.incident_url}


_runs = Targets("swanlab", _write)
