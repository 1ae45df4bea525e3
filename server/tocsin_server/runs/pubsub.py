"""Publish changes to listeners: the pipeline publishes, sockets subscribe. asyncio, one event loop, no I/O.

Memory is bounded: a listener keeps one number per run, and the newest :data:`KEPT_ALERTS` alert transitions
and messages with at most :data:`KEPT_BYTES` each. Dropped alerts are counted in ``missed``; a listener with a
count above 0 queries the API instead.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from types import TracebackType
from typing import Generic, TypeVar

from tocsin_server.core.memory_size import size_of
from tocsin_server.core.models import Transition

KEPT_ALERTS = 1024
KEPT_BYTES = 4 << 20
T = TypeVar("T")


class Newest(Generic[T]):
    """A queue of the newest items, bounded by their number and their size in memory."""

    def __init__(self) -> None:
        self._items: deque[tuple[T, int]] = deque()
        self._bytes = 0

    def put(self, item: T, size: int) -> int:
        """Add ``item`` of ``size`` bytes; return the number of older items that were dropped."""
        self._items.append((item, size))
        self._bytes += size
        dropped = 0
        while len(self._items) > KEPT_ALERTS or (self._bytes > KEPT_BYTES and len(self._items) > 1):
            self._bytes -= self._items.popleft()[1]
            dropped += 1
        return dropped

    def take(self) -> list[T]:
        """Return the items, oldest first, and clear the queue."""
        found = [item for item, _ in self._items]
        self._items.clear()
        self._bytes = 0
        return found


class Listener:
    """The changes that one socket has not processed yet. Use it as a context manager."""

    def __init__(self, hub: Hub, run_id: str | None) -> None:
        self.run_id = run_id
        self.committed: dict[str, int] = {}
        """Run id -> newest durable arrival."""
        self.changed: set[str] = set()
        """Runs whose summary changed."""
        self.alerts: Newest[Transition] = Newest()
        self.broadcasts: Newest[str] = Newest()
        """Messages for all pages, ready to be sent."""
        self.missed = 0
        self._hub = hub
        self._event = asyncio.Event()

    def __enter__(self) -> Listener:
        self._hub.listeners[self.run_id].add(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._hub.leave(self)

    async def wait(self) -> None:
        """Return once there is something to take; this clears the wake-up flag, not the changes."""
        await self._event.wait()
        self._event.clear()

    def wake(self) -> None:
        self._event.set()

    def take_dirty(self) -> tuple[dict[str, int], set[str]]:
        """Return runs with new durable records and runs whose summary changed, and clear both."""
        committed, changed = self.committed, self.changed
        self.committed, self.changed = {}, set()
        return committed, changed

    def take_alerts(self) -> list[Transition]:
        """Return the alert transitions since the last call, oldest first."""
        return self.alerts.take()

    def take_broadcasts(self) -> list[str]:
        """Return the messages for all pages since the last call, oldest first."""
        return self.broadcasts.take()


class Hub:
    """Forward durable changes from the pipeline to all listeners. Call it on the event loop only."""

    def __init__(self) -> None:
        self.listeners: defaultdict[str | None, set[Listener]] = defaultdict(set)
        """By run; of all runs under None. A commit of one of 2,000 runs must not look at 2,000 clients."""
        self.deliveries = ""
        """The latest delivery status as a message; a page receives it when it connects."""

    def listen(self, run_id: str | None = None) -> Listener:
        """Return a new listener for one run, or for all."""
        return Listener(self, run_id)

    def leave(self, listener: Listener) -> None:
        """End the subscription of a listener."""
        those = self.listeners[listener.run_id]
        those.discard(listener)
        if not those:
            del self.listeners[listener.run_id]

    def committed(self, run_id: str, arrival: int) -> None:
        """Publish that everything of this run up to ``arrival`` is durable."""
        for listener in self._of(run_id):
            listener.committed[run_id] = arrival
            listener.wake()

    def changed(self, run_id: str) -> None:
        """Publish that the summary of this run changed."""
        for listener in self._of(run_id):
            listener.changed.add(run_id)
            listener.wake()

    def alert(self, transition: Transition) -> None:
        """Publish a durable alert transition."""
        size = size_of(transition)
        for listener in self._of(transition.alert.run_id):
            listener.missed += listener.alerts.put(transition, size)
            listener.wake()

    def broadcast(self, message: str) -> None:
        """Send a message to all pages. A page whose queue overflowed queries the API instead."""
        size = size_of(message)
        for listener in self.listeners.get(None, ()):
            listener.broadcasts.put(message, size)
            listener.wake()

    def broadcast_deliveries(self, message: str) -> None:
        """Send the delivery status to all pages if it changed."""
        if message != self.deliveries:
            self.deliveries = message
            self.broadcast(message)

    def _of(self, run_id: str) -> list[Listener]:
        return [*self.listeners.get(None, ()), *self.listeners.get(run_id, ())]
