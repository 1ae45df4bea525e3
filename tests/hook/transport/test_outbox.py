"""The queue between training thread and sender: numbering, batches, limits."""

from __future__ import annotations

import math
import struct
import sys
import threading
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.hook.packing import packing as packing
from tests.hook.reading import Reader, decoded, steps_of, values_of
from tocsin import protocol
from tocsin.spool.entries import BATCH_RECORDS
from tocsin.transport.outbox import EVENT_BYTES, Outbox

LOSS = ("loss",)
LITTLE = 1024
"""Bytes of a small block: 25 records of one value."""


def put(outbox: Outbox, steps: range) -> None:
    """Put a record of one value for each step."""
    for step in steps:
        outbox.put((step, 0, LOSS, 1.0))


def test_records_leave_in_order_with_numbers_from_zero() -> None:
    """What was put first is record 0."""
    outbox = Outbox()
    for step in (5, 6, 6):
        outbox.put((step, step * 10, LOSS, step / 2))
    (records,) = Reader(outbox).records()
    assert (records.seq, records.n, steps_of(records)) == (0, 3, [5, 6, 6])
    assert struct.unpack("<3q", records.t) == (50, 60, 60)
    assert records.cols == {"loss": struct.pack("<3d", 2.5, 3.0, 3.0)}
    assert (outbox.last_step, outbox.steps) == (6, 2)


def test_nothing_waits_at_first() -> None:
    """An empty outbox has nothing to send."""
    outbox = Outbox()
    assert (Reader(outbox).frames(), len(outbox)) == ([], 0)


def test_a_batch_ends_at_512_records() -> None:
    """1025 records are three messages with consecutive numbers."""
    outbox = Outbox()
    put(outbox, range(2 * BATCH_RECORDS + 1))
    assert [(r.seq, r.n) for r in Reader(outbox).records()] == [(0, 512), (512, 512), (1024, 1)]


def test_a_batch_ends_at_256_kib() -> None:
    """Wide records are batched by size: no message is much above 256 KiB."""
    outbox = Outbox()
    names = tuple(f"layer{index}" for index in range(1000))
    for step in range(100):
        outbox.put((step, 0, names, *[0.5] * 1000))
    batches = Reader(outbox).records()
    assert sum(batch.n for batch in batches) == 100
    assert max(len(protocol.encode(batch)) for batch in batches) < 300 << 10


def test_a_full_log_drops_the_newest_counts_them_and_leaves_their_numbers_out() -> None:
    """The gap is where records were lost: after those that were waiting."""
    outbox = Outbox(blocks=2, block_bytes=LITTLE)
    reader = Reader(outbox)
    put(outbox, range(60))
    kept = len(outbox)
    first = reader.records()
    put(outbox, range(60, 61))
    last = reader.records()[-1]
    assert [step for one in first for step in steps_of(one)] == list(range(kept))
    assert (last.seq, steps_of(last)) == (60, [60])
    assert outbox.dropped == 60 - kept > 0


def test_the_report_of_dropped_records_ends_at_the_last_one() -> None:
    """An event of an earlier step, or of none, that is dropped after them does not change it."""
    outbox = Outbox(blocks=2, block_bytes=LITTLE)
    reader = Reader(outbox)
    put(outbox, range(60))
    for step in (1, None):
        outbox.put_event("checkpoint", 0, step, {"path": "a" * LITTLE})
    reader.records()
    assert outbox.report_dropped()
    (report,) = [event for event in reader.events() if event.kind == "dropped"]
    assert (report.data["last_step"], report.data["events"]) == (59, 2)


@given(st.lists(st.integers(0, 60), max_size=12), st.integers(2, 4))
def test_numbers_never_repeat_and_gaps_are_the_dropped(bursts: list[int], blocks: int) -> None:
    """In any sequence of puts and reads, numbers increase, and missing ones were counted."""
    outbox, count, seqs = Outbox(blocks, LITTLE), 0, list[int]()
    reader = Reader(outbox)
    for burst in bursts:
        put(outbox, range(count, count + burst))
        count += burst
        for records in reader.records():
            assert steps_of(records) == list(range(records.seq, records.seq + records.n))
            seqs += range(records.seq, records.seq + records.n)
        assert len(outbox) == 0
    assert seqs == sorted(set(seqs))
    assert len(seqs) + outbox.dropped == count


def test_puts_of_several_threads_are_all_there() -> None:
    """With four threads that switch as often as possible, no put is lost while a fifth reads."""
    outbox, found = Outbox(), list[protocol.Records]()
    reader = Reader(outbox)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=_log, args=(outbox, which)) for which in range(4)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            found += reader.records()
    finally:
        sys.setswitchinterval(interval)
    found += reader.records()
    steps = [step for records in found for step in steps_of(records)]
    assert sorted(steps) == [which * 10_000 + step for which in range(4) for step in range(2000)]
    assert [records.seq for records in found[1:]] == [records.seq + records.n for records in found[:-1]]
    for records in found:
        for row, step in enumerate(steps_of(records)):
            name = f"loss{step // 10_000}"
            assert values_of(records, row) == {name: struct.pack("<d", step), "lr": struct.pack("<d", 0.1)}


def _log(outbox: Outbox, which: int) -> None:
    for step in range(which * 10_000, which * 10_000 + 2000):
        outbox.put((step, 0, (f"loss{which}", "lr"), float(step), 0.1))


def test_events_are_numbered_separately_and_the_finish_is_last() -> None:
    """Events 0 and 1, then finish 2, whatever the records' numbers are."""
    outbox = Outbox()
    outbox.put((0, 0, LOSS, 1.0))
    outbox.put_event("phase", 5, None, {"name": "eval", "state": "begin"})
    outbox.put_event("checkpoint", 6, 12, {"path": "a"})
    outbox.put_finish(7, "finished", {})
    messages = [decoded(frame) for frame in Reader(outbox).frames()]
    assert [message for message in messages if not isinstance(message, protocol.Records)] == [
        protocol.Event(0, "phase", 5, None, {"name": "eval", "state": "begin"}),
        protocol.Event(1, "checkpoint", 6, 12, {"path": "a"}),
        protocol.Finish(2, 7, "finished", 1),
    ]


def test_event_data_are_those_of_the_moment() -> None:
    """Later changes by the script do not change the event."""
    outbox, data = Outbox(), {"steps": [1]}
    outbox.put_event("expect", 0, None, data)
    data["steps"].append(2)
    (event,) = Reader(outbox).events()
    assert event.data == {"steps": [1]}


def test_an_event_too_large_says_so_instead() -> None:
    """The data are replaced by a notice; the event itself arrives."""
    outbox = Outbox()
    outbox.put_event("note", 0, None, {"text": "x" * EVENT_BYTES})
    (event,) = Reader(outbox).events()
    assert event.data["left_out"].startswith("expected at most 65536 bytes, got 655")


def test_events_are_bounded_too() -> None:
    """Events that find no room are dropped and counted; their numbers have no gap."""
    outbox = Outbox(blocks=2, block_bytes=LITTLE)
    for _ in range(100):
        outbox.put_event("note", 0, None, {})
    events = Reader(outbox).events()
    assert [event.no for event in events] == list(range(100 - outbox.dropped))
    assert outbox.dropped > 0


def test_a_silenced_outbox_takes_nothing() -> None:
    """After the end, or in a fork, puts are ignored and the memory is not touched."""
    outbox = Outbox()
    put(outbox, range(1))
    memory = outbox.memory
    before = bytes(memory)
    outbox.discard()
    put(outbox, range(1, 2))
    outbox.put_event("note", 0, None, {})
    assert (len(outbox), Reader(outbox).frames(), outbox.dropped) == (0, [], 0)
    assert bytes(memory) == before


@pytest.mark.parametrize("value", [None, "x", 2**70, object(), torch.zeros(2)])
def test_a_value_that_is_not_a_number_is_missing(value: Any) -> None:
    """The other values of the record stay, and so do the records before and after it."""
    outbox = Outbox()
    outbox.put((0, 0, ("loss", "odd"), 0.0, 1.0))
    outbox.put((1, 10, ("loss", "odd"), 0.5, value))
    outbox.put((2, 0, ("loss", "odd"), 1.0, 1.0))
    (records,) = Reader(outbox).records()
    assert steps_of(records) == [0, 1, 2]
    expected = {"loss": 0.5} | ({"odd": float(value)} if isinstance(value, int) else {})
    assert values_of(records, 1) == {name: struct.pack("<d", number) for name, number in expected.items()}


def test_tensors_and_whole_numbers_become_floats() -> None:
    """NaN of a tensor, True and 3 are values."""
    outbox = Outbox()
    for step, value in enumerate([torch.tensor(math.nan), True, 3]):
        outbox.put((step, 0, LOSS, value))
    (records,) = Reader(outbox).records()
    assert records.cols["loss"] == struct.pack("<3d", math.nan, 1.0, 3.0)


def test_a_step_that_is_not_whole_is_rejected_by_the_server_and_not_lost_here() -> None:
    """Text, or more than 64 bits, becomes -1: the server answers `negative-step`. 7.0 is 7."""
    outbox = Outbox()
    for step in ("x", 2**70, 2**53, 7.0):
        outbox.put((step, 0, LOSS, 1.0))
    (records,) = Reader(outbox).records()
    assert steps_of(records) == [-1, -1, 2**53, 7]
    assert (type(outbox.last_step), outbox.last_step) == (int, 7)


class Slow:
    """A value whose conversion lets another thread put a record, and then fails."""

    def __init__(self, meanwhile: Any) -> None:
        self.meanwhile = meanwhile

    def __float__(self) -> float:
        self.meanwhile()
        raise TypeError("not a number")


def test_a_record_that_is_put_while_another_is_packed_is_kept() -> None:
    """The place of the record that could not be packed is left out; nothing waits for it."""
    outbox = Outbox()
    put(outbox, range(1))
    outbox.put((1, 0, LOSS, Slow(lambda: put(outbox, range(7, 8)))))
    put(outbox, range(2, 3))
    records = Reader(outbox).records()
    assert [step for one in records for step in steps_of(one)][:2] == [0, 7]
    assert [step for one in records for step in steps_of(one)][-1] == 2
    assert len(outbox) == 0
