"""The log: numbered blocks of entries in one piece of memory, which is shared if possible. Pure.

    0      magic with format, boot id, path of the spool that it belongs to
    1024   number of the log's block that each block of memory holds, u64; 0: none
    4096   the blocks of memory

The blocks form a chain in the order of their numbers: those that are not released yet, then ``block``, to
which the training thread appends, then empty ones. The sender reads behind it, and moves a block that is
acknowledged or on disk to the end of the chain, zeroed and with the next number.

Threads: CPython switches threads and runs signal handlers only after a call and at a backward jump. Between
reading ``block.head`` and changing it there is neither, and a block is replaced by one assignment, so the
training thread needs no lock. Without a GIL the outbox takes one.
"""

from __future__ import annotations

import itertools
import mmap
import struct
from collections.abc import Callable, Iterator
from typing import Any, cast

from .tail import Tail

try:
    from . import _pack as compiled
except ImportError:  # it is optional
    compiled = None  # type: ignore[assignment]

MAGIC = b"TOCSINr\x02"
BOOT_AT, OWNER_AT = 16, 64
OWNER_BYTES = 900
TABLE_AT, BLOCKS_AT = 1024, 4096
BLOCK_BYTES, BLOCKS = 256 << 10, 16
SIZE = BLOCKS_AT + BLOCKS * BLOCK_BYTES
"""Bytes of the memory: 65,000 records of four values fit into it."""
_U64 = struct.Struct("<Q")
_ZEROS = memoryview(bytes(BLOCK_BYTES))

Shape = tuple[int, int, Callable[..., None]]
"""Number, bytes of a record, and the function that packs one."""


class Block:
    """One block: ``number`` in the log, where it is in memory, and how far it is filled (``head``)."""

    __slots__ = (
        "at",
        "end",
        "head",
        "newest_names",
        "newest_shape",
        "next",
        "number",
        "shapes",
        "shapes_named",
    )

    def __init__(self, number: int, at: int, end: int) -> None:
        self.number, self.at, self.head, self.end = number, at, at, end
        self.shapes: dict[tuple[str, ...], Shape] = {}
        self.shapes_named = 0
        self.newest_names: Any = None
        """Names of the newest record, the same object; to hash them would read every name."""
        self.newest_shape: Any = None
        self.next: Block | None = None


class Log:
    """A chain of blocks in ``memory``."""

    def __init__(self, memory: Any, blocks: list[Block]) -> None:
        self.memory = memory
        blocks = blocks or [Block(0, 0, 0)]
        for block, after in itertools.pairwise(blocks):
            block.next = after
        self.tail: Tail = Tail() if compiled is None else cast(Tail, compiled.Tail())
        """Where records are appended, and the block that is being filled."""
        self.oldest = self.tail.block = blocks[0]
        """The first block that is not released."""
        self._last = blocks[-1]
        self.taken = 0
        """Records and events that were read."""

    @classmethod
    def of_dead(cls, memory: Any) -> Log:
        """Return the log that a dead process left in ``memory``."""
        log = cls(memory, list(_blocks_in(memory)))
        log.tail.block = log._last
        return log

    @property
    def block(self) -> Block:
        """The block that is being filled."""
        return self.tail.block  # type: ignore[no-any-return]

    @property
    def free_blocks(self) -> int:
        """Number of empty blocks after the one that is being filled."""
        return self._last.number - self.block.number

    @property
    def released(self) -> int:
        """A number that grows with every block that is released."""
        return self._last.number

    def unreleased(self) -> Iterator[Block]:
        """Yield the blocks from the oldest to the one that is being filled."""
        last, block = self.block, self.oldest
        while block is not last and block.next is not None:
            yield block
            block = block.next
        yield block

    def release(self) -> None:
        """Move the oldest block, in which nothing is needed any more, to the end of the chain."""
        old = self.oldest
        assert old.next is not None
        fresh = Block(self._last.number + 1, old.at, old.end)
        place = _place(old, old.end - old.at)
        _U64.pack_into(self.memory, place, 0)
        self.memory[old.at : old.head] = _ZEROS[: old.head - old.at]
        _U64.pack_into(self.memory, place, fresh.number)
        self.oldest = old.next
        self._last.next = fresh
        self._last = fresh

    def move(self, memory: Any) -> None:
        """Continue in another memory of the same size, with everything that was appended so far."""
        source, target = memoryview(self.memory)[TABLE_AT:], memoryview(memory)[TABLE_AT:]
        # Nothing is called from here on, so that no thread can append in between.
        target[:] = source
        self.memory = self.tail.memory = memory

    def discard(self) -> None:
        """Accept nothing more and leave the memory as it is: the run has ended, or this is a forked child."""
        self.tail.block = self.oldest = self._last = Block(0, 0, 0)
        self.memory, self.tail.memory = b"", None


def anonymous(size: int = SIZE) -> Any:
    """Return memory of this process alone, which is allocated as it is used."""
    if hasattr(mmap, "MAP_PRIVATE") and hasattr(mmap, "MAP_ANONYMOUS"):
        return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return bytearray(size)  # pragma: no cover - Windows


def new_blocks(memory: Any, block_bytes: int = BLOCK_BYTES) -> list[Block]:
    """Number the blocks of zeroed memory from 1, and return them."""
    starts = range(BLOCKS_AT, len(memory) - block_bytes + 1, block_bytes)
    blocks = [Block(number, at, at + block_bytes) for number, at in enumerate(starts, 1)]
    for block in blocks:
        _U64.pack_into(memory, _place(block, block_bytes), block.number)
    return blocks


def prepare(memory: Any, boot: str, owner: bytes = b"") -> None:
    """Mark zeroed memory as a log of this boot; ``owner``: path of the spool that it belongs to."""
    memory[: len(MAGIC)] = MAGIC
    memory[OWNER_AT : OWNER_AT + 2 + len(owner)] = len(owner).to_bytes(2, "little") + owner
    memory[BOOT_AT : BOOT_AT + 36] = boot.encode("ascii", "replace")[:36].ljust(36)


def is_of_boot(memory: Any, boot: str) -> bool:
    """Return whether it is a log of this boot, so that no crash of the machine lost pages of it."""
    return (
        len(memory) > BLOCKS_AT
        and bytes(memory[: len(MAGIC)]) == MAGIC
        and bytes(memory[BOOT_AT : BOOT_AT + 36]) == boot.encode("ascii", "replace")[:36].ljust(36)
    )


def _place(block: Block, block_bytes: int) -> int:
    """Return where the number of a block is."""
    return TABLE_AT + 8 * ((block.at - BLOCKS_AT) // block_bytes)


def _blocks_in(memory: Any) -> Iterator[Block]:
    numbers = [_U64.unpack_from(memory, TABLE_AT + 8 * index)[0] for index in range(BLOCKS)]
    for number, index in sorted(zip(numbers, range(BLOCKS), strict=True)):
        if number:
            block = Block(number, at := BLOCKS_AT + index * BLOCK_BYTES, at + BLOCK_BYTES)
            block.head = block.end
            yield block
