"""Kill a real server with SIGKILL many times on each database; check that nothing is lost or duplicated.

``python benchmarks/bench_kills.py [KILLS] [--database sqlite|postgres]``, or ``TOCSIN_BENCH_KILLS`` and
``TOCSIN_BENCH_DATABASE``; by default 20 on both. A kill counts if every client had an unacknowledged batch.
Exits with status 1 if anything differs. SIGINT and SIGTERM end it cleanly: no server, Postgres or folder is
left behind.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

sys.path.insert(0, str(Path(__file__).parents[1]))

from sqlalchemy import make_url
from sqlalchemy.engine import URL

from benchmarks.figures import figure
from tests.server import siege
from tests.server.own_postgres import OwnPostgres

TRAINERS = 4
TOLD_EVERY = 10
"""Kills between two lines of progress."""
wishes: list[float] = []
"""When the user asked to stop."""


def besiege(name: str, url: URL, folder: Path, kills: int) -> None:
    """Run the kills on one database, then compare with runs without kills."""
    folder.mkdir(parents=True)
    begun = time.monotonic()
    seed = int(os.environ.get("TOCSIN_BENCH_SEED", "1"))
    print_progress = progress_printer(name, kills, begun)
    scene = siege.Siege(url, folder, clients=TRAINERS, seed=seed, on_kill=print_progress, on_look=look)
    records, _ = scene.run(kills)
    siege.check(url, records, TRAINERS)
    took = time.monotonic() - begun
    print(
        f"{name:>10}: {scene.kills} kills in {took:.0f} s, {TRAINERS} trainers of {records} records each: "
        "every bit as sent, alerts and onsets as without a kill",
        flush=True,
    )


def progress_printer(name: str, kills: int, begun: float) -> Callable[[int], None]:
    """Return a function that prints a line for every tenth kill."""

    def print_progress(count: int) -> None:
        if count % TOLD_EVERY == 0:
            print(f"{name:>10}: {count} of {kills} kills, {time.monotonic() - begun:.0f} s", flush=True)

    return print_progress


def on_sqlite(place: Path, kills: int) -> None:
    """Run the siege on a SQLite file."""
    file = place / "sqlite" / "tocsin.db"
    besiege("SQLite", make_url(f"sqlite:///{file}"), file.parent, kills)


def on_postgres(place: Path, kills: int) -> None:
    """Run the siege on a Postgres with fsync, and stop that Postgres in any case."""
    with OwnPostgres(fsync=True) as postgres:
        besiege("Postgres", postgres.new_database(), place / "postgres", kills)


DATABASES = {"sqlite": on_sqlite, "postgres": on_postgres}


def note(_signal: int, _frame: FrameType | None) -> None:
    """Note that the user wants to stop. An exception here could occur between starting a process and
    recording it."""
    wishes.append(time.monotonic())


def look() -> None:
    """Raise KeyboardInterrupt if the user wants to stop."""
    if wishes:
        raise KeyboardInterrupt


def main() -> int:
    """Run the selected databases one after the other, even if one fails; return how many failed."""
    environ = os.environ
    parser = argparse.ArgumentParser(description="kills -9 of a real server, nothing lost")
    kills = int(environ.get("TOCSIN_BENCH_KILLS", "20"))
    parser.add_argument("kills", nargs="?", type=int, default=kills)
    parser.add_argument("--database", choices=DATABASES, default=environ.get("TOCSIN_BENCH_DATABASE"))
    options = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, note)
    failed = 0
    with tempfile.TemporaryDirectory(prefix="tocsin-kills-") as place:
        for name in [options.database] if options.database else DATABASES:
            look()
            try:
                DATABASES[name](Path(place), options.kills)
            except AssertionError as error:
                failed += 1
                print(f"{name}: FAILED, {error}", flush=True)
    figure("failed checks, server killed", failed)
    return failed


if __name__ == "__main__":
    try:
        sys.exit(min(main(), 1))
    except KeyboardInterrupt:
        sys.exit("interrupted: what was started is stopped")
