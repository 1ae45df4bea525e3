"""Read from an outbox what the sender would send."""

from __future__ import annotations

import struct

from tocsin import protocol
from tocsin.core.frames import RECORDS, Frame
from tocsin.spool.segments import Spool
from tocsin.transport.backlog import Backlog
from tocsin.transport.outbox import Outbox


class Reader:
    """The sender of one outbox, to a server that acknowledges everything."""

    def __init__(self, outbox: Outbox, spool: Spool | None = None) -> None:
        self.backlog = Backlog(outbox, spool)

    def frames(self) -> list[Frame]:
        """Return the messages that were not read yet."""
        self.backlog.flush()
        return rest_of(self.backlog)

    def records(self) -> list[protocol.Records]:
        """Return the messages of records that were not read yet."""
        return [message for message in map(decoded, self.frames()) if isinstance(message, protocol.Records)]

    def events(self) -> list[protocol.Event]:
        """Return the events that were not read yet."""
        return [message for message in map(decoded, self.frames()) if isinstance(message, protocol.Event)]


def decoded(frame: Frame) -> protocol.ClientMessage:
    """Return the message of a frame."""
    return protocol.decode_client(frame.body)


def rest_of(backlog: Backlog) -> list[Frame]:
    """Return every frame that can be sent, and acknowledge them."""
    frames = []
    while (frame := backlog.next()) is not None:
        frames.append(frame)
        backlog.acknowledge(
            frame.last if frame.kind == RECORDS else -1, frame.last if frame.kind != RECORDS else -1
        )
    return frames


def steps_of(records: protocol.Records) -> list[int]:
    """Return the steps in a message."""
    return list(struct.unpack(f"<{records.n}q", records.step))


def values_of(records: protocol.Records, row: int) -> dict[str, bytes]:
    """Return the values of a record, each as its eight bytes."""
    found = {}
    for name, column in records.cols.items():
        if isinstance(column, bytes):
            found[name] = column[8 * row : 8 * row + 8]
        else:
            at = struct.unpack(f"<{len(column.at) // 4}I", column.at)
            if row in at:
                found[name] = column.v[8 * at.index(row) :][:8]
    return found
