"""Ring buffer with a copy of the queue that outlives the process. Pure: works on any buffer.

The training thread packs every record into the mapped memory of a file (buffer_file.py): no system call, and
packed records survive SIGKILL, because the pages belong to the kernel. Records are sent from the deque of the
outbox; only the next process reads this buffer.

    0      magic with format, boot id, path of the spool it belongs to
    1024   two slots in turn: generation, tail, next record, next event, generation
    4096   names: one entry for each set of names, in the order of their numbers from 1
    NAMES_END ..   entries one after the other, then again from the front

An entry is u32 shape, then step, time and the values (or u32 length and an encoded message), and last its
commit word: magic and number. The commit word is written last, so an entry without it is torn. Numbers only
grow, so entries of an earlier lap are recognized by their numbers.

Packed entries stay until they are in the spool (``release``). If there is no room, the script's own calls
wait for the sender (outbox.py); a record that still does not fit is only queued and counted in
``unprotected_records``.

Threads: CPython switches threads and runs signal handlers only after a call and at a backward jump, so
nothing can run between reading ``head`` and ``commit``, advancing them, and the append to the queue that
follows. Without a GIL the outbox takes a lock.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from ..core.columns import columns_of
from ..core.frames import EVENT, RECORDS, Frame, frame_of
from ..protocol import Records, little_endian

MAGIC = b"TOCSINr\x01"
BOOT_AT, OWNER_AT = 16, 64
OWNER_BYTES = 900
SLOTS_AT = (1024, 2048)
NAMES_AT, NAMES_END = 4096, 256 << 10
BUFFER_BYTES = 4 << 20
SIZE = NAMES_END + BUFFER_BYTES
"""Bytes of the file: 65,536 records of four values fit into it."""
SEGMENTS = 16
"""Number of times per lap that the training thread calls ``make_room`` and saves its position."""
WIDTH = 2048
"""A record with more values is stored as a message."""
NAMES_LIMIT = 4096
"""Maximum number of name sets that are remembered without a table."""
RECORD = 0x7EC0 << 48
EVENT_MARK = 0x7EE1 << 48
"""Commit words: one of these plus the number."""
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


class RingBuffer:
    """The writing side. The sender thread changes ``tail``, the training thread everything else."""

    __slots__ = (
        "_count",
        "_end",
        "_generation",
        "_named",
        "_segment",
        "commit",
        "free",
        "head",
        "memory",
        "shapes",
        "tail",
        "unprotected_records",
    )

    def __init__(self, memory: Any) -> None:
        self.memory = memory
        self.head = self.tail = NAMES_END
        self._end = len(memory) or SIZE
        self._segment = (self._end - NAMES_END) // SEGMENTS
        self.free = NAMES_END + self._segment
        """``put`` packs up to this position without calling ``make_room``."""
        self.commit = RECORD
        """Commit word of the next record."""
        self.shapes: dict[tuple[str, ...], Shape] = {}
        """Names -> their number, bytes of an entry, and the function that packs one."""
        self._count, self._named = 0, NAMES_AT
        self._generation = 1
        self.unprotected_records = 0
        """Records and events that did not fit, and would not survive a SIGKILL."""

    def admit(self, names: tuple[str, ...]) -> int:
        """Return the bytes that a record with these names needs; 0 if the table has no room for them."""
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
        # "?" packs the names of an item without reading them, so that the item need not be sliced.
        entry = struct.Struct(f"<Iqq?3x{len(names)}dQ")
        self.shapes[names] = (number, entry.size, entry.pack_into)
        return entry.size

    def make_room(self, size: int) -> bool:
        """Return whether ``size`` bytes are free at ``head``; move it to the front if they are free there."""
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
        # Nothing is called between reading ``head`` and here, so no other thread can intervene.
        free = self.head + (size if size > self._segment else self._segment)
        self.free = end if end < free else free
        return self.head + size <= self.free

    def keep(self, commit: int, body: bytes) -> None:
        """Store an encoded message instead of packed values: an event, or a record with unusual values."""
        padding = -len(body) % 8
        size = 16 + len(body) + padding
        while (end := self.head + size) > self.free or size > BUFFER_BYTES // 8:
            if size > BUFFER_BYTES // 8 or not self.make_room(size):
                self.unprotected_records += 1
                return
        self.head = end
        at = end - size
        entry = f"<II{len(body)}s{padding}xQ"
        struct.pack_into(entry, self.memory, at, MESSAGE, len(body), body, commit)

    def release(self, tail: int, seq: int, events: int) -> None:
        """Free everything before ``tail``; ``seq`` and ``events`` are the next numbers.

        Args:
            tail: Position of the first entry to keep, in bytes.
            seq: Number of the first record to keep.
            events: Number of the first event to keep.
        """
        self._generation += 1
        self.tail = tail
        write_slot(self.memory, self._generation, tail, seq, events)


class NoBuffer(RingBuffer):
    """Stand-in without memory that outlives the process: counts bytes and writes none."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(bytearray(0))

    def admit(self, names: tuple[str, ...]) -> int:
        """Return the bytes that a record with these names would need; names are remembered up to a limit."""
        known = self.shapes.get(names)
        if known is not None:
            return known[1]
        size = _OVERHEAD + 8 * len(names)
        if len(names) > WIDTH or len(self.shapes) >= NAMES_LIMIT:
            return 0
        self.shapes[names] = (0, size, _pack_nothing)
        return size

    def release(self, tail: int, seq: int, events: int) -> None:
        """Free the bytes before ``tail``."""
        self.tail = tail


def _pack_nothing(*values: Any) -> None:
    return None


def prepare(memory: Any, boot: str, owner: bytes = b"") -> None:
    """Initialize zeroed memory as a buffer of this boot; ``owner``: path of the spool that it belongs to."""
    memory[: len(MAGIC)] = MAGIC
    memory[OWNER_AT : OWNER_AT + 2 + len(owner)] = len(owner).to_bytes(2, "little") + owner
    memory[BOOT_AT : BOOT_AT + 36] = boot.encode("ascii", "replace")[:36].ljust(36)
    write_slot(memory, 1, NAMES_END, 0, 0)


def write_slot(memory: Any, generation: int, tail: int, seq: int, events: int) -> None:
    """Write one of two slots in turn, so that one of them is always complete.

    Args:
        memory: The mapped file.
        generation: Number of the write; even and odd ones use different slots.
        tail: Position of the first entry, in bytes.
        seq: Number of the next record.
        events: Number of the next event.
    """
    _SLOT.pack_into(memory, SLOTS_AT[generation % 2], generation, tail, seq, events, generation)


def is_of_boot(memory: Any, boot: str) -> bool:
    """Return whether it is a buffer of this boot, so that no crash of the machine lost pages of it."""
    return (
        len(memory) > NAMES_END
        and bytes(memory[: len(MAGIC)]) == MAGIC
        and bytes(memory[BOOT_AT : BOOT_AT + 36]) == boot.encode("ascii", "replace")[:36].ljust(36)
    )


def one_record(item: Item, seq: int) -> bytes:
    """Return one record as a message, for values that cannot be packed."""
    steps, times, columns = columns_of([item])
    return frame_of(Records(seq, 1, little_endian("q", steps), little_endian("q", times), columns)).body


# --- reading


class BufferReader:
    """Read a dead process's buffer: complete entries in order, starting at the tail."""

    def __init__(self, memory: Any) -> None:
        self._memory = memory
        self._end = len(memory)
        self._shapes = list(_names(memory))
        _, self._tail, seq, events, _ = max(_slots(memory), default=(0, NAMES_END, 0, 0, 0))
        self._last = {RECORDS: seq - 1, EVENT: events - 1}
        self._wrapped = False

    def frames(self) -> Iterator[Frame]:
        """Yield messages with the numbers that the dead process gave or would have given them."""
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
        """Return the position of the next entry: here, or at the front."""
        if at < self._end and _U32.unpack_from(self._memory, at)[0] != WRAP:
            return at
        if self._wrapped:
            return None
        self._wrapped = True
        return NAMES_END

    def _entry(self, at: int) -> tuple[int, int, int, Any] | None:
        """Return kind, number, size and content of a complete, newer entry at ``at``, or None."""
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
        """Find the next complete entry: a thread may have died while packing, and others packed after it."""
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
