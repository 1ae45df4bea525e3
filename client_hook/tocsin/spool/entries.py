"""Entries of the log: how records and events are packed, and how they are read back as messages. Pure.

The log consists of numbered blocks (log.py). A block holds entries one after the other, from its start, and
can be read without any other block, wherever it is: in memory, in shared memory that a dead process left, or
in a segment file. Every entry is a multiple of 8 bytes:

    record    u32 shape, i64 step, i64 time, 4 bytes, the values as f64, u64 commit word
    message   u32 MESSAGE, u32 length, an encoded event or finish, padding, u64 commit word
    names     u32 NAMES, u32 length, the encoded names of the block's next shape, padding, u64 commit word
    void      u32 VOID, u32 length, bytes without a meaning, padding, u64 commit word

Shapes are numbered from 1 in each block. The commit word is written last: a mark and the number of the record
or the event. An entry without it is incomplete, and a zero after the last entry ends the block.
"""

from __future__ import annotations

import operator
import struct
from array import array
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec

from ..core.frames import EVENT, RECORDS, Frame, frame_of
from ..protocol import Column, Records, Sparse

BATCH_RECORDS = 512
MIXED_RECORDS = 128
"""Maximum number of records in a message whose records have different names, which take longer to encode."""
UNIFORM_RECORDS = 16
"""From this number on, consecutive records with the same names are a message of their own."""
BATCH_NAMES = 2048
"""Maximum number of names in a message. The server rejects a message of more (4 times ``limits.series``)."""
BATCH_BYTES = 256 << 10
"""A message holds at most about this many bytes of values."""
RECORD, EVENT_MARK, OTHER_MARK = 0x7EC0 << 48, 0x7EE1 << 48, 0x7EA3 << 48
"""Commit words: one of these plus the number."""
MESSAGE, NAMES, VOID = 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFD
_NUMBER = (1 << 48) - 1
_COMMITTED = (RECORD >> 48).to_bytes(2, "little")
_U32 = struct.Struct("<I")

Item = tuple[Any, ...]
"""``(step, t_ns, names, *values)``: a flat tuple; ``names`` one interned ``tuple[str, ...]``."""
Done = tuple[int, int]
"""Highest numbers of a record and of an event that must not be read again."""


@lru_cache(maxsize=1024)
def packer(width: int) -> tuple[int, Callable[..., None]]:
    """Return the bytes of a record with ``width`` values, and the function that packs one."""
    # "?" packs the names of an item without reading them, so that the item need not be sliced.
    entry = struct.Struct(f"<Iqq?3x{width}dQ")
    return entry.size, entry.pack_into


def size_of(body: bytes) -> int:
    """Return the bytes of an entry that is not a record."""
    return 16 + len(body) + -len(body) % 8


def pack(memory: Any, at: int, kind: int, body: bytes, commit: int) -> None:
    """Pack an entry that is not a record."""
    struct.pack_into(f"<II{len(body)}s{-len(body) % 8}xQ", memory, at, kind, len(body), body, commit)


class BlockReader:
    """Read one block from its start, message by message. Positions are relative to the block."""

    def __init__(self) -> None:
        self._shapes: list[tuple[int, tuple[str, ...]]] = [(0, ())]
        """Size of an entry and names, by the number of the shape."""

    def read(self, view: memoryview, at: int, done: Done) -> tuple[list[Frame], int]:
        """Read the next message of records, and the events on the way.

        Args:
            view: The block, up to the last byte to read.
            at: Where to start: 0, or the position that the last call returned.
            done: What is left out, because the server has it.

        Returns:
            The messages, none at the end of the block, and the position after them.
        """
        frames: list[Frame] = []
        rows: list[tuple[int, int]] = []  # position and shape
        shapes: set[int] = set()
        names: set[str] = set()
        words = view[: len(view) & -8].cast("Q")
        first = 0
        while len(rows) < MIXED_RECORDS:
            if len(rows) % UNIFORM_RECORDS == 0 and (count := self._uniform(view, at)) > 1:
                if rows:
                    break
                size, same = self._shapes[_U32.unpack_from(view, at)[0]]
                first = words[(at + size) // 8 - 1] & _NUMBER
                skipped = min(max(done[0] + 1 - first, 0), count)
                begin, at = at + skipped * size, at + count * size
                if skipped < count:
                    frames.append(_uniform_frame(view[begin:at], first + skipped, size, same))
                    return frames, at
                continue
            found = self._entry(words, at)
            if found is None:
                break
            kind, number, end = found
            if kind == RECORDS and number > done[0]:
                if rows and number != first + len(rows):
                    break
                shape = words[at // 8] & 0xFFFFFFFF
                if shape not in shapes:
                    shapes.add(shape)
                    names.update(self._shapes[shape][1])
                    if rows and len(names) > BATCH_NAMES:
                        break
                first = first if rows else number
                rows.append((at, shape))
            elif kind == EVENT and number > done[1]:
                frames.append(Frame(EVENT, number, 1, _body(view, at)))
            elif kind == NAMES and number == len(self._shapes):
                try:
                    named = msgspec.msgpack.decode(_body(view, at), type=tuple[str, ...])
                except (msgspec.MsgspecError, UnicodeDecodeError):
                    break
                self._shapes.append((packer(len(named))[0], named))
            at = end
        if rows:
            frames.append(self._mixed_frame(view, rows, first))
        return frames, at

    def after_hole(self, view: memoryview, at: int) -> int:
        """Return the position of the next complete entry: a thread may have died while it packed one."""
        if not bytes(view[at:]).strip(b"\0"):
            return len(view)
        words = view[: len(view) & -8].cast("Q")
        return next((near for near in range(at, len(view), 8) if self._entry(words, near)), len(view))

    def _entry(self, words: memoryview, at: int) -> tuple[int, int, int] | None:
        """Return kind, number and end of the complete entry at ``at``, or None."""
        at //= 8
        if at >= len(words):
            return None
        head = words[at]
        shape = head & 0xFFFFFFFF
        if 0 < shape < len(self._shapes):
            kind, mark, end = RECORDS, RECORD, at + self._shapes[shape][0] // 8
        elif shape >= VOID:
            kind = {MESSAGE: EVENT, NAMES: NAMES}.get(shape, VOID)
            mark, end = EVENT_MARK if kind == EVENT else OTHER_MARK, at + 2 + ((head >> 32) + 7) // 8
        else:
            return None
        if end > len(words) or words[end - 1] & ~_NUMBER != mark:
            return None
        return kind, words[end - 1] & _NUMBER, end * 8

    def _uniform(self, view: memoryview, at: int) -> int:
        """Return how many records of one shape with consecutive numbers follow, or 0 if they are mixed."""
        if at + 8 > len(view) or not 0 < (shape := _U32.unpack_from(view, at)[0]) < len(self._shapes):
            return 0
        size = self._shapes[shape][0]
        count = min((len(view) - at) // size, BATCH_RECORDS, BATCH_BYTES // size + 1)
        if count < 2:
            return 0
        rows = view[at : at + count * size]
        shapes = rows.cast("I")[:: size // 4]
        if shapes.tobytes() != _U32.pack(shape) * count:
            count = next(index for index, other in enumerate(shapes.tolist()) if other != shape)
            rows = rows[: count * size]
            if count < UNIFORM_RECORDS:
                return 0
        marks = rows.cast("H")[size // 2 - 1 :: size // 2]
        numbers = rows.cast("Q")[size // 8 - 1 :: size // 8]
        whole = marks.tobytes() == _COMMITTED * count and numbers[count - 1] - numbers[0] == count - 1
        return count if whole else 0

    def _mixed_frame(self, view: memoryview, rows: list[tuple[int, int]], first: int) -> Frame:
        """Return the message of records with any names. A value that a record lacks is missing, not NaN."""
        by_shape: dict[int, list[int]] = {}
        for index, (_, shape) in enumerate(rows):
            by_shape.setdefault(shape, []).append(index)
        parts: dict[str, list[tuple[list[int], memoryview]]] = {}
        for shape, indices in by_shape.items():
            size, names = self._shapes[shape]
            same = memoryview(b"".join([view[rows[i][0] : rows[i][0] + size] for i in indices])).cast("Q")
            for word, name in enumerate(names, 3):
                parts.setdefault(name, []).append((indices, same[word :: size // 8]))
        both = memoryview(b"".join([view[at + 4 : at + 20] for at, _ in rows])).cast("Q")
        columns = {name: _column(found, len(rows)) for name, found in parts.items()}
        return frame_of(Records(first, len(rows), both[::2].tobytes(), both[1::2].tobytes(), columns))


def _uniform_frame(rows: memoryview, first: int, size: int, names: tuple[str, ...]) -> Frame:
    """Return the message of consecutive records of one shape: its columns are copied, never unpacked."""
    width, words, inner = size // 8, rows.cast("Q"), rows[4:-4].cast("Q")
    columns: dict[str, Column] = {name: words[k::width].tobytes() for k, name in enumerate(names, 3)}
    count = len(rows) // size
    return frame_of(Records(first, count, inner[::width].tobytes(), inner[1::width].tobytes(), columns))


def _column(parts: list[tuple[list[int], memoryview]], count: int) -> Column:
    """Return one column of ``count`` records from the values of each shape that has it."""
    at, column = parts[0][0], parts[0][1].tobytes()
    if len(parts) > 1:
        values: list[int | None] = [None] * count
        for indices, found in parts:
            for index, value in zip(indices, found.tolist(), strict=True):
                values[index] = value
        at = [index for index in range(count) if values[index] is not None]
        column = array("Q", operator.itemgetter(*at)(values)).tobytes()
    return column if len(at) == count else Sparse(array("I", at).tobytes(), column)


def _body(view: memoryview, at: int) -> bytes:
    return bytes(view[at + 8 : at + 8 + _U32.unpack_from(view, at + 4)[0]])
