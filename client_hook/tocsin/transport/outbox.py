"""The log's writing side: what the training thread calls. Pure: no thread, no I/O.

``put`` packs a record into the log (spool/tail.py), without a lock, a system call or a wake-up. The sender
thread reads it from there (backlog.py), and so does the next process after a SIGKILL.

When few blocks are free, a call of the script (``may_wait``) waits for the sender, for a bounded time;
automatic capture never waits. When none is free, new records and events are dropped, counted in ``dropped``
and reported in a ``dropped`` event, and the sequence numbers of the records stay missing.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any, Protocol, cast

import msgspec

from ..core.values import step_of, whole
from ..protocol import Event, Finish, encode
from ..spool.entries import EVENT_MARK, MESSAGE, NAMES, OTHER_MARK, RECORD, VOID, Item, pack, packer, size_of
from ..spool.log import BLOCK_BYTES, BLOCKS, BLOCKS_AT, Block, Log, Shape, anonymous, new_blocks
from .encoding import packed

EVENT_BYTES = 64 << 10
"""The server would reject larger event data (``limits.event_bytes``), so they are not sent."""

_HAS_GIL = bool(getattr(sys, "_is_gil_enabled", lambda: True)())


class Backpressure(Protocol):
    """The sender, as the queue uses it when it fills up."""

    def wake(self) -> None:
        """Let the sender read soon."""

    def wait(self, ready: Callable[[], bool]) -> None:
        """Return when ``ready()`` is true, or after a bounded time."""

    def dropping(self) -> str:
        """Report in the terminal that records are being dropped; return why, for the run's page."""


class Outbox(Log):
    """The log of this process, and the numbering of its records and events."""

    def __init__(self, blocks: int = BLOCKS, block_bytes: int = BLOCK_BYTES) -> None:
        memory = anonymous(BLOCKS_AT + blocks * block_bytes)
        super().__init__(memory, new_blocks(memory, block_bytes))
        self.tail.memory = memory
        self.tail.commit = RECORD
        self.tail.elsewhere, self.tail.plain = self._put_elsewhere, self._put_plain
        self.put: Callable[..., None] = self.tail.put
        """Append one record: the item, and whether to wait for the sender if the log is almost full."""
        self.free_blocks_low = blocks // 2
        """The sender makes room while no more blocks than this are free."""
        self._reserve = blocks // 4
        """Calls of the script wait while no more blocks than this are free."""
        self._missing = self._gap = self._gap_end = 0
        """Record numbers that no record has: all, those of the last gap, and the commit word after it."""
        self.events = 0
        """Number of the next event."""
        self._unreported: dict[str, Any] = {}
        """What was dropped since the last ``dropped`` event."""
        self.backpressure: Backpressure | None = None
        self.dropped = 0
        """Records and events that were dropped because the log was full."""
        if not _HAS_GIL:  # pragma: no cover - free-threaded builds
            self._take_turns()

    @property
    def records(self) -> int:
        """Number of the last record plus one."""
        commit = self.tail.commit
        return commit - RECORD - (self._gap if commit == self._gap_end else 0)

    @property
    def last_step(self) -> int | None:
        """Step of the newest record."""
        return self.tail.last_step

    @property
    def steps(self) -> int:
        """Steps of all records; consecutive records of the same step count once."""
        return self.tail.steps

    def __len__(self) -> int:
        """Return the number of records and events that the sender has not read yet."""
        return self.tail.commit - RECORD - self._missing + self.events - self.taken if self.memory else 0

    def put_event(
        self, kind: str, t_ns: int, step: int | None, data: dict[str, Any], may_wait: bool = False
    ) -> None:
        """Append one event. ``data`` is encoded immediately, so the caller may change it afterwards.

        Args:
            kind: Kind of the event.
            t_ns: Unix time, ns.
            step: Step that it belongs to, or None.
            data: Plain data of the event.
            may_wait: Wait for the sender if the log is almost full.
        """
        if not self._append(_event(kind, t_ns, step, data), may_wait):
            self._drop("events", t_ns, step)

    def put_finish(self, t_ns: int, state: str, error: dict[str, Any]) -> bool:
        """Append the end of the run, numbered like an event; return False if the log is full.

        Args:
            t_ns: Unix time, ns.
            state: ``finished`` or ``failed``.
            error: ``{"type", "message", "lines"}``, or empty.
        """
        return self._append(lambda number: encode(Finish(number, t_ns, state, self.records, error)))

    def report_dropped(self, *, at_end: bool = False) -> bool:
        """Append an event with what was dropped since the last one, once there is room again.

        Returns:
            Whether everything that was dropped is reported.
        """
        report, self._unreported = self._unreported, {}
        if not report:
            return True
        data = {name: value for name, value in report.items() if name != "t_ns"}
        event = _event("dropped", report["t_ns"], report["last_step"], data)
        if (at_end or self.free_blocks > self._reserve) and self._append(event):
            return True
        report["records"] += self._unreported.get("records", 0)
        report["events"] += self._unreported.get("events", 0)
        self._unreported = report
        return False

    def _put_elsewhere(self, item: Item, may_wait: bool) -> None:
        """Append a record on the slow path: names that are new in this block, or no room in it."""
        body = msgspec.msgpack.encode(item[2])
        size = packer(len(item[2]))[0]
        room = size_of(body) + size <= self.block.end - self.block.at
        while self.memory:
            block = self.block
            known = block.shapes.get(item[2]) or self._name(block, item[2], body, size)
            if known is not None and block.head + size <= block.end:
                self.put(item, may_wait)
                return
            if not room or not self._next_block(block, may_wait):
                self._leave_out(item)
                return

    def _name(self, block: Block, names: tuple[str, ...], body: bytes, size: int) -> Shape | None:
        """Append an entry with these names, if the block has room for it and for a record of ``size``."""
        need = size_of(body)
        while True:
            number, at = block.shapes_named + 1, block.head
            if at + need + size > block.end:
                return None
            if number == block.shapes_named + 1 and at == block.head:  # no other thread came first
                block.shapes_named, block.head = number, at + need
                break
        pack(self.memory, at, NAMES, body, OTHER_MARK + number)
        shape = block.shapes[names] = (number, *packer(len(names)))
        return shape

    def _append(self, body_of: Callable[[int], bytes], may_wait: bool = False) -> bool:
        """Append a message that contains its number; return False if the log is full."""
        while self.memory:
            number, block = self.events, self.block
            body = body_of(number)
            need = size_of(body)
            at = block.head
            if at + need > block.end:
                if need > block.end - block.at or not self._next_block(block, may_wait):
                    return False
            elif number == self.events:  # no other thread came first
                block.head, self.events = at + need, number + 1
                pack(self.memory, at, MESSAGE, body, EVENT_MARK + number)
                return True
        return False

    def _next_block(self, full: Block, may_wait: bool) -> bool:
        """Continue in the block after ``full``; return whether there is one."""
        if may_wait and self.free_blocks <= self._reserve:
            self._wait(lambda: self.free_blocks > self._reserve)
        after = full.next
        if after is None:
            return False
        if self.tail.block is full:  # no other thread came first
            self.tail.block = after
        if self.backpressure is not None:
            self.backpressure.wake()
        return True

    def _put_plain(self, item: Item, block: Block, at: int, head: int, commit: int) -> None:
        """Append a record with a value that cannot be packed: take its place back, and put plain numbers."""
        if block.head == head and self.tail.commit == commit + 1:
            block.head, self.tail.commit = at, commit
        else:  # another thread appended after it, while a value was converted
            self._missing += 1
            pack(self.memory, at, VOID, bytes(head - at - 16), OTHER_MARK)
        self.put(_plain(item))

    def _leave_out(self, item: Item) -> None:
        """Drop one record; its number stays missing."""
        tail = self.tail
        self._gap = self._gap + 1 if tail.commit == self._gap_end else 1
        self._missing += 1
        tail.commit = self._gap_end = tail.commit + 1
        self._drop("records", item[1], item[0])

    def _drop(self, what: str, t_ns: int, step: int | None) -> None:
        """Count what is dropped, and report the first one in the terminal."""
        if not self.memory:
            return
        self.dropped += 1
        report = self._unreported
        if not report:
            reason = self.backpressure.dropping() if self.backpressure is not None else ""
            report |= {"records": 0, "events": 0, "first_step": step, "reason": reason}
        report[what] += 1
        known = [one for one in (report.get("last_step"), step) if one is not None]
        report |= {"last_step": max(known, default=None), "t_ns": t_ns}

    def _wait(self, ready: Callable[[], bool]) -> None:
        if self.backpressure is not None:
            self.backpressure.wait(ready)

    def _take_turns(self) -> None:  # pragma: no cover - free-threaded builds
        """Use a lock instead of the GIL."""
        lock, put, append, move = threading.RLock(), self.put, self._append, self.move

        def put_in_turn(item: Item, may_wait: bool = False) -> None:
            with lock:
                put(item, may_wait)

        def append_in_turn(body_of: Callable[[int], bytes], may_wait: bool = False) -> bool:
            with lock:
                return append(body_of, may_wait)

        def move_in_turn(memory: Any) -> None:
            with lock:
                move(memory)

        self.put = put_in_turn
        self._append = append_in_turn  # type: ignore[method-assign]
        self.move = move_in_turn  # type: ignore[method-assign]


def _event(kind: str, t_ns: int, step: int | None, data: dict[str, Any]) -> Callable[[int], bytes]:
    """Return a function that encodes an event with its number."""
    # A Raw is written as it is.
    raw = cast(dict[str, Any], msgspec.Raw(packed(data, EVENT_BYTES)))
    return lambda number: encode(Event(number, kind, t_ns, step, raw))


def _plain(item: Item) -> Item:
    """Return the record as plain numbers, without the values that are none."""
    step, t_ns, names, *values = item
    numbers = [(name, _float(value)) for name, value in zip(names, values, strict=False)]
    known = [(name, number) for name, number in numbers if number is not None]
    found, t_ns = step_of(step), whole(t_ns)
    return (
        -1 if found is None else found,
        -1 if t_ns is None else t_ns,
        tuple(name for name, _ in known),
        *(number for _, number in known),
    )


def _float(value: Any) -> float | None:
    try:
        return None if value is None else float(value)
    except Exception:
        return None
