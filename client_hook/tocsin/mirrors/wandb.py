"""Mirror Weights & Biases: ``wandb.log`` and ``run.log``."""

from __future__ import annotations

import fnmatch
import weakref
from collections.abc import Iterable, MutableMapping
from typing import Any

from .feed import Row, flat, follow, is_number, whole_step
from .write_back import LEVELS, Note, Targets

_axes: MutableMapping[Any, dict[str, str]] = weakref.WeakKeyDictionary()
"""Run -> name or pattern of a metric -> the metric that counts its steps (``define_metric``)."""
_newest: MutableMapping[Any, dict[str, Any]] = weakref.WeakKeyDictionary()
"""Run -> the newest value of each metric that counts steps."""


def install(wandb: Any) -> None:
    """Mirror the runs of W&B."""
    cls = wandb.sdk.wandb_run.Run
    original = follow("wandb", cls, "log", _row)
    follow("wandb", cls, "define_metric", _metric)
    if getattr(wandb.log, "__func__", None) is original:  # ``wandb.init`` was called before
        wandb.log = wandb.log.__self__.log


def _metric(run: Any, name: str, step_metric: Any = None, *_: Any, **__: Any) -> Iterable[Row]:
    """Remember which metric counts the steps of a metric, or of those that a pattern matches."""
    if step_metric is not None:
        _axes.setdefault(run, {})[name] = str(getattr(step_metric, "name", step_metric))
    return ()


def _row(
    run: Any, data: Any, step: Any = None, commit: bool | None = None, *_: Any, **__: Any
) -> Iterable[Row]:
    """Return the values by step: that of ``step_metric``, or the given one."""
    _runs.add(run)
    values = {name: value for name, value in flat(data, ".") if is_number(value)}
    counted = int(run.step) - (1 if commit or (step is None and commit is None) else 0)
    axes = _axes.get(run)
    if not axes:
        return [Row(values, step, counted)]
    newest = _newest.setdefault(run, {})
    newest.update({name: values[name] for name in set(axes.values()) if name in values})
    rows: dict[Any, dict[str, Any]] = {}
    for name, value in values.items():
        axis = _axis_of(name, axes)
        at = None if axis is None else whole_step(newest.get(axis))
        rows.setdefault(step if at is None else at, {})[name] = value
    return [Row(row, at, counted) for at, row in rows.items()]


def _axis_of(name: str, axes: dict[str, str]) -> str | None:
    """Return the metric that counts the steps of a metric: its own, else that of the longest pattern."""
    if name in axes or name in axes.values():
        return axes.get(name, name)
    matching = [pattern for pattern in axes if fnmatch.fnmatchcase(name, pattern)]
    return axes[max(matching, key=len)] if matching else None


def _write(run: Any, note: Note) -> None:
    """Send a W&B alert if it fires, and keep the state of the run in its summary."""
    if getattr(run, "_is_finished", False):
        return
    if note.fires:
        run.alert(title=note.title, text=note.text, level=LEVELS[note.severity])
    summary = {"status": note.status, "alerts": note.count, "last_alert": f"{note.rule}: {note.line}"}
    summary |= {"url": note.url, "incident": note.incident_url}
    run.summary.update({f"tocsin/{name}": value for name, value in summary.items() if value != ""})


_runs = Targets("wandb", _write)
