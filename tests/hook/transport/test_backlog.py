"""Unacknowledged frames are kept in order, sent once per connection, and dropped only by the documented
policy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.hook.spool.test_segments import HEADER
from tocsin.core.frames import EVENT, RECORDS, Frame
from tocsin.spool.segments import Spool
from tocsin.transport.backlog import Backlog, NoSpool


def record(seq: int, size: int = 10) -> Frame:
    """A frame of one record."""
    return Frame(RECORDS, seq, 1, b"x" * size)


def sent(backlog: Backlog) -> list[int]:
    """Return the numbers of all frames that can be sent now."""
    found = []
    while (frame := backlog.next()) is not None:
        found.append(frame.first)
    return found


class Disk:
    """A real spool whose disk can be full temporarily."""

    def __init__(self, root: Path) -> None:
        self.now = 0.0
        self.spool = Spool(root, lambda: HEADER, segment_bytes=300, clock=lambda: self.now)
        self.room = self.spool._limit

    def set_full(self, full: bool) -> None:
        """Make the disk full, or free again; the next attempt is immediate."""
        self.spool._limit = 0 if full else self.room
        self.now += 100.0


@contextmanager
def disk() -> Iterator[Disk]:
    """Make the disk unavailable."""
    with TemporaryDirectory() as root:
        made = Disk(Path(root))
        yield made
        made.spool.close()


def test_what_does_not_fit_into_memory_is_read_back_from_the_spool() -> None:
    """A hundred frames with room for five in memory: all are sent, in order."""
    with disk() as made:
        backlog = Backlog(made.spool, limit_bytes=50)
        for seq in range(100):
            backlog.add(record(seq))
        seen: list[int] = []
        while not backlog.empty:
            seen += sent(backlog)
            backlog.acknowledge(seen[-1], -1)
        assert seen == list(range(100))


def test_memory_stays_within_its_limit() -> None:
    """However long the outage is, memory use stays near the limit."""
    with disk() as made:
        backlog = Backlog(made.spool, limit_bytes=100)
        for seq in range(1000):
            backlog.add(record(seq))
        assert backlog._bytes <= 100


def test_without_a_spool_memory_is_full_at_its_limit_and_drops_nothing() -> None:
    """The queue is not drained from then on; other frames, such as the finish, are kept."""
    backlog = Backlog(NoSpool(), limit_bytes=50)
    room = []
    for seq in range(6):
        room.append(backlog.has_room)
        backlog.add(record(seq))
    assert room == [True] * 5 + [False]
    assert sent(backlog) == [0, 1, 2, 3, 4, 5]


def test_a_disk_that_was_full_for_a_while_gets_what_it_missed() -> None:
    """Frames that waited in memory are written to the disk, in order, when there is space again."""
    with disk() as made:
        backlog = Backlog(made.spool, limit_bytes=1000)
        backlog.add(record(0))
        made.set_full(True)
        backlog.add(record(1))
        made.set_full(False)
        backlog.add(record(2))
        heir = Backlog(made.spool)
        assert sent(heir) == [0, 1, 2]
        assert sent(backlog) == [0, 1, 2]


def test_frames_on_the_disk_are_sent_while_a_full_disk_fills_memory() -> None:
    """Newer frames that only memory can hold do not block the older ones on the disk."""
    with disk() as made:
        backlog = Backlog(made.spool, limit_bytes=60)
        for seq in range(7):
            backlog.add(record(seq))
        made.set_full(True)
        for seq in range(7, 14):
            backlog.add(record(seq))
        for seq in range(14):
            assert (frame := backlog.next()) is not None
            assert frame.first == seq
            backlog.acknowledge(seq, -1)


def test_an_ack_of_what_was_never_sent_reaches_no_further_than_what_was() -> None:
    """An impossible acknowledgement removes nothing."""
    backlog = Backlog(NoSpool())
    for seq in range(3):
        backlog.add(record(seq))
    backlog.next()
    backlog.acknowledge(10**6, 10**6)
    assert sent(backlog) == [1, 2]


def test_records_and_events_are_acknowledged_apart() -> None:
    """An event that is not durable yet does not hold up the records, and stays."""
    backlog = Backlog(NoSpool())
    backlog.add(Frame(EVENT, 0, 1, b"event"))
    backlog.add(record(0))
    sent(backlog)
    backlog.acknowledge(0, -1)
    assert (backlog.in_flight, backlog.empty) == (0, False)
    backlog.acknowledge(0, 0)
    assert backlog.empty


def test_a_server_that_lost_what_it_had_gets_it_again_from_the_spool() -> None:
    """What the newest segment still has is sent a second time."""
    with disk() as made:
        backlog = Backlog(made.spool)
        for seq in range(3):
            backlog.add(record(seq))
        sent(backlog)
        backlog.acknowledge(2, -1)
        backlog.add(record(3))
        backlog.resume(-1, -1)
        assert sent(backlog) == [0, 1, 2, 3]


STEPS = st.sampled_from(["add", "add", "add", "send", "ack", "cut", "full", "room"])


@settings(max_examples=150, deadline=None)
@given(st.lists(STEPS, max_size=120))
def test_nothing_is_lost_doubled_or_reordered(happenings: list[str]) -> None:
    """For any sequence of adds, acks, disconnects and full disks, the server has every record."""
    with disk() as made:
        backlog, added, durable = Backlog(made.spool, limit_bytes=60), 0, [-1]
        pending: list[int] = []
        for happening in [*happenings, "room", "cut", *["send", "ack"] * 200]:
            if happening == "add":
                backlog.add(record(added))
                added += 1
            elif happening == "send" and (frame := backlog.next()) is not None:
                pending.append(frame.first)
            elif happening == "ack" and pending:
                assert pending[0] > durable[-1]
                durable += pending
                pending = []
                backlog.acknowledge(durable[-1], -1)
            elif happening == "cut":
                pending = []
                backlog.resume(durable[-1], -1)
            elif happening in ("full", "room"):
                made.set_full(happening == "full")
        assert backlog.empty
        assert durable == sorted(set(durable))
        assert len(durable) - 1 == added
