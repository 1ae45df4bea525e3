"""Everything that is not acknowledged yet: reads the log for the sender, on disk and in memory. Pure.

The oldest blocks may be in segment files, the newest are in the log's memory, and a block may be in both.
Messages are made when they are sent, and made again from the same entries for another connection. A block
is released once everything in it is acknowledged. If memory fills up, or the server is away, the same bytes
go to the disk.

The log of a dead process is read in the same way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from ..core.frames import EVENT, RECORDS, Frame
from ..spool.entries import BlockReader
from ..spool.log import Block, Log
from ..spool.segments import Spool

PIECE_BYTES = 64 << 10
"""A disk that is almost full stores as many pieces of this size as fit."""


class Passed(NamedTuple):
    """A block that was read to its end, and the highest numbers in it and before it."""

    number: int
    seq: int
    event: int


class Place(NamedTuple):
    """Number of a block, and bytes from its start."""

    block: int
    at: int


class Backlog:
    """Read, acknowledge and save the entries of ``log``. ``is_live``: whether this process appends to it."""

    def __init__(self, log: Log, spool: Spool | None = None, *, is_live: bool = True) -> None:
        self._log = log
        self._spool = spool
        self._end: Place | None = Place(0, 0) if is_live else None
        """Where reading stops; None for everything."""
        self._flying: deque[tuple[int, int]] = deque()
        """Kind and last number of what is sent and not acknowledged."""
        self._ready: deque[Frame] = deque()
        self._passed: deque[Passed] = deque()
        self._saved = Place(0, 0)
        self._read = {RECORDS: -1, EVENT: -1}
        """Highest numbers that were read."""
        self._left_out = (-1, -1)
        """What is not sent again, because the server cannot process it."""
        self.seq = -1
        """The highest record number acknowledged."""
        self.events = -1
        """The highest event number acknowledged."""
        self.lost = 0
        """Number of records that were deleted from the disk before they were acknowledged."""
        self._gaps: list[tuple[int, int]] = []
        """Numbers of the records before and after those that a dead process did not leave."""
        self._had: int | None = None
        """The highest record number that the server had at the first connection."""
        self._lost_to = -1
        """The highest number of a record that was deleted from the disk."""
        self._at = Place(0, 0)
        self._reader = BlockReader()
        self._source: Block | bytes | None = None
        """The block that is being read."""
        self._rewind()

    @property
    def empty(self) -> bool:
        """Whether everything up to the last ``flush`` is acknowledged."""
        return not (self._flying or self._ready or self._read_on())

    @property
    def in_flight(self) -> int:
        """Number of ``records`` messages that are sent and not acknowledged."""
        return sum(kind == RECORDS for kind, _ in self._flying)

    @property
    def has_more(self) -> bool:
        """Whether there is something to send up to the last ``flush``."""
        return bool(self._ready) or self._end is None or self._at < self._end

    def flush(self) -> None:
        """Allow everything to be read that was appended so far."""
        block = self._log.block
        self._end = Place(block.number, block.head - block.at)

    def next(self) -> Frame | None:
        """Return the next frame to send, or None. The frame is in flight from now on."""
        if not (self._ready or self._read_on()):
            return None
        frame = self._ready.popleft()
        self._flying.append((frame.kind, frame.last))
        return frame

    def acknowledge(self, seq: int, events: int) -> None:
        """Note what the server has stored. Old, repeated and impossible acknowledgements change nothing."""
        self.seq = max(self.seq, min(seq, self._read[RECORDS]))
        self.events = max(self.events, min(events, self._read[EVENT]))
        self._flying = deque(sent for sent in self._flying if not self._is_done(*sent))
        self._release()

    def resume(self, seq: int, events: int) -> None:
        """Start a new connection to a server that has everything up to ``seq`` and ``events``.

        What was sent and not acknowledged is read again. If the server has lost what it had acknowledged,
        everything that is still in memory or on disk is sent again.
        """
        self.seq, self.events = seq, events
        self._had = seq if self._had is None else self._had
        self._flying.clear()
        self._ready.clear()
        self._rewind()

    def set_aside(self) -> int:
        """Leave the oldest frame out, because the server cannot process it; return its number of records."""
        if not (self._ready or self._read_on()):
            return 0
        frame = self._ready.popleft()
        seq, event = self._left_out
        self._left_out = (frame.last, event) if frame.kind == RECORDS else (seq, frame.last)
        return frame.count

    def save(self) -> bool:
        """Copy to the disk what only memory has; return whether the disk has everything."""
        for block in self._log.unreleased():
            start = self._saved.at if block.number == self._saved.block else 0
            head = block.head - block.at
            if block.number < self._saved.block:
                continue
            for at in range(start, head, PIECE_BYTES):
                to = min(at + PIECE_BYTES, head)
                piece = memoryview(self._log.memory)[block.at + at : block.at + to]
                if self._spool is None or not self._spool.append(block.number, piece):
                    return False
                self._saved = Place(block.number, to)
            self._saved = Place(block.number, head)
        return True

    @property
    def missing(self) -> int:
        """Number of records that the server lacks and a dead process did not leave: dropped, or deleted."""
        had = -1 if self._had is None else self._had
        return sum(max(0, after - 1 - max(before, had)) for before, after in self._gaps)

    @property
    def done(self) -> int:
        """The highest record number that is acknowledged or lost."""
        return max(self.seq, self._lost_to)

    def lose_saved(self) -> int:
        """Continue without what was on disk, because it was deleted; return how many records are lost."""
        self._saved = Place(0, 0)
        first = next((number for block in self._log.unreleased() for number in self._numbers(block)), 0)
        lost = max(0, first - 1 - self.done)
        if lost:
            self.lost += lost
            self._lost_to = first - 1
        return lost

    def _numbers(self, block: Block) -> Iterator[int]:
        """Yield the number of the first record of each message in a block that is in memory."""
        view, reader = memoryview(self._log.memory)[block.at : block.head], BlockReader()
        at, to = -1, 0
        while to > at:
            at = to
            frames, to = reader.read(view, at, (-1, -1))
            yield from (frame.first for frame in frames if frame.kind == RECORDS)

    def forget_saved(self) -> None:
        """Delete the copy of the block that is being filled, if everything in it is acknowledged."""
        block = self._log.block
        is_read = self._at == (block.number, block.head - block.at)
        is_acked = (self.seq, self.events) == (self._read[RECORDS], self._read[EVENT])
        if self._saved.block == block.number and self._spool is not None and is_read and is_acked:
            self._spool.drop(block.number)
            self._saved = Place(0, 0)

    def unsaved(self, records: int) -> int:
        """Return how many of ``records`` are in memory only, after ``save`` has failed."""
        on_disk = Backlog(Log(b"", []), self._spool, is_live=False)
        on_disk._go_to(max(self._spool.numbers, default=0) if self._spool is not None else 0)
        while on_disk._read_on():
            pass
        return records - 1 - max(self.done, on_disk._read[RECORDS])

    def make_room(self) -> None:
        """Save and release the full blocks, so that the training thread can fill them again."""
        self.save()
        log = self._log
        while log.oldest is not log.block and log.oldest.number < self._saved.block:
            self._release_oldest()

    def _release_oldest(self) -> None:
        if self._source is self._log.oldest:
            self._source = None
        self._log.release()

    def _rewind(self) -> None:
        """Read again from the oldest entry."""
        self._passed.clear()
        self._go_to(min([self._log.oldest.number, *(self._spool.numbers if self._spool is not None else ())]))

    def _go_to(self, block: int) -> None:
        self._at = Place(block, 0)
        self._reader = BlockReader()
        self._source = None

    def _read_on(self) -> bool:
        """Read the next batch; return False at the end."""
        done = (max(self.seq, self._left_out[0]), max(self.events, self._left_out[1]))
        while True:
            view = self._view()
            frames, at = self._reader.read(view, self._at.at, done)
            self._at = Place(self._at.block, at)
            if frames:
                self._note(frames)
                return True
            if at < len(view) and self._end is None and self._skip_hole(view):
                continue
            if not self._pass(at < len(view)):
                return False

    def _note(self, frames: list[Frame]) -> None:
        self._ready.extend(frames)
        for frame in frames:
            if self._end is None and frame.kind == RECORDS and frame.first > self._read[RECORDS] + 1:
                self._gaps.append((self._read[RECORDS], frame.first))
            self._log.taken += max(0, frame.last - max(frame.first - 1, self._read[frame.kind]))
            self._read[frame.kind] = max(self._read[frame.kind], frame.last)

    def _view(self) -> memoryview:
        """Return the block that is being read, up to where reading stops."""
        number = self._at.block
        source = self._source
        if source is None:
            source = next((block for block in self._log.unreleased() if block.number == number), None)
            if source is None:
                source = self._spool.load(number) if self._spool is not None else b""
            self._source = source
        if isinstance(source, Block):
            view = memoryview(self._log.memory)[source.at : source.head]
        else:
            view = memoryview(source)
        end = self._end
        return view if end is None or number < end.block else view[: end.at if number == end.block else 0]

    def _skip_hole(self, view: memoryview) -> bool:
        at = self._reader.after_hole(view, self._at.at)
        self._at = Place(self._at.block, at)
        return at < len(view)

    def _pass(self, is_incomplete: bool) -> bool:
        """Continue with the next block; return False if there is none yet."""
        number, end = self._at.block, self._end
        is_live = end is not None and number >= self._log.oldest.number
        if is_live and is_incomplete:
            return False  # a thread is packing an entry
        after = [block.number for block in self._log.unreleased() if block.number > number]
        after += [
            other for other in (self._spool.numbers if self._spool is not None else ()) if other > number
        ]
        if not after or (end is not None and min(after) > end.block):
            return False
        self._passed.append(Passed(number, self._read[RECORDS], self._read[EVENT]))
        self._go_to(min(after))
        self._release()
        return True

    def _release(self) -> None:
        """Release the blocks in which everything is acknowledged."""
        passed = self._passed
        while passed and passed[0].seq <= self.seq and passed[0].event <= self.events:
            number = passed.popleft().number
            if self._spool is not None:
                self._spool.drop(number)
            if self._end is not None and self._log.oldest.number == number:
                self._release_oldest()

    def _is_done(self, kind: int, last: int) -> bool:
        return last <= (self.seq if kind == RECORDS else self.events)
