"""The upper limit for the store: blobs inserted into SQLite with plain ``sqlite3``."""

from __future__ import annotations

import sqlite3
import time
from dataclasses import dataclass
from pathlib import Path

GROUP = 12_000
"""Points a transaction: 200 runs of ten records with six values, as in docs/internals/storage.md."""


@dataclass(frozen=True, slots=True)
class RawRate:
    """Points per second by wall time and by CPU time."""

    wall: float
    cpu: float

    def __str__(self) -> str:
        return f"{self.wall:,.0f} points/s by wall time, {self.cpu:,.0f} by CPU time"


def raw_rate(folder: Path, *, points: int = 2_000_000, batch: int = 50, series: int = 6) -> RawRate:
    """Measure inserts of (run, number, blob) rows, one transaction per group, WAL, synchronous FULL."""
    folder.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(folder / "raw.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute(
        "CREATE TABLE tail (run TEXT, seq INTEGER, n INTEGER, body BLOB, PRIMARY KEY (run, seq))"
    )
    body = bytes(batch * (series + 2) * 8)
    rows = GROUP // (batch * series)
    begun, spent = time.perf_counter(), time.process_time()
    for group in range(points // GROUP):
        connection.execute("BEGIN")
        numbers = range(group * rows, (group + 1) * rows)
        connection.executemany(
            "INSERT INTO tail VALUES (?, ?, ?, ?)", [(f"r{no % 200}", no, batch, body) for no in numbers]
        )
        connection.execute("COMMIT")
    wall, cpu = time.perf_counter() - begun, time.process_time() - spent
    connection.close()
    written = points // GROUP * GROUP
    return RawRate(written / wall, written / cpu)
