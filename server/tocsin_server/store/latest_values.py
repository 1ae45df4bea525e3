"""Queue the newest value of each series, to be written to SQL at most once a second. Pure code.

The size is bounded by one row per series and writer. A kill can lose the last second of this table but no
record: the values are also stored in the records, and the next records update the table.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tocsin_server.core.models import RecordBatch

EVERY_S = 1.0
Row = dict[str, Any]
Key = tuple[str, int, int]
"""(run id, writer number, column number)."""


class Latest:
    """Rows of ``latest`` that wait to be written, and those of the current transaction."""

    def __init__(self) -> None:
        self._waiting: dict[Key, Row] = {}
        self._unsure: dict[Key, Row] = {}
        self._since = math.inf

    def take(self, batch: RecordBatch, numbers: Mapping[str, int], now_s: float) -> None:
        """Queue the last value of every series of ``batch``."""
        run_id, writer_no = batch.run_id, batch.writer.writer_no
        for name, column in batch.columns.items():
            if column.v.size:
                col, row = numbers[name], batch.n - 1 if column.at is None else int(column.at[-1])
                self._waiting[run_id, writer_no, col] = {
                    "run_id": run_id,
                    "writer_no": writer_no,
                    "col_id": col,
                    "seq": batch.seq + row,
                    "step": int(batch.step[row]),
                    "time_ns": int(batch.time_ns[row]),
                    "value": float(column.v[-1]),
                }
        self._since = min(self._since, now_s)

    def forget(self, run_id: str) -> None:
        """Drop the queued rows of a run. Call it between transactions only."""
        self._waiting = {key: row for key, row in self._waiting.items() if key[0] != run_id}
        if not self._waiting:
            self._since = math.inf

    @property
    def due(self) -> float:
        """When to write, on the clock of ``take``; infinity if nothing is queued."""
        return self._since + EVERY_S

    def begin(self) -> list[Row]:
        """Return the rows to write. Call :meth:`committed` or :meth:`rolled_back` afterwards."""
        self._unsure, self._waiting, self._since = self._waiting, {}, math.inf
        return list(self._unsure.values())

    def committed(self) -> None:
        """Drop the written rows."""
        self._unsure = {}

    def rolled_back(self, now_s: float) -> None:
        """Queue the rows again, because they were not written."""
        if self._unsure:
            self._waiting, self._unsure = self._unsure | self._waiting, {}
            self._since = now_s
