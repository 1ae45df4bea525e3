"""Process the items of a run in order: the next begins once the previous one is evaluated and submitted.

If the rules run in the server's process, each item is finished when :meth:`Turns.add` returns. Otherwise,
items wait until the rule process has answered. Everything here runs on the event loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

Done = Callable[[], None]
Turn = Callable[[Done], None]
"""Begins one item, and calls its argument once it is finished."""


class Waiting:
    """The bytes of all items that wait for their turn or for an answer, of all runs."""

    def __init__(self) -> None:
        self.bytes = 0


class Turns:
    """The items of one run, in order."""

    def __init__(self, waiting: Waiting | None = None) -> None:
        self._total = waiting or Waiting()
        self._queue: deque[tuple[Turn, int]] = deque()
        self._size: int | None = None
        """Bytes of the item that is in progress; None if there is none."""
        self._starting = False

    @property
    def idle(self) -> bool:
        """Whether nothing is in progress or waits."""
        return self._size is None and not self._queue

    def add(self, turn: Turn, size: int = 0) -> None:
        """Begin ``turn`` once everything added before is finished; now, if nothing is in progress.

        Args:
            turn: See :data:`Turn`. If it raises, it counts as finished.
            size: Bytes of memory that it holds until it is finished.
        """
        self._total.bytes += size
        self._queue.append((turn, size))
        self._advance()

    def clear(self) -> None:
        """Drop what waits. What is in progress is finished as usual."""
        self._total.bytes -= sum(size for _, size in self._queue)
        self._queue.clear()

    async def drained(self) -> None:
        """Return once everything added before is finished."""
        if self.idle:
            return
        finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def reached(done: Done) -> None:
            if not finished.done():
                finished.set_result(None)
            done()

        self.add(reached)
        await finished

    def _advance(self) -> None:
        """Begin what waits until an item stays in progress. An item may add others while it begins."""
        if self._starting:
            return
        self._starting = True
        failure: Exception | None = None
        try:
            while self._queue and self._size is None:
                turn, self._size = self._queue.popleft()
                try:
                    turn(self._finish)
                except Exception as error:  # noqa: BLE001 - raised below; later items must not wait indefinitely
                    failure = failure or error
                    self._release()
        finally:
            self._starting = False
        if failure is not None:
            raise failure

    def _finish(self) -> None:
        self._release()
        self._advance()

    def _release(self) -> None:
        if self._size is not None:
            self._total.bytes -= self._size
            self._size = None
