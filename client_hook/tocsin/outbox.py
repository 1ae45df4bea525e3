"""What the training thread has said and the sender has not taken yet. Pure: no thread, no I/O.

The training thread appends flat tuples to a deque: no lock, no system call, no wake-up.
The sender thread comes by five times a second and drains them into columns.

Policy: up to ``limit`` records and ``EVENT_LIMIT`` events wait. Above that the newest are
not taken, counted in ``dropped``, and leave a gap in the sequence numbers, so that the
server can show that something is missing and where.
"""

from __future__ import annotations

from collections import deque
from typing import Any, cast

import msgspec

from .columns import columns_of
from .plain import packed
from .protocol import Event, Finish, Records, little_endian

BATCH_RECORDS = 512
BATCH_BYTES = 256 << 10
"""A batch is closed at this many records or about this many bytes of values."""
EVENT_LIMIT = 4096
EVENT_BYTES = 64 << 10
"""Above this the server would refuse an event's data (``limits.event_bytes``), so they stay here."""

Item = tuple[Any, ...]
"""``(step, t_ns, names, *values)``: a flat tuple; ``names`` one interned ``tuple[str, ...]``."""


class Outbox:
    """Bounded queue from the training thread to the sender thread, and the numbering."""

    def __init__(self, limit: int = 65_536) -> None:
        self._limit = limit
        self._event_limit = EVENT_LIMIT
        self._items: deque[Item | int] = deque()
        self._events: deque[tuple[str, int, int | None, bytes]] = deque()
        self._gap = 0
        self._next_seq = 0
        self._next_event = 0
        self.dropped = 0
        """Records and events not taken because the queue was full."""
        self.last_step: int | None = None
        """Step of the newest drained record."""

    def put(self, item: Item) -> None:
        """Takes one record; the newest is dropped and counted when ``limit`` wait already."""
        items = self._items
        if len(items) >= self._limit:
            self._gap += 1
            self.dropped += 1
            return
        if self._gap:
            items.append(self._gap)
            self._gap = 0
        items.append(item)

    def put_event(self, kind: str, t_ns: int, step: int | None, data: dict[str, Any]) -> None:
        """Takes one event; ``data`` is encoded at once, so the caller may change it afterwards."""
        if len(self._events) >= self._event_limit:
            self.dropped += 1
            return
        self._events.append((kind, t_ns, step, packed(data, EVENT_BYTES)))

    def __len__(self) -> int:
        """Records and events that wait."""
        return len(self._items) + len(self._events)

    def silence(self) -> None:
        """Forgets everything and takes nothing more: the run is over, or this is a fork."""
        self._limit = self._event_limit = 0
        self._items.clear()
        self._events.clear()

    def drain(self) -> Records | None:
        """The oldest waiting records as one numbered message, or None when nothing waits."""
        items = self._take()
        if not items:
            return None
        self.last_step = items[-1][0]
        steps, times, columns = columns_of(items)
        seq, self._next_seq = self._next_seq, self._next_seq + len(items)
        return Records(seq, len(items), little_endian("q", steps), little_endian("q", times), columns)

    def drain_event(self) -> Event | None:
        """The oldest waiting event with its number, or None."""
        if not self._events:
            return None
        kind, t_ns, step, data = self._events.popleft()
        # A Raw is written as it is: the data were encoded when the event was put.
        return Event(self._number(), kind, t_ns, step, cast(dict[str, Any], msgspec.Raw(data)))

    def finish(self, t_ns: int, state: str, records: int, error: dict[str, Any]) -> Finish:
        """The finish message, numbered like an event."""
        return Finish(self._number(), t_ns, state, records, error)

    def _number(self) -> int:
        number, self._next_event = self._next_event, self._next_event + 1
        return number

    def _take(self) -> list[Item]:
        """Pops one batch: it ends at the limits and before a gap."""
        items: list[Item] = []
        waiting, size = self._items, 0
        while waiting and len(items) < BATCH_RECORDS and size < BATCH_BYTES:
            head = waiting[0]
            if isinstance(head, int):
                if items:
                    break
                self._next_seq += head
            else:
                items.append(head)
                size += 8 * len(head)
            waiting.popleft()
        return items
