"""Measure bytes per point of short runs: while they are live, and after they have ended and are packed.

``python benchmarks/bench_short_runs.py [sqlite|postgres ...]``, by default both. Counted are the tables of
records with their indexes. After the end of a run its tail is empty and not counted: Postgres keeps its pages
for the next batches.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from sqlalchemy import func, make_url, select, text
from sqlalchemy.engine import URL

from benchmarks.bench_store import VITALS, WAITING, Bench, full_mantissas, vitals
from benchmarks.figures import figure
from tests.server.own_postgres import OwnPostgres
from tocsin_server.core.models import Column, RecordBatch, RunState, WriteBatch, Writer
from tocsin_server.store.deletion_jobs import give_room_back, on_writer
from tocsin_server.store.tables import tail
from tocsin_server.store.vacuum import vacuum

Values = Callable[[int, int], dict[str, Column]]
KINDS: dict[str, tuple[Values, tuple[str, ...]]] = {
    "float32": (vitals, ("sqlite", "postgresql")),
    "float64": (full_mantissas, ("sqlite",)),
}
"""What the values need -> how they are made, and on which databases they are measured."""
SHORT = ((50, 1000), (200, 400), (1000, 200), (3000, 100), (10_000, 30), (100_000, 3))
"""Steps of a run, and how many such runs are stored."""
LIVE_STEPS, LIVE_RUNS = 1000, 200
"""Too short for a chunk."""
SEALED = ("packed", "chunk", "chunk_dir", "roll", "series")
"""The tables of records that are not in the tail."""


class ShortRuns(Bench):
    """A database with many short runs."""

    def report_run(self, who: Writer, steps: int, values: Values, seed: int) -> None:
        """Store a run as a training of 30 ms a step that sends every 300 ms."""
        random, whole = np.random.default_rng(seed), values(seed, steps)
        times = 1_763_000_000 * 10**9 + np.cumsum(random.normal(3e7, 3e5, steps)).astype(np.int64)
        for first in range(0, steps, 10):
            at = slice(first, first + 10)
            part = {name: Column(column.v[at]) for name, column in whole.items()}
            step = np.arange(first, min(first + 10, steps))
            self._arrival += 1
            batch = RecordBatch(who, self._arrival, first, len(step), step, times[at], part)
            self.store.submit(WriteBatch(who.run_id, batch=batch))
            while self.store.backlog_bytes > WAITING:
                time.sleep(0.002)

    def end_run(self, who: Writer) -> None:
        """End a run."""
        self.store.submit(WriteBatch(who.run_id, changes={"state": RunState.FINISHED}))

    def stored(self) -> None:
        """Wait until everything is committed."""
        self.store.call(lambda connection: None).result()

    def packed(self) -> None:
        """Wait until every tail is packed, then free what that left."""
        unpacked = select(func.count()).select_from(tail)
        self.stored()
        while True:
            with self.database.reader.connect() as connection:
                if not connection.execute(unpacked).scalar_one():
                    break
            time.sleep(0.1)
        give_room_back(on_writer(self.store))
        vacuum(self.database)

    def bytes_of(self, names: Sequence[str]) -> int:
        """Return the bytes of tables with their indexes."""
        with self.database.reader.connect() as connection:
            query = "SELECT pg_total_relation_size(to_regclass(:name))"
            if self.database.dialect == "sqlite":
                of = "SELECT name FROM sqlite_schema WHERE tbl_name = :name"
                query = f"SELECT COALESCE(SUM(pgsize), 0) FROM dbstat WHERE name IN ({of})"
            return sum(int(connection.execute(text(query), {"name": name}).scalar_one()) for name in names)


def ended(url: URL, steps: int, runs: int, values: Values) -> float:
    """Return the bytes per point of runs that have ended."""
    bench = ShortRuns(url)
    empty = bench.bytes_of(SEALED)
    for no in range(runs):
        who = bench.writer(f"r_{steps:06}{no:04}")
        bench.report_run(who, steps, values, seed=no)
        bench.end_run(who)
    bench.packed()
    size = (bench.bytes_of(SEALED) - empty) / (runs * steps * len(VITALS))
    bench.close()
    return size


def live(url: URL) -> float:
    """Return the bytes per point of runs that report."""
    bench = ShortRuns(url)
    empty = bench.bytes_of(["tail"])
    for no in range(LIVE_RUNS):
        bench.report_run(bench.writer(f"r_live{no:04}"), LIVE_STEPS, vitals, seed=no)
    bench.stored()
    size = (bench.bytes_of(["tail"]) - empty) / (LIVE_RUNS * LIVE_STEPS * len(VITALS))
    bench.close()
    return size


def measure(new_database: Callable[[], URL], dialect: str) -> None:
    """Print bytes per point, and report those of SQLite: of the worst length for float32."""
    size = live(new_database())
    print(f"{dialect}: live runs of {LIVE_STEPS:,} steps: {size:.2f} B/point", flush=True)
    if dialect == "sqlite":
        figure("disk, not sealed yet", size, "bytes a point", ratio=True)
    for kind, (values, dialects) in KINDS.items():
        if dialect not in dialects:
            continue
        sizes = []
        for steps, runs in SHORT:
            sizes.append(ended(new_database(), steps, runs, values))
            print(
                f"{dialect}: {runs:>4} runs of {steps:>7,} steps, {kind}: {sizes[-1]:.2f} B/point", flush=True
            )
        if dialect == "sqlite":
            figure(f"disk, short runs, {kind}", max(sizes), "bytes a point", ratio=True)


def main() -> None:
    """Measure short runs on the databases."""
    chosen = sys.argv[1:] or ["sqlite", "postgres"]
    if "sqlite" in chosen:
        with tempfile.TemporaryDirectory() as place:
            numbers = count()
            measure(lambda: make_url(f"sqlite:///{place}/{next(numbers)}.db"), "sqlite")
    if "postgres" in chosen:
        with OwnPostgres(fsync=False) as postgres:
            measure(postgres.new_database, "postgresql")


if __name__ == "__main__":
    main()
