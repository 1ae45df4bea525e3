"""Report one log file as a run, with the same delivery as a training process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.handshake import RunInfo, hello
from ..importers import Fact, Item, LogRecord
from ..protocol import Alert
from ..transport.outbox import Outbox
from ..transport.sender import Sender

IN_FLIGHT_BYTES = 2 << 20
"""Maximum bytes of values that are not acknowledged yet; the sender's memory holds twice that."""
WAIT_S = 0.01
FINISH_S = 30.0
MOST_ALERTS = 100


class NotDeliveredError(OSError):
    """The server rejected the records, or acknowledged nothing for too long."""


@dataclass(frozen=True)
class Destination:
    """Server to send runs to, and time limits."""

    url: str
    token: str
    spool_dir: Path | None = None
    exit_timeout_s: float = FINISH_S
    patience_s: float = 30.0
    """Maximum time without an acknowledgement."""


class LogRun:
    """Send one log as one run. Each run in the file is an attempt with a separate writer."""

    def __init__(
        self,
        run_info: Callable[[int], RunInfo],
        destination: Destination,
        first_event: dict[str, Any],
        *,
        wait: bool,
    ) -> None:
        self._run_info = run_info
        self._destination = destination
        self._first_event = first_event
        self._wait = wait
        self._attempt = 0
        self._rank: int | None = None
        self._outbox: Outbox | None = None
        self._sender: Sender | None = None
        self._closing: Sender | None = None
        self._put = 0
        self._names: dict[tuple[str, ...], tuple[str, ...]] = {}
        self.records = 0
        self.other_ranks = 0
        """Number of skipped records: those of ranks other than the first one in the file."""
        self.new = 0
        """Number of records that the server did not have before; known after ``close``."""
        self.undelivered = 0
        """Number of records that the server has not acknowledged; known after ``close``."""
        self.alerts: dict[str, Alert] = {}
        """What the server found, by id, as last sent; at most ``MOST_ALERTS``."""
        self.address = ""
        """URL of the server's pages; empty before the first record."""

    def take(self, items: Iterable[Item], now: Callable[[], int]) -> None:
        """Send records and events.

        Args:
            items: What was read from the log.
            now: Returns the time, Unix ns, for records whose lines have none.
        """
        for item in items:
            if isinstance(item, LogRecord):
                self._record(item, now)
            elif isinstance(item, Fact):
                self._open().put_event(item.kind, now(), None, item.data)

    def close(self, error: str = "") -> None:
        """Deliver everything and end the run.

        Args:
            error: Why the run failed; empty if it finished.

        Raises:
            NotDeliveredError: The server has not acknowledged everything.
        """
        self.begin_close(error)
        self.finish_close()

    def begin_close(self, error: str = "") -> None:
        """Begin to deliver the rest and the end of the run, without waiting."""
        self._closing, self._sender, self._outbox = self._sender, None, None
        if self._closing is not None:
            details = {"message": error} if error else {}
            self._closing.begin_close(state="failed" if error else "finished", error=details)

    def finish_close(self) -> None:
        """Wait for what ``begin_close`` has begun.

        Raises:
            NotDeliveredError: The server has not acknowledged everything.
        """
        sender = self._closing
        if sender is None:
            return
        sender.finish_close()
        self._closing = None  # only now: after Ctrl-C, what was delivered is counted by another call
        self.new += max(self._put - 1 - sender.stats.known_seq, 0)
        undelivered = max(self._put - 1 - sender.stats.acked_seq, 0)
        self.undelivered += undelivered
        if self._wait and undelivered:
            raise NotDeliveredError(sender.stats.last_error or "the server did not acknowledge in time")

    @property
    def is_closed(self) -> bool:
        """Whether ``finish_close`` does not wait."""
        return self._closing is None or self._closing.has_ended

    def _record(self, record: LogRecord, now: Callable[[], int]) -> None:
        self._rank = record.rank if self._rank is None else self._rank
        if record.rank != self._rank or record.copy:
            self.other_ranks += 1
            return
        if record.attempt != self._attempt:
            self.close()
            self._attempt = record.attempt
        values = record.values
        if not values:
            return
        names = tuple(values)
        names = self._names.setdefault(names, names) if len(self._names) < 4096 else names
        time_ns = now() if record.time_ns is None else record.time_ns
        outbox = self._open()
        outbox.put((record.step, time_ns, names, *values.values()), True)
        self.records += 1
        self._put += 1
        if self._sender is not None:
            self._sender.start()
            if self._wait:
                self._pace(self._sender, len(values))

    def _open(self) -> Outbox:
        if self._outbox is None:
            run_info = self._run_info(self._attempt)
            self._outbox, self._put = Outbox(), 0
            self._sender = Sender(
                self._outbox,
                lambda: hello(run_info),
                url=self._destination.url,
                spool_dir=self._destination.spool_dir,
                exit_timeout=self._destination.exit_timeout_s,
                on_message=self._receive,
            )
            self.address = self._sender.address
            self._outbox.put_event(self._first_event["kind"], time.time_ns(), None, self._first_event["data"])
        return self._outbox

    def _receive(self, message: object) -> None:
        """Keep an alert. Called by the sender's thread."""
        if isinstance(message, Alert) and (message.id in self.alerts or len(self.alerts) < MOST_ALERTS):
            self.alerts[message.id] = message

    def _pace(self, sender: Sender, width: int) -> None:
        """Wait while too much is unacknowledged, because a file is read faster than a server stores it."""
        limit = max(512, IN_FLIGHT_BYTES // (8 * (width + 2)))
        if self._put % 256 or self._put - 1 - sender.stats.acked_seq < limit:
            return
        acked, since = sender.stats.acked_seq, time.monotonic()
        while self._put - 1 - (newest := sender.stats.acked_seq) >= limit:
            if newest != acked:
                acked, since = newest, time.monotonic()
            elif time.monotonic() - since > self._destination.patience_s:
                raise NotDeliveredError(sender.stats.last_error or "the server does not respond")
            time.sleep(WAIT_S)
