"""All frames that are not acknowledged yet, in order. Pure.

The oldest frames are held in memory (``limit_bytes``). Later ones are in the spool and are read back when
they are due.

No frame is dropped. While the spool accepts none (no disk, disk full, limit reached), frames stay in memory
and are written to the spool as soon as it accepts them again. Above the memory limit ``has_room`` is False,
and the sender leaves newer records in the queue.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Protocol

from ..core.frames import RECORDS, Frame

MEMORY_BYTES = 4 << 20


class SpoolBackend(Protocol):
    """Storage for frames that do not fit into memory or must survive the process."""

    @property
    def is_writable(self) -> bool:
        """Whether ``append`` would try to write."""

    def append(self, frame: Frame) -> bool:
        """Return whether ``frame`` was stored."""

    def read(self, cursor: Any) -> tuple[Frame, Any] | None:
        """Return the frame at ``cursor`` and the next cursor, or None at the end."""

    def release(self, seq: int, events: int) -> None:
        """Delete everything up to record ``seq`` and event ``events``."""

    @property
    def start(self) -> Any: ...

    @property
    def end(self) -> Any: ...


class NoSpool:
    """Stand-in for a run without a spool: frames stay in memory."""

    start = end = 0
    is_writable = False

    def append(self, frame: Any) -> bool:
        """Store nothing."""
        return False

    def read(self, cursor: Any) -> None:
        """Return nothing."""

    def release(self, seq: int, events: int) -> None:
        """Do nothing."""


class Backlog:
    """Queue of unacknowledged frames, in the order of their numbers."""

    def __init__(self, spool: SpoolBackend, limit_bytes: int = MEMORY_BYTES) -> None:
        self._spool = spool
        self._limit = limit_bytes
        self._flying: deque[Frame] = deque()
        self._ready: deque[Frame] = deque()
        self._late: deque[Frame] = deque()  # newer than the unread frames in the spool, and not in it
        self._unspooled: deque[Frame] = deque()  # in memory only
        self._cursor = spool.start
        self._bytes = 0
        self._sent_seq = self._sent_event = -1
        self.seq = -1
        """The highest record number acknowledged."""
        self.events = -1
        """The highest event number acknowledged."""
        self.records = 0
        """The highest record number that was added, plus one."""

    @property
    def empty(self) -> bool:
        """Whether everything is acknowledged."""
        return not (self._flying or self._ready or self._late or self._unread)

    @property
    def has_room(self) -> bool:
        """Whether memory or the spool accepts another frame."""
        return self._bytes < self._limit or self._spool.is_writable

    @property
    def secured(self) -> tuple[float, float]:
        """Numbers of the first record and the first event that are in memory only."""
        records = events = float("inf")
        for frame in self._unspooled:
            if frame.kind == RECORDS:
                records = min(records, frame.first)
            else:
                events = min(events, frame.first)
        return records, events

    @property
    def unspooled_records(self) -> int:
        """Number of records that are in memory only and would be lost with the process."""
        first, _ = self.secured
        return self.records - int(max(first, self.seq + 1)) if first < self.records else 0

    @property
    def in_flight(self) -> int:
        """Number of ``records`` messages that are sent and not acknowledged."""
        return sum(frame.kind == RECORDS for frame in self._flying)

    @property
    def _unread(self) -> bool:
        return bool(self._cursor != self._spool.end)

    def add(self, frame: Frame) -> None:
        """Add a frame to the spool, or else to memory, even above its limit."""
        behind = self._unread or bool(self._late)
        spooled = self._spool_frame(frame)
        room = self._bytes + len(frame.body) <= self._limit
        if not (spooled and (behind or not room)):  # otherwise it is read back when it is due
            self._hold(frame, self._late if behind else self._ready, spooled)
        if frame.kind == RECORDS:
            self.records = frame.last + 1

    def next(self) -> Frame | None:
        """Return the next frame to send, or None. The frame is in flight from now on."""
        if not self._ready:
            self._refill()
        if not self._ready:
            return None
        frame = self._ready.popleft()
        self._flying.append(frame)
        if frame.kind == RECORDS:
            self._sent_seq = max(self._sent_seq, frame.last)
        else:
            self._sent_event = max(self._sent_event, frame.last)
        return frame

    def acknowledge(self, seq: int, events: int) -> None:
        """Remove what the server has stored. Old, repeated and impossible acknowledgements change nothing."""
        self.seq = max(self.seq, min(seq, self._sent_seq))
        self.events = max(self.events, min(events, self._sent_event))
        self._flying = self._without_done(self._flying)
        self._spool.release(self.seq, self.events)

    def resume(self, seq: int, events: int) -> None:
        """Start a new connection to a server that has everything up to ``seq`` and ``events``.

        If the server has lost what it had acknowledged, everything that is still in the spool is sent again.
        """
        self._ready.extendleft(reversed(self._flying))
        self._flying.clear()
        rolled_back = seq < self.seq or events < self.events
        self.seq, self.events = seq, events
        if rolled_back and not self._unspooled and not self._late:
            self._ready.clear()
            self._bytes = 0
            self._cursor = self._spool.start
        self._ready = self._without_done(self._ready)
        self._spool.release(seq, events)

    def set_aside(self) -> int:
        """Drop the oldest frame, because the server cannot process it; return its number of records."""
        if not self._ready:
            self._refill()
        if not self._ready:
            return 0
        frame = self._ready.popleft()
        self._bytes -= len(frame.body)
        return frame.count

    def _hold(self, frame: Frame, where: deque[Frame], spooled: bool) -> None:
        where.append(frame)
        self._bytes += len(frame.body)
        if spooled:
            self._cursor = self._spool.end
        else:
            self._unspooled.append(frame)

    def _spool_frame(self, frame: Frame) -> bool:
        return self._spool_waiting() and self._spool.append(frame)

    def _spool_waiting(self) -> bool:
        """Write frames that are in memory only to the spool, oldest first; return whether none is left."""
        while self._unspooled:
            frame = self._unspooled[0]
            if self._done(frame):
                self._unspooled.popleft()
                continue
            if not self._spool.append(frame):
                return False
            self._unspooled.popleft()
            if self._late and self._late[0] is frame:
                self._late.popleft()
                self._bytes -= len(frame.body)
            else:
                self._cursor = self._spool.end
        return True

    def _refill(self) -> None:
        # Read one frame even above the limit: frames in ``_late`` may fill the memory alone while the disk is
        # full.
        while not (self._ready or self._flying) or self._bytes < self._limit:
            found = self._spool.read(self._cursor)
            if found is None:
                self._cursor = self._spool.end
                self._ready.extend(self._late)
                self._late.clear()
                return
            frame, self._cursor = found
            if not self._done(frame):
                self._ready.append(frame)
                self._bytes += len(frame.body)

    def _done(self, frame: Frame) -> bool:
        return frame.last <= (self.seq if frame.kind == RECORDS else self.events)

    def _without_done(self, frames: deque[Frame]) -> deque[Frame]:
        kept = deque(frame for frame in frames if not self._done(frame))
        self._bytes -= sum(len(frame.body) for frame in frames) - sum(len(frame.body) for frame in kept)
        self._forget_unspooled()
        return kept

    def _forget_unspooled(self) -> None:
        while self._unspooled and self._done(self._unspooled[0]):
            self._unspooled.popleft()
