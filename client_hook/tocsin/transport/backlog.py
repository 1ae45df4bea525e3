"""Everything that is not acknowledged yet, in order, each frame once. Pure.

The oldest frames are held in memory (``limit_bytes``), what is behind them lies on a
shelf (the spool) and is read back when its turn comes.

Policy: no frame is dropped. While the shelf accepts none (no disk, disk full, limit reached),
frames wait in memory and are shelved when it takes again; above the limit ``has_room`` is
False, and the sender leaves what is newer in the queue.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Protocol

from ..core.frames import RECORDS, Frame

MEMORY_BYTES = 4 << 20


class Shelf(Protocol):
    """Where frames lie that do not fit into memory, and survive the process."""

    @property
    def takes(self) -> bool:
        """Whether it is worth trying to ``append``."""

    def append(self, frame: Frame) -> bool:
        """True when ``frame`` is kept; False when the shelf takes nothing now."""

    def read(self, cursor: Any) -> tuple[Frame, Any] | None:
        """The frame at ``cursor`` and the cursor behind it; None at the end."""

    def release(self, seq: int, events: int) -> None:
        """Everything up to record ``seq`` and event ``events`` may go."""

    @property
    def start(self) -> Any: ...

    @property
    def end(self) -> Any: ...


class Backlog:
    """Unacknowledged frames: ``add`` at the end, ``next`` to send, ``acknowledge`` at the front."""

    def __init__(self, shelf: Shelf, limit_bytes: int = MEMORY_BYTES) -> None:
        self._shelf = shelf
        self._limit = limit_bytes
        self._flying: deque[Frame] = deque()
        self._ready: deque[Frame] = deque()
        self._late: deque[Frame] = deque()  # newer than what lies unread on the shelf, not on it
        self._unshelved: deque[Frame] = deque()  # in memory only
        self._cursor = shelf.start
        self._bytes = 0
        self._sent_seq = self._sent_event = -1
        self.seq = -1
        """The highest record number acknowledged."""
        self.events = -1
        """The highest event number acknowledged."""
        self.records = 0
        """The highest record number kept, plus one."""

    @property
    def empty(self) -> bool:
        """Nothing waits for an acknowledgement."""
        return not (self._flying or self._ready or self._late or self._unread)

    @property
    def has_room(self) -> bool:
        """Whether memory or the shelf takes another frame."""
        return self._bytes < self._limit or self._shelf.takes

    @property
    def kept(self) -> tuple[float, float]:
        """Records and events below these numbers are on the shelf, acknowledged or given up."""
        records = events = float("inf")
        for frame in self._unshelved:
            if frame.kind == RECORDS:
                records = min(records, frame.first)
            else:
                events = min(events, frame.first)
        return records, events

    @property
    def unshelved_records(self) -> int:
        """Records that are in memory only: they are lost with the process."""
        first, _ = self.kept
        return self.records - int(max(first, self.seq + 1)) if first < self.records else 0

    @property
    def in_flight(self) -> int:
        """Messages of records that are sent and not acknowledged."""
        return sum(frame.kind == RECORDS for frame in self._flying)

    @property
    def _unread(self) -> bool:
        return bool(self._cursor != self._shelf.end)

    def add(self, frame: Frame) -> None:
        """Keep ``frame``: on the shelf, else in memory, even above the limit."""
        behind = self._unread or bool(self._late)
        shelved = self._shelve(frame)
        room = self._bytes + len(frame.body) <= self._limit
        if not (shelved and (behind or not room)):  # else it is read back when its turn comes
            self._hold(frame, self._late if behind else self._ready, shelved)
        if frame.kind == RECORDS:
            self.records = frame.last + 1

    def next(self) -> Frame | None:
        """The next frame to send, which is in flight from now on."""
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
        """Forgets what is durable; an old or repeated ack changes nothing, none passes what was sent."""
        self.seq = max(self.seq, min(seq, self._sent_seq))
        self.events = max(self.events, min(events, self._sent_event))
        self._flying = self._without_done(self._flying)
        self._shelf.release(self.seq, self.events)

    def resume(self, seq: int, events: int) -> None:
        """A new connection: the server has ``seq`` and ``events``; all behind them is to be sent.

        Where the server lost what it had acknowledged, what the shelf still holds is sent again.
        """
        self._ready.extendleft(reversed(self._flying))
        self._flying.clear()
        rolled_back = seq < self.seq or events < self.events
        self.seq, self.events = seq, events
        if rolled_back and not self._unshelved and not self._late:
            self._ready.clear()
            self._bytes = 0
            self._cursor = self._shelf.start
        self._ready = self._without_done(self._ready)
        self._shelf.release(seq, events)

    def set_aside(self) -> int:
        """Drops the oldest frame, which the server will not take; returns its count."""
        if not self._ready:
            self._refill()
        if not self._ready:
            return 0
        frame = self._ready.popleft()
        self._bytes -= len(frame.body)
        return frame.count

    def _hold(self, frame: Frame, where: deque[Frame], shelved: bool) -> None:
        where.append(frame)
        self._bytes += len(frame.body)
        if shelved:
            self._cursor = self._shelf.end
        else:
            self._unshelved.append(frame)

    def _shelve(self, frame: Frame) -> bool:
        return self._shelve_waiting() and self._shelf.append(frame)

    def _shelve_waiting(self) -> bool:
        """Brings to the shelf what waits for it in memory, oldest first. True when nothing waits."""
        while self._unshelved:
            frame = self._unshelved[0]
            if self._done(frame):
                self._unshelved.popleft()
                continue
            if not self._shelf.append(frame):
                return False
            self._unshelved.popleft()
            if self._late and self._late[0] is frame:
                self._late.popleft()
                self._bytes -= len(frame.body)
            else:
                self._cursor = self._shelf.end
        return True

    def _refill(self) -> None:
        # One frame even above the limit: frames in `_late` may fill the memory alone while the disk is full.
        while not (self._ready or self._flying) or self._bytes < self._limit:
            found = self._shelf.read(self._cursor)
            if found is None:
                self._cursor = self._shelf.end
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
        self._forget_unshelved()
        return kept

    def _forget_unshelved(self) -> None:
        while self._unshelved and self._done(self._unshelved[0]):
            self._unshelved.popleft()
