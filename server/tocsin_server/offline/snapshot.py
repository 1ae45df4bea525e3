"""An incident snapshot: the data around the onset of one alert, as one JSON document. Pure code.

``{"tocsin_snapshot": 1, "run", "alerts", "window", "events", "batches"}``. Finite numbers and infinities are
exact; every NaN is the default one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tocsin_server.core import exact_json
from tocsin_server.core.errors import TocsinError
from tocsin_server.core.models import F64, Alert, AlertState, Column, RecordBatch, RunEvent, Severity, Writer
from tocsin_server.store.alert_rows import diagnosis_of
from tocsin_server.store.results import StoredRun

VERSION = 1
KEY = "tocsin_snapshot"
REACH_STEPS = 200
"""Steps kept before and after the onset (the diagnosis uses 60 records before it)."""
REACH_RECORDS = 60
"""Approximate minimum of records before and after the onset, if records are further apart than steps."""


class IncidentSnapshotError(TocsinError):
    """The document is not a valid incident snapshot."""


@dataclass(frozen=True, slots=True)
class Window:
    """Steps that an incident snapshot covers, both ends included."""

    onset_step: int
    first_step: int
    last_step: int


@dataclass(frozen=True)
class IncidentSnapshot:
    """A parsed incident snapshot. Its own alert is the first of ``alerts``."""

    run: Mapping[str, Any]
    alerts: list[Alert]
    window: Window
    whole: bool
    items: list[RecordBatch | RunEvent]
    """Batches and events in order of arrival."""


def window_of(onset_step: int, steps: int, records: int) -> Window:
    """Return the window around ``onset_step`` for a run with ``records`` over a span of ``steps``."""
    spacing = steps / (records - 1) if records > 1 else 1.0
    reach = max(REACH_STEPS, int(np.ceil(REACH_RECORDS * spacing)))
    return Window(onset_step, max(onset_step - reach, -(1 << 63)), min(onset_step + reach, (1 << 63) - 1))


def overlaps(alert: Alert, window: Window) -> bool:
    """Return whether an alert fired and its episode overlaps the window."""
    start = alert.onset_step if alert.onset_step is not None else alert.fired_step
    if alert.fired_ns is None or start is None or start > window.last_step:
        return False
    return alert.resolved_step is None or alert.resolved_step >= window.first_step


# Writing


def document(
    stored: StoredRun,
    alerts: Sequence[Alert],
    window: Window,
    whole: bool,
    batches: Iterable[RecordBatch],
    events: Iterable[RunEvent],
) -> bytes:
    """Return the complete file; ``whole``: no more records will arrive in the window."""
    head = {
        KEY: VERSION,
        "run": _run_item(stored),
        "alerts": [asdict(alert) for alert in alerts],
        "window": asdict(window) | {"whole": whole},
    }
    parts = [exact_json.dumps(head).encode("utf-8", "replace")[:-1]]
    parts += [b',"events":[', *_joined(map(_event_item, events))]
    parts += [b'],"batches":[', *_joined(map(_batch_item, batches)), b"]}"]
    return b"".join(parts)


def _run_item(stored: StoredRun) -> dict[str, Any]:
    reported = stored.environment or {}
    return {
        "id": stored.id,
        "project": stored.project,
        "name": stored.name,
        "state": stored.state.value,
        "world_size": stored.world_size,
        "planned_steps": stored.planned_steps,
        "host": stored.host,
        "config": stored.config,
        "error": stored.error,
        "environment": {name: value for name, value in reported.items() if name != "imported"},
    }


def _joined(items: Iterable[dict[str, Any]]) -> Iterator[bytes]:
    for place, item in enumerate(items):
        yield b",\n" if place else b"\n"
        yield exact_json.dumps(item).encode("utf-8", "replace")


def _who(writer: Writer) -> dict[str, int]:
    return {"writer": writer.writer_no, "attempt": writer.attempt_no, "rank": writer.rank}


def _event_item(event: RunEvent) -> dict[str, Any]:
    own = {"no": event.no, "kind": event.kind, "step": event.step, "time_ns": event.time_ns}
    return {"arrival": event.arrival, **_who(event.writer), **own, "data": event.data}


def _batch_item(batch: RecordBatch) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    for name, column in batch.columns.items():
        values = _numbers(column.v)
        columns[name] = values if column.at is None else {"at": column.at.tolist(), "v": values}
    own = {"seq": batch.seq, "step": batch.step.tolist(), "time_ns": batch.time_ns.tolist()}
    return {"arrival": batch.arrival, **_who(batch.writer), **own, "columns": columns}


def _numbers(values: F64) -> list[float | str]:
    """Return floats [n]; non-finite ones by name."""
    if np.isfinite(values).all():
        return values.tolist()  # type: ignore[no-any-return]
    return [exact_json.number(value) for value in values.tolist()]


# Reading


def is_incident_snapshot(beginning: bytes) -> bool:
    """Return whether a file that starts with ``beginning`` is an incident snapshot."""
    return beginning.lstrip().startswith(b'{"' + KEY.encode() + b'"')


def read(text: bytes) -> IncidentSnapshot:
    """Parse an incident snapshot.

    Raises:
        IncidentSnapshotError: ``text`` is not a valid incident snapshot.
    """
    try:
        reported = exact_json.loads(text)
        if reported[KEY] != VERSION:
            raise IncidentSnapshotError(
                f"The incident snapshot has version {reported[KEY]!r}. "
                f"This version of tocsin-server reads version {VERSION}."
            )
        window = dict(reported["window"])
        whole = bool(window.pop("whole"))
        run_id = str(reported["run"]["id"])
        items: list[RecordBatch | RunEvent] = [_event(run_id, item) for item in reported["events"]]
        items += [_batch(run_id, item) for item in reported["batches"]]
        alerts = [_alert(item) for item in reported["alerts"]]
        items.sort(key=lambda item: item.arrival)
        return IncidentSnapshot(reported["run"], alerts, Window(**window), whole, items)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise IncidentSnapshotError(
            f"This is not a valid incident snapshot ({error!r}). Download it again."[:300]
        ) from error


def _writer(run_id: str, item: Mapping[str, Any]) -> Writer:
    return Writer(run_id, int(item["writer"]), int(item["attempt"]), int(item["rank"]))


def _event(run_id: str, item: Mapping[str, Any]) -> RunEvent:
    step = item["step"]
    return RunEvent(
        _writer(run_id, item),
        int(item["arrival"]),
        int(item["no"]),
        str(item["kind"]),
        int(item["time_ns"]),
        None if step is None else int(step),
        dict(item["data"]),
    )


def _batch(run_id: str, item: Mapping[str, Any]) -> RecordBatch:
    step = np.array(item["step"], dtype=np.int64)
    columns = {str(name): _column(values, len(step)) for name, values in item["columns"].items()}
    return RecordBatch(
        _writer(run_id, item),
        int(item["arrival"]),
        int(item["seq"]),
        len(step),
        step,
        np.array(item["time_ns"], dtype=np.int64),
        columns,
    )


def _column(reported: Any, n: int) -> Column:
    sparse = isinstance(reported, Mapping)
    numbers = reported["v"] if sparse else reported
    values = np.array([exact_json.parse_number(value) for value in numbers], dtype=np.float64)
    at = np.array(reported["at"], dtype=np.uint32) if sparse else None
    if len(values) != (n if at is None else len(at)) or (at is not None and len(at) and int(at.max()) >= n):
        raise ValueError(f"a column of {len(values)} values for {n} records")
    return Column(values, at)


def _alert(item: Mapping[str, Any]) -> Alert:
    return Alert(
        **dict(item)
        | {
            "severity": Severity(item["severity"]),
            "state": AlertState(item["state"]),
            "diagnosis": diagnosis_of(item["diagnosis"]),
        }
    )
