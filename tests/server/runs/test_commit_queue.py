"""Back-pressure depends on the backlog, and the event loop is notified once per commit group."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tocsin_server.core.models import WriteBatch
from tocsin_server.core.settings import Settings
from tocsin_server.runs.commit_queue import Commit, Commits, Pressure


class Full:
    """A store with a given backlog."""

    def __init__(self, backlog_bytes: int, failing: str | None = None) -> None:
        self.backlog_bytes = backlog_bytes
        self.failing = failing
        self.last_commit_s = 0.0

    def submit(self, write: WriteBatch) -> None:
        raise AssertionError(write)


@pytest.mark.parametrize(
    ("backlog", "failing", "flush_ms"),
    [
        (0, None, 200),
        (250, None, 200),
        (625, None, 2600),
        (1000, None, 5000),
        (9000, None, 5000),
        (0, "x", 5000),
    ],
)
def test_the_flush_interval_widens_with_the_backlog(backlog: int, failing: str | None, flush_ms: int) -> None:
    """Clients run at full speed up to a quarter of the limit, and are slowed down above it."""
    assert Pressure(Full(backlog, failing), Settings(backlog_bytes=1000)).flush_ms() == flush_ms


def test_many_clients_send_less_often() -> None:
    """At most 400 messages per second: 100 clients every 0.25 s."""
    pressure = Pressure(Full(0), Settings(flush_ms=200, messages_per_s=400))
    for number in range(100):
        pressure.joined(f"run {number}")
    assert pressure.flush_ms("run 0") == 250
    for number in range(50):
        pressure.left(f"run {number}")
    assert pressure.flush_ms("run 60") == 200


def test_clients_of_a_run_on_screen_send_more_often() -> None:
    """Only those, and not if they are many."""
    pressure = Pressure(Full(0), Settings(flush_ms=200, flush_ms_watched=100, messages_per_s=400))
    for run_id in ("shown", "other", *["large"] * 60):
        pressure.joined(run_id)
    pressure.watch({"shown"})
    assert (pressure.flush_ms("shown"), pressure.flush_ms("other")) == (100, 200)
    pressure.watch({"shown", "large"})
    assert pressure.flush_ms("shown") == 152


@pytest.mark.parametrize(
    ("backlog", "failing", "tick_ms"), [(0, None, 250), (250, None, 250), (1000, None, 2000), (0, "x", 2000)]
)
def test_browsers_get_fewer_deltas_under_pressure(backlog: int, failing: str | None, tick_ms: int) -> None:
    """At the usual rate up to a quarter of the limit; every 2 s when it is full."""
    pressure = Pressure(Full(backlog, failing), Settings(backlog_bytes=1000, tick_ms=250))
    assert pressure.tick_ms == tick_ms


def test_waiting_readers_continue_when_there_is_room() -> None:
    """A full backlog blocks readers, and a commit unblocks them."""

    async def scene() -> None:
        store = Full(1000)
        pressure = Pressure(store, Settings(backlog_bytes=1000))
        waiting = asyncio.create_task(pressure.wait())
        await asyncio.sleep(0)
        pressure.eased()
        await asyncio.sleep(0)
        assert not waiting.done()
        store.backlog_bytes = 999
        pressure.eased()
        await waiting

    asyncio.run(scene())


def ring_all(commits: Commits, made: list[Commit]) -> None:
    for commit in made:
        commits.notify(commit)


def test_a_group_wakes_the_loop_once() -> None:
    """Everything that the writer thread commits at once arrives at once and in order."""

    async def scene() -> None:
        groups: list[list[Any]] = []
        commits = Commits(groups.append)
        commits.bind(asyncio.get_running_loop())
        made = [Commit(None, None, arrival) for arrival in range(100)]  # type: ignore[arg-type]
        await asyncio.to_thread(ring_all, commits, made)
        await asyncio.sleep(0)
        assert [commit for group in groups for commit in group] == made
        commits.bind(None)
        commits.notify(made[0])

    asyncio.run(scene())
