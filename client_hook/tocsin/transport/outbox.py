"""Queue of records and events from the training thread to the sender thread. Pure: no thread, no I/O.

The training thread appends flat tuples to a deque and packs them into a ring buffer that outlives the process
(buffer.py), without a lock, a system call or a wake-up. The sender thread drains the deque into columns five
times a second; only the next process reads the buffer.

When half of ``limit`` records are waiting, or the buffer is full, a call of the script (``may_wait``) waits
for the sender, for a bounded time; automatic capture never waits. The queue then still accepts up to
``limit`` records, ``OUTSIDE_BYTES`` of values that do not fit in the buffer, and ``EVENT_LIMIT`` events.
Beyond that, new ones are dropped, counted in ``dropped`` and reported in a ``dropped`` event, and their
sequence numbers stay missing.
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
from ..spool.buffer import EVENT_MARK, RECORD, NoBuffer, RingBuffer, one_record
from .encoding import packed

LIMIT = 131_072
"""Maximum number of waiting records."""
OUTSIDE_BYTES = 12 << 20
"""Maximum bytes of waiting values that do not fit in the buffer."""
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
    """Fill level of queue and buffer at one time: numbers of the next record and event."""

    buffer: RingBuffer
    tail: int
    seq: int
    events: int


class Backpressure(Protocol):
    """The sender, as the queue uses it when it is full."""

    def wait(self, ready: Callable[[], bool]) -> None:
        """Return when ``ready()`` is true, or after a bounded time."""

    def dropping(self) -> str:
        """Report in the terminal that records are being dropped; return why, for the run's page."""


class _Outside(tuple[Any, ...]):
    """A record that is not in the buffer; its bytes are counted separately."""

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
        """Bytes queued outside the buffer (training thread), and drained of them (sender)."""
        self._next_seq = 0
        self._next_event = 0
        self._buffer: RingBuffer = NoBuffer()
        self._offered: RingBuffer | None = None
        self._put_events = 0
        self._marks: deque[Mark] = deque()
        self._released = (0, 0)
        self._unreported: dict[str, Any] = {}
        """What was dropped since the last ``dropped`` event."""
        self._over = False
        self.backpressure: Backpressure | None = None
        self.dropped = 0
        """Records and events that were dropped because the queue was full."""
        self.last_step: int | None = None
        """Step of the newest drained record."""
        self.steps = 0
        """Steps in the drained records; consecutive records of the same step count once."""
        if not _HAS_GIL:  # pragma: no cover - free-threaded builds
            self._take_turns()

    @property
    def unprotected_records(self) -> int:
        """Records and events that a SIGKILL would lose, because they did not fit in the buffer."""
        return self._buffer.unprotected_records

    @property
    def taken(self) -> int:
        """Number of records that were drained so far."""
        return self._next_seq

    @property
    def is_buffer_offered(self) -> bool:
        """Whether a new buffer is not in use yet: drained records would be in neither buffer nor spool."""
        return self._offered is not None

    def put(self, item: Item, may_wait: bool = False) -> None:
        """Queue one record. ``may_wait``: wait for the sender if there is no room."""
        items = self._items
        if (self._gap or len(items) >= self._busy) and not self._has_room(item, may_wait):
            return
        buffer = self._buffer
        try:
            shape, size, pack = buffer.shapes[item[2]]
        except KeyError:
            self._put_otherwise(item, may_wait)
            return
        at = buffer.head
        end = at + size
        if end > buffer.free:
            self._put_otherwise(item, may_wait)
            return
        commit = buffer.commit
        # No other thread and no signal handler can run from here to the end of the append: see buffer.py.
        buffer.head = end
        buffer.commit = commit + 1
        items.append(item)
        try:
            if shape:
                pack(buffer.memory, at, shape, *item, commit)
        except Exception:
            self._keep(buffer, item, commit)

    def put_event(
        self, kind: str, t_ns: int, step: int | None, data: dict[str, Any], may_wait: bool = False
    ) -> None:
        """Queue one event. ``data`` is encoded immediately, so the caller may change it afterwards.

        Args:
            kind: Kind of the event.
            t_ns: Unix time, ns.
            step: Step that it belongs to, or None.
            data: Plain data of the event.
            may_wait: Wait for the sender if there is no room.
        """
        if len(self._events) >= self._event_limit:
            if may_wait:
                self._wait(lambda: len(self._events) < self._event_limit)
            if len(self._events) >= self._event_limit:
                self._drop("events", t_ns, step)
                return
        if self._offered is not None:
            self.take_buffer()
        event = (kind, t_ns, step, packed(data, EVENT_BYTES))
        number = self._put_events
        self._put_events = number + 1
        self._events.append(event)
        self._keep_event(self._buffer, number, event)

    def offer_buffer(self, buffer: RingBuffer) -> None:
        """Offer a buffer that the sender thread has created, for use from the next record on."""
        self._offered = buffer
        self._buffer.free = -1  # makes the next record take the slow path, which starts using the buffer

    def take_buffer(self) -> None:
        """Start using the offered buffer, and first copy the waiting records and events into it."""
        buffer, self._offered = self._offered, None
        if buffer is None:
            return
        waiting, events = tuple(self._items), tuple(self._events)
        buffer.commit = self._buffer.commit
        seq = buffer.commit - RECORD - sum(item if isinstance(item, int) else 1 for item in waiting)
        for item in waiting:
            if isinstance(item, int):
                seq += item
            else:
                buffer.keep(RECORD + seq, one_record(item, seq))
                seq += 1
        for number, event in enumerate(events, self._put_events - len(events)):
            self._keep_event(buffer, number, event)
        self._buffer = buffer

    def mark(self) -> Mark:
        """Return the current fill level; draining after this call covers everything before it."""
        buffer = self._buffer
        tail, commit, events = buffer.head, buffer.commit, self._put_events
        return Mark(buffer, tail, commit - RECORD, events)

    def note_mark(self) -> None:
        """Save the current fill level for ``release``."""
        mark, marks = self.mark(), self._marks
        if not marks or marks[-1] != mark:
            marks.append(mark)

    def release(self, seq: float, events: float) -> None:
        """Free the space in the buffer of drained records and events below these numbers."""
        marks, newest = self._marks, None
        seq, events = min(seq, self._next_seq), min(events, self._next_event)
        while marks and marks[0].seq <= seq and marks[0].events <= events:
            newest = marks.popleft()
        if newest is not None:
            self.free(newest)

    def free(self, mark: Mark) -> None:
        """Free the buffer up to ``mark``: everything before it is in the spool or acknowledged."""
        seq, events = self._released
        # Two threads create marks, and may append them in another order than they created them.
        if mark.buffer is self._buffer and mark.seq >= seq and mark.events >= events:
            if (mark.seq, mark.events) == self._released:
                return
            self._released = (mark.seq, mark.events)
            self._buffer.release(mark.tail, mark.seq, mark.events)

    def report_dropped(self, *, at_end: bool = False) -> None:
        """Queue an event with what was dropped since the last one, once there is room again."""
        settled = at_end or len(self._items) < self._busy
        if self._unreported and settled and len(self._events) < self._event_limit:
            report, self._unreported = self._unreported, {}
            self.put_event("dropped", report.pop("t_ns"), report["last_step"], report)

    def __len__(self) -> int:
        """Return the number of waiting records and events."""
        return len(self._items) + len(self._events)

    def discard(self) -> None:
        """Discard everything and accept nothing more: the run has ended, or this is a forked child."""
        self._over = True
        self._limit = self._busy = self._event_limit = 0
        self._buffer, self._offered = NoBuffer(), None
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
        """Return the finish message, numbered like an event.

        Args:
            t_ns: Unix time, ns.
            state: ``finished`` or ``failed``.
            records: Number of records of the run.
            error: ``{"type", "message", "lines"}``, or empty.
        """
        return Finish(self._number(), t_ns, state, records, error)

    def _has_room(self, item: Item, may_wait: bool) -> bool:
        """Return whether a queue that is half full, or has dropped a record, accepts this record."""
        items = self._items
        if may_wait and len(items) >= self._busy:
            self._wait(lambda: len(items) < self._busy)
        if len(items) >= self._limit or (self._gap and not self._fits(item)):
            self._leave_out(item)
            return False
        gap, self._gap = self._gap, 0
        if gap:
            self._buffer.commit += gap
            items.append(gap)
            self.report_dropped()
        return True

    def _fits(self, item: Item) -> bool:
        """Return whether there is room for it in the buffer or outside of it."""
        buffer, names = self._buffer, item[2]
        beyond = self._outside_in - self._outside_out + 8 * len(item)
        return beyond <= OUTSIDE_BYTES or buffer.make_room(buffer.admit(names) or _size_of_message(names))

    def _put_otherwise(self, item: Item, may_wait: bool) -> None:
        """Queue a record on the slow path: new names, end of a segment, a full buffer, or none."""
        if self._offered is not None:
            self.take_buffer()
        buffer = self._buffer
        size = buffer.admit(item[2])
        room = size or _size_of_message(item[2])
        if may_wait and not buffer.make_room(room):
            self._wait(lambda: buffer.make_room(room))
        if size and buffer.make_room(size):
            self.note_mark()
            self.report_dropped()
            self.put(item)
            return
        outside = size or not buffer.memory or not buffer.make_room(room)
        if outside:
            if not self._fits(item):
                self._leave_out(item)
                return
            self._outside_in += 8 * len(item)
            item = _Outside(item)
        commit = buffer.commit
        buffer.commit = commit + 1
        self._items.append(item)
        if not outside:
            self._keep(buffer, item, commit)
        elif buffer.memory:
            buffer.unprotected_records += 1

    def _leave_out(self, item: Item) -> None:
        """Drop one record; its number stays missing."""
        self._gap += 1
        self._drop("records", item[1], item[0])

    def _drop(self, what: str, t_ns: int, step: int | None) -> None:
        """Count what is dropped, and report the first one in the terminal."""
        if self._over:
            return
        self.dropped += 1
        report = self._unreported
        if not report:
            reason = self.backpressure.dropping() if self.backpressure is not None else ""
            report |= {"records": 0, "events": 0, "first_step": step, "reason": reason}
        report[what] += 1
        report |= {"last_step": step, "t_ns": t_ns}

    def _wait(self, ready: Callable[[], bool]) -> None:
        if self.backpressure is not None and not self._over:
            self.backpressure.wait(ready)

    def _keep(self, buffer: RingBuffer, item: Item, commit: int) -> None:
        """Store a record that cannot be packed (other values than floats, or too many names) as a message."""
        try:
            if buffer.memory:
                buffer.keep(commit, one_record(item, commit - RECORD))
        except Exception:
            buffer.unprotected_records += 1

    def _keep_event(self, buffer: RingBuffer, number: int, event: tuple[str, int, int | None, bytes]) -> None:
        if buffer.memory:
            kind, t_ns, step, data = event
            raw = cast(dict[str, Any], msgspec.Raw(data))
            buffer.keep(EVENT_MARK + number, encode(Event(number, kind, t_ns, step, raw)))

    def _take_turns(self) -> None:  # pragma: no cover - free-threaded builds
        """Use a lock instead of the GIL."""
        lock, put, put_event = threading.RLock(), self.put, self.put_event

        def put_in_turn(item: Item, may_wait: bool = False) -> None:
            with lock:
                put(item, may_wait)

        def put_event_in_turn(
            kind: str, t_ns: int, step: int | None, data: dict[str, Any], may_wait: bool = False
        ) -> None:
            with lock:
                put_event(kind, t_ns, step, data, may_wait)

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
