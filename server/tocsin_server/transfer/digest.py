"""Digest of a run's data, the same for every page size. Pure code.

All NaN payloads count as equal, because JSON lines have only one name for NaN.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tocsin_server.core import exact_json
from tocsin_server.core.models import F64
from tocsin_server.store.chunks import rows_of
from tocsin_server.store.results import RecordPage
from tocsin_server.transfer.column_names import COORDINATES


@dataclass
class Digest:
    """Digest of records in order of (writer, seq), events in order of arrival, and alerts in any order."""

    records: int = 0
    events: int = 0
    alerts: int = 0
    _streams: dict[tuple[str, str], Any] = field(default_factory=dict)
    _alerts: list[str] = field(default_factory=list)

    def take_page(self, page: RecordPage) -> RecordPage:
        """Add the records of ``page`` and return it."""
        for name in COORDINATES:
            self._stream("coordinate", name).update(getattr(page, name).astype("<i8").tobytes())
        for name, column in page.columns.items():
            rows = rows_of(column, page.n).astype("<i8") + self.records
            self._stream("row", name).update(rows.tobytes())
            self._stream("value", name).update(one_nan(column.v).tobytes())
        self.records += page.n
        return page

    def take_event(self, item: dict[str, Any]) -> dict[str, Any]:
        """Add an event and return it."""
        self._stream("event", "").update(canonical(item))
        self.events += 1
        return item

    def take_alert(self, item: dict[str, Any]) -> dict[str, Any]:
        """Add an alert with its history and return it. Its incident does not count: 0.1.0 had none."""
        counted = {name: value for name, value in item.items() if name != "incident"}
        self._alerts.append(hashlib.sha256(canonical(counted)).hexdigest())
        self.alerts += 1
        return item

    @property
    def counts(self) -> dict[str, int]:
        return {"records": self.records, "events": self.events, "alerts": self.alerts}

    def hexdigest(self) -> str:
        """Return the digest of everything added so far."""
        whole = hashlib.sha256()
        for part in self._parts():
            whole.update(part.encode("utf-8", "replace") + b"\n")
        return whole.hexdigest()

    def _parts(self) -> Iterator[str]:
        for (kind, name), stream in sorted(self._streams.items()):
            yield f"{kind} {len(name)} {name} {stream.hexdigest()}"
        yield from sorted(self._alerts)

    def _stream(self, kind: str, name: str) -> Any:
        return self._streams.setdefault((kind, name), hashlib.sha256())


def canonical(item: dict[str, Any]) -> bytes:
    """Return an object as JSON bytes, independent of the order of its keys."""
    return exact_json.dumps(_sorted(exact_json.plain(item))).encode("utf-8", "replace") + b"\n"


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


def one_nan(values: F64) -> F64:
    """Return ``values`` with the same bits for every NaN."""
    return np.where(np.isnan(values), np.nan, values).astype("<f8")
