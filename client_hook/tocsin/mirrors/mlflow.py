"""Mirror MLflow: ``mlflow.log_metric``, ``log_metrics``, autologging and ``MlflowClient``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .feed import Row, follow
from .write_back import Note, Targets

SYSTEM = "system/"
"""Beginning of the names of MLflow's system metrics. tocsin records its own."""
TEXT = 500
"""Maximum length of a tag. Older servers reject longer ones."""


def install(mlflow: Any) -> None:
    """Mirror ``MlflowClient``, through which everything else logs."""
    client = mlflow.tracking.client.MlflowClient
    follow("mlflow", client, "log_metric", _metric)
    follow("mlflow", client, "log_batch", _batch)


def _metric(
    client: Any,
    run_id: str,
    key: str,
    value: Any,
    timestamp: Any = None,
    step: Any = None,
    *_: Any,
    **__: Any,
) -> Iterable[Row]:
    _runs.add((client, run_id), run_id)
    return [Row({key: value}, _step(step))]


def _batch(client: Any, run_id: str, metrics: Iterable[Any] = (), *_: Any, **__: Any) -> Iterable[Row]:
    rows: dict[Any, dict[str, Any]] = {}
    for metric in metrics if isinstance(metrics, (list, tuple)) else ():
        if not metric.key.startswith(SYSTEM):
            rows.setdefault(_step(metric.step), {})[metric.key] = metric.value
    if rows:
        _runs.add((client, run_id), run_id)
    return [Row(values, step) for step, values in rows.items()]


def _step(step: Any) -> Any:
    """Return the step, or None for 0: MLflow stores 0 if the script gave none."""
    return step or None


def _write(run: tuple[Any, str], note: Note) -> None:
    """Set tags with the state of the run and of the alert."""
    client, run_id = run
    tags = {
        "status": note.status,
        f"alert.{note.rule}": note.line,
        "url": note.url,
        "incident": note.incident_url,
    }
    for name, value in tags.items():
        if value:
            client.set_tag(run_id, f"tocsin.{name}", value[:TEXT])


_runs = Targets("mlflow", _write, weak=False)
