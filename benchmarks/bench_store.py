"""Measure the store alone: points/s, bytes/point, time to open a run of up to 10 M steps, memory.

``python benchmarks/bench_store.py [STEPS ...]``: lengths of the run when it is opened, by default 100,000,
1,000,000 and 10,000,000.

Each database is measured in a separate process. Writing is CPU time of the server's process (and wall time,
which includes other load); opening is the median of many, four vital signs at 2000 buckets. Bytes per point
of other tools are printed last, unless ``TOCSIN_BENCH_PEERS=0``.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from sqlalchemy import func, make_url, select, text
from sqlalchemy.engine import URL

from benchmarks.figures import figure
from benchmarks.peers import PACKAGES, measured
from benchmarks.raw_append import RawRate, raw_rate
from tests.server.own_postgres import OwnPostgres
from tocsin.protocol import Hello, WriterId
from tocsin_server.core.models import Column, RecordBatch, WriteBatch, Writer
from tocsin_server.store.chunks import RECORDS
from tocsin_server.store.database import Database, migrate, open_database
from tocsin_server.store.reader import StoreReader
from tocsin_server.store.registration import register
from tocsin_server.store.tables import chunk_dir
from tocsin_server.store.vacuum import OF_RUNS, tidy_tail, vacuum
from tocsin_server.store.writer import StoreWriter

STEPS = (100_000, 1_000_000, 10_000_000)
VITALS = ["loss", "grad_norm", "scale", "lr"]
BATCH = 50
WIDE, WIDE_STEPS = 500, 12_288
"""The widest run: series, and steps of it."""
FLOAT64_STEPS = 1_000_000
OPENED = 25
WAITING = 8 << 20
"""Bytes that may wait for the writer."""


def vitals(first: int, n: int) -> dict[str, Column]:
    """Return records from ``first`` of a mixed-precision training: float32 values, as a GPU reports them."""
    random = np.random.default_rng(first)
    step = np.arange(first, first + n)
    loss = (2.0 * np.exp(-step / 1e6) + random.normal(0, 0.02, n)).astype(np.float32)
    norm = random.gamma(4.0, 0.3, n).astype(np.float32)
    scale = 2.0 ** (16 - (step // 2000) % 2)
    rate = (1e-4 * np.cos(step / 1e7)).astype(np.float32)
    columns = {"loss": loss, "grad_norm": norm, "scale": scale, "lr": rate}
    return {name: Column(values.astype(np.float64)) for name, values in columns.items()}


def full_mantissas(first: int, n: int) -> dict[str, Column]:
    """Return `vitals` of which all but the scale need float64."""
    random = np.random.default_rng(first + n)
    return {
        name: column if name == "scale" else Column(column.v * (1 + 1e-9 * random.normal(size=n)))
        for name, column in vitals(first, n).items()
    }


def wide(first: int, n: int) -> dict[str, Column]:
    """Return records of a run with very many series."""
    values = np.random.default_rng(first).normal(size=(WIDE, n)).astype(np.float32).astype(np.float64)
    return {f"layer{no}/norm": Column(row) for no, row in enumerate(values)}


class Bench:
    """One database with one writer."""

    def __init__(self, url: URL) -> None:
        migrate(url)
        self.database: Database = open_database(url)
        self.store = StoreWriter(self.database)
        self.store.start()
        self.reader = StoreReader(self.database)
        self._arrival = -1
        self._ended = threading.Event()
        self._keeper = threading.Thread(target=self._keep)
        self._keeper.start()

    def _keep(self) -> None:
        """Do what the server's housekeeping does for a growing database."""
        while not self._ended.wait(1.0):
            tidy_tail(self.database)

    def writer(self, run: str) -> Writer:
        """Return the only writer of a new run."""
        hello = Hello(1, "t", "bench", run, run, WriterId("a", 0, "boot", 1, 1), 1, "node", 1)
        return self.store.call(lambda connection: register(connection, hello, 1)).result().writer

    def grow(self, who: Writer, batches: Iterator[RecordBatch]) -> tuple[float, float]:
        """Store and seal batches; return the CPU seconds, without making the batches, and the total wall
        seconds."""
        cpu, wall, making, last = time.process_time(), time.perf_counter(), 0.0, None
        while True:
            begun = time.thread_time()
            batch = next(batches, None)
            making += time.thread_time() - begun
            if batch is None:
                break
            self.store.submit(WriteBatch(who.run_id, batch=batch))
            while self.store.backlog_bytes > WAITING:
                time.sleep(0.002)
            last = batch
        if last is not None:
            self._sealed(who, (last.seq + last.n) // RECORDS)
        return time.process_time() - cpu - making, time.perf_counter() - wall

    def _sealed(self, who: Writer, chunks: int) -> None:
        self.store.call(lambda connection: None).result()
        query = select(func.count()).select_from(chunk_dir).where(chunk_dir.c.run_id == who.run_id)
        while True:
            with self.database.reader.connect() as connection:
                if int(connection.execute(query).scalar_one()) >= chunks:
                    return
            time.sleep(0.05)

    def batches(self, who: Writer, begin: int, end: int, columns: Any, size: int) -> Iterator[RecordBatch]:
        """Yield the records ``begin`` to ``end`` in batches as a client sends them."""
        made = 200 * size
        for block in range(begin, end, made):
            whole = columns(block, min(made, end - block))
            for first in range(block, min(block + made, end), size):
                n = min(size, end - first)
                step = np.arange(first, first + n)
                part = {
                    name: Column(column.v[first - block : first - block + n])
                    for name, column in whole.items()
                }
                self._arrival += 1
                yield RecordBatch(who, self._arrival, first, n, step, 10**18 + step * 10**7, part)

    def bytes(self) -> int:
        """Return the size of the whole database in bytes."""
        if self.database.dialect == "sqlite":
            with self.database.reader.begin() as connection:
                pages, free, size = (
                    int(connection.execute(text(f"PRAGMA {name}")).scalar_one())
                    for name in ("page_count", "freelist_count", "page_size")
                )
            return (pages - free) * size
        with self.database.reader.connect() as connection:
            return int(connection.execute(text("SELECT pg_database_size(current_database())")).scalar_one())

    def opening(self, run: str, names: list[str]) -> tuple[float, float, int]:
        """Return median CPU and wall milliseconds to open series of a run, and the level that was used."""
        cpu, wall, level = [], [], 0
        for _ in range(OPENED):
            begun = time.thread_time(), time.perf_counter()
            level = self.reader.series(run, names, buckets=2000).level
            cpu.append(time.thread_time() - begun[0])
            wall.append(time.perf_counter() - begun[1])
        return 1e3 * median(cpu), 1e3 * median(wall), level

    def close(self) -> None:
        """Stop the writer and the housekeeping."""
        self._ended.set()
        self._keeper.join()
        self.store.stop(60)
        self.database.close()

    def by_table(self) -> str:
        """Return Postgres's bytes by table."""
        query = text("SELECT pg_total_relation_size(to_regclass(:name))")
        with self.database.reader.connect() as connection:
            sizes = {name: int(connection.execute(query, {"name": name}).scalar_one()) for name in OF_RUNS}
        largest = sorted(sizes.items(), key=lambda item: -item[1])[:4]
        return ", ".join(f"{name} {size / 1e6:.1f} MB" for name, size in largest)


def memory_mb() -> float:
    """Return the peak memory of this process in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


HEADING = (
    f"{'steps':>12} {'points/s CPU':>13} {'of raw':>7} {'wall':>11} {'of raw':>7} {'B/point':>8} "
    f"{'open CPU':>9} {'wall ms':>8} {'level':>6} {'peak MB':>8}"
)


def measure(url: URL, steps: list[int], raw: RawRate) -> None:
    """Measure one database: the growing run, then the wide one."""
    bench = Bench(url)
    who, begin, empty, times = bench.writer("long"), 0, bench.bytes(), {}
    print(HEADING)
    for end in steps:
        cpu, wall = bench.grow(who, bench.batches(who, begin, end, vitals, BATCH))
        points = (end - begin) * len(VITALS)
        opened = bench.opening("long", VITALS)
        times[end] = opened
        size = (bench.bytes() - empty) / (end * len(VITALS))
        print(
            f"{end:>12,} {points / cpu:>13,.0f} {points / cpu / raw.cpu:>7.2f} "
            f"{points / wall:>11,.0f} {points / wall / raw.wall:>7.2f} "
            f"{size:>8.2f} {opened[0]:>9.1f} {opened[1]:>8.1f} {opened[2]:>6} {memory_mb():>8.0f}",
            flush=True,
        )
        report(bench.database.dialect, end, points / cpu, size, opened[0], raw)
        begin = end
    if len(steps) > 1:
        last, before = times[steps[-1]], times[steps[-2]]
        ratio = last[0] / before[0], last[1] / before[1]
        print(
            f"opening {steps[-1]:,} steps takes {ratio[0]:.2f} (CPU) and {ratio[1]:.2f} (wall) times "
            f"{steps[-2]:,}; goal: 1.5"
        )
        if steps[-2:] == [1_000_000, 10_000_000] and bench.database.dialect == "sqlite":
            figure("open 10 M steps / 1 M steps", ratio[0], ratio=True)
    if bench.database.dialect == "postgresql":
        reported = bench.by_table()
        vacuum(bench.database)
        size = (bench.bytes() - empty) / (steps[-1] * len(VITALS))
        print(f"{reported}; after VACUUM {size:.2f} B/point: {bench.by_table()}")
    if bench.database.dialect == "sqlite":
        measure_float64(bench)
    measure_wide(bench)
    bench.close()


def measure_float64(bench: Bench) -> None:
    """Measure bytes per point of a run whose values need float64."""
    who, before = bench.writer("float64"), bench.bytes()
    bench.grow(who, bench.batches(who, 0, FLOAT64_STEPS, full_mantissas, BATCH))
    size = (bench.bytes() - before) / (FLOAT64_STEPS * len(VITALS))
    print(f"full float64 mantissas, {FLOAT64_STEPS:,} steps: {size:.2f} B/point")
    figure("disk, float64, sealed", size, "bytes a point", ratio=True)


def report(dialect: str, steps: int, rate: float, size: float, opening: float, raw: RawRate) -> None:
    """Report rate, size and opening of a run on SQLite, at a million steps."""
    if dialect == "sqlite" and steps == 1_000_000:
        peer = ("raw sqlite3", raw.cpu)
        figure("store, per CPU second", rate, "points/s", peer=peer, higher_is_better=True)
        figure("disk, float32, sealed", size, "bytes a point", ratio=True)
        figure("open a run of 1 M steps", opening, "ms")


def measure_wide(bench: Bench) -> None:
    """Measure a run of 500 series."""
    who = bench.writer("wide")
    cpu, wall = bench.grow(who, bench.batches(who, 0, WIDE_STEPS, wide, 64))
    points = WIDE * WIDE_STEPS
    opened = bench.opening("wide", [f"layer{no}/norm" for no in range(4)])
    print(
        f"{WIDE} series x {WIDE_STEPS:,} steps: {points / cpu:,.0f} points/s CPU, {points / wall:,.0f} wall; "
        f"four of them opened in {opened[0]:.1f} ms CPU, {opened[1]:.1f} ms wall; peak {memory_mb():.0f} MB"
    )


def main() -> int:
    """Measure each database in a separate process, to separate their memory; return how many failed."""
    if sys.argv[1:2] == ["--measure"]:
        address, wall, cpu, *steps = sys.argv[2:]
        measure(make_url(address), [int(word) for word in steps], RawRate(float(wall), float(cpu)))
        return 0
    steps = sys.argv[1:] or [str(number) for number in STEPS]
    failed = 0
    with tempfile.TemporaryDirectory() as place:
        raw = raw_rate(Path(place), batch=BATCH, series=len(VITALS))
        print(f"raw sqlite3, blobs of {BATCH} records: {raw}")
        with OwnPostgres(fsync=True) as postgres:
            for url in (make_url(f"sqlite:///{place}/tocsin.db"), postgres.new_database()):
                print(
                    f"-- {url.get_backend_name()} (Postgres itself works in processes of its own: see wall)",
                    flush=True,
                )
                address = url.render_as_string(hide_password=False)
                rates = [str(raw.wall), str(raw.cpu)]
                command = [sys.executable, __file__, "--measure", address, *rates, *steps]
                failed += subprocess.run(command, check=False).returncode != 0
        if os.environ.get("TOCSIN_BENCH_PEERS") != "0":
            tell_peers(Path(place) / "peers")
    return failed


def tell_peers(place: Path) -> None:
    """Print the size of the same four series in other tools; name those that do not install."""
    for name in PACKAGES:
        found = measured(place, name)
        reported = found if isinstance(found, str) else f"{name}: {found.bytes_a_point:.1f} B/point"
        print(reported, flush=True)


if __name__ == "__main__":
    sys.exit(min(main(), 1))
