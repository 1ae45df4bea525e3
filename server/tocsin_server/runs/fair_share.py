"""Let other work of the event loop run between the messages of many training processes.

With thousands of processes, hundreds of messages can be ready at once. The response to a page takes several
iterations of the event loop, and without a limit each iteration would process all of these messages.
"""

from __future__ import annotations

import asyncio
from collections import deque

AT_ONCE = 8
"""Messages in one iteration of the event loop; each takes up to a millisecond."""


class FairShare:
    """Limits the messages in one iteration of the event loop; the others wait in order of arrival."""

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self._at_once = at_once
        self._left = at_once
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._renewing = False

    async def turn(self) -> None:
        """Return once the caller may process one message."""
        loop = asyncio.get_running_loop()
        if not self._renewing:
            self._renewing = True
            loop.call_soon(self._renew, loop)
        if self._left and not self._waiting:
            self._left -= 1
            return
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting.append(turn)
        await turn

    def _renew(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin the next iteration."""
        idle = self._left == self._at_once
        self._left = self._at_once
        while self._waiting and self._left:
            turn = self._waiting.popleft()
            if not turn.done():  # done: its connection has closed
                turn.set_result(None)
                self._left -= 1
        self._renewing = not idle or self._left < self._at_once
        if self._renewing:
            loop.call_soon(self._renew, loop)
