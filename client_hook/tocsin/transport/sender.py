"""The hook's thread and its only way out: drains the outbox, spools, sends, listens.

Started by the first record, so that imported modules, DataLoader workers and spawned
processes stay silent. It never raises into training, and ``close`` never takes longer
than its limit plus one second, whatever the server, the name service or the disk do; only
the end of a run that finished waits longer, for as long as the server acknowledges more.
What may hang without a disk being at fault has threads of its own: the name service and the
drivers of the machine. So records wait in memory only where the disk takes none.
"""

from __future__ import annotations

import contextlib
import logging
import os
import random
import signal
import socket
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .. import protocol
from ..core.frames import frame_of
from ..core.redaction import Redactor
from ..lifecycle import sigterm
from ..protocol import Hello
from ..spool import buffer_file
from ..spool.buffer_file import RingFile
from ..spool.segments import FORMAT, Header, Spool
from .backlog import Backlog, Shelf
from .connection import Address, LostError, resolve
from .encoding import sendable
from .link import Link, Lookup, wait
from .outbox import BATCH_RECORDS, Outbox
from .server_url import Target, parse_target
from .session import Phase, Session, Told
from .spool_recovery import Adopter

POLL_S = 0.2
GRACE_S = 0.3
ARM_S = 0.25
"""How long the first record waits for its ring, at most."""
OFFER_S = 1.0
"""So long the sender leaves the queue alone until the training thread has taken the ring."""
ERROR_LIMIT = 20
"""After so many internal errors the sender ends itself."""
TURN_BATCHES = 32
"""Batches that are drained at once; then what is there is sent, and acknowledgements are read."""
WAIT_S = 0.05
"""A call of the script waits so long for room in the queue, at most."""
LOOK_S = 0.0005
PATIENCE_S, PATIENCE_SHARE = 10.0, 0.05
"""Calls wait so long in vain altogether, while the sender stands still, then this share of the time."""
SAMPLE_S = 1.0
"""How often the sampler is asked; it knows itself when it is due."""
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
    takes = False

    def append(self, frame: Any) -> bool:
        """Nothing is kept."""
        return False

    def read(self, cursor: Any) -> None:
        """There is nothing."""

    def release(self, seq: int, events: int) -> None:
        """There is nothing."""


class Patience:
    """How long calls may still wait in vain: bounded, so that a disk that hangs does not slow training."""

    def __init__(self, now: float) -> None:
        self._left = PATIENCE_S
        self._at = now

    def left(self, now: float) -> bool:
        """Whether a call may wait."""
        self._left = min(self._left + (now - self._at) * PATIENCE_SHARE, PATIENCE_S)
        self._at = now
        return self._left > 0

    def spend(self, seconds: float) -> None:
        """Count the time that a call waited without getting room."""
        self._left -= seconds


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
        linger_s: float = 0.0,
        on_message: Callable[[Told], None] | None = None,
        phase: Callable[[], str] = str,
        sampler: Callable[[float], None] | None = None,
        redact: Redactor | None = None,
    ) -> None:
        self._outbox = outbox
        self._ask_hello = hello
        self._target = parse_target(url)
        self._spool_dir = spool_dir
        self._exit_timeout = exit_timeout
        self._linger_s = linger_s
        """At the end of a run that finished: so long while acknowledgements come, instead of exit_timeout."""
        self._linger_until = 0.0
        self._on_message = on_message
        self._phase = phase
        self._sampler = sampler
        self._redact = redact or Redactor()
        self._ring: RingFile | None = None
        self._ring_error: str | None = None
        self._armed = threading.Event()
        self._sampling = threading.Event()
        """Set when sampling of the machine must stop."""
        self._lookup = Lookup(self._wake)
        self._patience = Patience(time.monotonic())
        self._wait_s = wait_s()
        self._woken = False
        """Whether the thread has been woken for its next turn."""
        self._is_more = False
        """The last turn left records in the queue that there was room for."""
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
        self._acked = (-1, -1)
        self._said: set[str] = set()
        outbox.relief = self

    @property
    def stats(self) -> SenderStats:
        """A snapshot; any thread may ask."""
        spool, session = self._spool, self._session
        return SenderStats(
            queued=len(self._outbox),
            dropped=self._outbox.dropped + session.set_aside,
            spooled_bytes=spool.bytes if spool is not None else 0,
            acked_seq=self._backlog.seq,
            connected=session.phase is Phase.STREAMING and not self._over,
            last_error=session.last_error or session.refusal,
            spool_error=spool.error if spool is not None else None,
            ring_error=self._ring_error,
            exposed=self._outbox.exposed,
            refused=dict(session.refused),
        )

    @property
    def address(self) -> str:
        """The server's address, without credentials."""
        return self._target.base

    @property
    def run(self) -> str:
        """The run's identifier as the server named it; empty before the first connection."""
        return self._session.run

    @property
    def unsent(self) -> int:
        """Records that are on disk or in memory and not acknowledged."""
        return max(self._backlog.records - 1 - self._backlog.seq, 0)

    def start(self) -> None:
        """Starts the thread; again, after ``close``, or in a fork it does nothing.

        Waits at most ``ARM_S`` for the ring, so that the first record survives a SIGKILL too.
        """
        if self._thread is not None or self._over or self._ending is not None:
            return
        with self._starting:
            self._start()
        if self._bell is not None:
            sigterm.wake(self._bell[1])
            self._armed.wait(ARM_S)
            self._outbox.take_ring()

    def close(self, *, state: str = "finished", error: dict[str, Any] | None = None) -> None:
        """Sends what waits and the finish, and returns after ``exit_timeout`` (+ 1 s) at the latest.

        A run that finished waits up to ``linger_s`` while the server acknowledges more and more.
        """
        if self._over or self._ending is not None or os.getpid() != self._pid:
            return
        self._deadline = time.monotonic() + self._exit_timeout
        self._linger_until = time.monotonic() + self._linger_s if state == "finished" else 0.0
        self._outbox.tell_dropped(at_end=True)
        self._ending = (state, error or {})
        self._sampling.set()
        self._unwake()
        thread = self._thread
        if thread is None:
            self._run_here()
        elif thread is threading.current_thread():
            return  # called by a handler of alerts: the thread ends by itself
        else:
            self._wake()
            self._join(thread)
            if thread.is_alive():
                self._rescue()
                self._over = True
                self._outbox.silence()
        if dropped := self._outbox.dropped:
            reason = self._why_full()
            LOG.warning("tocsin: %d records of this run were dropped: %s", dropped, reason)

    def _join(self, thread: threading.Thread) -> None:
        """Wait for the thread until its deadline, which moves on while the server acknowledges."""
        try:
            while thread.is_alive() and (left := self._deadline + GRACE_S - time.monotonic()) > 0:
                thread.join(left)
        except KeyboardInterrupt:
            self._deadline = self._linger_until = 0.0
            self._wake()
            thread.join(GRACE_S)
            raise

    def forget(self) -> None:
        """In a forked child: takes nothing, sends nothing, closes what was inherited."""
        self._over = True
        self._outbox.silence()
        self._sampling.set()
        self._link.forget()
        if self._adopter is not None:
            self._adopter.forget()
        if self._ring is not None:
            self._ring.close()
        if self._spool is not None:
            self._spool.close()
        self._unwake()
        self._close_bell()

    # --- what a full queue asks for

    def wait(self, ready: Callable[[], bool]) -> None:
        """Wait until ``ready()``, at most ``TOCSIN_LOG_WAIT_MS``: a call of the script found no room."""
        thread, now = self._thread, time.monotonic()
        if thread is None or self._over or thread is threading.current_thread() or not thread.is_alive():
            return
        if not self._patience.left(now):
            return
        taken = self._outbox.taken
        while not ready():
            self._wake()
            if time.monotonic() - now >= self._wait_s:
                if taken == self._outbox.taken:
                    self._patience.spend(self._wait_s)
                return
            time.sleep(LOOK_S)

    def dropping(self) -> str:
        """Say once in the terminal that records are being dropped; return why."""
        reason = self._why_full()
        self._say("dropped", "tocsin: records are being dropped: %s. Training continues.", reason)
        return reason

    def _why_full(self) -> str:
        spool = self._spool
        if spool is not None and spool.error is not None:
            return f"the server does not accept them and the spool cannot be written ({spool.error})"
        if spool is None:
            return "the server does not accept them and there is no spool on disk"
        return f"the queue is full and the spool {spool.path or 'on disk'} is too slow"

    def _unwake(self) -> None:
        if self._bell is not None:
            sigterm.unwake(self._bell[1])

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
        if self._sampler is not None:
            with contextlib.suppress(RuntimeError):
                threading.Thread(target=self._sample, name="tocsin-sampler", daemon=True).start()

    def _run(self) -> None:
        self._arm()
        while not self._over:
            try:
                with self._lock:
                    timeout = self._turn(time.monotonic())
                if not self._over:
                    bell = self._bell[0] if self._bell is not None else None
                    self._heard(wait([link.connection for link in self._links()], timeout, bell))
            except Exception as error:
                self._fail(error)
        self._close_bell()
        if self._killed:
            sigterm.die()

    def _sample(self) -> None:
        """Look at the machine now and then, on a thread of its own: a driver may hang."""
        try:
            while self._sampler is not None and not self._over:
                self._sampler(time.monotonic())
                if self._sampling.wait(SAMPLE_S):
                    return
        except Exception as error:
            self._say("sampler", "tocsin: system metrics are not available: %r", error)

    def _heard(self, rung: bytes) -> None:
        """SIGTERM came: the main thread ends the run, or this thread does when it hangs."""
        if signal.SIGTERM in rung and sigterm.is_ours():
            self._terminate_at = time.monotonic() + sigterm.STUCK_S

    def _terminate(self, now: float) -> None:
        self._killed, self._terminate_at = True, float("inf")
        self._deadline = now + self._exit_timeout
        facts = sigterm.stuck_facts()
        self._ending = ("failed", {**facts, "lines": self._redact.lines(facts["lines"])})

    def _arm(self) -> None:
        """Makes spool and ring. On this thread: a disk may hang, training may not."""
        try:
            path = self._spool.open() if self._spool is not None else None
            if path is not None:
                self._ring = buffer_file.create(path)
                self._offered_until = time.monotonic() + OFFER_S
                self._outbox.offer_ring(self._ring.ring)
                buffer_file.sweep(time.time())
            elif self._spool is not None:
                self._ring_error = self._spool.error
        except Exception as error:
            self._ring_error = str(getattr(error, "strerror", None) or error)
        finally:
            self._armed.set()
        if self._ring_error is not None:
            data = {"survives_sigkill": False, "reason": self._ring_error}
            self._outbox.put_event("delivery", time.time_ns(), None, data)
            text = "tocsin: a SIGKILL can lose the last 0.2 s of records: %s"
            self._say("ring", text, self._ring_error)

    def _run_here(self) -> None:
        """A run that ends before its first record: the events it has are delivered by the caller."""
        if len(self._outbox):
            self._run()
        self._over = True
        self._outbox.silence()

    def _turn(self, now: float) -> float:
        """One round; returns for how long to wait, seconds."""
        self._woken = self._is_more = False
        if now >= self._terminate_at and self._ending is None:
            self._terminate(now)
        self._drain(now)
        self._link.step(now)
        self._report()
        self._adopt(now)
        if self._ending is not None:
            self._linger(now)
        if self._ending is not None and self._may_end(now):
            self._end()
            return 0.0
        if self._is_more:
            return 0.0
        wake = min(self._link.wake_at(now), self._deadline, now + POLL_S)
        return max(0.0, wake - now)

    def _drain(self, now: float) -> None:
        if self._finishing or (self._outbox.is_ring_offered and now < self._offered_until):
            return
        ending = self._ending  # read once: the script's thread sets it at any time
        if ending is None and now < self._drain_at and len(self._outbox) < BATCH_RECORDS:
            return
        self._drain_at = now + self._session.flush_s
        self._outbox.note_mark()
        self._shelve(at_end=ending is not None)
        if ending is not None:
            self._finishing = True
            state, error = ending
            finish = self._outbox.finish(time.time_ns(), state, self._backlog.records, error)
            self._backlog.add(frame_of(finish))
            self._session.hurry(now)

    def _shelve(self, *, at_end: bool) -> None:
        """Bring TURN_BATCHES from the queue to spool and memory; at the end everything, above the bounds."""
        outbox, backlog, batches = self._outbox, self._backlog, float("inf") if at_end else TURN_BATCHES
        while (at_end or backlog.has_room) and (event := outbox.drain_event()) is not None:
            backlog.add(frame_of(event))
        while batches > 0 and (at_end or backlog.has_room) and (records := outbox.drain()) is not None:
            backlog.add(frame_of(records))
            outbox.release(*backlog.kept)
            batches -= 1
        outbox.release(*backlog.kept)
        self._is_more = batches <= 0

    def _linger(self, now: float) -> None:
        """The server acknowledged more since the last turn: a run that finished waits for the rest."""
        acked = (self._backlog.seq, self._backlog.events)
        if acked == self._acked or now >= self._linger_until:
            return
        self._acked = acked
        self._deadline = max(self._deadline, min(now + self._exit_timeout, self._linger_until))
        if now - (self._linger_until - self._linger_s) > self._exit_timeout:
            left = self._backlog.records - 1 - self._backlog.seq
            text = "tocsin: sending %d records. Ctrl-C keeps them on disk for the next run or `tocsin sync`."
            self._say("linger", text, left)

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
        backlog, spool = self._backlog, self._spool
        left, lost = backlog.records - 1 - backlog.seq, backlog.unshelved_records
        told = f"the last {left} records and the end of this run were not delivered ({reason})"
        if spool is None or spool.path is None:
            return f"{told}. They are lost: there is no spool on disk to keep them."
        later = f"kept in {spool.path}; the next run on this machine or `tocsin sync` delivers them."
        if spool.error is not None:
            lost_words = f"The last {lost} records and the end are lost ({spool.error})"
            return f"{told}. {lost_words}; the others are {later}"
        return f"{told}. They are {later}"

    def _adopt(self, now: float) -> None:
        """Delivers what dead processes left, while the server listens and the run goes on."""
        listening = self._session.phase is Phase.STREAMING
        if self._adopter is not None and listening and self._ending is None:
            self._adopter.step(now)

    def _links(self) -> list[Link]:
        delivery = self._adopter.delivery if self._adopter is not None else None
        return [self._link, delivery.link] if delivery is not None else [self._link]

    def _resolve(self, target: Target) -> list[Address] | None:
        """Ask the name service on a thread of its own; None while it has not answered.

        Where no thread can be started any more (the interpreter shuts down) it is asked here,
        without holding the lock: ``close`` does not wait for it.
        """
        try:
            return self._lookup.ask(target)
        except RuntimeError:
            pass
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
            self._say("on_message", "tocsin: an alert handler raised %r", error)

    def _report(self) -> None:
        """One warning for each kind of trouble, not one for each time."""
        session = self._session
        for code, sentence in session.said.items():
            if not session.stopped or sentence != session.refusal:
                self._say(code, "tocsin: %s", sentence)
        if session.stopped:
            self._say("stopped", "tocsin: sending stopped: %s", session.refusal or session.last_error)
        elif session.last_error is not None:
            text = "tocsin: not connected (%s). Training continues; records are buffered and sent later."
            self._say("away", text, session.last_error)
        if self._spool is not None and self._spool.error is not None:
            self._say(
                "spool", "tocsin: records are buffered in memory only, not on disk: %s", self._spool.error
            )

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
        """Wake the thread, once for each of its turns."""
        try:
            if self._bell is not None and not self._woken:
                self._woken = True
                self._bell[1].send(b"!")
        except OSError:
            pass

    def _close_bell(self) -> None:
        bell, self._bell = self._bell, None
        for end in bell or ():
            if not sigterm.rings(end):
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
            self._say("rescue", "tocsin: the last records of this run could not be saved: %r", error)
        finally:
            self._lock.release()


def wait_s() -> float:
    """``TOCSIN_LOG_WAIT_MS`` in seconds; default WAIT_S."""
    try:
        return min(max(float(os.environ["TOCSIN_LOG_WAIT_MS"]) / 1000, 0.0), 10.0)
    except (KeyError, ValueError):
        return WAIT_S


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
