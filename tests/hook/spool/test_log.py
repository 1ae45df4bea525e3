"""The next process reads from a dead process's memory exactly what was put, wherever it was torn."""

from __future__ import annotations

import math
import struct
import sys
import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.hook.packing import compiled
from tests.hook.packing import packing as packing
from tests.hook.reading import Reader, decoded, rest_of, steps_of, values_of
from tocsin import protocol
from tocsin.core.frames import EVENT
from tocsin.spool import log
from tocsin.spool.entries import BlockReader, packer
from tocsin.spool.log import BLOCK_BYTES, BLOCKS_AT, SIZE, TABLE_AT, Log
from tocsin.transport.backlog import Backlog
from tocsin.transport.outbox import Outbox

FOUR = ("loss", "grad_norm", "scale", "lr")
FLOATS = st.integers(0, 2**64 - 1).map(lambda bits: struct.unpack("<d", struct.pack("<Q", bits))[0])


def shared() -> tuple[Outbox, bytearray]:
    """Return an outbox whose memory outlives it."""
    outbox, memory = Outbox(), bytearray(SIZE)
    outbox.move(memory)
    return outbox, memory


def put(outbox: Outbox, step: int) -> None:
    """Put one record of four values that depend on its step."""
    outbox.put((step, step * 10, FOUR, float(step), step + 0.25, step + 0.5, step + 0.75))


def left_in(memory: Any) -> list[protocol.ClientMessage]:
    """Return the messages that the next process finds."""
    return [decoded(frame) for frame in rest_of(Backlog(Log.of_dead(memory), is_live=False))]


def steps_left_in(memory: Any) -> list[int]:
    """Return the steps of the records found; check that each has the right number and values."""
    steps = []
    for message in left_in(memory):
        if isinstance(message, protocol.Records):
            found = steps_of(message)
            assert found == list(range(message.seq, message.seq + message.n))
            for row, step in enumerate(found):
                assert values_of(message, row)["scale"] == struct.pack("<d", step + 0.5)
            steps += found
    return steps


def test_every_record_is_found_with_its_number_time_and_bits() -> None:
    """NaN payloads, infinities and -0.0 included; it is the message that would have been sent."""
    outbox, memory = shared()
    odd = struct.unpack("<d", struct.pack("<Q", 0x7FF8_0000_0000_1234))[0]
    outbox.put((7, 70, FOUR, odd, math.inf, -math.inf, -0.0))
    (message,) = left_in(memory)
    assert [message] == Reader(outbox).records()
    assert isinstance(message, protocol.Records)
    assert message.cols["loss"] == struct.pack("<Q", 0x7FF8_0000_0000_1234)


def test_what_was_put_before_there_was_shared_memory_is_in_it() -> None:
    """If it is created late (slow disk), everything that waits is there afterwards."""
    outbox, memory = Outbox(), bytearray(SIZE)
    put(outbox, 0)
    outbox.put_event("attached", 1, None, {})
    outbox.move(memory)
    put(outbox, 1)
    assert steps_left_in(memory) == [0, 1]
    assert len(left_in(memory)) == 2


def test_what_is_acknowledged_is_not_found_again_once_its_block_is_released() -> None:
    """A hundred times around the memory: what is found ends with the newest record."""
    outbox, memory = shared()
    reader, names = Reader(outbox), tuple(f"n{index}" for index in range(500))
    for step in range(100 * 63):
        outbox.put((step, 0, names, *[float(step)] * 500))
        if step % 50 == 49:
            assert sum(records.n for records in reader.records()) == 50
    found = [step for one in left_in(memory) if isinstance(one, protocol.Records) for step in steps_of(one)]
    assert found == list(range(found[0], 100 * 63))
    assert len(found) < 2 * 63
    assert outbox.dropped == 0


@settings(deadline=None)
@given(cut=st.integers(0, 12 * 64 - 1))
def test_a_record_half_packed_is_not_found_and_the_ones_before_it_are(cut: int) -> None:
    """With zeros from any byte on, a prefix of what was put is found."""
    outbox, memory = shared()
    put(outbox, 0)
    start = outbox.block.head - 64
    for step in range(1, 12):
        put(outbox, step)
    memory[start + cut : BLOCKS_AT + BLOCK_BYTES] = bytes(BLOCKS_AT + BLOCK_BYTES - start - cut)
    assert steps_left_in(memory) == list(range(cut // 64))


def test_records_after_one_that_a_thread_never_packed_are_found() -> None:
    """Another thread died while packing: records packed after it are found."""
    outbox, memory = shared()
    put(outbox, 0)
    start = outbox.block.head - 64
    for step in range(1, 12):
        put(outbox, step)
    memory[start + 3 * 64 : start + 4 * 64] = bytes(64)
    assert steps_left_in(memory) == [0, 1, 2, *range(4, 12)]


def test_a_kill_while_a_block_is_released_costs_no_other_block() -> None:
    """Its number is deleted first, and written again after its entries are: it is empty or absent."""
    outbox, memory = shared()
    for step in range(5000):
        put(outbox, step)
    struct.pack_into("<Q", memory, TABLE_AT, 0)
    found = steps_left_in(memory)
    assert found == list(range(found[0], 5000))
    assert 3500 < found[0] < 4200


def test_events_are_found_with_their_records() -> None:
    """Events have separate numbers and unchanged data."""
    outbox, memory = shared()
    put(outbox, 0)
    outbox.put_event("checkpoint", 5, 0, {"path": "a.pt", "norm": math.nan})
    put(outbox, 1)
    frames = rest_of(Backlog(Log.of_dead(memory), is_live=False))
    assert frames == Reader(outbox).frames()
    (event,) = (frame for frame in frames if frame.kind == EVENT)
    assert event.first == 0


def test_dropped_records_leave_the_same_gap_here_and_there() -> None:
    """Numbers that the next process finds are those that the sender sends."""
    outbox, memory = shared()
    names = tuple(f"n{index}" for index in range(2000))
    for step in range(300):
        outbox.put((step, 0, names, *[1.0] * 2000))
    assert outbox.dropped > 0
    reader = Reader(outbox)
    found = [one.seq for one in left_in(memory) if isinstance(one, protocol.Records)]
    assert found == [one.seq for one in reader.records()]
    outbox.put((300, 0, names, *[1.0] * 2000))
    assert [one.seq for one in reader.records()] == [300]


def test_a_record_that_fits_in_no_block_is_dropped_and_counted() -> None:
    """40,000 values: the records before and after it are kept."""
    outbox = Outbox()
    put(outbox, 0)
    outbox.put((1, 0, tuple(f"n{index}" for index in range(40_000)), *[1.0] * 40_000))
    put(outbox, 2)
    assert [records.seq for records in Reader(outbox).records()] == [0, 2]
    assert (outbox.dropped, outbox.free_blocks) == (1, 15)


def test_thousands_of_different_names_need_no_table() -> None:
    """Each record has other names, which are stored with it."""
    outbox = Outbox()
    for step in range(4000):
        outbox.put((step, 0, (f"a name of some length, number {step}" * 3,), float(step)))
    found = Reader(outbox).records()
    assert sum(records.n for records in found) == 4000
    name = f"a name of some length, number {found[-1].seq}" * 3
    assert values_of(found[-1], 0) == {name: struct.pack("<d", found[-1].seq)}


@given(
    st.lists(
        st.lists(st.sampled_from("abcdef"), unique=True, max_size=4).flatmap(
            lambda names: st.tuples(
                st.just(tuple(names)), st.lists(FLOATS, min_size=len(names), max_size=len(names))
            )
        ),
        min_size=1,
        max_size=200,
    )
)
@settings(deadline=None, max_examples=60)
def test_messages_hold_exactly_the_values_of_the_records(
    rows: list[tuple[tuple[str, ...], list[float]]],
) -> None:
    """For any mix of names, every value is in its record, bit for bit, and there are no others."""
    outbox = Outbox()
    for step, (names, values) in enumerate(rows):
        outbox.put((step, step * 3, names, *values))
    row = 0
    for records in Reader(outbox).records():
        assert records.seq == row
        assert struct.unpack(f"<{records.n}q", records.t) == tuple(range(row * 3, (row + records.n) * 3, 3))
        for index in range(records.n):
            names, values = rows[row]
            assert values_of(records, index) == {
                name: struct.pack("<d", value) for name, value in zip(names, values, strict=True)
            }
            row += 1
    assert row == len(rows)


def test_a_column_of_every_record_is_dense_and_another_is_sparse() -> None:
    """Two optimizers in one message: their columns do not fill each other's rows."""
    outbox = Outbox()
    outbox.put((0, 0, ("loss", "lr"), 1.0, 0.1))
    outbox.put((0, 0, ("loss",), 2.0))
    (records,) = Reader(outbox).records()
    assert records.cols["loss"] == struct.pack("<2d", 1.0, 2.0)
    assert records.cols["lr"] == protocol.Sparse(struct.pack("<I", 0), struct.pack("<d", 0.1))


@given(st.binary(max_size=400), st.integers(0, 40))
def test_damaged_bytes_raise_nothing(noise: bytes, at: int) -> None:
    """Whatever is in a block, reading ends."""
    outbox, memory = shared()
    for step in range(5):
        put(outbox, step)
    start = BLOCKS_AT + 8 * at
    memory[start : start + len(noise)] = noise
    reader, position, view = BlockReader(), 0, memoryview(memory)[BLOCKS_AT : BLOCKS_AT + 1024]
    while (found := reader.read(view, position, (-1, -1)))[0]:
        position = found[1]
    assert position <= len(view)


def test_threads_that_log_at_once_leave_whole_records() -> None:
    """With four threads that switch as often as possible, each number is one record, in order."""
    outbox, memory = shared()
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
    assert left_in(memory) == [decoded(frame) for frame in Reader(outbox).frames()]
    assert outbox.records == 8000


def _log(outbox: Outbox, which: int) -> None:
    for step in range(2000):
        outbox.put((which * 10_000 + step, 0, (f"loss{which}", "lr"), float(step), 0.1))


def test_a_record_of_four_values_takes_64_bytes() -> None:
    """The figure of the documentation."""
    assert packer(4)[0] == 64


def test_both_pack_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Except for the padding of a record, which ``struct`` fills with a flag."""
    memories = []
    for module in (compiled(), None):
        monkeypatch.setattr(log, "compiled", module)
        outbox = Outbox()
        for step in (7, -8):
            outbox.put((step, -step, ("a", "b", "c"), 1.5, math.nan, -math.inf))
        memories.append(bytearray(outbox.memory[BLOCKS_AT : outbox.block.head]))
    packed, expected = memories
    for record in (len(expected) - 56, len(expected) - 112):
        expected[record + 20] = packed[record + 20]
    assert packed == expected
