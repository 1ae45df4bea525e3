"""Keep the newest batches and events of a run in memory for the live pages. Pure.

Above ``limit_bytes`` the oldest are dropped. A cursor older than the buffer gets None, and the page queries
the API instead.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from tocsin_server.core.memory_size import size_of_batch, size_of_event
from tocsin_server.core.models import RecordBatch, RunEvent

Item = RecordBatch | RunEvent


def size_of(item: Item) -> int:
    """Return the bytes of memory that ``item`` takes."""
    return size_of_event(item) if isinstance(item, RunEvent) else size_of_batch(item)


class Recent:
    """Items in order of arrival; everything after ``floor`` is kept."""

    def __init__(self, limit_bytes: int, last_arrival: int = 0) -> None:
        self.limit_bytes = limit_bytes
        self.floor = last_arrival
        self.bytes = 0
        self._items: deque[Item] = deque()

    def put(self, item: Item) -> None:
        """Add ``item``, whose arrival number must be above all previous ones."""
        self._items.append(item)
        self.bytes += size_of(item)
        while self.bytes > self.limit_bytes and len(self._items) > 1:
            oldest = self._items.popleft()
            self.bytes -= size_of(oldest)
            self.floor = oldest.arrival

    def between(self, after: int, upto: int) -> list[Item] | None:
        """Return items with ``after < arrival <= upto``, oldest first, or None if some were dropped."""
        if after < self.floor:
            return None
        return list(reversed(list(self._newest(after, upto))))

    def _newest(self, after: int, upto: int) -> Iterator[Item]:
        for item in reversed(self._items):
            if item.arrival <= after:
                return
            if item.arrival <= upto:
                yield item
