"""The way back from the writer thread to the event loop: what became durable, and how full the queue is."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from tocsin.protocol import NONE_YET
from tocsin_server.core.models import Transition, WriteBatch
from tocsin_server.core.settings import Settings
from tocsin_server.runs.active_run import ActiveRun, WriterState

ROOM_AT = 0.25
"""Share of the backlog limit up to which trainers may flush at their usual pace."""
LOOK_AGAIN_S = 1.0
WIDEST_TICK_MS = 2000
"""Browsers hear of new records at least this often, however far the writer is behind."""


class Store(Protocol):
    """What the record path needs of ``store.writer.StoreWriter``."""

    backlog_bytes: int
    last_commit_s: float

    @property
    def failing(self) -> str | None: ...

    def submit(self, write: WriteBatch) -> None: ...


@dataclass(frozen=True, slots=True, eq=False)
class Commit:
    """What one intake makes durable. ``seq`` and ``event``: of its writer, NONE_YET without one."""

    run: ActiveRun
    writer: WriterState | None
    arrival: int
    seq: int = NONE_YET
    event: int = NONE_YET
    transitions: tuple[Transition, ...] = ()


class Commits:
    """Carries commits over to the loop: however many a group holds, the loop is woken once."""

    def __init__(self, settle: Callable[[list[Commit]], None]) -> None:
        self._settle = settle
        self._loop: asyncio.AbstractEventLoop | None = None
        self._done: deque[Commit] = deque()
        self._notified = False

    def bind(self, loop: asyncio.AbstractEventLoop | None) -> None:
        """The loop to wake; None when it is about to close."""
        self._loop = loop

    def notify(self, commit: Commit) -> None:
        """This is durable. Called on the writer thread."""
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
    """Back-pressure: how long trainers should wait between flushes, and whether we read at all."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._settings = settings
        self._room = asyncio.Event()

    @property
    def pressed(self) -> bool:
        """Whether sockets are not read for the moment."""
        return self._store.backlog_bytes >= self._settings.backlog_bytes

    @property
    def flush_ms(self) -> int:
        """The flush interval to ask for: widened as the backlog grows, widest while the database fails."""
        return self._widened(self._settings.flush_ms, self._settings.flush_ms_max)

    @property
    def tick_ms(self) -> int:
        """How far apart browsers are told of new records: fewer deltas leave the core to the writer."""
        return self._widened(self._settings.tick_ms, WIDEST_TICK_MS)

    def _widened(self, usual: int, widest: int) -> int:
        widest = max(usual, widest)
        if self._store.failing:
            return widest
        share = self._store.backlog_bytes / self._settings.backlog_bytes
        over = min(max((share - ROOM_AT) / (1 - ROOM_AT), 0.0), 1.0)
        return round(usual + (widest - usual) * over)

    def eased(self) -> None:
        """Something was committed: whoever waits may look again."""
        if not self.pressed:
            self._room.set()

    async def wait(self) -> None:
        """Returns when the backlog is below its limit."""
        while self.pressed:
            self._room.clear()
            try:
                await asyncio.wait_for(self._room.wait(), LOOK_AGAIN_S)
            except TimeoutError:
                continue
