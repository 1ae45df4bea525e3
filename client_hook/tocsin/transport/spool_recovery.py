"""Spools that dead processes left behind, delivered as their own writers."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

from .. import protocol
from ..spool.buffer import Scan
from ..spool.buffer_file import delete, memory_of
from ..spool.segments import Spool, orphans
from .backlog import Backlog
from .connection import Address
from .link import Link
from .server_url import Target
from .session import Session

ADOPT_S = 30.0
"""How often other processes' spools are looked for."""


class Delivery:
    """One adopted spool on its way: its own hello and numbers, so nothing arrives twice."""

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
        self.backlog = Backlog(spool)
        if spool.path is not None:
            rescue(spool.path, self.backlog)
        self.session = Session(self.backlog, self._hello, random=random)
        self.link = Link(self.session, target, resolve=resolve)

    @property
    def delivered(self) -> bool:
        """All of it is acknowledged."""
        return self.backlog.empty

    def end(self) -> None:
        """Closes the connection; the spool goes if all is delivered, else it stays for the next one."""
        self.link.close()
        if self.delivered:
            self.spool.delete()
        else:
            self.spool.close()

    def forget(self) -> None:
        """In a forked child: no traffic, descriptors closed."""
        self.link.forget()
        self.spool.close()

    def _hello(self) -> protocol.Hello:
        """The hello of the dead writer; its clock is this machine's, so the time is that of sending."""
        hello = self.spool.header.hello
        hello.token, hello.time_ns = self._token, time.time_ns()
        return hello


def rescue(path: Path, backlog: Backlog) -> None:
    """Brings what the dead process had packed and not spooled into ``backlog``.

    The numbers are those it gave: what it had sent or spooled already arrives as a resend. The
    ring goes once the spool has it, so a second adopter finds it here or there.
    """
    memory = memory_of(path)
    if memory is None:
        return
    with contextlib.closing(memory):
        for frame in Scan(memory).frames():
            backlog.add(frame)
    if backlog.kept == (float("inf"), float("inf")):
        delete(path)


class Adopter:
    """Delivers what lies in ``root`` for this server, one spool at a time."""

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
        self.delivery: Delivery | None = None

    def step(self, now: float) -> None:
        """Goes on with the delivery under way, or looks for the next one when it is time."""
        if self.delivery is None:
            if now < self._look_at:
                return
            self._look_at = now + ADOPT_S
            self.delivery = self._next()
        if self.delivery is not None:
            self._go_on(self.delivery, now)

    def end(self) -> None:
        """Leaves the rest to the next process."""
        if self.delivery is not None:
            self.delivery.end()
            self.delivery = None

    def forget(self) -> None:
        """In a forked child: descriptors closed."""
        if self.delivery is not None:
            self.delivery.forget()
            self.delivery = None

    def _go_on(self, delivery: Delivery, now: float) -> None:
        delivery.link.step(now)
        if delivery.session.stopped and delivery.spool.path is not None:
            self._declined.add(delivery.spool.path)
        if delivery.session.stopped or delivery.delivered:
            self.end()
            self._look_at = now

    def _next(self) -> Delivery | None:
        for path in orphans(self._root):
            spool = None if path in self._declined else Spool.adopt(path)
            if spool is None:
                continue
            if spool.header.url == self._target.base:
                return Delivery(
                    spool, self._target, self._token(), random=self._random, resolve=self._resolve
                )
            spool.close()
        return None
