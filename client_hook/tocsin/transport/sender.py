"""The hook's sender thread: reads the log, sends it, receives, and saves what is late to disk.

The first record starts it, so that imported modules, DataLoader workers and spawned processes start no
thread. It never raises into training. ``close`` takes at most its limit plus one second, whatever the server,
DNS or the disk do; only at the end of a finished run it waits longer, as long as the server keeps
acknowledging records. DNS and the GPU driver may hang, so they have separate threads.
"""

from __future__ import annotations

import contextlib
import logging
import os
import random
import signal
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .. import protocol
from ..core.redaction import Redactor
from ..core.values import counted
from ..lifecycle import sigterm
from ..protocol import Hello
from ..spool import log_file
from ..spool.entries import BATCH_RECORDS
from ..spool.log_file import LogFile
from ..spool.segments import FORMAT, Header, Spool
from .backlog import Backlog
from .backpressure import LOOK_S, WaitBudget, wait_s
from .connection import Address, Connection, ConnectionLostError, resolve
from .encoding import sendable
from .link import AddressLookup, Link, wait
from .outbox import Outbox
from .server_url import Target, parse_target
from .session import Notification, Phase, Session
from .spool_recovery import SpoolRecovery
from .undelivered import what_is_left, where_records_are, why_full
from .wakeup import Wakeup

POLL_S = 0.2
GRACE_S = 0.3
ARM_S = 0.25
"""Longest time that the first record waits for shared memory."""
SAVE_S = 1.0
"""What is not acknowledged after this time is saved to disk."""
ERROR_LIMIT = 20
"""The sender stops after this many internal errors."""
SAMPLE_S = 1.0
"""Interval between calls of the sampler, which decides when to read system metrics."""
LOG = logging.getLogger("tocsin")


@dataclass
class SenderStats:
    """State of delivery. Counts are of records unless stated otherwise."""

    queued: int = 0
    dropped: int = 0
    spooled_bytes: int = 0
    acked_seq: int = -1
    known_seq: int = -1
    """The highest record number that the server had at the first connection."""
    connected: bool = False
    last_error: str | None = None
    spool_error: str | None = None
    memory_error: str | None = None
    """Why records that are not on disk yet would not survive a SIGKILL, or None."""
    refused: dict[str, int] = field(default_factory=dict)


class Sender:
    """Deliver one run's queue. ``hello`` is called again for every connection."""

    def __init__(
        self,
        outbox: Outbox,
        hello: Callable[[], Hello],
        *,
        url: str,
        spool_dir: Path | None,
        exit_timeout: float = 3.0,
        linger_s: float = 0.0,
        on_message: Callable[[Notification], None] | None = None,
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
        """Replaces ``exit_timeout`` at the end of a finished run while acknowledgements arrive."""
        self._linger_until = 0.0
        self._on_message = on_message
        self._phase = phase
        self._sampler = sampler
        self._redact = redact or Redactor()
        self._shared: LogFile | None = None
        self._memory_error: str | None = None
        self._armed = threading.Event()
        self._sampling = threading.Event()
        """Set when the sampler must stop."""
        self._lookup = AddressLookup(self.wake)
        self._wait_budget = WaitBudget(time.monotonic())
        self._wait_s = wait_s()
        self._woken = False
        """Whether the thread has been woken for its next turn."""
        self._late = (-1, -1, 0.0)
        """Numbers that were next at a time, s; what is before them must be acknowledged soon, or saved."""
        self._spool = Spool(spool_dir, self._header) if spool_dir is not None else None
        self._backlog = Backlog(outbox, self._spool)
        self._session = Session(self._backlog, self._hello, random=random.random)
        self._link = Link(
            self._session,
            self._target,
            resolve=self._resolve,
            heartbeat=self._heartbeat,
            on_notification=self._deliver,
        )
        self._recovery = self._recovery_for(spool_dir) if spool_dir is not None else None
        self._lock = threading.Lock()  # held while backlog and spool are used; never by put
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._wakeup: Wakeup | None = None
        self._pid = os.getpid()
        self._over = self._finishing = False
        self._ending: tuple[str, dict[str, Any]] | None = None
        self._deadline = float("inf")
        self._flush_at = 0.0
        self._terminate_at = float("inf")
        self._killed = False
        self._errors = 0
        self._acked = (-1, -1)
        self._lost_at_end = 0
        self._warned: set[str] = set()
        outbox.backpressure = self

    @property
    def stats(self) -> SenderStats:
        """A snapshot. Any thread may read it."""
        spool, session = self._spool, self._session
        return SenderStats(
            queued=len(self._outbox),
            dropped=self._outbox.dropped + session.set_aside + self._backlog.lost + self._lost_at_end,
            spooled_bytes=spool.size if spool is not None else 0,
            acked_seq=self._backlog.seq,
            known_seq=-1 if session.known_seq is None else session.known_seq,
            connected=session.phase is Phase.STREAMING and not self._over,
            last_error=session.last_error or session.refusal,
            spool_error=spool.error if spool is not None else None,
            memory_error=self._memory_error,
            refused=dict(session.refused),
        )

    @property
    def address(self) -> str:
        """The server's address, without credentials."""
        return self._target.base

    @property
    def run(self) -> str:
        """The run's id as the server assigned it; empty before the first connection."""
        return self._session.run

    @property
    def has_ended(self) -> bool:
        """Whether nothing more is sent, so that ``finish_close`` does not wait."""
        return self._over

    @property
    def unsent(self) -> int:
        """Number of records that are on disk or in memory and not acknowledged."""
        return max(self._outbox.records - 1 - self._backlog.done - self._lost_at_end, 0)

    def start(self) -> None:
        """Start the thread. Does nothing if it was started before, after ``close``, and in a forked child.

        Waits at most ``ARM_S`` for shared memory, so that the first record survives a SIGKILL too.
        """
        if self._thread is not None or self._over or self._ending is not None:
            return
        with self._starting:
            self._start()
        if self._wakeup is not None:
            self._wakeup.watch_signals()
            self._armed.wait(ARM_S)

    def close(self, *, state: str = "finished", error: dict[str, Any] | None = None) -> None:
        """Send what is left and the end of the run. Returns after at most ``exit_timeout`` plus 1 s.

        A finished run waits up to ``linger_s`` while the server keeps acknowledging records.
        """
        if self.begin_close(state=state, error=error):
            self.finish_close()

    def begin_close(self, *, state: str = "finished", error: dict[str, Any] | None = None) -> bool:
        """Begin to close without waiting; return False if that was done before."""
        if self._over or self._ending is not None or os.getpid() != self._pid:
            return False
        self._deadline = time.monotonic() + self._exit_timeout
        self._linger_until = time.monotonic() + self._linger_s if state == "finished" else 0.0
        self._ending = (state, error or {})
        self._sampling.set()
        self._ignore_signals()
        self.wake()
        return True

    def finish_close(self) -> None:
        """Wait for what ``begin_close`` has begun."""
        thread = self._thread
        if thread is None:
            self._run_here()
        elif thread is threading.current_thread():
            return  # called by an alert handler of the script: the thread ends by itself
        else:
            self._join(thread)
            if thread.is_alive():
                self._save_rest()
                self._over = True
                self._outbox.discard()
        if dropped := self._outbox.dropped:
            reason = why_full(self._spool)
            LOG.warning("tocsin: %s dropped in this run: %s", counted(dropped, "record"), reason)

    def _join(self, thread: threading.Thread) -> None:
        """Wait for the thread until the deadline, which is extended while the server acknowledges."""
        try:
            while thread.is_alive() and (left := self._deadline + GRACE_S - time.monotonic()) > 0:
                thread.join(left)
        except KeyboardInterrupt:
            self._deadline = self._linger_until = 0.0
            self.wake()
            thread.join(GRACE_S)
            raise

    def forget(self) -> None:
        """In a forked child: accept and send nothing, and close the inherited descriptors."""
        self._over = True
        self._outbox.discard()
        self._sampling.set()
        self._link.forget()
        if self._recovery is not None:
            self._recovery.forget()
        if self._shared is not None:
            self._shared.close()
        if self._spool is not None:
            self._spool.close()
        self._ignore_signals()
        self._close_wakeup()

    # --- backpressure

    def wake(self) -> None:
        """Wake the thread, at most once for each of its turns."""
        wakeup = self._wakeup  # read once: the thread may close it at any time
        if wakeup is not None and not self._woken:
            self._woken = True
            wakeup.send()

    def wait(self, ready: Callable[[], bool]) -> None:
        """Wait until ``ready()`` is true, at most ``TOCSIN_LOG_WAIT_MS``, because the log is almost full."""
        thread, now = self._thread, time.monotonic()
        if thread is None or self._over or thread is threading.current_thread() or not thread.is_alive():
            return
        if not self._wait_budget.left(now):
            return
        released = self._outbox.released
        while not ready():
            self.wake()
            if time.monotonic() - now >= self._wait_s:
                if released == self._outbox.released:
                    self._wait_budget.spend(self._wait_s)
                return
            time.sleep(LOOK_S)

    def dropping(self) -> str:
        """Warn once that records are being dropped; return why."""
        reason = why_full(self._spool)
        self._warn("dropped", "tocsin: records are being dropped: %s. Training continues.", reason)
        return reason

    def _recovery_for(self, spool_dir: Path) -> SpoolRecovery:
        def token() -> str:
            return self._hello().token

        return SpoolRecovery(spool_dir, self._target, token, random=random.random, resolve=self._resolve)

    # --- the thread

    def _start(self) -> None:
        if self._thread is not None:
            return
        try:
            self._wakeup = Wakeup()
            _LIVE.add(self)
            thread = threading.Thread(target=self._run, name="tocsin-sender", daemon=True)
            thread.start()
        except (RuntimeError, OSError) as error:
            self._warn("start", "tocsin: the sender could not start: %s", error)
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
                    wakeup = self._wakeup.reader if self._wakeup is not None else None
                    self._check_sigterm(wait(self._awaited(), timeout, wakeup))
            except Exception as error:
                self._fail(error)
        self._close_wakeup()
        if self._killed:
            sigterm.die()

    def _sample(self) -> None:
        """Read system metrics on a separate thread, because a driver may hang."""
        try:
            while self._sampler is not None and not self._over:
                self._sampler(time.monotonic())
                if self._sampling.wait(SAMPLE_S):
                    return
        except Exception as error:
            self._warn("sampler", "tocsin: system metrics are not available: %r", error)

    def _check_sigterm(self, received: bytes) -> None:
        """Schedule the end of the run after SIGTERM, in case the main thread hangs and cannot end it."""
        if signal.SIGTERM in received and sigterm.is_ours():
            self._terminate_at = time.monotonic() + sigterm.patience()

    def _terminate(self, now: float) -> None:
        self._killed, self._terminate_at = True, float("inf")
        self._deadline = now + self._exit_timeout
        facts = sigterm.stuck_facts()
        lines = {"lines": self._redact.lines(facts["lines"])} if facts else {}
        self._ending = ("failed" if facts else "finished", {**facts, **lines})

    def _arm(self) -> None:
        """Create spool and shared memory on this thread, because a disk may hang."""
        try:
            path = self._spool.open() if self._spool is not None else None
            if path is not None:
                self._shared = log_file.create(path)
                self._outbox.move(self._shared.memory)
                log_file.sweep(time.time())
            elif self._spool is not None:
                self._memory_error = self._spool.error
        except Exception as error:
            self._memory_error = str(getattr(error, "strerror", None) or error)
        finally:
            self._armed.set()
        if self._memory_error is not None:
            data = {"survives_sigkill": False, "reason": self._memory_error}
            self._outbox.put_event("delivery", time.time_ns(), None, data)
            text = "tocsin: a SIGKILL can lose the last 0.2 s of records: %s"
            self._warn("memory", text, self._memory_error)

    def _run_here(self) -> None:
        """Deliver the events of a run that ends before its first record on the caller's thread."""
        if len(self._outbox):
            self._run()
        self._over = True
        self._outbox.discard()

    def _turn(self, now: float) -> float:
        """Do one round of work; return the seconds to wait until the next."""
        self._woken = False
        if now >= self._terminate_at and self._ending is None:
            self._terminate(now)
        self._restore_spool()
        self._flush(now)
        self._link.step(now)
        self._report()
        self._recover_spools(now)
        if self._ending is not None:
            self._linger(now)
        if self._ending is not None and self._may_end(now):
            self._end()
            return 0.0
        if self._session.is_more_due:
            return 0.0
        hurries = self._session.flush_s < POLL_S and self._flush_at > now
        poll = self._flush_at if hurries else now + POLL_S
        wake = min(self._link.wake_at(now), self._deadline, poll)
        return max(0.0, wake - now)

    def _flush(self, now: float) -> None:
        """Let what was appended be sent, once it has waited for the flush interval or fills a message."""
        outbox, backlog, ending = self._outbox, self._backlog, self._ending  # read once: threads may set it
        if outbox.free_blocks <= outbox.free_blocks_low:
            backlog.make_room()
        if self._finishing or (ending is None and now < self._flush_at and len(outbox) < BATCH_RECORDS):
            return
        self._flush_at = now + self._session.flush_s
        is_reported = outbox.report_dropped(at_end=ending is not None)
        if ending is not None:
            self._finishing = is_reported and outbox.put_finish(time.time_ns(), *ending)
            self._session.hurry(now)
        backlog.flush()
        self._save(now)

    def _restore_spool(self) -> None:
        """Create the spool again if it was deleted, and report the records that were only there."""
        spool = self._spool
        if spool is None or not spool.is_deleted:
            return
        lost, old = self._backlog.lose_saved(), spool.path
        path = spool.reopen()
        if path is not None and self._shared is not None and self._shared.path.parent != path:
            log_file.link(self._shared.path, path)
        if lost:
            reason = f"the offline buffer {old} was deleted"
            data = {"records": lost, "events": 0, "reason": reason}
            self._outbox.put_event("dropped", time.time_ns(), None, data)
            text = "tocsin: %s lost: %s. Training continues. Set TOCSIN_SPOOL_DIR to a directory that stays."
            LOG.warning(text, counted(lost, "record"), reason)

    def _save(self, now: float) -> None:
        """Save to disk what the server does not acknowledge, and everything if a SIGKILL would lose it."""
        seq, events, since = self._late
        if self._backlog.seq >= seq - 1 and self._backlog.events >= events - 1:
            self._late = (self._outbox.records, self._outbox.events, now)
            if self._shared is not None:
                self._backlog.forget_saved()
        elif now - since >= SAVE_S:
            self._backlog.save()
        if self._shared is None:
            self._backlog.save()

    def _linger(self, now: float) -> None:
        """Extend the deadline of a finished run if the server has acknowledged more since the last turn."""
        acked = (self._backlog.seq, self._backlog.events)
        if acked == self._acked or now >= self._linger_until:
            return
        self._acked = acked
        self._deadline = max(self._deadline, min(now + self._exit_timeout, self._linger_until))
        if now - (self._linger_until - self._linger_s) > self._exit_timeout:
            text = "tocsin: sending %s. Ctrl-C keeps what is left on disk for the next run or `tocsin sync`."
            unsent = self.unsent
            self._warn("linger", text, counted(unsent, "record") if unsent else "the end of the run")

    def _may_end(self, now: float) -> bool:
        settled = self._finishing and (self._backlog.empty or self._session.stopped)
        return settled or now >= self._deadline

    def _end(self) -> None:
        self._over = True
        self._link.close()
        if self._recovery is not None:
            self._recovery.end()
        delivered = self._backlog.empty
        saved = delivered or self._backlog.save()
        if not delivered:
            session = self._session
            reason = session.reason or "the server did not acknowledge in time"
            has_spool = self._spool is not None and self._spool.path is not None
            is_kept = has_spool and (saved or self._shared is not None)
            lost = 0 if is_kept else self._backlog.unsaved(self._outbox.records)
            self._warn("left", "tocsin: %s", what_is_left(self.unsent, lost, self._spool, reason))
            self._lost_at_end = lost
        self._outbox.discard()
        if self._shared is not None:
            self._shared.close()
            if saved and self._spool is not None and self._spool.path is not None:
                log_file.delete(self._spool.path)
        if self._spool is not None:
            self._spool.delete() if delivered else self._spool.close()

    def _recover_spools(self, now: float) -> None:
        """Deliver spools of dead processes while this run is connected and continues."""
        listening = self._session.phase is Phase.STREAMING
        if self._recovery is not None and listening and self._ending is None:
            self._recovery.step(now)

    def _awaited(self) -> list[Connection | None]:
        """Return the connections to wait for. An acknowledgement alone need not wake this thread."""
        delivery = self._recovery.delivery if self._recovery is not None else None
        if delivery is not None:
            return [self._link.connection, delivery.link.connection]
        is_waiting = self._ending is not None or self._session.is_at_window
        return [self._link.connection] if is_waiting else []

    def _resolve(self, target: Target) -> list[Address] | None:
        """Resolve the address on a separate thread; return None until it is known.

        If no thread can be started because the interpreter shuts down, resolve here without holding the lock,
        so that ``close`` does not wait for it.
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
            raise ConnectionLostError("the run has ended")
        return addresses

    # --- messages

    def _hello(self) -> Hello:
        return sendable(self._ask_hello())

    def _header(self) -> Header:
        return Header(FORMAT, self._target.base, self._hello())

    def _heartbeat(self) -> protocol.Alive:
        stats = self.stats
        return protocol.Alive(
            time.time_ns(),
            self._outbox.last_step,
            stats.queued,
            stats.dropped,
            stats.spooled_bytes,
            self._phase(),
        )

    def _deliver(self, message: Notification) -> None:
        if self._on_message is None:
            return
        try:
            self._on_message(message)
        except Exception as error:
            self._warn(
                "on_message", "tocsin: internal error in the processing of a server message: %r", error
            )

    def _report(self) -> None:
        """Log one warning for each kind of problem."""
        session = self._session
        for code, sentence in session.sentences.items():
            if not session.stopped or sentence != session.refusal:
                self._warn(code, "tocsin: %s", sentence)
        if session.stopped:
            reason = session.refusal or f"{session.last_error}."
            self._warn("stopped", "tocsin: sending stopped: %s %s", reason, where_records_are(self._spool))
        elif session.last_error is not None:
            text = "tocsin: not connected (%s). Training continues; records are buffered and sent later."
            self._warn("connection", text, session.last_error)
        if self._spool is not None and self._spool.error is not None:
            self._warn(
                "spool", "tocsin: records are buffered in memory only, not on disk: %s", self._spool.error
            )

    def _warn(self, key: str, text: str, *values: Any) -> None:
        if key not in self._warned:
            self._warned.add(key)
            LOG.warning(text, *values)

    # --- failures

    def _fail(self, error: Exception) -> None:
        self._errors += 1
        self._warn(f"internal {type(error)}", "tocsin: internal error in the sender: %r", error)
        self._link.close()
        self._session.lost(time.monotonic(), f"internal error: {error!r}")
        if self._errors >= ERROR_LIMIT or time.monotonic() >= self._deadline:
            self._over = True
            self._outbox.discard()
        time.sleep(0.05)

    def _ignore_signals(self) -> None:
        wakeup = self._wakeup
        if wakeup is not None:
            wakeup.ignore_signals()

    def _close_wakeup(self) -> None:
        wakeup, self._wakeup = self._wakeup, None
        if wakeup is not None:
            wakeup.close()

    def _save_rest(self) -> None:
        """Write what is left to the spool on the caller's thread, because the sender thread hangs."""
        if not self._lock.acquire(timeout=GRACE_S):
            return
        try:
            if not self._over:
                self._flush(time.monotonic())
                self._end()
        except Exception as error:
            self._warn("rescue", "tocsin: the last records of this run could not be saved: %r", error)
        finally:
            self._lock.release()


_LIVE: weakref.WeakSet[Sender] = weakref.WeakSet()


def _forget_all() -> None:
    for sender in list(_LIVE):
        sender.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
