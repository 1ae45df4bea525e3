"""What is not acknowledged is kept in order, in memory or on disk, and sent once per connection."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.hook.reading import decoded, rest_of, steps_of
from tests.hook.spool.test_segments import HEADER
from tests.matrix import ALL
from tocsin import protocol
from tocsin.core.frames import RECORDS, Frame
from tocsin.spool.entries import UNIFORM_RECORDS
from tocsin.spool.log import Log
from tocsin.spool.segments import Spool
from tocsin.transport.backlog import Backlog
from tocsin.transport.outbox import Outbox

BLOCK = 512
"""Bytes of a block: 12 records."""


def put(outbox: Outbox, steps: range) -> None:
    """Put records whose numbers are their steps."""
    for step in steps:
        outbox.put((step, 0, ("loss",), float(step)))


def steps_in(frames: list[Frame]) -> list[int]:
    """Return the steps of the records in ``frames``."""
    messages = [decoded(frame) for frame in frames]
    return [step for one in messages if isinstance(one, protocol.Records) for step in steps_of(one)]


def sent(backlog: Backlog) -> list[int]:
    """Return the steps of everything that can be sent now, which is in flight afterwards."""
    backlog.flush()
    return steps_in(list(iter(backlog.next, None)))


class Disk:
    """A real spool whose disk can be full temporarily."""

    def __init__(self, root: Path) -> None:
        self.now = 0.0
        self.spool = Spool(root, lambda: HEADER, clock=lambda: self.now)
        self.room = self.spool._limit

    def set_full(self, full: bool) -> None:
        """Make the disk full, or free again; the next attempt is immediate."""
        self.spool._limit = 0 if full else self.room
        self.now += 100.0

    def kept(self) -> list[int]:
        """Return the steps that the next process would find on the disk."""
        on_disk = Backlog(Log(b"", []), self.spool, is_live=False)
        return steps_in(list(iter(on_disk.next, None)))


@contextmanager
def disk() -> Iterator[Disk]:
    """A disk of its own for a spool."""
    with TemporaryDirectory() as root:
        made = Disk(Path(root))
        yield made
        made.spool.close()


def test_what_does_not_fit_into_memory_is_read_back_from_the_disk() -> None:
    """A thousand records with room for fifty in memory: all are sent, in order."""
    with disk() as made:
        outbox = Outbox(4, BLOCK)
        backlog = Backlog(outbox, made.spool)
        for step in range(1000):
            put(outbox, range(step, step + 1))
            if outbox.free_blocks <= outbox.free_blocks_low:
                backlog.make_room()
        backlog.flush()
        assert steps_in(rest_of(backlog)) == list(range(1000))
        assert (outbox.dropped, len(outbox), backlog.empty) == (0, 0, True)
        assert len(made.spool.numbers) <= 1


def test_records_of_a_deleted_spool_are_counted_and_the_others_sent() -> None:
    """Those that memory still has are saved to the new spool."""
    with disk() as made:
        outbox = Outbox(4, BLOCK)
        backlog = Backlog(outbox, made.spool)
        put(outbox, range(45))
        backlog.make_room()
        put(outbox, range(45, 60))
        assert made.spool.path is not None
        rmtree(made.spool.path)
        assert made.spool.is_deleted
        lost = backlog.lose_saved()
        assert made.spool.reopen()
        assert backlog.save()
        assert 0 < lost < 45
        assert made.kept() == sent(backlog) == list(range(lost, 60))


def test_without_a_spool_memory_is_full_at_its_limit_and_loses_nothing_that_is_in_it() -> None:
    """New records are dropped from then on; the waiting ones are sent."""
    outbox = Outbox(4, BLOCK)
    backlog = Backlog(outbox)
    put(outbox, range(100))
    backlog.make_room()
    assert sent(backlog) == list(range(100 - outbox.dropped))
    assert outbox.dropped > 0


def test_a_disk_that_was_full_for_a_while_gets_what_it_missed() -> None:
    """What waited in memory is written to the disk, in order, when there is space again."""
    with disk() as made:
        outbox = Outbox()
        backlog = Backlog(outbox, made.spool)
        put(outbox, range(1))
        assert backlog.save()
        made.set_full(True)
        put(outbox, range(1, 2))
        assert not backlog.save()
        assert made.kept() == [0]
        assert backlog.unsaved(2) == 1
        made.set_full(False)
        put(outbox, range(2, 3))
        assert backlog.save()
        assert made.kept() == sent(backlog) == [0, 1, 2]


def test_a_record_with_other_names_makes_few_others_slow_to_encode() -> None:
    """A system metric joins one record: those after it are a message of one shape again."""
    outbox = Outbox()
    put(outbox, range(50))
    outbox.put((50, 0, ("loss", "sys/rss_gib"), 50.0, 1.0))
    put(outbox, range(51, 200))
    backlog = Backlog(outbox)
    backlog.flush()
    frames = list(iter(backlog.next, None))
    assert [frame.count for frame in frames] == [50, UNIFORM_RECORDS, 200 - 50 - UNIFORM_RECORDS]
    assert steps_in(frames) == list(range(200))


def test_a_message_has_no_more_names_than_the_server_accepts() -> None:
    """It would reject all records of the message, also those with names that it has room for."""
    outbox = Outbox()
    for step in range(5):
        names = ("loss", *(f"{step}/{k}" for k in range(900)))
        outbox.put((step, 0, names, *map(float, range(901))))
    backlog = Backlog(outbox)
    backlog.flush()
    frames = list(iter(backlog.next, None))
    assert [frame.count for frame in frames] == [2, 2, 1]
    assert steps_in(frames) == list(range(5))


def test_nothing_is_read_before_it_is_flushed() -> None:
    """What is put after a flush waits for the next one."""
    outbox = Outbox()
    backlog = Backlog(outbox)
    put(outbox, range(2))
    backlog.flush()
    put(outbox, range(2, 4))
    assert [frame.count for frame in iter(backlog.next, None)] == [2]
    assert sent(backlog) == [2, 3]


def test_an_ack_of_what_was_never_sent_reaches_no_further_than_what_was() -> None:
    """An impossible acknowledgement releases nothing that was not read."""
    outbox = Outbox()
    backlog = Backlog(outbox)
    put(outbox, range(1))
    assert sent(backlog) == [0]
    backlog.acknowledge(10**6, 10**6)
    put(outbox, range(1, 3))
    assert sent(backlog) == [1, 2]
    assert not backlog.empty


def test_records_and_events_are_acknowledged_apart() -> None:
    """An event that is not durable yet does not hold up the records, and stays."""
    outbox = Outbox()
    backlog = Backlog(outbox)
    outbox.put_event("note", 0, None, {})
    put(outbox, range(1))
    sent(backlog)
    backlog.acknowledge(0, -1)
    assert (backlog.in_flight, backlog.empty) == (0, False)
    backlog.acknowledge(0, 0)
    assert backlog.empty


def test_an_unacknowledged_event_keeps_its_block() -> None:
    """All records of the first block are acknowledged: the event in it is still sent again."""
    outbox = Outbox(4, BLOCK)
    backlog = Backlog(outbox)
    outbox.put_event("note", 0, None, {})
    put(outbox, range(20))
    sent(backlog)
    backlog.acknowledge(19, -1)
    backlog.resume(19, -1)
    (event,) = iter(backlog.next, None)
    assert isinstance(decoded(event), protocol.Event)


def test_a_server_that_lost_what_it_had_gets_it_again() -> None:
    """What memory or disk still has is sent a second time."""
    outbox = Outbox()
    backlog = Backlog(outbox)
    put(outbox, range(3))
    sent(backlog)
    backlog.acknowledge(2, -1)
    put(outbox, range(3, 4))
    backlog.resume(-1, -1)
    assert sent(backlog) == [0, 1, 2, 3]


def test_a_message_that_is_set_aside_is_never_sent_again() -> None:
    """Later connections, too, start after it."""
    outbox = Outbox(4, BLOCK)
    backlog = Backlog(outbox)
    put(outbox, range(20))
    sent(backlog)
    backlog.resume(-1, -1)
    count = backlog.set_aside()
    backlog.resume(-1, -1)
    assert sent(backlog) == list(range(count, 20))


def test_the_copy_on_disk_goes_once_everything_is_acknowledged() -> None:
    """After an outage, no file is left; the next outage saves again."""
    with disk() as made:
        outbox = Outbox()
        backlog = Backlog(outbox, made.spool)
        put(outbox, range(3))
        backlog.save()
        sent(backlog)
        backlog.acknowledge(2, -1)
        backlog.forget_saved()
        assert (made.spool.size, list(made.spool.numbers)) == (0, [])
        put(outbox, range(3, 4))
        backlog.save()
        assert made.kept() == [0, 1, 2, 3]


STEPS = st.sampled_from(["put", "put", "put", "event", "send", "ack", "cut", "full", "room", "save"])


@settings(max_examples=150 if ALL else 50, deadline=None)
@given(st.lists(STEPS, max_size=120))
def test_nothing_is_lost_doubled_or_reordered(happenings: list[str]) -> None:
    """For any sequence of puts, acks, disconnects and full disks, the server has every record that was not
    dropped."""
    with disk() as made:
        outbox, put_steps, events, dropped_events = Outbox(4, BLOCK), 0, 0, 0
        backlog = Backlog(outbox, made.spool)
        durable, durable_events, pending = list[int](), list[int](), list[Frame]()
        for happening in [*happenings, "room", "cut", *["send", "ack"] * 400]:
            if happening == "put":
                put(outbox, range(put_steps, put_steps + 5))
                put_steps += 5
            elif happening == "event":
                before = outbox.dropped
                outbox.put_event("note", 0, None, {})
                dropped_events += outbox.dropped - before
                events = outbox.events
            elif happening == "send":
                backlog.flush()
                pending += [frame] if (frame := backlog.next()) is not None else []
            elif happening == "ack":
                durable += steps_in(pending)
                durable_events += [frame.first for frame in pending if frame.kind != RECORDS]
                pending = []
                backlog.acknowledge(max(durable, default=-1), max(durable_events, default=-1))
            elif happening == "cut":
                pending = []
                backlog.resume(max(durable, default=-1), max(durable_events, default=-1))
            elif happening == "save":
                backlog.make_room()
            else:
                made.set_full(happening == "full")
        assert (backlog.empty, len(outbox)) == (True, 0)
        assert durable == sorted(set(durable))
        assert durable_events == list(range(events))
        assert len(durable) == put_steps - outbox.dropped + dropped_events
