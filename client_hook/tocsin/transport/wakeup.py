"""Wake the sender thread from other threads and from the SIGTERM handler."""

from __future__ import annotations

import contextlib
import socket

from ..lifecycle import sigterm


class Wakeup:
    """A pair of sockets: a byte in one ends the wait for the other.

    Raises:
        OSError: The process has no descriptors left.
    """

    def __init__(self) -> None:
        self.reader, self._writer = socket.socketpair()
        for end in (self.reader, self._writer):
            end.setblocking(False)

    def send(self) -> None:
        """End the wait. Does nothing after ``close``."""
        with contextlib.suppress(OSError):
            self._writer.send(b"!")

    def watch_signals(self) -> None:
        """Let SIGTERM end the wait too, even if the main thread hangs."""
        sigterm.set_wakeup(self._writer)

    def ignore_signals(self) -> None:
        """Undo ``watch_signals``."""
        sigterm.unset_wakeup(self._writer)

    def close(self) -> None:
        """Close both sockets, except one that a signal still writes to."""
        for end in (self.reader, self._writer):
            if not sigterm.is_wakeup(end):
                end.close()
