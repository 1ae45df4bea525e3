"""What belongs to a run: its clock, its queue and sender, its internal errors.

Everything here runs on the training thread and never raises into it. After ERROR_LIMIT internal errors the
hook disables itself and sends a ``hook-disabled`` event.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Mapping
from time import monotonic_ns
from typing import Any, Protocol

from ..core.redaction import Redactor
from ..system.checkpoints import CheckpointWatch

LOG = logging.getLogger("tocsin")
ERROR_LIMIT = 20
HELD = 64
"""Maximum number of alerts that wait for the training thread; the oldest are dropped."""

JOINED = 256
"""Maximum number of extended name tuples that are cached."""

Item = tuple[Any, ...]


class RecordSink(Protocol):
    """Queue of records and events: the outbox."""

    def put(self, item: Item, may_wait: bool = False) -> None: ...

    def put_event(
        self, kind: str, t_ns: int, step: int | None, data: dict[str, Any], may_wait: bool = False
    ) -> None: ...


class Transport(Protocol):
    """Delivery of the queue: the sender."""

    def start(self) -> None: ...

    def close(self, *, state: str = "finished", error: dict[str, Any] | None = None) -> None: ...

    def forget(self) -> None: ...


class FinalScale(str):
    """Marks a staged value as the last scale of a scaler, which is not a record."""

    __slots__ = ()


class RunReporter:
    """Queue records and events, and start the sender with the first record."""

    def __init__(self, outbox: RecordSink, sender: Transport) -> None:
        self.outbox = outbox
        self.sender = sender
        self.offset_ns = time.time_ns() - monotonic_ns()
        """Offset from the monotonic clock to Unix time, ns."""
        self.paused_ns = 0
        """Time spent in phases so far, ns. It is not part of ``step_time``."""
        self.phases: list[str] = []
        """Phases that the script is in, the innermost last; ``alive`` messages contain it."""
        self.names: dict[tuple[str, ...], tuple[str, ...]] = {}
        """Names as logged -> names as sent, interned. Replaced when other names are sent."""
        self.captured: set[str] = set()
        self.errors = 0
        self.off = self._started = False
        self.on_off: list[Callable[[], None]] = []
        self.on_end: list[Callable[[], None]] = []
        """Called at the end of the run, before waiting for the last values of a device."""
        self.on_close: list[Callable[[], None]] = []
        """Called at the end of the run, after the last record."""
        self.on_closed: list[Callable[[], None]] = []
        """Called at the end of the run, after delivery."""
        self.on_start: list[Callable[[], None]] = []
        """Called just before delivery starts."""
        self.on_names: Callable[[], None] = lambda: None
        """Called when a record may have new names."""
        self.redact = Redactor()
        """Replaces secrets in texts of the script: events, errors, names of batches."""
        self.checkpoints = CheckpointWatch(self)
        self.inbox: deque[Any] = deque(maxlen=HELD)
        self.handle: Callable[[Any], None] = lambda message: None
        self.between: Callable[[], bool] = lambda: True
        """Whether every record is between two steps, because the script only logs."""
        self.put: Callable[..., None] = self._first
        """Queue a record of plain floats. The second argument is whether the call may wait if the queue is
        full. If nothing else has to be done, this is the outbox's own ``put``."""
        self._observers: tuple[Callable[[Item], None], ...] = ()
        self._sample: tuple[dict[str, float], list[tuple[str, dict[str, Any]]]] | None = None
        """The newest system metrics, which no record includes yet."""
        self._later: deque[tuple[str, dict[str, Any], int | None]] = deque(maxlen=HELD)
        """Events of other threads, which are queued with the next record."""
        self._extra_values: dict[str, Any] = {}
        self._joined: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._rested_at, self._rested_ns = -1, 0
        """Records when a notebook had executed a cell, and when that was, ns; 0 while it executes one."""
        self._warned: set[str] = set()
        self._staging: Any = None
        self.media: Any = None
        """Queue of the objects other than numbers; None before the first."""
        self.samplers: list[Callable[[], None]] = []
        """Called by the sender's thread about once per second."""
        self.state = "running"
        """``running``, ``finished`` or ``failed``."""
        self.error: dict[str, Any] | None = None
        """Why the run failed; known once it ends."""
        self.console: Any = None
        """Records the output of this process; None if it is off."""
        self._scales: dict[str, tuple[int, float]] = {}

    @property
    def steps(self) -> int:
        """Number of steps that were queued."""
        return getattr(self.outbox, "steps", 0)

    @property
    def records(self) -> int:
        """Number of records that were queued."""
        return int(getattr(self.outbox, "records", 0))

    @property
    def is_resting(self) -> bool:
        """Whether a notebook has taken no step since it executed a cell."""
        return self._rested_at == self.records

    def rest(self) -> None:
        """Note that a notebook has executed a cell."""
        self._rested_at, self._rested_ns = self.records, monotonic_ns()

    def wake(self) -> None:
        """Note that a notebook executes the next cell."""
        if self._rested_ns:
            self.paused_ns += monotonic_ns() - self._rested_ns
            self._rested_ns = 0

    @property
    def has_started(self) -> bool:
        """Whether delivery has started."""
        return self._started

    def now_ns(self) -> int:
        """Return the Unix time, ns, on the clock of the records."""
        return monotonic_ns() + self.offset_ns

    def _choose(self) -> None:
        """Choose the fastest implementation of ``put``, which runs on the training thread at every step."""
        waiting = self.inbox or self._sample or self._extra_values or self._later
        simple = not (self._observers or self._staging or waiting)
        self.put = self.outbox.put if simple else self._carefully

    def _carefully(self, item: Item, may_wait: bool = False) -> None:
        item = self._join(item)
        if self._staging:
            self._staging.put(item)  # after the records that still wait for a device
        else:
            self._take(item, may_wait)
        if self.inbox and self.between():
            self.deliver_messages()
        if not self.off:
            self._choose()

    def deliver_messages(self) -> None:
        """Pass messages of the server to the script, at the end of a step."""
        while self.inbox and not self.off:
            self.handle(self.inbox.popleft())

    def _take(self, item: Item, may_wait: bool = False) -> None:
        self.outbox.put(item, may_wait)
        for observer in self._observers:
            observer(item)

    def add_observer(self, observer: Callable[[Item], None]) -> None:
        """Call ``observer`` with every record from now on, once its values are known."""
        if observer not in self._observers:
            self._observers += (observer,)
        if self._started and not self.off:
            self._choose()

    def remove_observer(self, observer: Callable[[Item], None] | None) -> None:
        """Stop calling ``observer``."""
        self._observers = tuple(one for one in self._observers if one != observer)

    def queue_message(self, message: Any) -> None:
        """Queue a message of the server for the end of a step. Called by the sender thread."""
        self.inbox.append(message)
        if self._started and not self.off:
            self.put = self._carefully

    def add_reading(self, values: dict[str, float], events: list[tuple[str, dict[str, Any]]]) -> None:
        """Add system metrics to the next record. Called by the sender thread.

        It does not create a record, because records without steps would look like progress to the rule that
        detects stalled runs.
        """
        self._sample = values, events
        if self._started and not self.off:
            self.put = self._carefully

    def add_event_later(self, kind: str, data: dict[str, Any], step: int | None = None) -> None:
        """Queue an event with the next record, or at the end of the run. Any thread may call it."""
        if not self.off:
            self._later.append((kind, data, step))
            if self._started:
                self.put = self._carefully

    def put_later_events(self) -> None:
        """Queue the events of other threads."""
        while self._later:
            self.put_event(*self._later.popleft())

    def add_to_next_record(self, values: Mapping[str, Any]) -> None:
        """Add numbers or device scalars to the next record, so that a step stays one record."""
        self._extra_values.update(values)
        if self._staging is None and any(_on_device(value) for value in values.values()):
            self._begin_staging()
        if self._started and not self.off:
            self.put = self._carefully

    def _join(self, item: Item) -> Item:
        """Return the record with the values that were waiting for it."""
        self.put_later_events()
        if self._sample is not None:
            (values, events), self._sample = self._sample, None
            self._extra_values.update(values)
            for kind, data in events:
                self.put_event(kind, data, item[0])
        extra_values, self._extra_values = self._extra_values, {}
        extra_values = {name: value for name, value in extra_values.items() if name not in item[2]}
        if not extra_values:
            return item
        self.reserve_names(tuple(extra_values))
        names = (*item[2], *extra_values)
        if len(self._joined) < JOINED:
            names = self._joined.setdefault(names, names)
        return (item[0], item[1], names, *item[3:], *extra_values.values())

    def record_console(self, rank: Callable[[], int]) -> None:
        """Record what this process writes to its terminal from now on; see ``media.console``."""
        from ..media.console import Console

        self.console = Console(self, rank=rank)
        self.samplers.append(self.console.sample)
        self.on_off.append(self.console.stop)
        self.on_end.append(self.console.finish)

    def show(self, name: str, value: Any, step: int) -> None:
        """Queue an image, histogram, text or table. It is encoded by the sender's thread."""
        if self.media is None:
            from ..media.queue import MediaQueue

            self.media = MediaQueue(self)
            self.samplers.append(self.media.sample)
            self.on_end.append(self.media.finish)
        self.media.put(name, value, step)
        self.start()

    def waiting(self) -> tuple[int, int]:
        """Return the number of waiting records, and of those that were dropped."""
        queued = getattr(self.outbox, "__len__", int)()
        dropped = getattr(self.outbox, "dropped", 0) + getattr(self._staging, "dropped", 0)
        return queued, dropped

    def stage(self, item: Item, note: str | None = None) -> None:
        """Queue a record whose values may still be on a device. ``note``: name of its scaler."""
        item = self._join(item)
        if self._staging is None:
            if not any(_on_device(value) for value in item):
                self.put(item)
                return
            self._begin_staging()
        self.start()
        self._staging.put(item, note)
        if self.inbox and self.between():
            self.deliver_messages()
        self._choose()

    def _begin_staging(self) -> None:
        from ..capture.staging import Staging

        self._staging = Staging(self._arrived)

    def last_scale(self, scaler: str, scale: Any) -> None:
        """Read the scale that a device has at the end of the run, after the last record."""
        known = self._scales.get(scaler)
        if known is not None and self._staging is not None and _on_device(scale):
            self._staging.put((known[0], self.now_ns(), ("scale",), scale), FinalScale(scaler))

    def _arrived(self, item: Item, note: Any) -> None:
        if not isinstance(note, FinalScale):
            self._take(item)
        if note is not None:
            self._compare_scale(item, str(note))

    def _compare_scale(self, item: Item, scaler: str) -> None:
        """Report a change of the scale when its value arrives; it happened after the previous record."""
        place = next((k for k, name in enumerate(item[2]) if name.partition("/")[0] == "scale"), None)
        if place is None:
            return
        scale = item[3 + place]
        last_step, last = self._scales.get(scaler, (item[0], scale))
        self._scales[scaler] = (item[0], scale)
        if scale != last:
            change = "growth" if scale > last else "backoff"
            data = {"scaler": scaler, "change": change, "from": last, "to": scale}
            self.put_event("scaler", data, last_step)

    def put_event(
        self, kind: str, data: dict[str, Any], step: int | None = None, may_wait: bool = False
    ) -> None:
        """Queue an event.

        Args:
            kind: Kind of the event (docs/internals/protocol.md).
            data: Plain data of the event.
            step: Step that it belongs to, or None.
            may_wait: Whether the call may wait if the queue is full.
        """
        if not self.off:
            self.outbox.put_event(kind, self.now_ns(), step, data, may_wait)

    def reserve_names(self, names: tuple[str, ...]) -> None:
        """Reserve names that capture reports. The script's own values with these names become
        ``logged/<name>``.
        """
        if not self.captured.issuperset(names):
            self.captured.update(names)
            self.names = {}
        self.on_names()

    def start(self) -> None:
        """Start delivery. The first record also starts it."""
        if not self._started and not self.off:
            self._started = True
            self._choose()
            self._call("start", *self.on_start)
            self.sender.start()

    def _first(self, item: Item, may_wait: bool = False) -> None:
        self.start()
        self.put(item, may_wait)

    def report_error(self, where: str, error: Exception) -> None:
        """Count an internal error. The first is logged; the ERROR_LIMIT-th disables the hook."""
        try:
            self.errors += 1
            if self.errors == 1:
                LOG.warning("tocsin: internal error in %s: %r. Training is not affected.", where, error)
            if self.errors == ERROR_LIMIT:
                LOG.warning(
                    "tocsin: recording stopped after %d internal errors. Training continues.", self.errors
                )
                self.switch_off(f"{where}: {error!r}")
        except Exception:
            self.off = True

    def switch_off(self, reason: str) -> None:
        """Stop capturing, and report why if possible."""
        self.detach()
        try:
            self.put_event("hook-disabled", {"reason": self.redact.text(reason[:500]), "errors": self.errors})
        finally:
            self.discard()

    def detach(self) -> None:
        """Restore torch's functions. May be called again."""
        undo, self.on_off = self.on_off, []
        for one in undo:
            one()

    def warn(self, text: str) -> None:
        """Log a warning, once for each text."""
        if text not in self._warned:
            self._warned.add(text)
            LOG.warning(text)

    def discard(self) -> None:
        """Discard everything from now on."""
        self.off = True
        if self.console is not None:
            self.console.stop()
        self._observers = ()
        self._staging = self._sample = None
        self._extra_values = {}
        self.put = _nothing

    def _drain(self) -> None:
        if self._staging is not None:
            self._staging.drain()

    def close(self, state: str, error: dict[str, Any] | None) -> None:
        """Deliver what still waits for a device, then everything else and the end of the run."""
        self.state, self.error = state, error
        self._call("end", *self.on_end, self._drain, *self.on_close, self.put_later_events)
        self.discard()
        self.sender.close(state=state, error=error)
        self._call("end", *self.on_closed)

    def _call(self, where: str, *calls: Callable[[], None]) -> None:
        for one in calls:
            try:
                one()
            except Exception as problem:
                self.report_error(where, problem)


def _on_device(value: Any) -> bool:
    return type(value) is not float and hasattr(value, "is_cuda")


def _nothing(item: Item, may_wait: bool = False) -> None:
    return None
