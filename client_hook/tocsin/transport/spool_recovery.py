"""Deliver the spools of dead processes, each under the identity of its writer."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from .. import protocol
from ..spool.log import Log
from ..spool.log_file import memory_of
from ..spool.segments import Spool, find_spools
from .backlog import Backlog
from .connection import Address
from .link import Link
from .server_url import Target
from .session import Session

RECOVERY_S = 30.0
"""Interval between searches for spools of dead processes."""


class SpoolDelivery:
    """Delivery of one recovered spool, with its own handshake and numbers, so that nothing arrives twice."""

    def __init__(
        self,
        spool: Spool,
        target: Target,
        token: str,
        *,
        random: Callable[[], float],
        resolve: Callable[[Target], list[Address] | None],
    ) -> None:
        self.spool = spool
        self._token = token
        self._began_ns = spool.header.hello.time_ns
        memory = memory_of(spool.path) if spool.path is not None else None
        log = Log.of_dead(memory) if memory is not None else Log(b"", [])
        self.backlog = Backlog(log, spool, is_live=False)
        self.session = Session(self.backlog, self._hello, random=random)
        self.link = Link(self.session, target, resolve=resolve)

    @property
    def delivered(self) -> bool:
        """Whether everything is acknowledged."""
        return self.backlog.empty

    def end(self) -> None:
        """Close the connection, and delete the spool if all of it was delivered."""
        self.link.close()
        if self.delivered:
            self.spool.delete()
        else:
            self.spool.close()

    def forget(self) -> None:
        """In a forked child: close the descriptors without sending anything."""
        self.link.forget()
        self.spool.close()

    def _hello(self) -> protocol.Hello:
        """Return the dead writer's handshake with the current time: its clock is that of this machine."""
        hello = self.spool.header.hello
        hello.token, hello.time_ns, hello.began_ns = self._token, time.time_ns(), self._began_ns
        return hello


class SpoolRecovery:
    """Deliver the spools in ``root`` that belong to this server, one at a time."""

    def __init__(
        self,
        root: Path,
        target: Target,
        token: Callable[[], str],
        *,
        random: Callable[[], float],
        resolve: Callable[[Target], list[Address] | None],
    ) -> None:
        self._root = root
        self._target = target
        self._token = token
        self._random = random
        self._resolve = resolve
        self._declined: set[Path] = set()
        self._look_at = 0.0
        self.delivery: SpoolDelivery | None = None

    def step(self, now: float) -> None:
        """Continue the current delivery, or search for another spool every ``RECOVERY_S`` seconds."""
        if self.delivery is None:
            if now < self._look_at:
                return
            self._look_at = now + RECOVERY_S
            self.delivery = self._next()
        if self.delivery is not None:
            self._continue(self.delivery, now)

    def end(self) -> None:
        """Stop, and leave the rest to the next process."""
        if self.delivery is not None:
            self.delivery.end()
            self.delivery = None

    def forget(self) -> None:
        """In a forked child: close the descriptors without sending anything."""
        if self.delivery is not None:
            self.delivery.forget()
            self.delivery = None

    def _continue(self, delivery: SpoolDelivery, now: float) -> None:
        delivery.link.step(now)
        if delivery.session.stopped and delivery.spool.path is not None:
            self._declined.add(delivery.spool.path)
        if delivery.session.stopped or delivery.delivered:
            self.end()
            self._look_at = now

    def _next(self) -> SpoolDelivery | None:
        for path in find_spools(self._root):
            spool = None if path in self._declined else Spool.recover(path)
            if spool is None:
                continue
            if spool.header.url == self._target.base:
                return SpoolDelivery(
                    spool, self._target, self._token(), random=self._random, resolve=self._resolve
                )
            spool.close()
        return None
