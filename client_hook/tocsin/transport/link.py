"""Move messages between a session and its connection, and reconnect."""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterable, Sequence

from .. import protocol
from .connection import Address, Connection, ConnectionLostError, is_numeric, resolve
from .server_url import Target
from .session import Notification, Phase, Session

PING_S = 5.0
PAUSE_S = 0.0001
"""Pause after messages are received, and before each is sent, in which the training thread gets the GIL."""


_Selector: type[selectors.BaseSelector] = getattr(selectors, "PollSelector", selectors.SelectSelector)
"""``poll`` has no descriptor that a fork would inherit and, unlike ``select``, no limit of 1024 descriptors.
"""


def wait(
    connections: Iterable[Connection | None], timeout_s: float, wakeup: socket.socket | None = None
) -> bytes:
    """Wait until a socket is ready.

    Args:
        connections: Wait until one of them can be read from, or written to if it has something to write.
        timeout_s: The longest wait.
        wakeup: Another thread interrupts the wait by writing to the other end.

    Returns:
        The bytes that were read from ``wakeup``.
    """
    with _Selector() as selector:
        if wakeup is not None:
            selector.register(wakeup, selectors.EVENT_READ)
        for connection in connections:
            if connection is not None and connection.waits_on is not None:
                write = selectors.EVENT_WRITE if connection.wants_write else 0
                selector.register(connection.waits_on, selectors.EVENT_READ | write)
        if not selector.get_map():
            time.sleep(timeout_s)
        elif any(key.fileobj is wakeup for key, _ in selector.select(timeout_s)) and wakeup is not None:
            return wakeup.recv(64)
    return b""


class AddressLookup:
    """Resolve the addresses of a server on a separate thread, because DNS may hang for minutes."""

    def __init__(self, done: Callable[[], None]) -> None:
        self._done = done
        self._asked: Target | None = None
        self._answer: list[Address] | ConnectionLostError | None = None

    def ask(self, target: Target) -> list[Address] | None:
        """Return the addresses of ``target``, or None while they are not known yet.

        Raises:
            ConnectionLostError: The name cannot be resolved.
            RuntimeError: No thread can be started.
        """
        if is_numeric(target):
            return resolve(target)
        if self._asked is None:
            self._answer = None
            thread = threading.Thread(target=self._look, args=(target,), name="tocsin-lookup", daemon=True)
            thread.start()
            self._asked = target
        if self._asked != target or self._answer is None:
            return None
        answer, self._asked = self._answer, None
        if isinstance(answer, ConnectionLostError):
            raise answer
        return answer

    def _look(self, target: Target) -> None:
        try:
            self._answer = resolve(target)
        except ConnectionLostError as error:
            self._answer = error
        except Exception as error:
            self._answer = ConnectionLostError(f"{target.host}: {error!r}")
        self._done()


class Link:
    """The connection of one session. ``step`` never blocks, except in ``resolve``."""

    def __init__(
        self,
        session: Session,
        target: Target,
        *,
        resolve: Callable[[Target], list[Address] | None],
        heartbeat: Callable[[], protocol.Alive] | None = None,
        on_notification: Callable[[Notification], None] = lambda message: None,
    ) -> None:
        self.session = session
        self._target = target
        self._resolve = resolve
        self._heartbeat = heartbeat
        self._on_notification = on_notification
        self._ping_at = 0.0
        self._is_resolving = False
        self.connection: Connection | None = None

    def step(self, now: float) -> None:
        """Connect, receive, send or disconnect, as far as possible without waiting."""
        try:
            if self._is_resolving or self.session.should_dial(now):
                self._dial(now)
            if self.connection is not None:
                self._exchange(self.connection, now)
        except ConnectionLostError as gone:
            self._lose(now, gone)
        if self.session.stopped:
            self.close()

    def wake_at(self, now: float) -> float:
        """Return the time by which ``step`` must be called again."""
        if self.connection is None:
            return self.session.wake_at(now)
        return min(self.session.wake_at(now), self.connection.deadline)

    def close(self) -> None:
        """Close the connection. The session may connect again."""
        self._is_resolving = False
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def forget(self) -> None:
        """In a forked child: close the descriptor without sending anything."""
        if self.connection is not None:
            self.connection.forget()
            self.connection = None

    def _dial(self, now: float) -> None:
        """Connect. If the addresses are not known yet, the next ``step`` tries again."""
        self.session.connecting(now)
        self._is_resolving = False
        addresses = self._resolve(self._target)
        if addresses is None:
            self._is_resolving = True
        else:
            self.connection = Connection(self._target, addresses, now)

    def _exchange(self, connection: Connection, now: float) -> None:
        messages, has_received = connection.pump(now)
        if connection.open and self.session.phase is Phase.DIALLING:
            connection.send(self.session.opened(now))
        if has_received:
            self.session.note_activity(now)
        self._take(messages, now)
        if messages:
            time.sleep(PAUSE_S)
        for message in self.session.due(now, self._heartbeat):
            time.sleep(PAUSE_S)
            connection.send(message)
        if connection.open and now >= self._ping_at:
            self._ping_at = now + PING_S
            connection.ping()
        reason = self.session.overdue(now)
        if reason is not None:
            raise ConnectionLostError(reason)

    def _take(self, messages: Sequence[bytes], now: float) -> None:
        for message in messages:
            notification = self.session.received(message, now)
            if notification is not None:
                self._on_notification(notification)

    def _lose(self, now: float, gone: ConnectionLostError) -> None:
        self._take(gone.messages, now)
        self.close()
        self.session.lost(now, str(gone), gone.code)
