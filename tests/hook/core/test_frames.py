"""A frame knows which numbers its message covers, and carries it as bytes that no collection looks at."""

from __future__ import annotations

import gc

import pytest

from tocsin import protocol
from tocsin.core.frames import EVENT, RECORDS, Frame, frame_of
from tocsin.transport.outbox import Outbox


def test_records_cover_their_range() -> None:
    """The second message of an outbox that gave out 7 records holds numbers 7 to 11; its bytes are it."""
    outbox = Outbox()
    for count in (7, 5):
        for step in range(count):
            outbox.put((step, step, ("loss",), 1.0))
        message = outbox.drain()
    assert message is not None
    frame = frame_of(message)
    assert (frame.kind, frame.first, frame.count, frame.last) == (RECORDS, 7, 5, 11)
    assert protocol.decode_client(frame.body) == message


@pytest.mark.parametrize(
    "message", [protocol.Event(3, "checkpoint", 1, 7, {}), protocol.Finish(3, 1, records=9)]
)
def test_events_and_the_finish_are_one_each(message: protocol.Event | protocol.Finish) -> None:
    """They are numbered together, apart from records."""
    frame = frame_of(message)
    assert (frame.kind, frame.first, frame.last) == (EVENT, 3, 3)
    assert protocol.decode_client(frame.body) == message


def test_a_backlog_of_frames_is_nothing_to_the_collector() -> None:
    """A hundred thousand waiting frames must not make training pause for a garbage collection."""
    assert not gc.is_tracked(Frame(RECORDS, 0, 1, b""))
