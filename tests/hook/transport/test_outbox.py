"""The queue between training thread and sender: numbering, batches, limits."""

from __future__ import annotations

import gc
import struct
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin import protocol
from tocsin.transport.outbox import BATCH_RECORDS, EVENT_BYTES, EVENT_LIMIT, Outbox

LOSS = ("loss",)
FOUR = ("loss", "grad_norm", "scale", "lr")


def drained(outbox: Outbox) -> list[protocol.Records]:
    """Return everything that waits."""
    found = []
    while (records := outbox.drain()) is not None:
        found.append(records)
    return found


def steps_of(records: protocol.Records) -> list[int]:
    """The steps in a message."""
    return list(struct.unpack(f"<{records.n}q", records.step))


def test_records_leave_in_order_with_numbers_from_zero() -> None:
    """What was put first is record 0."""
    outbox = Outbox()
    for step in (5, 6, 6):
        outbox.put((step, step * 10, LOSS, step / 2))
    (records,) = drained(outbox)
    assert (records.seq, records.n, steps_of(records)) == (0, 3, [5, 6, 6])
    assert struct.unpack("<3q", records.t) == (50, 60, 60)
    assert records.cols == {"loss": struct.pack("<3d", 2.5, 3.0, 3.0)}
    assert outbox.last_step == 6


def test_nothing_waits_at_first() -> None:
    """An empty outbox drains to None."""
    outbox = Outbox()
    assert (outbox.drain(), outbox.drain_event(), len(outbox)) == (None, None, 0)


def test_a_batch_ends_at_512_records() -> None:
    """1025 records are three messages with consecutive numbers."""
    outbox = Outbox()
    for step in range(2 * BATCH_RECORDS + 1):
        outbox.put((step, 0, LOSS, 1.0))
    assert [(r.seq, r.n) for r in drained(outbox)] == [(0, 512), (512, 512), (1024, 1)]


def test_a_batch_ends_at_256_kib() -> None:
    """Wide records are batched by size: no message is much above 256 KiB."""
    outbox = Outbox()
    names = tuple(f"layer{index}" for index in range(1000))
    for step in range(100):
        outbox.put((step, 0, names, *[0.5] * 1000))
    batches = drained(outbox)
    assert sum(batch.n for batch in batches) == 100
    assert max(len(protocol.encode(batch)) for batch in batches) < 300 << 10


def test_a_full_queue_drops_the_newest_counts_them_and_leaves_their_numbers_out() -> None:
    """The gap is where records were lost: after those that were waiting."""
    outbox = Outbox(limit=3)
    for step in range(5):
        outbox.put((step, 0, LOSS, 1.0))
    first = outbox.drain()
    outbox.put((5, 0, LOSS, 1.0))
    second = outbox.drain()
    assert first is not None
    assert second is not None
    assert (first.seq, steps_of(first)) == (0, [0, 1, 2])
    assert (second.seq, steps_of(second)) == (5, [5])
    assert outbox.dropped == 2


@given(st.lists(st.integers(0, 40), max_size=12), st.integers(1, 30))
def test_numbers_never_repeat_and_gaps_are_the_dropped(bursts: list[int], limit: int) -> None:
    """In any sequence of puts and drains, numbers increase, and missing ones were counted."""
    outbox, put = Outbox(limit), 0
    seqs: list[int] = []
    for burst in bursts:
        for _ in range(burst):
            outbox.put((put, 0, LOSS, 1.0))
            put += 1
        for records in drained(outbox):
            assert steps_of(records) == list(range(records.seq, records.seq + records.n))
            seqs += range(records.seq, records.seq + records.n)
    assert seqs == sorted(set(seqs))
    assert len(seqs) + outbox.dropped == put


def test_puts_of_several_threads_are_all_there() -> None:
    """No put of four threads is lost while a fifth drains."""
    outbox, found = Outbox(1 << 20), []

    def put(thread: int) -> None:
        for step in range(5000):
            outbox.put((step, thread, LOSS, 1.0))

    threads = [threading.Thread(target=put, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        found += drained(outbox)
    found += drained(outbox)
    assert sum(records.n for records in found) == 20_000


def test_events_are_numbered_separately_and_the_finish_is_last() -> None:
    """Events 0 and 1, then finish 2, whatever the records' numbers are."""
    outbox = Outbox()
    outbox.put((0, 0, LOSS, 1.0))
    outbox.put_event("phase", 5, None, {"name": "eval", "state": "begin"})
    outbox.put_event("checkpoint", 6, 12, {"path": "a"})
    events = [outbox.drain_event(), outbox.drain_event()]
    frames = [protocol.encode(event) for event in events if event is not None]
    assert [protocol.decode_client(frame) for frame in frames] == [
        protocol.Event(0, "phase", 5, None, {"name": "eval", "state": "begin"}),
        protocol.Event(1, "checkpoint", 6, 12, {"path": "a"}),
    ]
    assert outbox.finish(7, "finished", 1, {}).no == 2


def test_event_data_are_those_of_the_moment() -> None:
    """Later changes by the script do not change the event."""
    outbox, data = Outbox(), {"steps": [1]}
    outbox.put_event("expect", 0, None, data)
    data["steps"].append(2)
    event = outbox.drain_event()
    assert event is not None
    decoded = protocol.decode_client(protocol.encode(event))
    assert isinstance(decoded, protocol.Event)
    assert decoded.data == {"steps": [1]}


def test_an_event_too_large_says_so_instead() -> None:
    """The data are replaced by a notice; the event itself arrives."""
    outbox = Outbox()
    outbox.put_event("note", 0, None, {"text": "x" * EVENT_BYTES})
    event = outbox.drain_event()
    assert event is not None
    decoded = protocol.decode_client(protocol.encode(event))
    assert isinstance(decoded, protocol.Event)
    assert decoded.data["left_out"].startswith("expected at most 65536 bytes, got 655")


def test_events_are_bounded_too() -> None:
    """Above 4096 waiting events the newest are dropped and counted."""
    outbox = Outbox()
    for _ in range(EVENT_LIMIT + 2):
        outbox.put_event("note", 0, None, {})
    assert (len(outbox), outbox.dropped) == (EVENT_LIMIT, 2)


def test_a_silenced_outbox_takes_nothing() -> None:
    """After the end, or in a fork, puts are ignored."""
    outbox = Outbox()
    outbox.put((0, 0, LOSS, 1.0))
    outbox.discard()
    outbox.put((1, 0, LOSS, 1.0))
    outbox.put_event("note", 0, None, {})
    assert (len(outbox), outbox.drain()) == (0, None)


@pytest.mark.parametrize("item", [(0, 0, FOUR, 1.0, 2.0, 3.0, 4.0)])
def test_a_backlog_of_flat_tuples_is_left_alone_by_the_garbage_collector(item: tuple[Any, ...]) -> None:
    """A full queue contains nothing that the garbage collector must traverse repeatedly."""
    outbox = Outbox()
    for step in range(10_000):
        outbox.put((step, *item[1:]))
    gc.collect()
    tracked = [entry for entry in outbox._items if gc.is_tracked(entry)]
    assert tracked == []


def test_the_newest_step_is_a_whole_number_whatever_was_put() -> None:
    """It is sent in a message that accepts only integers."""
    outbox = Outbox()
    outbox.put((7.0, 0, LOSS, 1.0))
    drained(outbox)
    assert (type(outbox.last_step), outbox.last_step) == (int, 7)
