"""A session on a connection: moves messages between the two, and reconnects when it is time."""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterable, Sequence

from .. import protocol
from .connection import Address, Connection, LostError, is_numeric, resolve
from .server_url import Target
from .session import Phase, Session, Told

PING_S = 5.0


_Selector: type[selectors.BaseSelector] = getattr(selectors, "PollSelector", selectors.SelectSelector)
"""Poll has no descriptor that a fork would inherit, and no limit at 1024 like select."""


def wait(
    connections: Iterable[Connection | None], timeout_s: float, bell: socket.socket | None = None
) -> bytes:
    """Returns when a connection or the bell has something to do, or after ``timeout_s``; what was rung."""
    with _Selector() as selector:
        if bell is not None:
            selector.register(bell, selectors.EVENT_READ)
        for connection in connections:
            if connection is not None and connection.waits_on is not None:
                write = selectors.EVENT_WRITE if connection.wants_write else 0
                selector.register(connection.waits_on, selectors.EVENT_READ | write)
        if not selector.get_map():
            time.sleep(timeout_s)
        elif any(key.fileobj is bell for key, _ in selector.select(timeout_s)) and bell is not None:
            return bell.recv(64)
    return b""


class Lookup:
    """Resolve the addresses of a server on a separate thread, because DNS may hang for minutes."""

    def __init__(self, done: Callable[[], None]) -> None:
        self._done = done
        self._asked: Target | None = None
        self._answer: list[Address] | LostError | None = None

    def ask(self, target: Target) -> list[Address] | None:
        """The addresses once they are known, None until then.

        Raises:
            LostError: the name service knows none.
            RuntimeError: no thread can be started.
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
        if isinstance(answer, LostError):
            raise answer
        return answer

    def _look(self, target: Target) -> None:
        try:
            self._answer = resolve(target)
        except LostError as error:
            self._answer = error
        except Exception as error:
            self._answer = LostError(f"{target.host}: {error!r}")
        self._done()


class Link:
    """Owns the connection of one session. ``step`` never blocks but for ``resolve``."""

    def __init__(
        self,
        session: Session,
        target: Target,
        *,
        resolve: Callable[[Target], list[Address] | None],
        pulse: Callable[[], protocol.Alive] | None = None,
        told: Callable[[Told], None] = lambda message: None,
    ) -> None:
        self.session = session
        self._target = target
        self._resolve = resolve
        self._pulse = pulse
        self._told = told
        self._ping_at = 0.0
        self._is_resolving = False
        self.connection: Connection | None = None

    def step(self, now: float) -> None:
        """Does what can be done now: dial, receive, send, give up."""
        try:
            if self._is_resolving or self.session.should_dial(now):
                self._dial(now)
            if self.connection is not None:
                self._exchange(self.connection, now)
        except LostError as gone:
            self._lose(now, gone)
        if self.session.stopped:
            self.close()

    def wake_at(self, now: float) -> float:
        """When ``step`` wants to be called again, at the latest."""
        if self.connection is None:
            return self.session.wake_at(now)
        return min(self.session.wake_at(now), self.connection.deadline)

    def close(self) -> None:
        """Ends the connection; the session may dial again."""
        self._is_resolving = False
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def forget(self) -> None:
        """In a forked child: no traffic, descriptor closed."""
        if self.connection is not None:
            self.connection.forget()
            self.connection = None

    def _dial(self, now: float) -> None:
        """Connect, or ask again later where the addresses are not known yet (``resolve`` returned None)."""
        self.session.dialled(now)
        self._is_resolving = False
        addresses = self._resolve(self._target)
        if addresses is None:
            self._is_resolving = True
        else:
            self.connection = Connection(self._target, addresses, now)

    def _exchange(self, connection: Connection, now: float) -> None:
        messages, heard = connection.pump(now)
        if connection.open and self.session.phase is Phase.DIALLING:
            connection.send(self.session.opened(now))
        if heard:
            self.session.heard(now)
        self._take(messages, now)
        for message in self.session.due(now, self._pulse() if self._pulse else None):
            connection.send(message)
        if connection.open and now >= self._ping_at:
            self._ping_at = now + PING_S
            connection.ping()
        reason = self.session.overdue(now)
        if reason is not None:
            raise LostError(reason)

    def _take(self, messages: Sequence[bytes], now: float) -> None:
        for message in messages:
            told = self.session.received(message, now)
            if told is not None:
                self._told(told)

    def _lose(self, now: float, gone: LostError) -> None:
        self._take(gone.messages, now)
        self.close()
        self.session.lost(now, str(gone), gone.code)
