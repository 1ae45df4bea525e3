"""Who wants to hear of what: the pipeline tells, sockets listen. asyncio, one event loop, no I/O.

Bound and policy: a listener keeps one number a run, and of alert transitions and of messages the newest
:data:`KEPT_ALERTS` with at most :data:`KEPT_BYTES`; alerts that fall out are counted in ``missed``, and
a listener that sees a count queries the API instead.
"""

from __future__ import annotations

import asyncio
from collections import deque
from types import TracebackType
from typing import Generic, TypeVar

from tocsin_server.core.memory_size import size_of
from tocsin_server.core.models import Transition

KEPT_ALERTS = 1024
KEPT_BYTES = 4 << 20
T = TypeVar("T")


class Newest(Generic[T]):
    """The newest items of a queue, bounded by their number and by their bytes of memory."""

    def __init__(self) -> None:
        self._items: deque[tuple[T, int]] = deque()
        self._bytes = 0

    def put(self, item: T, size: int) -> int:
        """Keep ``item`` of ``size`` bytes; return how many older ones fell out."""
        self._items.append((item, size))
        self._bytes += size
        dropped = 0
        while len(self._items) > KEPT_ALERTS or (self._bytes > KEPT_BYTES and len(self._items) > 1):
            self._bytes -= self._items.popleft()[1]
            dropped += 1
        return dropped

    def take(self) -> list[T]:
        """Return what is kept, oldest first; nothing is kept afterwards."""
        found = [item for item, _ in self._items]
        self._items.clear()
        self._bytes = 0
        return found


class Listener:
    """What one socket has not dealt with yet. Use as a context manager."""

    def __init__(self, hub: Hub, run_id: str | None) -> None:
        self.run_id = run_id
        self.committed: dict[str, int] = {}
        """Run id -> newest durable arrival."""
        self.changed: set[str] = set()
        """Runs whose row changed."""
        self.alerts: Newest[Transition] = Newest()
        self.broadcasts: Newest[str] = Newest()
        """Messages for every page, ready to be sent."""
        self.missed = 0
        self._hub = hub
        self._event = asyncio.Event()

    def __enter__(self) -> Listener:
        self._hub.listeners.add(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._hub.listeners.discard(self)

    def covers(self, run_id: str) -> bool:
        """Whether this listener cares about that run."""
        return self.run_id is None or self.run_id == run_id

    async def wait(self) -> None:
        """Returns once something is there; clears the bell, not what it rang for."""
        await self._event.wait()
        self._event.clear()

    def wake(self) -> None:
        self._event.set()

    def take_dirty(self) -> tuple[dict[str, int], set[str]]:
        """Runs with new durable records, and runs whose row changed; both are empty afterwards."""
        committed, changed = self.committed, self.changed
        self.committed, self.changed = {}, set()
        return committed, changed

    def take_alerts(self) -> list[Transition]:
        """The alert transitions since the last call, oldest first."""
        return self.alerts.take()

    def take_broadcasts(self) -> list[str]:
        """The messages for every page since the last call, oldest first."""
        return self.broadcasts.take()


class Hub:
    """Passes what the pipeline made durable on to every listener. Call it on the event loop only."""

    def __init__(self) -> None:
        self.listeners: set[Listener] = set()
        self.deliveries = ""
        """The newest word on how deliveries do, as a message; a page hears it when it connects."""

    def listen(self, run_id: str | None = None) -> Listener:
        """A new listener, of one run or of all."""
        return Listener(self, run_id)

    def committed(self, run_id: str, arrival: int) -> None:
        """Everything of this run up to ``arrival`` is durable."""
        for listener in self._of(run_id):
            listener.committed[run_id] = arrival
            listener.wake()

    def changed(self, run_id: str) -> None:
        """The row of this run says something new."""
        for listener in self._of(run_id):
            listener.changed.add(run_id)
            listener.wake()

    def alert(self, transition: Transition) -> None:
        """An alert changed its state, and that is durable."""
        size = size_of(transition)
        for listener in self._of(transition.alert.run_id):
            listener.missed += listener.alerts.put(transition, size)
            listener.wake()

    def broadcast(self, message: str) -> None:
        """A message that every page shall get. What falls out of a full queue is found by the query."""
        size = size_of(message)
        for listener in self.listeners:
            if listener.run_id is None:
                listener.broadcasts.put(message, size)
                listener.wake()

    def broadcast_deliveries(self, message: str) -> None:
        """How deliveries do, told where it changed."""
        if message != self.deliveries:
            self.deliveries = message
            self.broadcast(message)

    def _of(self, run_id: str) -> list[Listener]:
        return [listener for listener in self.listeners if listener.covers(run_id)]
