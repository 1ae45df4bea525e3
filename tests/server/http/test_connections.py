"""Which connections are closed at the limits: those that wait for their peer first, and always logged."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tocsin_server.app import application
from tocsin_server.core.settings import Settings
from tocsin_server.http.connections import (
    ALLOWANCE,
    CLOSING_S,
    LOG_EVERY_S,
    SPARE,
    STUCK_S,
    Bounds,
    Connection,
    Connections,
    Inbound,
    Receiver,
    group_of,
    is_local,
)

FAR, NEAR, OTHER = "203.0.113.7", "127.0.0.1", "198.51.100.1"


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Scene:
    """Connections that record how they ended."""

    def __init__(self, total: int = 4, of_address: int = 3) -> None:
        self.clock = Clock()
        self.connections = Connections(Bounds(total, of_address), self.clock)
        self.ended: list[tuple[str, str]] = []

    def open(self, name: str, group: str = FAR, *, working: bool = False) -> Connection | None:
        made = Connection(
            group,
            lambda why: self.ended.append((name, why)),
            lambda: self.ended.append((name, "aborted")),
        )
        if not self.connections.add(made):
            return None
        if working:
            self.connections.waits(made, False)
        return made


def test_the_longest_waiting_connection_is_closed() -> None:
    """It is one of the address with most connections; other addresses are not affected."""
    scene = Scene()
    for name, group in (("a", OTHER), ("b", FAR), ("c", FAR), ("d", NEAR)):
        assert scene.open(name, group)
    assert scene.open("e", NEAR)
    assert scene.ended == [("b", "aborted")]
    assert len(scene.connections) == 4


def test_active_and_logged_in_connections_stay() -> None:
    """Above the limit, only a few short requests are accepted."""
    scene = Scene(total=4)
    for number in range(4):
        scene.open(str(number), NEAR, working=True)
    spare = [scene.open(f"spare {number}", NEAR, working=True) for number in range(SPARE)]
    assert scene.ended == []
    assert all(one is not None and not scene.connections.may_stay_open(one, "trainer") for one in spare)
    assert scene.open("one more", NEAR) is None
    scene.connections.remove(spare[0])  # type: ignore[arg-type]
    assert scene.open("now", NEAR)


def test_one_address_has_its_own_limit() -> None:
    """The oldest connection is closed, or the new one if all are logged in; local peers have no limit."""
    scene = Scene(total=100, of_address=2)
    scene.open("a"), scene.open("b"), scene.open("c")
    assert scene.ended == [("a", "aborted")]
    for name in ("x", "y"):
        scene.open(name, OTHER, working=True)
    assert scene.open("z", OTHER) is None
    assert all(scene.open(str(number), NEAR) for number in range(50))


@pytest.mark.parametrize(
    ("host", "group", "local"),
    [
        ("203.0.113.7", "203.0.113.7", False),
        ("::ffff:203.0.113.7", "203.0.113.7", False),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64", False),
        ("fe80::1%eth0", "fe80::/64", False),
        ("::1", "::1", True),
        ("127.0.0.9", "127.0.0.9", True),
        (None, "", True),
        ("a path", "", True),
    ],
)
def test_an_address_is_what_one_peer_can_have_many_of(host: str | None, group: str, local: bool) -> None:
    """A machine has a whole network of IPv6 addresses; a local peer is not counted."""
    assert group_of(host) == group
    assert is_local(group) is local


def test_pages_leave_room_for_trainers() -> None:
    """At most half of the connections may be live pages."""
    scene = Scene(total=4)
    pages = [scene.open(str(number), NEAR, working=True) for number in range(3)]
    reported = [scene.connections.may_stay_open(page, "page") for page in pages if page]
    assert reported == [True, True, False]
    assert scene.connections.may_stay_open(pages[2], "trainer")  # type: ignore[arg-type]


def test_a_late_connection_gets_the_reason() -> None:
    """A deadline closes once; a peer that responded in time has none."""
    scene = Scene()
    late, in_time = scene.open("late"), scene.open("in time")
    assert late is not None
    assert in_time is not None
    late.expect("head", 10.0)
    in_time.expect("head", 10.0)
    in_time.expect("", None)
    scene.clock.now = 9.9
    scene.connections.sweep()
    assert scene.ended == []
    scene.clock.now = 10.0
    scene.connections.sweep()
    scene.connections.sweep()
    assert scene.ended == [("late", "head")]


def test_a_peer_that_does_not_read_is_disconnected() -> None:
    """Neither an unread response nor an unconfirmed close keeps a connection open."""
    scene = Scene()
    stuck, closing = scene.open("stuck"), scene.open("closing")
    assert stuck is not None
    assert closing is not None
    stuck.stuck_since = closing.closing_since = 0.0
    scene.clock.now = CLOSING_S
    scene.connections.sweep()
    assert scene.ended == [("closing", "aborted")]
    scene.connections.remove(closing)
    scene.clock.now = STUCK_S
    scene.connections.sweep()
    assert scene.ended[1:] == [("stuck", "aborted")]


def test_limits_are_logged_at_intervals(caplog: pytest.LogCaptureFixture) -> None:
    """A thousand rejections are one line, and a later one has their number; health has the exact number."""
    scene = Scene()
    with caplog.at_level(logging.WARNING):
        for _ in range(1000):
            scene.connections.acted("head", FAR, "too large")
        scene.clock.now = LOG_EVERY_S
        scene.connections.acted("head", FAR, "too large")
    assert [record.getMessage() for record in caplog.records] == [
        "Closed a connection from 203.0.113.7: too large",
        "Closed a connection from 203.0.113.7: too large (999 more since the last message)",
    ]
    assert scene.connections.closed == {"head": 1001}


@pytest.mark.parametrize(("files", "total"), [(None, 4096), (1024, 768), (100_000, 4096), (128, 64)])
def test_files_are_kept_for_the_rest(monkeypatch: pytest.MonkeyPatch, files: int | None, total: int) -> None:
    """If the process may open few files, there are fewer connections, because the database needs some."""
    monkeypatch.setattr(application, "open_files", lambda: files)
    bounds = application.bounds_of(Settings())
    assert bounds.total == total
    assert bounds.of_address <= max(total * 3 // 4, 1)


class Sender(Receiver):
    """Send messages of ``size`` bytes in chunks, unless it is held."""

    def __init__(self, size: int) -> None:
        self.size, self.held, self.done = size, 0, 0
        self.on_hold = False

    def hold(self) -> None:
        self.on_hold = True

    def release(self) -> None:
        self.on_hold = False


CHUNK = 4 * ALLOWANCE


@settings(max_examples=50)
@given(st.lists(st.integers(1, 15), min_size=1, max_size=8), st.data())
def test_large_messages_are_bounded_and_all_come_to_an_end(sizes: list[int], data: Any) -> None:
    """In any order of arrival, the received bytes stay near the limit, and nobody waits indefinitely."""
    limit = 5 * CHUNK
    inbound, senders = Inbound(limit), [Sender(size * CHUNK) for size in sizes]
    while not all(sender.done for sender in senders):
        ready = [sender for sender in senders if not sender.on_hold and not sender.done]
        assert ready, "all wait"
        sender = data.draw(st.sampled_from(ready))
        sender.held += CHUNK
        inbound.count(sender, sender.held)
        assert inbound.bytes <= limit + max(sizes) * CHUNK + len(senders) * CHUNK
        if sender.held >= sender.size:
            sender.held, sender.done = 0, 1
            inbound.count(sender, 0)
    assert inbound.bytes == 0


def test_a_small_message_is_never_held() -> None:
    """An ordinary client continues while others send megabytes; a closed one delays nobody."""
    inbound, large, small, other = Inbound(ALLOWANCE), Sender(0), Sender(0), Sender(0)
    inbound.count(large, 5 * ALLOWANCE)
    inbound.count(other, 5 * ALLOWANCE)
    inbound.count(small, ALLOWANCE)
    assert (large.on_hold, other.on_hold, small.on_hold) == (False, True, False)
    inbound.forget(large)
    assert not other.on_hold
