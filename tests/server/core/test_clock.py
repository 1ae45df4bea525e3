"""Changed clocks, of the server or of a client, make no run look stalled or lost."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import select

from tocsin_server.core.clock import Clock
from tocsin_server.core.models import RunState
from tocsin_server.runs.watchdog import look
from tocsin_server.store.alert_groups import GroupRow, put_group
from tocsin_server.store.outbox import Notification, enqueue
from tocsin_server.store.tables import notification, notify_group

Start = Callable[..., Any]
Dial = Callable[..., Any]
S = 1_000_000_000
HOUR_NS = 3600 * S


class Hands:
    """The two clocks of a machine: ``set`` changes the wall clock only, ``wait`` both."""

    def __init__(self) -> None:
        self.wall_ns, self.steady_ns = time.time_ns(), 5 * S

    def clock(self) -> Clock:
        return Clock(lambda: self.wall_ns, lambda: self.steady_ns)

    def set(self, by_ns: int) -> None:
        self.wall_ns += by_ns

    def wait(self, seconds: float) -> None:
        self.wall_ns += int(seconds * S)
        self.steady_ns += int(seconds * S)


@pytest.fixture
def hands() -> Hands:
    return Hands()


@pytest.fixture
def server(run_server: Start, hands: Hands, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The test sets its clocks, and only the test runs checks."""

    async def idle(*_: Any) -> None:
        return None

    monkeypatch.setattr("tocsin_server.app.application.run_watchdog", idle)
    monkeypatch.setattr("tocsin_server.runs.pipeline.Clock", hands.clock)
    return run_server()


def states(server: Any) -> list[RunState]:
    """Return state and alerts of every run, as the watchdog finds them now."""
    server.call(lambda: look(server.pipeline, server.pipeline.clock()))
    return [run.state for run in server.pipeline.registry.active.values()]


@pytest.mark.parametrize("by_ns", [-HOUR_NS, HOUR_NS], ids=["back", "forward"])
def test_setting_the_clock_stalls_no_run(server: Any, hands: Hands, dial: Dial, by_ns: int) -> None:
    """No run becomes stalled or lost, immediately or later; a real silence is still detected."""
    client = dial(server.base, "r1", server.token)
    for step in range(3):
        client.acked(client.train([step], loss=[1.0]))
        hands.wait(1)
    hands.set(by_ns)
    assert states(server) == [RunState.RUNNING]
    client.acked(client.train([3], loss=[1.0]))
    assert max(server.pipeline.registry.active["r1"].heartbeat.intervals_s) < 60
    hands.wait(30)
    assert states(server) == [RunState.RUNNING]
    hands.wait(7200)
    assert states(server) == [RunState.STALLED]


@pytest.mark.parametrize("by_ns", [-HOUR_NS, HOUR_NS], ids=["back", "forward"])
def test_setting_the_clock_loses_no_run(
    server: Any, hands: Hands, dial: Dial, eventually: Any, by_ns: int
) -> None:
    """A client that disconnects has exactly thirty seconds to return."""
    client = dial(server.base, "r1", server.token)
    client.acked(client.train([0], loss=[1.0]))
    client.socket.close()
    eventually(lambda: not server.pipeline.registry.active["r1"].connected, "the trainer to go")
    hands.set(by_ns)
    hands.wait(20)
    assert states(server) == [RunState.RUNNING]
    hands.wait(20)
    assert states(server) == [RunState.LOST]


def test_the_clock_of_a_client_is_ignored(server: Any, hands: Hands, dial: Dial) -> None:
    """Records with times of an hour ago are dated by their arrival."""
    client = dial(server.base, "r1", server.token, time_ns=time.time_ns() + HOUR_NS)
    client.acked(client.train([0], loss=[1.0]))
    hands.wait(20)
    assert states(server) == [RunState.RUNNING]


def test_an_ordinary_correction_is_no_jump(hands: Hands) -> None:
    """A clock that is repeatedly slewed by half a second does not count as set."""
    clock = hands.clock()
    jumps: list[int] = []
    clock.jumped = jumps.append
    for _ in range(10):
        hands.set(S // 2)
        clock()
    assert jumps == []


def test_notifications_wait_no_longer_for_a_clock_that_is_set_back(
    server: Any, hands: Hands, eventually: Any
) -> None:
    """Notifications that are due in two hours are still due in two hours by the new clock."""
    due_ns = time.time_ns() + 2 * HOUR_NS
    with server.services.database.engine.begin() as connection:
        put_group(connection, GroupRow("g", "alerts", "all", "c", {}, due_ns, due_ns, None))
        enqueue(connection, Notification("n", "c", "g", "alerts", "t", due_ns=due_ns))
    hands.set(-HOUR_NS)
    states(server)

    def waits() -> set[int]:
        with server.services.database.reader.connect() as connection:
            return {
                connection.execute(select(each.c.due_ns)).scalar_one()
                for each in (notify_group, notification)
            }

    eventually(lambda: waits() == {due_ns - HOUR_NS}, "both to be moved")
