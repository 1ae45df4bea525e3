"""Measure a laboratory's typical load: 200 clients at 10 steps/s, without and with 100 browsers.

A real server process on SQLite; clients and browsers run in a few separate processes and use the real
protocols. The output is the server's share of one core and the time from a step's send to a browser's delta.
``TOCSIN_BENCH_SECONDS`` sets the duration of each measurement, ``TOCSIN_BENCH_TRAINERS`` the number of
clients; there are half as many browsers.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import quantiles

sys.path.insert(0, str(Path(__file__).parents[1]))

import psutil

from benchmarks.figures import figure
from tests.server.conftest import ServerProcess, server_process

TRAINERS = int(os.environ.get("TOCSIN_BENCH_TRAINERS", "200"))
BROWSERS = TRAINERS // 2
PROCESSES = 2
"""Number of processes for the clients; the browsers use a separate one."""
FOLLOWED = 8
"""Runs whose pages are open."""
WARM_UP_S = 5.0
LIMIT = 0.25
"""Share of one core (design target)."""
PLACE = Path(__file__).parent


def started(stack: contextlib.ExitStack, program: str, *words: str) -> subprocess.Popen[str]:
    """Start a load process; return it once it is ready."""
    made = subprocess.Popen(
        [sys.executable, str(PLACE / program), *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    stack.enter_context(made)
    assert made.stdout is not None
    assert made.stdout.readline().strip() == "ready"
    return made


def ended(load: subprocess.Popen[str]) -> str:
    """End a load process; return its last output."""
    printed, _ = load.communicate()
    return printed


def share(server: ServerProcess, seconds: float) -> float:
    """Return the CPU time of the server over the next ``seconds``, as a share of one core."""
    process = psutil.Process(server.process.pid)
    time.sleep(WARM_UP_S)
    before, begun = sum(process.cpu_times()[:2]), time.monotonic()
    time.sleep(seconds)
    used: float = sum(process.cpu_times()[:2]) - before
    return used / (time.monotonic() - begun)


def watched(server: ServerProcess, seconds: float) -> tuple[float, str]:
    """Return the share with browsers, and the delays that they measured."""
    runs = [f"fleet{no}" for no in range(FOLLOWED)]
    with contextlib.ExitStack() as stack:
        browsers = started(stack, "fleet_browsers.py", server.base, server.token, str(BROWSERS), *runs)
        used = share(server, seconds)
        volume, *delays = map(float, ended(browsers).split())
    cuts = quantiles(delays, n=100)
    figure("send to browser, p50", cuts[49], "s")
    figure("send to browser, p99", cuts[98], "s")
    reported = f"send to delta p50 {cuts[49]:.3f} s, p99 {cuts[98]:.3f} s ({len(delays)} frames)"
    return used, f"{reported}, {volume / (seconds + WARM_UP_S):.1f} MB/s to browsers"


def main() -> None:
    """Measure clients alone, then with browsers."""
    seconds = float(os.environ.get("TOCSIN_BENCH_SECONDS", "20"))
    with tempfile.TemporaryDirectory() as place, contextlib.ExitStack() as stack:
        server = stack.enter_context(server_process(Path(place)))
        each = TRAINERS // PROCESSES
        places = [(str(no * each), str(each)) for no in range(PROCESSES)]
        loads = [
            started(stack, "fleet_trainers.py", server.base, server.client_token, *words) for words in places
        ]
        alone = share(server, seconds)
        print(f"{TRAINERS} trainers at 10 steps/s: {alone:.1%} of one core", flush=True)
        if TRAINERS == 200:
            figure("server, 200 processes", 100 * alone, "% of a core")
        used, reported = watched(server, seconds)
        print(f"with {BROWSERS} browsers: {used:.1%} of one core, limit {LIMIT:.0%}; {reported}", flush=True)
        if TRAINERS == 200:
            figure("server, 200 processes and 100 browsers", 100 * used, "% of a core")
        for load in loads:
            ended(load)


if __name__ == "__main__":
    main()
