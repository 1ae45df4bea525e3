"""Measure the restart of a server with 1,000 live runs: from its start to the clients' acknowledgements.

A real server is killed with SIGKILL after each run has reported a few hundred steps, and started again; all
clients reconnect as soon as it listens, each with the steps that it made meanwhile. On SQLite and Postgres;
as ratios to the same with one run, in the same benchmark. ``TOCSIN_BENCH_RUNS`` sets the number of runs,
``TOCSIN_BENCH_STEPS`` the steps that each has reported before.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from sqlalchemy import make_url
from sqlalchemy.engine import URL

from benchmarks.figures import figure
from tests.server.own_postgres import OwnPostgres

RUNS = int(os.environ.get("TOCSIN_BENCH_RUNS", "1000"))
STEPS = int(os.environ.get("TOCSIN_BENCH_STEPS", "300"))
PROGRAM = Path(__file__).with_name("restart_trainers.py")
PIPES: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
TOKEN = re.compile(r'token="(\S+)"')


@dataclass(frozen=True, slots=True)
class Restart:
    """Seconds from the start of the new server to acknowledgements, and the number of failed connections."""

    first_s: float
    p50_s: float
    p99_s: float
    last_s: float
    failures: int


@contextlib.contextmanager
def running(url: URL, folder: Path, port: int) -> Iterator[subprocess.Popen[str]]:
    """Run ``tocsin-server serve`` as a user does; kill it at the end."""
    where = ["--data-dir", str(folder), "--database-url", url.render_as_string(hide_password=False)]
    command = [sys.executable, "-m", "tocsin_server", "serve", "--port", str(port), *where]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGKILL)


def client_token(server: subprocess.Popen[str]) -> str:
    """Return the token that the startup message shows."""
    assert server.stdout is not None
    for line in server.stdout:
        if found := TOKEN.search(line):
            return found[1]
    raise AssertionError("the server ended before its startup message")


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def restarted(url: URL, folder: Path, runs: int, steps: int) -> Restart:
    """Kill a server with that many live runs, start it again, and return when its clients got their acks."""
    folder.mkdir(parents=True)
    port = free_port()
    with contextlib.ExitStack() as stack:
        with running(url, folder, port) as server:
            words = [str(port), client_token(server), str(runs), str(steps)]
            command = [sys.executable, str(PROGRAM), *words]
            load = stack.enter_context(subprocess.Popen(command, **PIPES))
            stack.callback(load.kill)
            assert load.stdin is not None
            assert load.stdout is not None
            ready = load.stdout.readline().strip()
            assert ready == "ready", f"expected ready, got {ready!r}"
        begun = time.time()
        with running(url, folder, port):
            print("go", file=load.stdin, flush=True)
            found = json.loads(load.stdout.readline())
    waits = sorted(acked - begun for acked in found["acked"])
    return Restart(
        waits[0], waits[len(waits) // 2], waits[int(0.99 * len(waits))], waits[-1], found["failures"]
    )


def measure(name: str, url: URL, empty: URL, folder: Path) -> None:
    """Measure one database with one run and with all of them."""
    one = restarted(empty, folder / "one", 1, STEPS)
    all_of_them = restarted(url, folder / "all", RUNS, STEPS)
    for runs, found in ((1, one), (RUNS, all_of_them)):
        print(
            f"{name:>10} {runs:>6} {found.first_s:>8.2f} {found.p50_s:>8.2f} {found.p99_s:>8.2f} "
            f"{found.last_s:>8.2f} {found.failures:>8}",
            flush=True,
        )
    if RUNS == 1000:
        report(name, one, all_of_them)


def report(name: str, one: Restart, found: Restart) -> None:
    """Report the times beside those of a restart with one run."""
    where = "" if name == "SQLite" else f", {name}"
    peer = ("1 live run", one.first_s)
    figure(f"restart with 1,000 live runs{where}, first ack", found.first_s, "s", peer=peer)
    figure(f"restart with 1,000 live runs{where}, median ack", found.p50_s, "s", peer=peer)
    figure(f"restart with 1,000 live runs{where}, last ack", found.last_s, "s", peer=peer)
    figure(f"restart with 1,000 live runs{where}, failed connections", found.failures)


def main() -> None:
    """Measure both databases."""
    header = ("first s", "p50 s", "p99 s", "last s", "failed")
    print(f"{'acks':>10} {'runs':>6} " + " ".join(f"{word:>8}" for word in header), flush=True)
    with tempfile.TemporaryDirectory(prefix="tocsin-start-") as place:
        files = [
            make_url(f"sqlite:///{Path(place) / 'sqlite' / name / 'tocsin.db'}") for name in ("all", "one")
        ]
        measure("SQLite", files[0], files[1], Path(place) / "sqlite")
        with OwnPostgres(fsync=True) as postgres:
            urls = postgres.new_database(), postgres.new_database()
            measure("Postgres", *urls, Path(place) / "postgres")


if __name__ == "__main__":
    main()
