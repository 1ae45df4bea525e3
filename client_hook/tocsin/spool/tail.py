"""The end of the log, where the training thread appends records. Pure; _pack.c has the same, compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .entries import Item


class Tail:
    """Append records to ``block``, which the log replaces when it is full."""

    __slots__ = ("block", "commit", "elsewhere", "last_step", "memory", "plain", "steps")

    def __init__(self) -> None:
        self.block: Any = None
        self.memory: Any = None
        """The log's memory, which may be written; None or empty once nothing is accepted any more."""
        self.commit = 0
        """Commit word of the next record."""
        self.last_step: int | None = None
        """Step of the newest record."""
        self.steps = 0
        """Steps of all records; consecutive records of the same step count once."""
        self.elsewhere: Callable[[Item, bool], None]
        """Appends a record on the slow path: names that are new in the block, or no room in it."""
        self.plain: Callable[..., None]
        """Appends a record with a value that cannot be packed, after its place was taken."""

    def put(self, item: Item, may_wait: bool = False, /) -> None:
        """Append one record. ``may_wait``: wait for the sender if the log is almost full."""
        block = self.block
        if item[2] is not block.newest_names:
            if item[2] not in block.shapes:
                self.elsewhere(item, may_wait)
                return
            block.newest_names, block.newest_shape = item[2], block.shapes[item[2]]
        shape, size, pack_record = block.newest_shape
        at = block.head
        head = at + size
        if head > block.end:
            self.elsewhere(item, may_wait)
            return
        commit = self.commit
        # No other thread and no signal handler can run between reading ``head`` and here: see log.py.
        block.head = head
        self.commit = commit + 1
        try:
            pack_record(self.memory, at, shape, *item, commit)
        except Exception:
            self.plain(item, block, at, head, commit)
            return
        step = item[0]
        if step != self.last_step:
            self.last_step = step
            self.steps += 1
