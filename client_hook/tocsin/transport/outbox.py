"""Queue of records and events from the training thread to the sender thread. Pure: no thread, no I/O.

The training thread appends flat tuples to a deque, and packs them into a ring buffer that outlives the
process (buffer.py): no lock, no system call, no wake-up. The sender thread drains the deque into columns five
times a second; only the next process reads the ring.

When half of ``limit`` records wait, or the ring is full, a call of the script (``patient``) waits for the
sender, for a bounded time; automatic capture never waits. The queue then still accepts up to ``limit``
records, ``OUTSIDE_BYTES`` of values that do not fit in the ring, and ``EVENT_LIMIT`` events. Beyond that, new
ones are dropped, counted in ``dropped`` and reported in a ``dropped`` event, and their sequence numbers stay
missing.
"""

from __future__ import annotations

import operator
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, cast

import msgspec

from ..core.columns import columns_of
from ..protocol import Event, Finish, Records, encode, little_endian
from ..spool.buffer import EVENT_MARK, RECORD, NoRing, Ring, one_record
from .encoding import packed

LIMIT = 131_072
"""Maximum number of records that wait."""
OUTSIDE_BYTES = 12 << 20
"""Maximum bytes of waiting values that do not fit in the ring, if records are wide."""
BATCH_RECORDS = 512
BATCH_BYTES = 256 << 10
"""A batch is closed at this many records or about this many bytes of values."""
EVENT_LIMIT = 4096
EVENT_BYTES = 64 << 10
"""The server would reject larger event data (``limits.event_bytes``), so they are not sent."""

_HAS_GIL = bool(getattr(sys, "_is_gil_enabled", lambda: True)())

Item = tuple[Any, ...]
"""``(step, t_ns, names, *values)``: a flat tuple; ``names`` one interned ``tuple[str, ...]``."""


class Mark(NamedTuple):
    """Fill level of the queue and the ring at one time: numbers of the next record and event."""

    ring: Ring
    tail: int
    seq: int
    events: int


class Relief(Protocol):
    """What the queue needs from the sender when it is full."""

    def wait(self, ready: Callable[[], bool]) -> None:
        """Return when ``ready()`` is true, or after a bounded time."""

    def dropping(self) -> str:
        """Report in the terminal that records are being dropped; return why, for the run's page."""


class _Outside(tuple[Any, ...]):
    """A record that is not in the ring; its bytes are counted separately."""

    __slots__ = ()


class Outbox:
    """Bounded queue from the training thread to the sender thread, and the numbering."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._busy = (limit + 1) // 2
        """Number of waiting records from which calls of the script wait."""
        self._event_limit = EVENT_LIMIT
        self._items: deque[Item | int] = deque()
        self._events: deque[tuple[str, int, int | None, bytes]] = deque()
        self._gap = 0
        self._outside_in = self._outside_out = 0
        """Bytes queued outside the ring (training thread), and drained of them (sender)."""
        self._next_seq = 0
        self._next_event = 0
        self._ring: Ring = NoRing()
        self._offered: Ring | None = None
        self._put_events = 0
        self._marks: deque[Mark] = deque()
        self._released = (0, 0)
        self._untold: dict[str, Any] = {}
        """What was dropped since the last ``dropped`` event."""
        self._over = False
        self.relief: Relief | None = None
        self.dropped = 0
        """Records and events that were dropped because the queue was full."""
        self.last_step: int | None = None
        """Step of the newest drained record."""
        self.steps = 0
        """Steps in the drained records; consecutive records of the same step count once."""
        if not _HAS_GIL:  # pragma: no cover - free-threaded builds
            self._take_turns()

    @property
    def exposed(self) -> int:
        """Records and events that a SIGKILL would lose, because they did not fit in the ring."""
        return self._ring.exposed

    @property
    def taken(self) -> int:
        """Records that were drained so far."""
        return self._next_seq

    @property
    def is_ring_offered(self) -> bool:
        """Whether a new ring is not in use yet: drained records would be in neither ring nor spool."""
        return self._offered is not None

    def put(self, item: Item, patient: bool = False) -> None:
        """Queue one record. ``patient``: wait for the sender if there is no room."""
        items = self._items
        if (self._gap or len(items) >= self._busy) and not self._has_room(item, patient):
            return
        ring = self._ring
        try:
            shape, size, pack = ring.shapes[item[2]]
        except KeyError:
            self._put_otherwise(item, patient)
            return
        at = ring.head
        end = at + size
        if end > ring.free:
            self._put_otherwise(item, patient)
            return
        commit = ring.commit
        # No other thread and no signal handler can run from here to the end of the append: see buffer.py.
        ring.head = end
        ring.commit = commit + 1
        items.append(item)
        try:
            if shape:
                pack(ring.memory, at, shape, *item, commit)
        except Exception:
            self._keep(ring, item, commit)

    def put_event(
        self, kind: str, t_ns: int, step: int | None, data: dict[str, Any], patient: bool = False
    ) -> None:
        """Queue one event. ``data`` is encoded immediately, so the caller may change it afterwards."""
        if len(self._events) >= self._event_limit:
            if patient:
                self._wait(lambda: len(self._events) < self._event_limit)
            if len(self._events) >= self._event_limit:
                self._drop("events", t_ns, step)
                return
        if self._offered is not None:
            self.take_ring()
        event = (kind, t_ns, step, packed(data, EVENT_BYTES))
        number = self._put_events
        self._put_events = number + 1
        self._events.append(event)
        self._keep_event(self._ring, number, event)

    def offer_ring(self, ring: Ring) -> None:
        """Offer a ring that the sender thread has created, for use from the next record on."""
        self._offered = ring
        self._ring.free = -1  # makes the next record take the slow path, which starts using the ring

    def take_ring(self) -> None:
        """Start using the offered ring, and first copy the waiting records and events into it."""
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
        """Return the present fill level; draining after this call covers everything before it."""
        ring = self._ring
        tail, commit, events = ring.head, ring.commit, self._put_events
        return Mark(ring, tail, commit - RECORD, events)

    def note_mark(self) -> None:
        """Save the present fill level for ``release``."""
        mark, marks = self.mark(), self._marks
        if not marks or marks[-1] != mark:
            marks.append(mark)

    def release(self, seq: float, events: float) -> None:
        """Free the space in the ring of drained records and events below these numbers."""
        marks, newest = self._marks, None
        seq, events = min(seq, self._next_seq), min(events, self._next_event)
        while marks and marks[0].seq <= seq and marks[0].events <= events:
            newest = marks.popleft()
        if newest is not None:
            self.kept(newest)

    def kept(self, mark: Mark) -> None:
        """Free the ring up to ``mark``: everything before it is in the spool or acknowledged."""
        seq, events = self._released
        # Two threads create marks, and may append them in another order than they created them.
        if mark.ring is self._ring and mark.seq >= seq and mark.events >= events:
            if (mark.seq, mark.events) == self._released:
                return
            self._released = (mark.seq, mark.events)
            self._ring.release(mark.tail, mark.seq, mark.events)

    def tell_dropped(self, *, at_end: bool = False) -> None:
        """Queue an event with what was dropped since the last one, once there is room again."""
        settled = at_end or len(self._items) < self._busy
        if self._untold and settled and len(self._events) < self._event_limit:
            told, self._untold = self._untold, {}
            self.put_event("dropped", told.pop("t_ns"), told["last_step"], told)

    def __len__(self) -> int:
        """Return the number of waiting records and events."""
        return len(self._items) + len(self._events)

    def silence(self) -> None:
        """Discard everything and accept nothing more: the run has ended, or this is a forked child."""
        self._over = True
        self._limit = self._busy = self._event_limit = 0
        self._ring, self._offered = NoRing(), None
        self._marks.clear()
        self._items.clear()
        self._events.clear()

    def drain(self) -> Records | None:
        """Return the oldest waiting records as one numbered message, or None if there are none."""
        items = self._take()
        if not items:
            return None
        steps, times, columns = columns_of(items)
        self.steps += sum(map(operator.ne, steps, (self.last_step, *steps)))
        self.last_step = steps[-1]
        seq, self._next_seq = self._next_seq, self._next_seq + len(items)
        return Records(seq, len(items), little_endian("q", steps), little_endian("q", times), columns)

    def drain_event(self) -> Event | None:
        """Return the oldest waiting event with its number, or None."""
        if not self._events:
            return None
        kind, t_ns, step, data = self._events.popleft()
        # A Raw is written as it is: the data was encoded when the event was queued.
        return Event(self._number(), kind, t_ns, step, cast(dict[str, Any], msgspec.Raw(data)))

    def finish(self, t_ns: int, state: str, records: int, error: dict[str, Any]) -> Finish:
        """Return the finish message, numbered like an event."""
        return Finish(self._number(), t_ns, state, records, error)

    def _has_room(self, item: Item, patient: bool) -> bool:
        """Return whether a queue that is half full, or has dropped a record, accepts this record."""
        items = self._items
        if patient and len(items) >= self._busy:
            self._wait(lambda: len(items) < self._busy)
        if len(items) >= self._limit or (self._gap and not self._fits(item)):
            self._leave_out(item)
            return False
        gap, self._gap = self._gap, 0
        if gap:
            self._ring.commit += gap
            items.append(gap)
            self.tell_dropped()
        return True

    def _fits(self, item: Item) -> bool:
        """Return whether there is room for it in the ring or outside of it."""
        ring, names = self._ring, item[2]
        beyond = self._outside_in - self._outside_out + 8 * len(item)
        return beyond <= OUTSIDE_BYTES or ring.make_room(ring.admit(names) or _size_of_message(names))

    def _put_otherwise(self, item: Item, patient: bool) -> None:
        """Queue a record on the slow path: new names, end of a ring segment, a full ring, or none."""
        if self._offered is not None:
            self.take_ring()
        ring = self._ring
        size = ring.admit(item[2])
        room = size or _size_of_message(item[2])
        if patient and not ring.make_room(room):
            self._wait(lambda: ring.make_room(room))
        if size and ring.make_room(size):
            self.note_mark()
            self.tell_dropped()
            self.put(item)
            return
        outside = size or not ring.memory or not ring.make_room(room)
        if outside:
            if not self._fits(item):
                self._leave_out(item)
                return
            self._outside_in += 8 * len(item)
            item = _Outside(item)
        commit = ring.commit
        ring.commit = commit + 1
        self._items.append(item)
        if not outside:
            self._keep(ring, item, commit)
        elif ring.memory:
            ring.exposed += 1

    def _leave_out(self, item: Item) -> None:
        """Drop one record; its number stays missing."""
        self._gap += 1
        self._drop("records", item[1], item[0])

    def _drop(self, what: str, t_ns: int, step: int | None) -> None:
        """Count what is dropped, and report the first one in the terminal."""
        if self._over:
            return
        self.dropped += 1
        told = self._untold
        if not told:
            reason = self.relief.dropping() if self.relief is not None else ""
            told |= {"records": 0, "events": 0, "first_step": step, "reason": reason}
        told[what] += 1
        told |= {"last_step": step, "t_ns": t_ns}

    def _wait(self, ready: Callable[[], bool]) -> None:
        if self.relief is not None and not self._over:
            self.relief.wait(ready)

    def _keep(self, ring: Ring, item: Item, commit: int) -> None:
        """Store a record that cannot be packed (other values than floats, or too many names) as a message."""
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
        """Use a lock instead of the GIL."""
        lock, put, put_event = threading.RLock(), self.put, self.put_event

        def put_in_turn(item: Item, patient: bool = False) -> None:
            with lock:
                put(item, patient)

        def put_event_in_turn(
            kind: str, t_ns: int, step: int | None, data: dict[str, Any], patient: bool = False
        ) -> None:
            with lock:
                put_event(kind, t_ns, step, data, patient)

        self.put = put_in_turn  # type: ignore[method-assign]
        self.put_event = put_event_in_turn  # type: ignore[method-assign]

    def _number(self) -> int:
        number, self._next_event = self._next_event, self._next_event + 1
        return number

    def _take(self) -> list[Item]:
        """Remove and return one batch, which ends at the limits and before a gap."""
        items: list[Item] = []
        waiting, size = self._items, 0
        while waiting and len(items) < BATCH_RECORDS and size < BATCH_BYTES:
            head = waiting[0]
            if isinstance(head, int):
                if items:
                    break
                self._next_seq += head
            else:
                if type(head) is _Outside:
                    self._outside_out += 8 * len(head)
                items.append(head)
                size += 8 * len(head)
            waiting.popleft()
        return items


def _size_of_message(names: tuple[str, ...]) -> int:
    """Return the approximate size of a record that is stored as an encoded message."""
    return 64 + sum(len(name) + 24 for name in names)
