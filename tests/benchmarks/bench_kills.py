"""The long siege: a hundred kills -9 of a real server on each database, nothing lost, nothing twice.

``python tests/benchmarks/bench_kills.py [KILLS]``, or ``TOCSIN_BENCH_KILLS``; 100 by default. A kill
counts where every trainer had a batch that was not acknowledged. Exits 1 where anything differs.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from sqlalchemy import make_url
from sqlalchemy.engine import URL

from tests.server import siege
from tests.server.own_postgres import OwnPostgres

TRAINERS = 4


def besiege(name: str, url: URL, folder: Path, kills: int) -> None:
    """One database: kills, then the comparison with runs that met none."""
    folder.mkdir(parents=True)
    begun = time.monotonic()
    scene = siege.Siege(url, folder, trainers=TRAINERS, seed=int(os.environ.get("TOCSIN_BENCH_SEED", "1")))
    records, _ = scene.run(kills)
    siege.check(url, records, TRAINERS)
    took = time.monotonic() - begun
    print(
        f"{name:>10}: {scene.kills} kills in {took:.0f} s, {TRAINERS} trainers of {records} records each: "
        "every bit as sent, alerts and onsets as without a kill",
        flush=True,
    )


def main() -> None:
    """Both databases, one after the other."""
    kills = int((sys.argv[1:] or [os.environ.get("TOCSIN_BENCH_KILLS", "100")])[0])
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "sqlite" / "tocsin.db"
        besiege("SQLite", make_url(f"sqlite:///{file}"), file.parent, kills)
        postgres = OwnPostgres(fsync=True)
        try:
            besiege("Postgres", postgres.new_database(), Path(place) / "postgres", kills)
        finally:
            postgres.close()


if __name__ == "__main__":
    main()
