"""Killed at random moments while alerts fire and resolve, the server notifies each of them once."""

from __future__ import annotations

import math
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.matrix import ALL
from tests.server.delivery.test_sender import AT_ONCE, QUICK_ENV
from tocsin.transport import session
from tocsin.transport.outbox import Outbox
from tocsin.transport.sender import Sender

KILLS, RUNS, LONGEST_S = (100, 3, 1.0) if ALL else (2, 2, 0.3)
PERIOD = 800
"""Steps between two NaN losses; an alert has resolved before the next one."""


class Reporting(threading.Thread):
    """A training process that reports 20 steps every 50 ms, whatever happens to the server."""

    def __init__(self, server: Any, run: str, folder: Path, make_hello: Any) -> None:
        super().__init__()
        self.outbox, self.ends, self.steps = Outbox(), threading.Event(), 0
        self.sender = Sender(
            self.outbox,
            lambda: make_hello(run, server.token),
            url=server.base,
            spool_dir=folder / run,
            exit_timeout=60.0,
        )

    def run(self) -> None:
        self.sender.start()
        while not self.ends.is_set():
            for step in range(self.steps, self.steps + 20):
                loss = math.nan if step % PERIOD == 100 else 1.0 + 0.01 * (step % 7)
                self.outbox.put((step, time.time_ns(), ("loss",), loss))
            self.steps += 20
            self.ends.wait(0.05)
        self.sender.close()


@pytest.mark.timeout(1500)
def test_kills_while_alerts_fire_and_resolve_notify_nothing_twice(
    start_server: Callable[..., Any],
    receive: Any,
    admin_api: Any,
    make_hello: Any,
    eventually: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A request can be repeated if the server is killed before it stored the response; its id is the same."""
    monkeypatch.setattr(session, "BACKOFF_CAP_S", 0.25)
    chance, receiver, server = random.Random(17), receive(), start_server(**QUICK_ENV)
    admin_api(server).hook(receiver.url, limit_per_hour=0, routing=AT_ONCE)
    runs = [Reporting(server, f"r{no}", tmp_path / "spool", make_hello) for no in range(RUNS)]
    for run in runs:
        run.start()
    for _ in range(KILLS):
        before = [run.sender.stats.acked_seq for run in runs]
        eventually(lambda: progress(runs, before), "all runs to be connected")  # noqa: B023
        time.sleep(chance.uniform(0.0, LONGEST_S))
        server.stop(signal.SIGKILL)
        server = start_server("--port", server.base.rpartition(":")[2], **QUICK_ENV)
    for run in runs:
        run.ends.set()
        run.join()
    api = admin_api(server)
    eventually(lambda: settled(api, len(runs), receiver.received), "all notifications to be sent")
    assert_once(receiver.received, len(api.get("/incidents?limit=1000")["items"]))


def progress(runs: list[Reporting], before: list[int]) -> bool:
    """Return whether every run has more acknowledged records than before."""
    return all(run.sender.stats.acked_seq > seq for run, seq in zip(runs, before, strict=True))


def settled(api: Any, runs: int, received: list[Any]) -> bool:
    """Return whether every run has ended, each incident was notified, and nothing waits to be sent."""
    try:
        ended = sum(run["state"] == "finished" for run in api.get("/runs")["items"])
        incidents = {incident["id"] for incident in api.get("/incidents?limit=1000")["items"]}
        return ended == runs and notified(received) == incidents and set(api.states()) == {"sent"}
    except httpx.TransportError:
        return False


def notified(received: list[Any]) -> set[str]:
    """Return the incidents of all messages."""
    return {alert["incident"] for each in received for alert in each.json["alerts"]}


def assert_once(received: list[Any], incidents: int) -> None:
    """Fail if an alert is new or over in two notifications."""
    messages = {each.headers["Tocsin-Delivery"]: each.json for each in received}
    seen = Counter(
        (alert["id"], which)
        for message in messages.values()
        for alert in message["alerts"]
        for which in ("new", "over")
        if alert[which]
    )
    assert not [each for each, count in seen.items() if count > 1]
    repeated = len(received) - len(messages)
    print(f"{incidents} incidents, {len(messages)} notifications, {repeated} sent again")
    assert repeated <= KILLS  # at most the one that was being sent
