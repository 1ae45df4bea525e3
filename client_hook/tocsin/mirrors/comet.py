"""Mirror Comet: ``experiment.log_metric`` and ``log_metrics``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .feed import Row, flat, follow
from .write_back import Note, Targets


def install(comet_ml: Any) -> None:
    """Mirror the experiments of Comet."""
    follow("comet", comet_ml.Experiment, "log_metric", _metric)
    follow("comet", comet_ml.Experiment, "log_metrics", _metrics)


def _metric(experiment: Any, name: Any, value: Any, step: Any = None, *_: Any, **__: Any) -> Iterable[Row]:
    return _metrics(experiment, {name: value}, None, step)


def _metrics(
    experiment: Any, dic: Mapping[Any, Any], prefix: Any = None, step: Any = None, *_: Any, **__: Any
) -> Iterable[Row]:
    """Return the values; without a step, that of ``experiment.set_step``."""
    _experiments.add(experiment)
    step = getattr(experiment, "curr_step", None) if step is None else step
    return [Row({f"{prefix}_{name}" if prefix else name: value for name, value in flat(dic)}, step)]


def _write(experiment: Any, note: Note) -> None:
    """Write the state of the run and of the alert to the other values of the experiment."""
    values = {
        "status": note.status,
        f"alert/{note.rule}": note.line,
        "url": note.url,
        "incident": note.incident_url,
    }
    for name, value in values.items():
        if value:
            experiment.log_other(f"tocsin/{name}", value)
    if note.fires:
        experiment.add_tag(f"tocsin-{note.severity}")


_experiments = Targets("comet", _write)
