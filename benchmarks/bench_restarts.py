"""Make the database fail under load repeatedly: Postgres is stopped abruptly, and disks are filled.

``python benchmarks/bench_restarts.py [OUTAGES]``, or ``TOCSIN_BENCH_OUTAGES``; by default 20 of each kind:
restarts of Postgres, a full disk with SQLite, a full disk with Postgres. During each, health reports it and
every client waits for an ack. Afterwards every bit is as sent, with the alerts and onsets of undisturbed
runs. Exits with status 1 if anything differs, after trying the remaining kinds. SIGINT and SIGTERM end it
cleanly.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from sqlalchemy import make_url
from sqlalchemy.engine import URL

from benchmarks.bench_kills import TRAINERS, look, note
from benchmarks.figures import figure
from tests.server import siege
from tests.server.own_postgres import OwnPostgres
from tests.small_disk import NoSmallDiskError, fill, small_disk

DISK_MB = 512
Outage = Callable[[], contextlib.AbstractContextManager[None]]


def besiege(name: str, url: URL, folder: Path, count: int, outage: Outage) -> None:
    """Run ``count`` outages, then compare with undisturbed runs."""
    folder.mkdir(parents=True)
    begun = time.monotonic()
    seed = int(os.environ.get("TOCSIN_BENCH_SEED", "1"))
    scene = siege.Siege(url, folder, clients=TRAINERS, seed=seed, on_look=look)
    records = scene.outages(count, outage)
    siege.check(url, records, TRAINERS)
    took = time.monotonic() - begun
    print(
        f"{name}: {scene.kills} in {took:.0f} s, {TRAINERS} trainers of {records} records each: "
        "every bit as sent, alerts and onsets as without",
        flush=True,
    )


def restarts(place: Path, count: int) -> None:
    """Stop Postgres as in a crash, and start it again."""
    with OwnPostgres(fsync=True) as postgres:

        @contextlib.contextmanager
        def away() -> Iterator[None]:
            postgres.stop_at_once()
            try:
                yield
            finally:
                postgres.start_again()

        besiege("restarts of Postgres", postgres.new_database(), place, count, away)


def filled(disk: Path) -> Outage:
    """Fill the disk during the block."""

    @contextlib.contextmanager
    def full() -> Iterator[None]:
        ballast = fill(disk)
        try:
            yield
        finally:
            ballast.unlink()

    return full


def full_under_sqlite(place: Path, count: int) -> None:
    """Everything, also the file and its log, is on the full disk."""
    with small_disk(DISK_MB) as disk:
        url = make_url(f"sqlite:///{disk / 'tocsin.db'}")
        besiege("full disk under SQLite", url, place, count, filled(disk))


def full_under_postgres(place: Path, count: int) -> None:
    """The tables are on the full disk."""
    with small_disk(DISK_MB) as disk, OwnPostgres(fsync=True) as postgres, postgres.database_on(disk) as url:
        besiege("full disk under Postgres", url, place, count, filled(disk))


KINDS = (restarts, full_under_sqlite, full_under_postgres)


def main() -> int:
    """Run every kind, even if one fails; return how many failed."""
    count = int(sys.argv[1] if sys.argv[1:] else os.environ.get("TOCSIN_BENCH_OUTAGES", "20"))
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, note)
    failed = 0
    with tempfile.TemporaryDirectory(prefix="tocsin-outages-") as place:
        for kind in KINDS:
            look()
            try:
                kind(Path(place) / kind.__name__, count)
            except NoSmallDiskError as why:
                print(f"{kind.__name__}: left out, {why}", flush=True)
            except AssertionError as error:
                failed += 1
                print(f"{kind.__name__}: FAILED, {error}", flush=True)
    figure("failed checks, database outages", failed)
    return failed


if __name__ == "__main__":
    try:
        sys.exit(min(main(), 1))
    except KeyboardInterrupt:
        sys.exit("interrupted: what was started is stopped")
