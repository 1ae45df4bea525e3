"""A frame holds an encoded message and the sequence numbers that it covers."""

from __future__ import annotations

import gc

import pytest

from tocsin import protocol
from tocsin.core.frames import EVENT, RECORDS, Frame, frame_of


def test_records_cover_their_range() -> None:
    """After 7 records, a message of 5 covers the numbers 7 to 11, and its bytes are the encoded message."""
    message = protocol.Records(7, 5, bytes(40), bytes(40), {})
    frame = frame_of(message)
    assert (frame.kind, frame.first, frame.count, frame.last) == (RECORDS, 7, 5, 11)
    assert protocol.decode_client(frame.body) == message


@pytest.mark.parametrize(
    "message", [protocol.Event(3, "checkpoint", 1, 7, {}), protocol.Finish(3, 1, records=9)]
)
def test_events_and_the_finish_are_one_each(message: protocol.Event | protocol.Finish) -> None:
    """They share one sequence, separate from that of records."""
    frame = frame_of(message)
    assert (frame.kind, frame.first, frame.last) == (EVENT, 3, 3)
    assert protocol.decode_client(frame.body) == message


def test_frames_are_not_tracked_by_the_garbage_collector() -> None:
    """Waiting frames must not make training pause for a garbage collection."""
    assert not gc.is_tracked(Frame(RECORDS, 0, 1, b""))
