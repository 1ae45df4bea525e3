"""Measure the time from ``log`` of a NaN in the real hook to the webhook's receipt of the notification.

A real server process on SQLite with 200 clients that report ten steps per second each; the receiver is a real
HTTP server in this process. The route has the default group wait, 0.3 s for a critical alert.
``TOCSIN_BENCH_TRAINERS`` and ``TOCSIN_BENCH_ALARMS`` set the number of clients and of measured alerts.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from pathlib import Path
from statistics import quantiles

sys.path.insert(0, str(Path(__file__).parents[1]))

import httpx

from benchmarks.bench_fleet import PROCESSES, ended, started
from benchmarks.figures import figure
from tests.server.conftest import ServerProcess, server_process
from tests.server.receiver import Receiver

TRAINERS = int(os.environ.get("TOCSIN_BENCH_TRAINERS", "200"))
ALARMS = int(os.environ.get("TOCSIN_BENCH_ALARMS", "60"))
LAST_S = 60.0
"""How long the last notification is waited for."""
LIMIT_S = 1.0
"""p99 (design target)."""
ONLY_NAN = {
    "name": "all",
    "matchers": ['project="delivery"', 'rule="nonfinite-loss"'],
    "send_resolved": False,
}


def open_channel(server: ServerProcess, url: str) -> None:
    """Create a webhook channel without a rate limit that gets only the NaN alert."""
    for method, path, body in (
        (
            "POST",
            "/channels",
            {"name": "bench", "kind": "webhook", "limit_per_hour": 0, "config": {"url": url}},
        ),
        ("PUT", "/routes", {"routes": [ONLY_NAN]}),
    ):
        answer = httpx.request(
            method, f"{server.base}/api/v1{path}", headers=server.headers, json=body, timeout=60
        )
        answer.raise_for_status()


def arrivals(receiver: Receiver, wanted: int) -> dict[str, float]:
    """Return the time of the first notification of each run."""
    ends = time.monotonic() + LAST_S
    found: dict[str, float] = {}
    while len(found) < wanted and time.monotonic() < ends:
        for received in list(receiver.received):
            for alert in received.json["alerts"]:
                found.setdefault(alert["run_name"], received.at)
        time.sleep(0.1)
    return found


def rung(server: ServerProcess, receiver: Receiver, place: Path) -> list[float]:
    """Return the seconds from ``log`` to the receiver of each alert. Raise SystemExit if one never
    arrived."""
    with contextlib.ExitStack() as stack:
        words = (server.base, server.client_token, str(ALARMS), str(place))
        lines = ended(started(stack, "firing_process.py", *words)).split("\n")
    logged = {name: float(at) for name, at in (line.split() for line in lines if line)}
    came = arrivals(receiver, len(logged))
    missing = logged.keys() - came.keys()
    if missing or len(logged) != ALARMS:
        raise SystemExit(f"{len(missing)} of {ALARMS} notifications did not arrive")
    return [came[name] - at for name, at in logged.items()]


def main() -> None:
    """Let the clients report while the alerts fire."""
    with tempfile.TemporaryDirectory() as place, contextlib.ExitStack() as stack:
        receiver = Receiver()
        stack.callback(receiver.close)
        private = {"TOCSIN_NOTIFY_PRIVATE_ADDRESSES": "true"}
        server = stack.enter_context(server_process(Path(place), **private))
        open_channel(server, receiver.url)
        each = TRAINERS // PROCESSES
        loads = [
            started(stack, "fleet_trainers.py", server.base, server.client_token, str(no * each), str(each))
            for no in range(PROCESSES)
        ]
        delays = rung(server, receiver, Path(place) / "spool")
        load = os.getloadavg()[0]
        for one in loads:
            ended(one)
    cuts = quantiles(delays, n=100, method="inclusive")
    print(
        f"log to webhook with {TRAINERS} trainers: p50 {cuts[49]:.3f} s, p99 {cuts[98]:.3f} s, "
        f"limit {LIMIT_S:g} s: {cuts[98] / LIMIT_S:.2f}, "
        f"most {max(delays):.3f} s ({len(delays)} alarms, load {load:.1f})",
        flush=True,
    )
    figure("log to webhook, p50", cuts[49], "s")
    figure("log to webhook, p99", cuts[98], "s")


if __name__ == "__main__":
    main()
