"""Pass commits from the writer thread back to the event loop, and measure the backlog."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Set
from dataclasses import dataclass
from typing import Protocol

from tocsin.protocol import NONE_YET
from tocsin_server.core.models import Transition, WriteBatch
from tocsin_server.core.settings import Settings
from tocsin_server.runs.active_run import ActiveRun, WriterState
from tocsin_server.runs.turns import Waiting

ROOM_AT = 0.25
"""Share of the backlog limit up to which clients may flush at the normal interval."""
LOOK_AGAIN_S = 1.0
WIDEST_TICK_MS = 2000
"""Maximum interval between updates to browsers, regardless of the backlog."""


class Store(Protocol):
    """The part of ``store.writer.StoreWriter`` that the record path uses."""

    backlog_bytes: int
    last_commit_s: float

    @property
    def failing(self) -> str | None: ...

    def submit(self, write: WriteBatch) -> None: ...


@dataclass(frozen=True, slots=True, eq=False)
class Commit:
    """What one write batch makes durable. ``seq`` and ``event`` are NONE_YET without a writer."""

    run: ActiveRun
    writer: WriterState | None
    arrival: int
    seq: int = NONE_YET
    event: int = NONE_YET
    transitions: tuple[Transition, ...] = ()


class Commits:
    """Pass commits to the event loop, which is woken once per group commit."""

    def __init__(self, settle: Callable[[list[Commit]], None]) -> None:
        self._settle = settle
        self._loop: asyncio.AbstractEventLoop | None = None
        self._done: deque[Commit] = deque()
        self._notified = False

    def bind(self, loop: asyncio.AbstractEventLoop | None) -> None:
        """Set the loop to wake; None before it closes."""
        self._loop = loop

    def notify(self, commit: Commit) -> None:
        """Queue a durable commit. Called on the writer thread."""
        self._done.append(commit)
        loop = self._loop
        if not self._notified and loop is not None:
            self._notified = True
            loop.call_soon_threadsafe(self._drain)

    def _drain(self) -> None:
        self._notified = False
        found = []
        while self._done:
            found.append(self._done.popleft())
        if found:
            self._settle(found)


class Pressure:
    """Compute back-pressure: the flush interval of clients, and whether their sockets are read at all.

    A message costs more than its records, so many clients are asked to send less often. Clients of a run
    whose page is open are asked to send more often.
    """

    def __init__(self, store: Store, settings: Settings, waiting: Waiting | None = None) -> None:
        self._store = store
        self._waiting = waiting or Waiting()
        self._settings = settings
        self._room = asyncio.Event()
        self._clients: Counter[str] = Counter()
        """Connected training processes by run."""
        self._all_clients = 0
        self._watched: Set[str] = frozenset()
        self._watched_clients = 0

    def joined(self, run_id: str) -> None:
        """Count a training process that has connected."""
        self._clients[run_id] += 1
        self._all_clients += 1

    def left(self, run_id: str) -> None:
        """Stop counting a training process."""
        self._clients[run_id] -= 1
        self._all_clients -= 1
        if self._clients[run_id] <= 0:
            del self._clients[run_id]

    def watch(self, run_ids: Set[str]) -> None:
        """Set the runs whose pages are open."""
        self._watched = run_ids
        self._watched_clients = sum(self._clients[run_id] for run_id in run_ids)

    @property
    def pressed(self) -> bool:
        """Whether reading from sockets is paused."""
        return self.backlog_bytes >= self._settings.backlog_bytes

    @property
    def backlog_bytes(self) -> int:
        """Bytes that are accepted and not durable: those that wait for the rules, and for the writer."""
        return self._store.backlog_bytes + self._waiting.bytes

    def flush_ms(self, run_id: str = "") -> int:
        """Return the flush interval for the clients of a run, ms.

        It grows with the number of clients and with the backlog, and is the longest if the database fails.
        """
        settings = self._settings
        usual = self._limited(settings.flush_ms, self._all_clients)
        if run_id in self._watched:
            usual = min(usual, self._limited(settings.flush_ms_watched, self._watched_clients))
        return self._widened(usual, settings.flush_ms_max)

    def _limited(self, usual_ms: int, clients: int) -> int:
        """Return the interval at which ``clients`` stay below the limit of messages."""
        settings = self._settings
        return min(max(usual_ms, 1000 * clients // settings.messages_per_s), settings.flush_ms_max)

    @property
    def tick_ms(self) -> int:
        """Return the interval of browser updates; a longer one leaves more CPU time to the writer."""
        return self._widened(self._settings.tick_ms, WIDEST_TICK_MS)

    def _widened(self, usual: int, widest: int) -> int:
        widest = max(usual, widest)
        if self._store.failing:
            return widest
        share = self.backlog_bytes / self._settings.backlog_bytes
        over = min(max((share - ROOM_AT) / (1 - ROOM_AT), 0.0), 1.0)
        return round(usual + (widest - usual) * over)

    def eased(self) -> None:
        """Wake waiting readers after a commit if the backlog is below its limit."""
        if not self.pressed:
            self._room.set()

    async def wait(self) -> None:
        """Return when the backlog is below its limit."""
        while self.pressed:
            self._room.clear()
            try:
                await asyncio.wait_for(self._room.wait(), LOOK_AGAIN_S)
            except TimeoutError:
                continue
