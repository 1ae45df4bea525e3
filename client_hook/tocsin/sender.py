"""The hook's only thread and its only way out: drains the outbox, spools, sends, listens.

Started by the first record, so that imported modules, DataLoader workers and spawned
processes stay silent. It never raises into training, and ``close`` never takes longer
than its limit plus one second, whatever the server, the name service or the disk do.
"""

from __future__ import annotations

import logging
import os
import random
import signal
import socket
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import protocol, ringfile, terminating
from .adoption import Adopter
from .backlog import Backlog, Shelf
from .connection import Address, LostError, resolve
from .frames import frame_of
from .link import Link, wait
from .outbox import BATCH_RECORDS, Mark, Outbox
from .plain import sendable
from .protocol import Hello
from .ringfile import RingFile
from .session import Phase, Session, Told
from .spool import FORMAT, Header, Spool
from .target import Target, parse_target

POLL_S = 0.2
GRACE_S = 0.3
ARM_S = 0.25
"""How long the first record waits for its ring, at most."""
OFFER_S = 1.0
"""So long the sender leaves the queue alone until the training thread has taken the ring."""
ERROR_LIMIT = 20
"""After so many internal errors the sender ends itself."""
LOG = logging.getLogger("tocsin")


@dataclass
class SenderStats:
    """How delivery stands; counts are of records unless they say otherwise."""

    queued: int = 0
    dropped: int = 0
    spooled_bytes: int = 0
    acked_seq: int = -1
    connected: bool = False
    last_error: str | None = None
    spool_error: str | None = None
    ring_error: str | None = None
    """Why records that are not on the spool yet would not survive a SIGKILL, or None."""
    exposed: int = 0
    """Records and events that found no room in the ring."""
    refused: dict[str, int] = field(default_factory=dict)


class NoShelf:
    """Where no spool is wanted: memory has to do."""

    start = end = 0

    def append(self, frame: Any) -> bool:
        """Nothing is kept."""
        return False

    def read(self, cursor: Any) -> None:
        """There is nothing."""

    def release(self, seq: int, events: int) -> None:
        """There is nothing."""


class Sender:
    """Delivers one run's outbox. ``hello`` is asked again for every connection."""

    def __init__(
        self,
        outbox: Outbox,
        hello: Callable[[], Hello],
        *,
        url: str,
        spool_dir: Path | None,
        exit_timeout: float = 3.0,
        on_message: Callable[[Told], None] | None = None,
        phase: Callable[[], str] = str,
        sampler: Callable[[float], None] | None = None,
    ) -> None:
        self._outbox = outbox
        self._ask_hello = hello
        self._target = parse_target(url)
        self._spool_dir = spool_dir
        self._exit_timeout = exit_timeout
        self._on_message = on_message
        self._phase = phase
        self._sampler = sampler
        self._ring: RingFile | None = None
        self._ring_error: str | None = None
        self._marks: deque[Mark] = deque()
        self._armed = threading.Event()
        self._offered_until = 0.0
        self._spool = Spool(spool_dir, self._header) if spool_dir is not None else None
        shelf: Shelf = self._spool if self._spool is not None else NoShelf()
        self._backlog = Backlog(shelf)
        self._session = Session(self._backlog, self._hello, random=random.random)
        self._link = Link(
            self._session, self._target, resolve=self._resolve, pulse=self._pulse, told=self._tell
        )
        self._adopter = self._adopter_of(spool_dir) if spool_dir is not None else None
        self._lock = threading.Lock()  # held while outbox, backlog and spool are touched; never by put
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._bell: tuple[socket.socket, socket.socket] | None = None
        self._pid = os.getpid()
        self._over = self._finishing = False
        self._ending: tuple[str, dict[str, Any]] | None = None
        self._deadline = float("inf")
        self._drain_at = 0.0
        self._terminate_at = float("inf")
        self._killed = False
        self._errors = 0
        self._said: set[str] = set()

    @property
    def stats(self) -> SenderStats:
        """A snapshot; any thread may ask."""
        spool, session = self._spool, self._session
        return SenderStats(
            queued=len(self._outbox),
            dropped=self._outbox.dropped + self._backlog.dropped + session.set_aside,
            spooled_bytes=spool.bytes if spool is not None else 0,
            acked_seq=self._backlog.seq,
            connected=session.phase is Phase.STREAMING and not self._over,
            last_error=session.last_error or session.refusal,
            spool_error=spool.error if spool is not None else None,
            ring_error=self._ring_error,
            exposed=self._outbox.exposed,
            refused=dict(session.refused),
        )

    def start(self) -> None:
        """Starts the thread; again, after ``close``, or in a fork it does nothing.

        Waits at most ``ARM_S`` for the ring, so that the first record survives a SIGKILL too.
        """
        if self._thread is not None or self._over or self._ending is not None:
            return
        with self._starting:
            self._start()
        if self._bell is not None:
            terminating.wake(self._bell[1])
            self._armed.wait(ARM_S)
            self._outbox.take_ring()

    def close(self, *, state: str = "finished", error: dict[str, Any] | None = None) -> None:
        """Sends what waits and the finish, and returns after ``exit_timeout`` (+ 1 s) at the latest."""
        if self._over or self._ending is not None or os.getpid() != self._pid:
            return
        self._deadline = time.monotonic() + self._exit_timeout
        self._ending = (state, error or {})
        self._unwake()
        thread = self._thread
        if thread is None:
            self._run_here()
        elif thread is threading.current_thread():
            return  # called by a handler of alerts: the thread ends by itself
        else:
            self._wake()
            thread.join(self._exit_timeout + GRACE_S)
            if thread.is_alive():
                self._rescue()
                self._over = True
                self._outbox.silence()

    def forget(self) -> None:
        """In a forked child: takes nothing, sends nothing, closes what was inherited."""
        self._over = True
        self._outbox.silence()
        self._link.forget()
        if self._adopter is not None:
            self._adopter.forget()
        if self._ring is not None:
            self._ring.close()
        if self._spool is not None:
            self._spool.close()
        self._unwake()
        self._close_bell()

    def _unwake(self) -> None:
        if self._bell is not None:
            terminating.unwake(self._bell[1])

    def _adopter_of(self, spool_dir: Path) -> Adopter:
        def token() -> str:
            return self._hello().token

        return Adopter(spool_dir, self._target, token, random=random.random, resolve=self._resolve)

    # --- the thread

    def _start(self) -> None:
        if self._thread is not None:
            return
        try:
            self._bell = _bell()
            _LIVE.add(self)
            thread = threading.Thread(target=self._run, name="tocsin-sender", daemon=True)
            thread.start()
        except (RuntimeError, OSError) as error:
            self._say("start", "tocsin: the sender could not start: %s", error)
            return
        self._thread = thread

    def _run(self) -> None:
        self._arm()
        while not self._over:
            try:
                with self._lock:
                    timeout = self._turn(time.monotonic())
                if not self._over:
                    bell = self._bell[0] if self._bell is not None else None
                    self._heard(wait([link.connection for link in self._links()], timeout, bell))
                    self._sample()
            except Exception as error:
                self._fail(error)
        self._close_bell()
        if self._killed:
            terminating.die()

    def _sample(self) -> None:
        """Looks at the machine now and then. Without the lock: a driver may hang, ``close`` may not."""
        if self._sampler is not None and self._ending is None:
            self._sampler(time.monotonic())

    def _heard(self, rung: bytes) -> None:
        """SIGTERM came: the main thread ends the run, or this thread does when it hangs."""
        if signal.SIGTERM in rung and terminating.is_ours():
            self._terminate_at = time.monotonic() + terminating.STUCK_S

    def _terminate(self, now: float) -> None:
        self._killed, self._terminate_at = True, float("inf")
        self._deadline = now + self._exit_timeout
        self._ending = ("failed", terminating.stuck_facts())

    def _arm(self) -> None:
        """Makes spool and ring. On this thread: a disk may hang, training may not."""
        try:
            path = self._spool.open() if self._spool is not None else None
            if path is not None:
                self._ring = ringfile.create(path)
                self._offered_until = time.monotonic() + OFFER_S
                self._outbox.offer_ring(self._ring.ring)
                ringfile.sweep(time.time())
            elif self._spool is not None:
                self._ring_error = self._spool.error
        except Exception as error:
            self._ring_error = str(getattr(error, "strerror", None) or error)
        finally:
            self._armed.set()
        if self._ring_error is not None:
            data = {"survives_sigkill": False, "reason": self._ring_error}
            self._outbox.put_event("delivery", time.time_ns(), None, data)
            text = "tocsin: records of the last fifth of a second would not survive a SIGKILL: %s"
            self._say("ring", text, self._ring_error)

    def _keep(self) -> None:
        """Gives the ring its room back, up to what the spool has."""
        seq, events = self._backlog.kept
        newest = None
        while self._marks and self._marks[0].seq <= seq and self._marks[0].events <= events:
            newest = self._marks.popleft()
        if newest is not None:
            self._outbox.kept(newest)

    def _run_here(self) -> None:
        """A run that ends before its first record: the events it has are delivered by the caller."""
        if len(self._outbox):
            self._run()
        self._over = True
        self._outbox.silence()

    def _turn(self, now: float) -> float:
        """One round; returns for how long to wait, seconds."""
        if now >= self._terminate_at and self._ending is None:
            self._terminate(now)
        self._drain(now)
        self._link.step(now)
        self._report()
        self._adopt(now)
        if self._ending is not None and self._may_end(now):
            self._end()
            return 0.0
        wake = min(self._link.wake_at(now), self._deadline, now + POLL_S)
        return max(0.0, wake - now)

    def _drain(self, now: float) -> None:
        if self._finishing or (self._outbox.is_ring_offered and now < self._offered_until):
            return
        if self._ending is None and now < self._drain_at and len(self._outbox) < BATCH_RECORDS:
            return
        self._drain_at = now + self._session.flush_s
        if self._ring is not None:
            self._marks.append(self._outbox.mark())
        while (event := self._outbox.drain_event()) is not None:
            self._backlog.add(frame_of(event))
        while (records := self._outbox.drain()) is not None:
            self._backlog.add(frame_of(records))
        self._keep()
        if self._ending is not None:
            self._finishing = True
            state, error = self._ending
            finish = self._outbox.finish(time.time_ns(), state, self._backlog.records, error)
            self._backlog.add(frame_of(finish), always=True)
            self._session.hurry(now)

    def _may_end(self, now: float) -> bool:
        settled = self._finishing and (self._backlog.empty or self._session.stopped)
        return settled or now >= self._deadline

    def _end(self) -> None:
        self._over = True
        self._outbox.silence()
        self._link.close()
        if self._adopter is not None:
            self._adopter.end()
        delivered = self._backlog.empty
        if self._ring is not None:
            self._ring.close()
        if self._spool is not None:
            self._spool.delete() if delivered else self._spool.close()
        if not delivered:
            self._say("left", "tocsin: %s", self._farewell())

    def _farewell(self) -> str:
        reason = self._session.refusal or self._session.last_error or "the server did not acknowledge in time"
        if self._spool is None or self._spool.path is None or self._spool.error is not None:
            return f"the end of this run was not delivered ({reason}), and there is no spool to keep it"
        return (
            f"the end of this run was not delivered ({reason}); it waits in {self._spool.path}, "
            "and the next run or `tocsin sync` brings it in"
        )

    def _adopt(self, now: float) -> None:
        """Delivers what dead processes left, while the server listens and the run goes on."""
        listening = self._session.phase is Phase.STREAMING
        if self._adopter is not None and listening and self._ending is None:
            self._adopter.step(now)

    def _links(self) -> list[Link]:
        delivery = self._adopter.delivery if self._adopter is not None else None
        return [self._link, delivery.link] if delivery is not None else [self._link]

    def _resolve(self, target: Target) -> list[Address]:
        """Asks the name service without holding the lock: it may take long, ``close`` may not."""
        self._lock.release()
        try:
            addresses = resolve(target)
        finally:
            self._lock.acquire()
        if self._over:
            raise LostError("the run has ended")
        return addresses

    # --- what is said, and to whom

    def _hello(self) -> Hello:
        return sendable(self._ask_hello())

    def _header(self) -> Header:
        return Header(FORMAT, self._target.base, self._hello())

    def _pulse(self) -> protocol.Alive:
        stats = self.stats
        return protocol.Alive(
            time.time_ns(),
            self._outbox.last_step,
            stats.queued,
            stats.dropped,
            stats.spooled_bytes,
            self._phase(),
        )

    def _tell(self, message: Told) -> None:
        if self._on_message is None:
            return
        try:
            self._on_message(message)
        except Exception as error:
            self._say("on_message", "tocsin: a handler of alerts failed: %r", error)

    def _report(self) -> None:
        """One warning for each kind of trouble, not one for each time."""
        session = self._session
        for code, sentence in session.said.items():
            self._say(code, "tocsin: %s", sentence)
        if session.stopped:
            self._say("stopped", "tocsin: nothing more is sent: %s", session.refusal or session.last_error)
        elif session.last_error is not None:
            self._say("away", "tocsin: training goes on, records are kept: %s", session.last_error)
        if self._spool is not None and self._spool.error is not None:
            self._say("spool", "tocsin: records are kept in memory only: %s", self._spool.error)

    def _say(self, key: str, text: str, *values: Any) -> None:
        if key not in self._said:
            self._said.add(key)
            LOG.warning(text, *values)

    # --- when something goes wrong

    def _fail(self, error: Exception) -> None:
        self._errors += 1
        self._say(f"internal {type(error)}", "tocsin: internal error in the sender: %r", error)
        self._link.close()
        self._session.lost(time.monotonic(), f"internal error: {error!r}")
        if self._errors >= ERROR_LIMIT or time.monotonic() >= self._deadline:
            self._over = True
            self._outbox.silence()
        time.sleep(0.05)

    def _wake(self) -> None:
        try:
            if self._bell is not None:
                self._bell[1].send(b"!")
        except OSError:
            pass

    def _close_bell(self) -> None:
        bell, self._bell = self._bell, None
        for end in bell or ():
            if not terminating.rings(end):
                end.close()

    def _rescue(self) -> None:
        """The thread hangs (in the name service): what waits is spooled by the caller."""
        if not self._lock.acquire(timeout=GRACE_S):
            return
        try:
            if not self._over:
                self._drain(time.monotonic())
                self._end()
        except Exception as error:
            self._say("rescue", "tocsin: the end of this run was not kept: %r", error)
        finally:
            self._lock.release()


_LIVE: weakref.WeakSet[Sender] = weakref.WeakSet()


def _bell() -> tuple[socket.socket, socket.socket]:
    ends = socket.socketpair()
    for end in ends:
        end.setblocking(False)
    return ends


def _forget_all() -> None:
    for sender in list(_LIVE):
        sender.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
