"""Killed, restarted, out of room: what was sent is stored once, bit for bit, with its alerts.

The long form is ``tests/benchmarks/bench_kills.py``.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy.engine import URL

from tests.server import siege

KILLS = 4
TRAINERS = 3


def test_kills_under_load_lose_and_double_nothing(url: URL, tmp_path: Path) -> None:
    """kill -9 at random moments, every trainer with a batch not yet acknowledged: all arrives, once."""
    scene = siege.Siege(url, tmp_path, trainers=TRAINERS, seed=7)
    records, _ = scene.run(KILLS)
    siege.check(url, records, TRAINERS)
