"""Who wants to hear of what: the pipeline tells, sockets listen. asyncio, one event loop, no I/O.

Bound and policy: a listener keeps one number a run and the newest :data:`KEPT_ALERTS` alert
transitions; what falls out is counted in ``missed``, and whoever sees a count asks the query.
"""

from __future__ import annotations

import asyncio
from collections import deque
from types import TracebackType

from tocsin_server.domain import Transition

KEPT_ALERTS = 1024


class Listener:
    """What one socket has not dealt with yet. Use as a context manager."""

    def __init__(self, hub: Hub, run_id: str | None) -> None:
        self.run_id = run_id
        self.committed: dict[str, int] = {}
        """Run id -> newest durable arrival."""
        self.changed: set[str] = set()
        """Runs whose row changed."""
        self.alerts: deque[Transition] = deque(maxlen=KEPT_ALERTS)
        self.words: deque[str] = deque(maxlen=KEPT_ALERTS)
        """Messages for every page, ready to be sent."""
        self.missed = 0
        self._hub = hub
        self._bell = asyncio.Event()

    def __enter__(self) -> Listener:
        self._hub.listeners.add(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._hub.listeners.discard(self)

    def hears(self, run_id: str) -> bool:
        """Whether this listener cares about that run."""
        return self.run_id is None or self.run_id == run_id

    async def wake(self) -> None:
        """Returns once something is there; clears the bell, not what it rang for."""
        await self._bell.wait()
        self._bell.clear()

    def ring(self) -> None:
        self._bell.set()

    def take_dirty(self) -> tuple[dict[str, int], set[str]]:
        """Runs with new durable records, and runs whose row changed; both are empty afterwards."""
        committed, changed = self.committed, self.changed
        self.committed, self.changed = {}, set()
        return committed, changed

    def take_alerts(self) -> list[Transition]:
        """The alert transitions since the last call, oldest first."""
        found = list(self.alerts)
        self.alerts.clear()
        return found

    def take_words(self) -> list[str]:
        """The messages for every page since the last call, oldest first."""
        found = list(self.words)
        self.words.clear()
        return found


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
            listener.ring()

    def changed(self, run_id: str) -> None:
        """The row of this run says something new."""
        for listener in self._of(run_id):
            listener.changed.add(run_id)
            listener.ring()

    def alert(self, transition: Transition) -> None:
        """An alert changed its state, and that is durable."""
        for listener in self._of(transition.alert.run_id):
            listener.missed += len(listener.alerts) == KEPT_ALERTS
            listener.alerts.append(transition)
            listener.ring()

    def tell(self, message: str) -> None:
        """A message that every page shall get. What falls out of a full queue is found by the query."""
        for listener in self.listeners:
            if listener.run_id is None:
                listener.words.append(message)
                listener.ring()

    def tell_deliveries(self, message: str) -> None:
        """How deliveries do, told where it changed."""
        if message != self.deliveries:
            self.deliveries = message
            self.tell(message)

    def _of(self, run_id: str) -> list[Listener]:
        return [listener for listener in self.listeners if listener.hears(run_id)]
