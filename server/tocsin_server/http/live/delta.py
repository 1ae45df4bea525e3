"""Encode what is new in a run since a cursor as JSON for the live pages. Pure.

A delta is encoded once for all browsers that watch the run: the text of each series is created when the first
browser requests it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tocsin_server.core import exact_json
from tocsin_server.core.models import F64, RecordBatch, RunEvent
from tocsin_server.store.layer_rows import CONSOLE

_MS = 1e6
CONTENT = "media-content"
"""Events with the contents of images and the like, which a page loads when it shows them."""


class Delta:
    """New records and events of one run, oldest first."""

    def __init__(self, items: Sequence[RecordBatch | RunEvent]) -> None:
        self._batches = [item for item in items if isinstance(item, RecordBatch)]
        events = (item for item in items if isinstance(item, RunEvent))
        self._events = [item for item in events if item.kind != CONTENT]
        self._texts: dict[str, str] = {}
        self._events_text: str | None = None

    @property
    def names(self) -> list[str]:
        """Return the names of all series with new records."""
        return list(dict.fromkeys(name for batch in self._batches for name in batch.columns))

    def series(self, names: Iterable[str] | None) -> str:
        """Return ``{"loss": [{"attempt", "rank", "x", "t", "first"}]}`` of ``names`` (None: all series)."""
        present = self.names
        chosen = present if names is None else [name for name in names if name in set(present)]
        return "{" + ",".join(self._text(name) for name in chosen) + "}"

    def events(self) -> str:
        """Return the events in the format of ``GET /runs/{id}/events``."""
        if self._events_text is None:
            self._events_text = exact_json.dumps([event_json(event) for event in self._events])
        return self._events_text

    def _text(self, name: str) -> str:
        text = self._texts.get(name)
        if text is None:
            layers = exact_json.dumps(self._layers(name))
            text = self._texts[name] = f"{exact_json.dumps(name)}:{layers}"
        return text

    def _layers(self, name: str) -> list[dict[str, Any]]:
        found: dict[tuple[int, int], list[tuple[F64, F64, F64]]] = {}
        for batch in self._batches:
            if name in batch.columns:
                layer = (batch.writer.attempt_no, batch.writer.rank)
                found.setdefault(layer, []).append(_points(batch, name))
        return [_layer(attempt, rank, parts) for (attempt, rank), parts in found.items()]


def _points(batch: RecordBatch, name: str) -> tuple[F64, F64, F64]:
    """Return the steps, times in Unix ms and values [k] of one series of a batch."""
    column = batch.columns[name]
    step, time_ns = batch.step, batch.time_ns
    if column.at is not None:
        step, time_ns = step[column.at], time_ns[column.at]
    return step.astype(np.float64), time_ns / _MS, column.v


def _layer(attempt: int, rank: int, parts: list[tuple[F64, F64, F64]]) -> dict[str, Any]:
    x, t, first = (np.concatenate(column) for column in zip(*parts, strict=True))
    return {"attempt": attempt, "rank": rank, "x": x, "t": t, "first": first}


def event_json(event: RunEvent) -> dict[str, Any]:
    """Return an event in the format of docs/reference/http-api.md, with plain floats.

    Lines of output are left out: a page loads them if it shows them.
    """
    return {
        "id": f"{event.writer.writer_no}.{event.no}",
        "kind": event.kind,
        "step": event.step,
        "time_ms": event.time_ns // 1_000_000,
        "attempt": event.writer.attempt_no,
        "rank": event.writer.rank,
        "data": {} if event.kind == CONSOLE else event.data,
    }
