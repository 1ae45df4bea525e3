"""The next process reads from a ring buffer exactly what was packed, wherever it was torn."""

from __future__ import annotations

import math
import struct
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin import protocol
from tocsin.core.frames import EVENT, RECORDS, Frame
from tocsin.spool import buffer
from tocsin.spool.buffer import NAMES_END, SIZE, BufferReader, RingBuffer
from tocsin.transport.outbox import Outbox

FOUR = ("loss", "grad_norm", "scale", "lr")
ENTRY = 64
"""Bytes of a record of four values."""


def outbox_on(memory: Any, limit: int = 1 << 20) -> Outbox:
    """Return an outbox with a new ring buffer in ``memory``."""
    buffer.prepare(memory, "boot")
    outbox = Outbox(limit)
    outbox.offer_buffer(RingBuffer(memory))
    outbox.take_buffer()
    return outbox


def small(entries: int = 20) -> bytearray:
    """Return memory whose ring buffer holds that many records of four values."""
    return bytearray(NAMES_END + entries * ENTRY)


def put(outbox: Outbox, step: int) -> None:
    """Put one record of four values that depend on its step."""
    outbox.put((step, step * 10, FOUR, float(step), step + 0.25, step + 0.5, step + 0.75))


def records(memory: Any) -> Iterator[tuple[int, int, dict[str, float]]]:
    """Yield (number, step, values) of every record that the next process would find."""
    for frame in BufferReader(memory).frames():
        message = protocol.decode_client(frame.body)
        if isinstance(message, protocol.Records):
            assert (frame.kind, frame.first, frame.count) == (RECORDS, message.seq, message.n)
            for index, step in enumerate(struct.unpack(f"<{message.n}q", message.step)):
                yield message.seq + index, step, _values(message, index)


def _values(message: protocol.Records, index: int) -> dict[str, float]:
    found = {}
    for name, column in message.cols.items():
        if isinstance(column, bytes):
            found[name] = struct.unpack_from("<d", column, 8 * index)[0]
        else:
            at = struct.unpack(f"<{len(column.at) // 4}I", column.at)
            if index in at:
                found[name] = struct.unpack_from("<d", column.v, 8 * at.index(index))[0]
    return found


def numbers(memory: Any) -> list[int]:
    """Return the numbers of the records found; check that each has the right step."""
    found = list(records(memory))
    assert all(number == step for number, step, _ in found)
    return [number for number, _, _ in found]


def drain(outbox: Outbox) -> None:
    """Do what the sender does: drain everything, and release the space in the ring buffer."""
    mark = outbox.mark()
    while outbox.drain_event() or outbox.drain():
        pass
    outbox.free(mark)


def test_every_record_is_found_with_its_number_time_and_bits() -> None:
    """NaN payloads, infinities and -0.0 included."""
    memory = bytearray(SIZE)
    outbox = outbox_on(memory)
    odd = struct.unpack("<d", struct.pack("<Q", 0x7FF8_0000_0000_1234))[0]
    outbox.put((7, 70, FOUR, odd, math.inf, -math.inf, -0.0))
    (frame,) = BufferReader(memory).frames()
    message = protocol.decode_client(frame.body)
    assert message == outbox.drain()
    assert isinstance(message, protocol.Records)
    assert message.cols["loss"] == struct.pack("<Q", 0x7FF8_0000_0000_1234)


def test_what_is_on_the_spool_is_not_found_again() -> None:
    """Released records free their space; only later ones are left."""
    memory = small()
    outbox = outbox_on(memory)
    for step in range(10):
        put(outbox, step)
    drain(outbox)
    for step in range(10, 13):
        put(outbox, step)
    assert numbers(memory) == [10, 11, 12]


def test_the_ring_goes_round_and_stale_laps_are_no_records() -> None:
    """Five laps of a small ring buffer: after each drain, exactly the later records are found."""
    memory = small(20)
    outbox = outbox_on(memory)
    for step in range(100):
        put(outbox, step)
        first = step - step % 7
        assert numbers(memory) == list(range(first, step + 1))
        if step % 7 == 6:
            drain(outbox)
    assert outbox.unprotected_records == 0


def test_a_full_ring_keeps_the_oldest_and_counts_the_rest() -> None:
    """Records beyond its capacity are only queued, and counted; once there is space, packing resumes."""
    memory = small(20)
    outbox = outbox_on(memory)
    for step in range(30):
        put(outbox, step)
    assert numbers(memory) == list(range(20))
    assert (outbox.unprotected_records, len(outbox)) == (10, 30)
    drain(outbox)
    put(outbox, 30)
    assert numbers(memory) == [30]


@given(cut=st.integers(0, 12 * ENTRY - 1))
def test_a_record_half_packed_is_not_found_and_the_ones_before_it_are(cut: int) -> None:
    """With zeros from any byte on, a prefix of what was put is found."""
    memory = small()
    outbox = outbox_on(memory)
    for step in range(12):
        put(outbox, step)
    memory[NAMES_END + cut :] = bytes(len(memory) - NAMES_END - cut)
    assert numbers(memory) == list(range(cut // ENTRY))


def test_records_behind_one_that_a_thread_never_packed_are_found() -> None:
    """Another thread died while packing: records packed after it are found."""
    memory = small()
    outbox = outbox_on(memory)
    for step in range(12):
        put(outbox, step)
    memory[NAMES_END + 3 * ENTRY : NAMES_END + 4 * ENTRY] = bytes(ENTRY)
    assert numbers(memory) == [0, 1, 2, *range(4, 12)]


@given(releases=st.integers(1, 3), cut=st.integers(0, 39), junk=st.sampled_from([b"\0", b"\xee"]))
def test_a_release_torn_in_the_middle_leaves_the_one_before_it(releases: int, cut: int, junk: bytes) -> None:
    """The process died while the sender recorded what is on the spool: nothing newer is lost."""
    memory = small()
    outbox = outbox_on(memory)
    for step in range(releases):
        put(outbox, step)
        drain(outbox)
    at = buffer.SLOTS_AT[(releases + 1) % 2]
    memory[at + cut : at + 32] = junk * max(0, 32 - cut)
    memory[at + max(cut, 32) : at + 40] = bytes(40 - max(cut, 32))
    put(outbox, releases)
    assert numbers(memory)[-1:] == [releases]
    assert set(numbers(memory)) <= {releases - 1, releases}


def test_events_are_found_between_their_records() -> None:
    """Events have separate numbers and unchanged data."""
    memory = bytearray(SIZE)
    outbox = outbox_on(memory)
    put(outbox, 0)
    outbox.put_event("checkpoint", 5, 0, {"path": "a.pt", "norm": math.nan})
    put(outbox, 1)
    first, event, second = BufferReader(memory).frames()
    assert (first.first, event.kind, event.first, second.first) == (0, EVENT, 0, 1)
    expected = outbox.drain_event()
    assert isinstance(event, Frame)
    assert expected is not None
    assert event.body == protocol.encode(expected)


@pytest.mark.parametrize("value", [None, "1.5", 2**70, object()])
def test_values_that_do_not_pack_are_kept_as_the_queue_sends_them(value: Any) -> None:
    """A record of unusual values has the columns that would have been sent."""
    memory = bytearray(SIZE)
    outbox = outbox_on(memory)
    put(outbox, 0)
    outbox.put((1, 10, ("loss", "odd"), 0.5, value))
    put(outbox, 2)
    assert numbers(memory) == [0, 1, 2]
    sent = outbox.drain()
    assert isinstance(sent, protocol.Records)
    assert list(records(memory))[1][2] == _values(sent, 1)


def test_more_names_than_the_table_holds_are_still_found() -> None:
    """Of thousands of different sets of names, those beyond the table are stored as messages."""
    memory = bytearray(SIZE)
    outbox = outbox_on(memory)
    for step in range(4000):
        outbox.put((step, 0, (f"a name of some length, number {step}" * 3,), float(step)))
    assert numbers(memory) == list(range(4000))
    assert outbox.unprotected_records == 0


def test_what_waited_before_the_ring_was_there_is_in_it() -> None:
    """If the ring buffer is created late (slow disk), the queue's records and events are copied first."""
    memory = bytearray(SIZE)
    buffer.prepare(memory, "boot")
    outbox = Outbox(4)
    outbox.put_event("attached", 1, None, {})
    for step in range(6):
        put(outbox, step)
    outbox.drain_event()
    outbox.offer_buffer(RingBuffer(memory))
    outbox._limit = outbox._busy = 100
    put(outbox, 6)
    assert [number for number, _, _ in records(memory)] == [0, 1, 2, 3, 6]


def test_dropped_records_leave_the_same_gap_here_and_there() -> None:
    """Numbers in the ring buffer are the numbers that the sender assigns."""
    memory = bytearray(SIZE)
    outbox = outbox_on(memory, limit=3)
    for step in range(5):
        put(outbox, step)
    outbox.drain()
    put(outbox, 5)
    assert numbers(memory) == [0, 1, 2, 5]
    rest = outbox.drain()
    assert rest is not None
    assert rest.seq == 5


@given(
    actions=st.lists(
        st.one_of(
            st.tuples(st.just("put"), st.integers(0, 40)),
            st.tuples(st.just("event"), st.integers(0, 300)),
            st.just(("drain", 0)),
        ),
        max_size=80,
    )
)
def test_however_it_is_used_what_waits_is_found(actions: list[tuple[str, int]]) -> None:
    """Records and events of any size: found is what was put since the drain, or counted as unprotected."""
    memory = bytearray(NAMES_END + 4096)
    outbox = outbox_on(memory)
    waiting: list[int] = []
    unprotected_records, step = 0, 0
    for action, size in actions:
        before = outbox.unprotected_records
        if action == "put":
            outbox.put((step, 0, tuple(f"n{i}" for i in range(size)), *[float(step)] * size))
            waiting += [step] if outbox.unprotected_records == before else []
            step += 1
        elif action == "event":
            outbox.put_event("note", 0, None, {"text": "x" * size})
        else:
            drain(outbox)
            waiting = []
        unprotected_records = outbox.unprotected_records
    assert [number for number, _, _ in records(memory)] == waiting
    assert unprotected_records >= 0


def test_threads_that_log_at_once_agree_with_the_queue() -> None:
    """With four threads that switch as often as possible, each number is the same record in both."""
    memory = bytearray(SIZE)
    outbox = outbox_on(memory)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=_log, args=(outbox, which)) for which in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    found = {number: step for number, step, _ in records(memory)}
    queued = [item[0] for item in outbox._items if not isinstance(item, int)]
    assert [found[number] for number in range(len(queued))] == queued
    assert len(found) == len(queued) == 8000


def _log(outbox: Outbox, which: int) -> None:
    for step in range(2000):
        outbox.put((which * 10_000 + step, 0, (f"loss{which}", "lr"), float(step), 0.1))


def test_after_the_end_nothing_is_packed() -> None:
    """After the end of a run, or in a fork, the memory is not touched."""
    memory = bytearray(SIZE)
    outbox = outbox_on(memory)
    put(outbox, 0)
    before = bytes(memory)
    outbox.discard()
    put(outbox, 1)
    outbox.put_event("late", 0, None, {})
    assert bytes(memory) == before
