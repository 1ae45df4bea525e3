"""What the training thread has said and the sender has not taken yet. Pure: no thread, no I/O.

The training thread appends flat tuples to a deque, and packs them into a ring that outlives
the process (ring.py): no lock, no system call, no wake-up. The sender thread comes by five
times a second and drains the deque into columns; the ring is read by the next process only.

Policy: up to ``limit`` records and ``EVENT_LIMIT`` events wait. Above that the newest are
not taken, counted in ``dropped``, and leave a gap in the sequence numbers, so that the
server can show that something is missing and where.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from typing import Any, NamedTuple, cast

import msgspec

from .columns import columns_of
from .plain import packed
from .protocol import Event, Finish, Records, encode, little_endian
from .ring import EVENT_MARK, RECORD, NoRing, Ring, one_record

BATCH_RECORDS = 512
BATCH_BYTES = 256 << 10
"""A batch is closed at this many records or about this many bytes of values."""
EVENT_LIMIT = 4096
EVENT_BYTES = 64 << 10
"""Above this the server would refuse an event's data (``limits.event_bytes``), so they stay here."""

_HAS_GIL = bool(getattr(sys, "_is_gil_enabled", lambda: True)())

Item = tuple[Any, ...]
"""``(step, t_ns, names, *values)``: a flat tuple; ``names`` one interned ``tuple[str, ...]``."""


class Mark(NamedTuple):
    """How far the queue and the ring were filled at one moment: numbers of the next record and event."""

    tail: int
    seq: int
    events: int


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
        self._ring: Ring = NoRing()
        self._offered: Ring | None = None
        self._put_events = 0
        self.dropped = 0
        """Records and events not taken because the queue was full."""
        self.last_step: int | None = None
        """Step of the newest drained record."""
        if not _HAS_GIL:  # pragma: no cover - free-threaded builds
            self._take_turns()

    @property
    def exposed(self) -> int:
        """Records and events that a SIGKILL would lose: they found no room in the ring."""
        return self._ring.exposed

    @property
    def is_ring_offered(self) -> bool:
        """A ring was made and not taken yet: what is drained now would be in neither ring nor spool."""
        return self._offered is not None

    def put(self, item: Item) -> None:
        """Takes one record; the newest is dropped and counted when ``limit`` wait already."""
        items = self._items
        if (self._gap or len(items) >= self._limit) and not self._has_room():
            return
        ring = self._ring
        try:
            shape, size, pack = ring.shapes[item[2]]
        except KeyError:
            self._put_otherwise(item)
            return
        at = ring.head
        end = at + size
        if end > ring.free:
            self._put_otherwise(item)
            return
        commit = ring.commit
        # From here to the end of the append nothing comes between: see ring.py.
        ring.head = end
        ring.commit = commit + 1
        items.append(item)
        try:
            if shape:
                pack(ring.memory, at, shape, *item, commit)
        except Exception:
            self._keep(ring, item, commit)

    def put_event(self, kind: str, t_ns: int, step: int | None, data: dict[str, Any]) -> None:
        """Takes one event; ``data`` is encoded at once, so the caller may change it afterwards."""
        if len(self._events) >= self._event_limit:
            self.dropped += 1
            return
        if self._offered is not None:
            self.take_ring()
        event = (kind, t_ns, step, packed(data, EVENT_BYTES))
        number = self._put_events
        self._put_events = number + 1
        self._events.append(event)
        self._keep_event(self._ring, number, event)

    def offer_ring(self, ring: Ring) -> None:
        """The sender's thread has made a ring; the training thread takes it at its next record."""
        self._offered = ring
        self._ring.free = -1  # the next record takes the longer way, and the ring

    def take_ring(self) -> None:
        """From now on records go into the offered ring too, after those that wait already."""
        ring, self._offered = self._offered, None
        if ring is None:
            return
        waiting, events = tuple(self._items), tuple(self._events)
        ring.commit = self._ring.commit
        seq = ring.commit - RECORD - sum(item if isinstance(item, int) else 1 for item in waiting)
        for item in waiting:
            if isinstance(item, int):
                seq += item
            else:
                ring.keep(RECORD + seq, one_record(item, seq))
                seq += 1
        for number, event in enumerate(events, self._put_events - len(events)):
            self._keep_event(ring, number, event)
        self._ring = ring

    def mark(self) -> Mark:
        """Where ring and numbers stand; what is drained afterwards covers all that is before it."""
        ring = self._ring
        tail, commit, events = ring.head, ring.commit, self._put_events
        return Mark(tail, commit - RECORD, events)

    def kept(self, mark: Mark) -> None:
        """All before ``mark`` is on the spool, or acknowledged: the ring may use its room again."""
        if mark.tail:
            self._ring.release(*mark)

    def __len__(self) -> int:
        """Records and events that wait."""
        return len(self._items) + len(self._events)

    def silence(self) -> None:
        """Forgets everything and takes nothing more: the run is over, or this is a fork."""
        self._limit = self._event_limit = 0
        self._ring, self._offered = NoRing(), None
        self._items.clear()
        self._events.clear()

    def drain(self) -> Records | None:
        """The oldest waiting records as one numbered message, or None when nothing waits."""
        items = self._take()
        if not items:
            return None
        steps, times, columns = columns_of(items)
        self.last_step = steps[-1]
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

    def _has_room(self) -> bool:
        """At the limit, or after it: the numbers of what was dropped are left out."""
        if len(self._items) >= self._limit:
            self._gap += 1
            self.dropped += 1
            return False
        gap, self._gap = self._gap, 0
        self._ring.commit += gap
        self._items.append(gap)
        return True

    def _put_otherwise(self, item: Item) -> None:
        """New names, the end of the ring, a full one, or none."""
        if self._offered is not None:
            self.take_ring()
        ring = self._ring
        size = ring.admit(item[2])
        if size and ring.make_room(size):
            self.put(item)
            return
        commit = ring.commit
        ring.commit = commit + 1
        self._items.append(item)
        if size:
            ring.exposed += 1
        else:
            self._keep(ring, item, commit)

    def _keep(self, ring: Ring, item: Item, commit: int) -> None:
        """A record that does not pack (no floats, or names beyond the table) is kept as a message."""
        try:
            if ring.memory:
                ring.keep(commit, one_record(item, commit - RECORD))
        except Exception:
            ring.exposed += 1

    def _keep_event(self, ring: Ring, number: int, event: tuple[str, int, int | None, bytes]) -> None:
        if ring.memory:
            kind, t_ns, step, data = event
            raw = cast(dict[str, Any], msgspec.Raw(data))
            ring.keep(EVENT_MARK + number, encode(Event(number, kind, t_ns, step, raw)))

    def _take_turns(self) -> None:  # pragma: no cover - free-threaded builds
        """Without a GIL a lock does what it did."""
        lock, put, put_event = threading.RLock(), self.put, self.put_event

        def put_in_turn(item: Item) -> None:
            with lock:
                put(item)

        def put_event_in_turn(kind: str, t_ns: int, step: int | None, data: dict[str, Any]) -> None:
            with lock:
                put_event(kind, t_ns, step, data)

        self.put = put_in_turn  # type: ignore[method-assign]
        self.put_event = put_event_in_turn  # type: ignore[method-assign]

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
