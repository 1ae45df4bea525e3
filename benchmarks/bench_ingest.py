"""Measure the time from ``log`` in the real hook to durable storage in a real server, with 1, 8 and 64
clients.

On SQLite and Postgres, as ratios to raw blob inserts with ``sqlite3`` and to the fastest other tool that
installs, all in the same run. Clients share the cores of this machine with the server, so the server's CPU
time is given too. ``TOCSIN_BENCH_STEPS`` sets the total number of steps of all clients;
``TOCSIN_BENCH_PEERS=0`` leaves out the other tools. Wall time is divided by the wall time of the raw inserts,
CPU time by their CPU time.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import psutil
from sqlalchemy import make_url
from sqlalchemy.engine import URL

from benchmarks.figures import figure
from benchmarks.peers import PACKAGES, Peer, measured
from benchmarks.raw_append import RawRate, raw_rate
from tests.server.conftest import ServerProcess, server_process
from tests.server.own_postgres import OwnPostgres

TRAINERS = (1, 8, 64)
PROCESSES = 8
"""Maximum number of processes. Clients are divided among them, and each client has its own sender thread."""
SERIES = 4
PROGRAM = Path(__file__).with_name("logging_process.py")


@dataclass(frozen=True, slots=True)
class Figures:
    """Points, wall seconds from the first log to the last ack, CPU seconds and MB of the server."""

    points: int
    wall_s: float
    server_s: float
    memory_mb: float


def trained(server: ServerProcess, folder: Path, clients: int, steps: int) -> Figures:
    """Report ``clients`` runs of ``steps`` steps each, until all are durable."""
    count = min(clients, PROCESSES)
    process = psutil.Process(server.process.pid)
    with contextlib.ExitStack() as stack:
        started = [_trainer(stack, server, folder / f"p{no}", clients // count, steps) for no in range(count)]
        for one in started:
            assert _line(one) == "ready"
        before = sum(process.cpu_times()[:2])
        for one in started:
            assert one.stdin is not None
            one.stdin.write("go\n")
            one.stdin.flush()
        reported = [_figures(_line(one)) for one in started]
    points = clients * steps * SERIES
    acked = sum(count for _, count in reported)
    assert acked * SERIES == points, f"expected {points} points acknowledged, got {acked * SERIES}"
    wall = max(took for took, _ in reported)
    return Figures(points, wall, sum(process.cpu_times()[:2]) - before, process.memory_info().rss / (1 << 20))


def _trainer(
    stack: contextlib.ExitStack, server: ServerProcess, folder: Path, runs: int, steps: int
) -> subprocess.Popen[str]:
    folder.mkdir(parents=True)
    place = [server.base, server.client_token, str(runs), str(steps), str(folder)]
    made = subprocess.Popen(
        [sys.executable, str(PROGRAM), *place], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    return stack.enter_context(made)


def _figures(line: str) -> tuple[float, int]:
    """Return seconds and acknowledged records of a process; zeros if it died."""
    words = line.split()
    assert len(words) == 2, f"expected seconds and acknowledged records, got {line!r}"
    return float(words[0]), int(words[1])


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def measure(name: str, url: URL, folder: Path, raw: RawRate, best: Peer | None, steps: int) -> int:
    """Measure one database with each number of clients, each with a new server; return how many failed."""
    folder.mkdir()
    failed = 0
    for clients in TRAINERS:
        try:
            reported = measured_with(url, folder / f"t{clients}", clients, steps // clients)
            print(f"{name:>10} {clients:>8} {row(reported, raw, best)}", flush=True)
            report(name, clients, reported, raw, best)
        except AssertionError as error:
            failed += 1
            print(f"{name:>10} {clients:>8} FAILED, {error}", flush=True)
    return failed


def measured_with(url: URL, folder: Path, clients: int, steps: int) -> Figures:
    """Measure a server on its data with that many clients."""
    folder.mkdir()
    options = ["--database-url", url.render_as_string(hide_password=False)]
    with server_process(folder, *options, TOCSIN_LIMIT_RECORDS_PER_S="100000000") as server:
        return trained(server, folder, clients, steps)


def row(reported: Figures, raw: RawRate, best: Peer | None) -> str:
    """Return rates and their ratios, wall time first."""
    rate, server = reported.points / reported.wall_s, reported.points / reported.server_s
    peer = f"{rate / best.points_per_s:8.1f}" if best else "       -"
    return (
        f"{rate:>12,.0f} {rate / raw.wall:>7.3f} {peer} "
        f"{server:>14,.0f} {server / raw.cpu:>7.3f} {reported.memory_mb:>8.0f}"
    )


def report(name: str, clients: int, reported: Figures, raw: RawRate, best: Peer | None) -> None:
    """Report the rate beside the fastest other tool, and the rate per CPU second beside raw inserts."""
    what = f"{clients} process{'es' if clients > 1 else ''}, {name}"
    peer = (best.name, best.points_per_s) if best else None
    figure(
        f"log to durable, {what}",
        reported.points / reported.wall_s,
        "points/s",
        peer=peer,
        higher_is_better=True,
    )
    rate = reported.points / reported.server_s
    figure(
        f"log to durable, {what}, per CPU second",
        rate,
        "points/s",
        peer=("raw sqlite3", raw.cpu),
        higher_is_better=True,
    )
    figure(f"log to durable, {what}, server memory", reported.memory_mb, "MB")


def peers(place: Path) -> Peer | None:
    """Print the results of the other tools; return the fastest."""
    if os.environ.get("TOCSIN_BENCH_PEERS") == "0":
        return None
    found: list[Peer] = []
    for name in PACKAGES:
        reported = measured(place, name)
        if isinstance(reported, Peer):
            found.append(reported)
            print(
                f"{name:>12}: {reported.points_per_s:>10,.0f} points/s, "
                f"{reported.bytes_a_point:.1f} bytes a point",
                flush=True,
            )
        else:
            print(reported, flush=True)
    return max(found, key=lambda peer: peer.points_per_s, default=None)


def main() -> int:
    """Measure the limit, the other tools, then both databases; return how many measurements failed."""
    steps = int(os.environ.get("TOCSIN_BENCH_STEPS", "1280000"))
    with tempfile.TemporaryDirectory() as place:
        best = peers(Path(place) / "peers")
        raw = raw_rate(Path(place), series=SERIES)
        print(f"raw sqlite3, blobs of 50 records: {raw}")
        wall = (f"{'points/s':>12}", f"{'of raw':>7}", f"{'x peer':>8}")
        cpu = (f"{'per server CPU':>14}", f"{'of raw':>7}")
        print(" " * 10, f"{'trainers':>8}", *wall, *cpu, f"{'RSS MB':>8}")
        file = Path(place) / "sqlite" / "tocsin.db"
        failed = measure("SQLite", make_url(f"sqlite:///{file}"), file.parent, raw, best, steps)
        with OwnPostgres(fsync=True) as postgres:
            url = postgres.new_database()
            return failed + measure("Postgres", url, Path(place) / "postgres", raw, best, steps)


if __name__ == "__main__":
    sys.exit(min(main(), 1))
