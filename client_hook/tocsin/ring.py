"""A copy of what waits in the queue that outlives the process. Pure: works on any buffer.

The training thread packs every record into memory that belongs to a file (ringfile.py): no
system call, and what is packed survives SIGKILL, because the pages are the kernel's. The
deque beside it stays the way out; the ring is read by the next process only.

    0      magic with format, boot id, path of the spool it belongs to
    1024   two slots in turn: generation, tail, next record, next event, generation
    4096   names: one entry for each set of names, in the order of their numbers from 1
    NAMES_END ..   entries one behind the other, then again from the front

An entry is u32 shape, then step, time and the values (or u32 length and an encoded message),
and last its commit word: magic and number. It is written last, so an entry without it is torn.
Numbers only grow, so what is left of an earlier lap is told by its number.

Policy: what is packed stays until it is on the spool (``release``). Where there is no room the
script's own calls wait for the sender (outbox.py); a record that still finds none goes by the
queue alone and is counted in ``exposed``.

Threads: CPython looks for other threads and for signals after a call and at a jump back, so
nothing comes between reading ``head`` and ``commit``, moving them, and the append to the
queue that follows. Where there is no GIL the outbox takes a lock.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from .columns import columns_of
from .frames import EVENT, RECORDS, Frame, frame_of
from .protocol import Records, little_endian

MAGIC = b"TOCSINr\x01"
BOOT_AT, OWNER_AT = 16, 64
OWNER_BYTES = 900
SLOTS_AT = (1024, 2048)
NAMES_AT, NAMES_END = 4096, 256 << 10
RING_BYTES = 4 << 20
SIZE = NAMES_END + RING_BYTES
"""Bytes of the whole: 65,536 records of four values fit into the ring."""
SEGMENTS = 16
"""The training thread comes by ``make_room`` so many times a lap, and notes how far it got."""
WIDTH = 2048
"""A record of more values is kept as a message."""
NAMES_LIMIT = 4096
"""Different sets of names that are remembered where there is no table of them."""
RECORD = 0x7EC0 << 48
EVENT_MARK = 0x7EE1 << 48
"""Commit words: this plus the number."""
WRAP, MESSAGE = 0xFFFFFFFE, 0xFFFFFFFF
RESYNC_BYTES = 256 << 10
BATCH = 512

_SLOT = struct.Struct("<5Q")
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
_PREFIX = 24
_OVERHEAD = _PREFIX + _U64.size

Pack = Callable[..., None]
Shape = tuple[int, int, Pack]
Item = tuple[Any, ...]


class Ring:
    """The writing side. ``tail`` is the sender's, everything else the training thread's."""

    __slots__ = (
        "_count",
        "_end",
        "_generation",
        "_named",
        "_segment",
        "commit",
        "exposed",
        "free",
        "head",
        "memory",
        "shapes",
        "tail",
    )

    def __init__(self, memory: Any) -> None:
        self.memory = memory
        self.head = self.tail = NAMES_END
        self._end = len(memory) or SIZE
        self._segment = (self._end - NAMES_END) // SEGMENTS
        self.free = NAMES_END + self._segment
        """``put`` packs up to here without asking."""
        self.commit = RECORD
        """Commit word of the next record."""
        self.shapes: dict[tuple[str, ...], Shape] = {}
        """Names -> their number, bytes of an entry, and what packs one."""
        self._count, self._named = 0, NAMES_AT
        self._generation = 1
        self.exposed = 0
        """Records and events that found no room, and would not survive a SIGKILL."""

    def admit(self, names: tuple[str, ...]) -> int:
        """Bytes that a record of these names needs; 0 where the table has no room for them."""
        known = self.shapes.get(names)
        if known is not None:
            return known[1]
        body = msgspec.msgpack.encode(names)
        size = _U32.size * 2 + len(body) + -len(body) % 4
        if len(names) > WIDTH or self._named + size > NAMES_END:
            return 0
        number = self._count + 1
        at = self._named
        self._count, self._named = number, at + size
        struct.pack_into(f"<I{size - 8}sI", self.memory, at, len(body), body, ~len(body) & 0xFFFFFFFF)
        # "?" takes the names of an item without looking into them: no slice on the way.
        entry = struct.Struct(f"<Iqq?3x{len(names)}dQ")
        self.shapes[names] = (number, entry.size, entry.pack_into)
        return entry.size

    def make_room(self, size: int) -> bool:
        """True when ``size`` bytes from ``head`` on are free; goes to the front when they are there."""
        head, tail = self.head, self.tail
        if head < tail:
            end = tail - _U64.size
        elif head + size <= self._end:
            end = self._end
        elif NAMES_END + size > tail - _U64.size:
            return False
        else:
            if head < self._end and self.memory:
                _U32.pack_into(self.memory, head, WRAP)
            if self.head != head:
                return self.head + size <= self.free  # another thread came first
            self.head, end = NAMES_END, tail - _U64.size
        # No call from reading ``head`` to here: no other thread comes between.
        free = self.head + (size if size > self._segment else self._segment)
        self.free = end if end < free else free
        return self.head + size <= self.free

    def keep(self, commit: int, body: bytes) -> None:
        """An encoded message instead of packed values: an event, or a record of odd values."""
        padding = -len(body) % 8
        size = 16 + len(body) + padding
        while (end := self.head + size) > self.free or size > RING_BYTES // 8:
            if size > RING_BYTES // 8 or not self.make_room(size):
                self.exposed += 1
                return
        self.head = end
        at = end - size
        entry = f"<II{len(body)}s{padding}xQ"
        struct.pack_into(entry, self.memory, at, MESSAGE, len(body), body, commit)

    def release(self, tail: int, seq: int, events: int) -> None:
        """Everything before ``tail`` is kept elsewhere; ``seq`` and ``events`` are the next numbers."""
        self._generation += 1
        self.tail = tail
        write_slot(self.memory, self._generation, tail, seq, events)


class NoRing(Ring):
    """Where nothing outlives the process: bytes are counted as in a ring, and none is written."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(bytearray(0))

    def admit(self, names: tuple[str, ...]) -> int:
        """Bytes that a record of these names would need; names are remembered up to a bound."""
        known = self.shapes.get(names)
        if known is not None:
            return known[1]
        size = _OVERHEAD + 8 * len(names)
        if len(names) > WIDTH or len(self.shapes) >= NAMES_LIMIT:
            return 0
        self.shapes[names] = (0, size, _pack_nothing)
        return size

    def release(self, tail: int, seq: int, events: int) -> None:
        """The bytes before ``tail`` are free again."""
        self.tail = tail


def _pack_nothing(*values: Any) -> None:
    return None


def prepare(memory: Any, boot: str, owner: bytes = b"") -> None:
    """Makes fresh (zeroed) memory a ring of this boot; ``owner``: path of the spool it belongs to."""
    memory[: len(MAGIC)] = MAGIC
    memory[OWNER_AT : OWNER_AT + 2 + len(owner)] = len(owner).to_bytes(2, "little") + owner
    memory[BOOT_AT : BOOT_AT + 36] = boot.encode("ascii", "replace")[:36].ljust(36)
    write_slot(memory, 1, NAMES_END, 0, 0)


def write_slot(memory: Any, generation: int, tail: int, seq: int, events: int) -> None:
    """Two slots in turn: one of them is whole whenever the process dies."""
    _SLOT.pack_into(memory, SLOTS_AT[generation % 2], generation, tail, seq, events, generation)


def is_of_boot(memory: Any, boot: str) -> bool:
    """Whether it is a ring, and its pages never went through a crash of the machine."""
    return (
        len(memory) > NAMES_END
        and bytes(memory[: len(MAGIC)]) == MAGIC
        and bytes(memory[BOOT_AT : BOOT_AT + 36]) == boot.encode("ascii", "replace")[:36].ljust(36)
    )


def one_record(item: Item, seq: int) -> bytes:
    """A record of its own as a message: for values that do not pack."""
    steps, times, columns = columns_of([item])
    return frame_of(Records(seq, 1, little_endian("q", steps), little_endian("q", times), columns)).body


# --- what the next process reads


class Scan:
    """The reading side: what is whole, in order, from the tail on."""

    def __init__(self, memory: Any) -> None:
        self._memory = memory
        self._end = len(memory)
        self._shapes = list(_names(memory))
        _, self._tail, seq, events, _ = max(_slots(memory), default=(0, NAMES_END, 0, 0, 0))
        self._last = {RECORDS: seq - 1, EVENT: events - 1}
        self._wrapped = False

    def frames(self) -> Iterator[Frame]:
        """Messages with the numbers that the dead process gave or would have given them."""
        rows: list[tuple[int, Item]] = []
        for kind, number, content in self._entries():
            row = content if isinstance(content, tuple) else None
            if rows and (row is None or number != rows[-1][0] + 1 or len(rows) == BATCH):
                yield _batch(rows)
                rows = []
            if row is not None:
                rows.append((number, row))
            else:
                yield Frame(kind, number, 1, content)
        if rows:
            yield _batch(rows)

    def _entries(self) -> Iterator[tuple[int, int, Any]]:
        at: int | None = self._tail
        while at is not None:
            found = self._entry(at)
            if found is None:
                at = self._after_hole(at)
                continue
            kind, number, size, content = found
            self._last[kind] = number
            yield kind, number, content
            at = self._behind(at + size)

    def _behind(self, at: int) -> int | None:
        """Where the next entry is: here, or at the front."""
        if at < self._end and _U32.unpack_from(self._memory, at)[0] != WRAP:
            return at
        if self._wrapped:
            return None
        self._wrapped = True
        return NAMES_END

    def _entry(self, at: int) -> tuple[int, int, int, Any] | None:
        """Kind, number, size and content of the whole entry at ``at``, newer than the last; else None."""
        if at + _OVERHEAD > self._end:
            return None
        shape = _U32.unpack_from(self._memory, at)[0]
        names = self._shapes[shape - 1] if 0 < shape <= len(self._shapes) else None
        if names is not None:
            size = _OVERHEAD + 8 * len(names)
        elif shape == MESSAGE:
            length = _U32.unpack_from(self._memory, at + 4)[0]
            size = 16 + length + -length % 8
        else:
            return None
        if at + size > self._end:
            return None
        kind, number = self._number(at + size - _U64.size)
        if kind == 0 or (kind == EVENT and names is not None):
            return None
        if names is None:
            return kind, number, size, bytes(self._memory[at + 8 : at + 8 + length])
        _, step, t, _, *values = struct.unpack_from(f"<Iqq?3x{len(names)}d", self._memory, at)
        return kind, number, size, (step, t, names, *values)

    def _number(self, at: int) -> tuple[int, int]:
        commit: int = _U64.unpack_from(self._memory, at)[0]
        kind = {RECORD >> 48: RECORDS, EVENT_MARK >> 48: EVENT}.get(commit >> 48, 0)
        number = commit & ((1 << 48) - 1)
        return (kind, number) if kind and number > self._last[kind] else (0, 0)

    def _after_hole(self, at: int) -> int | None:
        """The next whole entry: a thread may have died while it packed, behind it others had returned."""
        for near in range(at + 8, min(at + RESYNC_BYTES, self._end - _OVERHEAD), 8):
            if self._entry(near) is not None:
                return near
        if at + RESYNC_BYTES >= self._end and not self._wrapped:
            self._wrapped = True
            return NAMES_END
        return None


def _names(memory: Any) -> Iterator[tuple[str, ...]]:
    at = NAMES_AT
    while at + 8 <= NAMES_END:
        length = _U32.unpack_from(memory, at)[0]
        size = 8 + length + -length % 4
        if not length or at + size > NAMES_END:
            return
        if _U32.unpack_from(memory, at + size - 4)[0] != ~length & 0xFFFFFFFF:
            return
        yield msgspec.msgpack.decode(bytes(memory[at + 4 : at + 4 + length]), type=tuple[str, ...])
        at += size


def _slots(memory: Any) -> Iterator[tuple[int, int, int, int, int]]:
    for at in SLOTS_AT:
        slot = _SLOT.unpack_from(memory, at)
        if slot[0] and slot[0] == slot[4]:
            yield slot


def _batch(rows: list[tuple[int, Item]]) -> Frame:
    steps, times, columns = columns_of([row for _, row in rows])
    seq, n = rows[0][0], len(rows)
    return frame_of(Records(seq, n, little_endian("q", steps), little_endian("q", times), columns))
