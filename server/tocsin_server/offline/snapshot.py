"""An incident snapshot: the data around the onset of one alert, as one JSON document. Pure code.

``{"tocsin_snapshot": 1, "run", "alerts", "window", "events", "batches"}``. What can still change (the
run's metadata, the alerts) is the head; window, events and batches are the body, which is
stored compressed. Numbers keep every bit: floats as Python writes them, and a NaN with other bits than the
default as ``NaN(0x...)``.
"""

from __future__ import annotations

import gzip
import io
import re
import struct
import zlib
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
MOST_BYTES = 256 << 20
"""Maximum size of a decompressed body; protects against imported ones that expand without limit."""
USUAL_NAN = 0x7FF8_0000_0000_0000
_NAMED_NAN = re.compile(r"NaN\((0x[0-9a-f]{16})\)")


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


def frozen(window: Window, whole: bool, batches: Iterable[RecordBatch], events: Iterable[RunEvent]) -> bytes:
    """Return the compressed body; the same content gives the same bytes. ``whole``: it is complete."""
    head = exact_json.dumps({"window": asdict(window) | {"whole": whole}}).encode()
    parts = [head[1:-1], b',"events":[', *_joined(map(_event_item, events))]
    parts += [b'],"batches":[', *_joined(map(_batch_item, batches)), b"]"]
    return gzip.compress(b"".join(parts), compresslevel=6, mtime=0)


def document(stored: StoredRun, alerts: Sequence[Alert], body: bytes) -> bytes:
    """Return the complete file: the current head and the stored ``body``.

    Raises:
        IncidentSnapshotError: The body is damaged or too long.
    """
    head = {KEY: VERSION, "run": _run_item(stored), "alerts": [asdict(alert) for alert in alerts]}
    text = exact_json.dumps(head).encode("utf-8", "replace")
    return b"".join([text[:-1], b",", unpacked(body), b"}"])


def unpacked(body: bytes) -> bytes:
    """Return the text of a stored ``body``.

    Raises:
        IncidentSnapshotError: It is damaged or too long.
    """
    try:
        with gzip.open(io.BytesIO(body)) as file:
            text = file.read(MOST_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise IncidentSnapshotError(f"incident snapshot: expected what gzip can read, got {error}") from error
    if len(text) > MOST_BYTES:
        raise IncidentSnapshotError(f"incident snapshot: expected at most {MOST_BYTES} bytes, got more")
    return text


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
    bits = np.ascontiguousarray(values, dtype="<f8").view("<u8").tolist()
    return [_named(value, bit) for value, bit in zip(values.tolist(), bits, strict=True)]


def _named(value: float, bits: int) -> float | str:
    if value == value or bits == USUAL_NAN:
        return exact_json.number(value)
    return f"NaN(0x{bits:016x})"


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
                f"incident snapshot: expected version {VERSION}, got {reported[KEY]!r}"
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
            f"incident snapshot: expected what docs/how-to/export-import.md shows, got {error!r}"[:300]
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
    values = np.array([_bits(value) for value in (reported["v"] if sparse else reported)], dtype="<u8").view(
        "<f8"
    )
    at = np.array(reported["at"], dtype=np.uint32) if sparse else None
    if len(values) != (n if at is None else len(at)) or (at is not None and len(at) and int(at.max()) >= n):
        raise ValueError(f"a column of {len(values)} values for {n} records")
    return Column(values.astype(np.float64, copy=False), at)


def _bits(reported: float | str) -> int:
    """Return the 64 bits of a float; a Python float would not keep the bits of a NaN."""
    if isinstance(reported, str) and (named := _NAMED_NAN.fullmatch(reported)):
        return int(named[1], 16)
    return int(struct.unpack("<Q", struct.pack("<d", exact_json.parse_number(reported)))[0])


def _alert(item: Mapping[str, Any]) -> Alert:
    return Alert(
        **dict(item)
        | {
            "severity": Severity(item["severity"]),
            "state": AlertState(item["state"]),
            "diagnosis": diagnosis_of(item["diagnosis"]),
        }
    )
