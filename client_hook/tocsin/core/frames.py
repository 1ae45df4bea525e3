"""An encoded message that waits for its acknowledgement.

The backlog is held as bytes, never as rows: a hundred thousand waiting rows cost the
training process garbage collections of 70 ms each, bytes cost none.
"""

from __future__ import annotations

import msgspec

from .. import protocol

RECORDS = 1
EVENT = 2
"""Kinds of frame: records and events (the finish is one) are numbered apart."""


class Frame(msgspec.Struct, frozen=True, gc=False):
    """One encoded message with the numbers ``first`` .. ``first + count - 1`` of its kind."""

    kind: int
    first: int
    count: int
    body: bytes

    @property
    def last(self) -> int:
        """Number of the last record or event in it."""
        return self.first + self.count - 1


def frame_of(message: protocol.Records | protocol.Event | protocol.Finish) -> Frame:
    """``message`` encoded once; the same bytes go to the spool and to the socket."""
    body = protocol.encode(message)
    if isinstance(message, protocol.Records):
        return Frame(RECORDS, message.seq, message.n, body)
    return Frame(EVENT, message.no, 1, body)
