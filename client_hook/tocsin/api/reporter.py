"""The Watch: what a run owns. Its clock, its way out (outbox and sender), its troubles.

Everything here runs on the training thread and never raises into it. After ERROR_LIMIT
internal errors the hook switches itself off and says so by a ``hook-disabled`` event.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Mapping
from time import monotonic_ns
from typing import Any, Protocol

from ..core.redaction import Redactor

LOG = logging.getLogger("tocsin")
ERROR_LIMIT = 20
HELD = 64
"""Alerts that wait for the training thread; the oldest give way."""

JOINED = 256
"""Different sets of names with readings behind them that are remembered."""

Item = tuple[Any, ...]


class Out(Protocol):
    """Where records and events wait for delivery: the outbox."""

    def put(self, item: Item, may_wait: bool = False) -> None: ...

    def put_event(
        self, kind: str, t_ns: int, step: int | None, data: dict[str, Any], may_wait: bool = False
    ) -> None: ...


class Way(Protocol):
    """What delivers them: the sender."""

    def start(self) -> None: ...

    def close(self, *, state: str = "finished", error: dict[str, Any] | None = None) -> None: ...

    def forget(self) -> None: ...


class Last(str):
    """Note of what is no record: the name of a scaler, with its scale at the end."""

    __slots__ = ()


class Watch:
    """Takes items of records and events; starts the sender with the first of them."""

    def __init__(self, outbox: Out, sender: Way) -> None:
        self.outbox = outbox
        self.sender = sender
        self.offset_ns = time.time_ns() - monotonic_ns()
        """Added to the monotonic clock gives the time of a record, Unix ns."""
        self.paused_ns = 0
        """Time spent in phases so far: it is left out of ``step_time``."""
        self.phases: list[str] = []
        """Phases the script is in, the innermost last: ``alive`` tells it."""
        self.names: dict[tuple[str, ...], tuple[str, ...]] = {}
        """Names as logged -> names as sent, interned."""
        self.captured: set[str] = set()
        self.errors = 0
        self.off = self._started = False
        self.on_off: list[Callable[[], None]] = []
        self.on_end: list[Callable[[], None]] = []
        """Called at the end of the run, before the last values of a device are waited for."""
        self.on_close: list[Callable[[], None]] = []
        """Called at the end of the run, behind the last record."""
        self.on_start: Callable[[], None] = lambda: None
        """Called once, just before delivery starts."""
        self.on_names: Callable[[], None] = lambda: None
        """Called where a record's names may not have been there before."""
        self.redact = Redactor()
        """Replace secrets in the texts of the script: events, errors, names of batches."""
        self.inbox: deque[Any] = deque(maxlen=HELD)
        self.handle: Callable[[Any], None] = lambda message: None
        self.between: Callable[[], bool] = lambda: True
        """Whether any record lies between two steps: no loop was seen, the script logs only."""
        self.put: Callable[..., None] = self._first
        """Takes a record of plain floats, and whether it is a call of the script, which may wait where the
        queue is full: the outbox's own ``put`` where nothing else is to be done."""
        self._suspects: tuple[Callable[[Item], None], ...] = ()
        self._sample: tuple[dict[str, float], list[tuple[str, dict[str, Any]]]] | None = None
        """The newest reading of the machine; one that was not taken gives way to it."""
        self._riding: dict[str, Any] = {}
        self._joined: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._said: set[str] = set()
        self._staging: Any = None
        self._scales: dict[str, tuple[int, float]] = {}

    @property
    def steps(self) -> int:
        """Steps that were taken for delivery."""
        return getattr(self.outbox, "steps", 0)

    @property
    def has_started(self) -> bool:
        """Whether delivery has started."""
        return self._started

    def now_ns(self) -> int:
        """Unix time in ns on the clock of the records."""
        return monotonic_ns() + self.offset_ns

    def _choose(self) -> None:
        """Puts the shortest way in ``put``: this is on the training thread at every step."""
        simple = not (self._suspects or self.inbox or self._staging or self._sample or self._riding)
        self.put = self.outbox.put if simple else self._carefully

    def _carefully(self, item: Item, may_wait: bool = False) -> None:
        item = self._join(item)
        if self._staging:
            self._staging.put(item)  # behind the records that still wait for a device
        else:
            self._take(item, may_wait)
        if self.inbox and self.between():
            self.hear()
        if not self.off:
            self._choose()

    def hear(self) -> None:
        """Hands the script what the server said: at the end of a step, never in the midst of one."""
        while self.inbox and not self.off:
            self.handle(self.inbox.popleft())

    def _take(self, item: Item, may_wait: bool = False) -> None:
        self.outbox.put(item, may_wait)
        for suspect in self._suspects:
            suspect(item)

    def look_at(self, suspect: Callable[[Item], None]) -> None:
        """``suspect`` sees every record from now on, when its values are known."""
        if suspect not in self._suspects:
            self._suspects += (suspect,)
        if self._started and not self.off:
            self._choose()

    def look_away(self, suspect: Callable[[Item], None] | None) -> None:
        """``suspect`` has seen enough."""
        self._suspects = tuple(one for one in self._suspects if one != suspect)

    def tell(self, message: Any) -> None:
        """An alert for the script: handled at the end of a step. Called by the sender's thread."""
        self.inbox.append(message)
        if self._started and not self.off:
            self.put = self._carefully

    def sampled(self, values: dict[str, float], events: list[tuple[str, dict[str, Any]]]) -> None:
        """A reading of the machine, by the sender's thread: it joins the run at its next record.

        Not before: records that come while no step is made would look like steps to the rule that
        rings when they stop.
        """
        self._sample = values, events
        if self._started and not self.off:
            self.put = self._carefully

    def ride(self, values: Mapping[str, Any]) -> None:
        """Readings, numbers or scalars on a device, go with the next record: none makes a record of its own,
        so that a step stays one."""
        self._riding.update(values)
        if self._staging is None and any(_on_device(value) for value in values.values()):
            self._begin_staging()
        if self._started and not self.off:
            self.put = self._carefully

    def _join(self, item: Item) -> Item:
        """The record with the readings that waited for it behind its own values."""
        if self._sample is not None:
            (values, events), self._sample = self._sample, None
            self._riding.update(values)
            for kind, data in events:
                self.put_event(kind, data, item[0])
        riding, self._riding = self._riding, {}
        riding = {name: value for name, value in riding.items() if name not in item[2]}
        if not riding:
            return item
        self.taken(tuple(riding))
        names = (*item[2], *riding)
        if len(self._joined) < JOINED:
            names = self._joined.setdefault(names, names)
        return (item[0], item[1], names, *item[3:], *riding.values())

    def waiting(self) -> tuple[int, int]:
        """Records that wait in the queue, and those that were dropped: by it, or by a full ring."""
        queued = getattr(self.outbox, "__len__", int)()
        dropped = getattr(self.outbox, "dropped", 0) + getattr(self._staging, "dropped", 0)
        return queued, dropped

    def stage(self, item: Item, note: str | None = None) -> None:
        """One record some of whose values may still lie on a device. ``note``: name of its scaler."""
        item = self._join(item)
        if self._staging is None:
            if not any(_on_device(value) for value in item):
                self.put(item)
                return
            self._begin_staging()
        self.start()
        self._staging.put(item, note)
        if self.inbox and self.between():
            self.hear()
        self._choose()

    def _begin_staging(self) -> None:
        from ..capture.staging import Staging

        self._staging = Staging(self._arrived)

    def last_scale(self, scaler: str, scale: Any) -> None:
        """The scale that a device holds when the run ends: no record comes any more that would tell it."""
        known = self._scales.get(scaler)
        if known is not None and self._staging is not None and _on_device(scale):
            self._staging.put((known[0], self.now_ns(), ("scale",), scale), Last(scaler))

    def _arrived(self, item: Item, note: Any) -> None:
        if not isinstance(note, Last):
            self._take(item)
        if note is not None:
            self._compare_scale(item, str(note))

    def _compare_scale(self, item: Item, scaler: str) -> None:
        """A scale on a device is compared when it arrives: the change came after the record before."""
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
        """One event, now."""
        if not self.off:
            self.outbox.put_event(kind, self.now_ns(), step, data, may_wait)

    def taken(self, names: tuple[str, ...]) -> None:
        """Names that capture reports: a script's own values of that name go as ``logged/<name>``."""
        if not self.captured.issuperset(names):
            self.captured.update(names)
            self.names.clear()
        self.on_names()

    def start(self) -> None:
        """Starts delivery; the first record does it too."""
        if not self._started and not self.off:
            self._started = True
            self._choose()
            try:
                self.on_start()
            except Exception as error:
                self.trouble("start", error)
            self.sender.start()

    def _first(self, item: Item, may_wait: bool = False) -> None:
        self.start()
        self.put(item, may_wait)

    def trouble(self, where: str, error: Exception) -> None:
        """Counts an internal error; the first is logged, the ERROR_LIMIT-th switches the hook off."""
        try:
            self.errors += 1
            if self.errors == 1:
                LOG.warning("tocsin: internal error %s: %r (training is not affected)", where, error)
            if self.errors == ERROR_LIMIT:
                LOG.warning("tocsin: switched off after %d internal errors", self.errors)
                self.switch_off(f"{where}: {error!r}")
        except Exception:
            self.off = True

    def switch_off(self, reason: str) -> None:
        """Captures nothing more and says so, if that is still possible."""
        self.detach()
        try:
            self.put_event("hook-disabled", {"reason": self.redact.text(reason[:500]), "errors": self.errors})
        finally:
            self.silence()

    def detach(self) -> None:
        """Leaves torch as it was before; twice is once."""
        undo, self.on_off = self.on_off, []
        for one in undo:
            one()

    def say(self, text: str) -> None:
        """A warning to the person at the script, once for each text."""
        if text not in self._said:
            self._said.add(text)
            LOG.warning(text)

    def silence(self) -> None:
        """Takes nothing from now on."""
        self.off = True
        self._suspects = ()
        self._staging = self._sample = None
        self._riding = {}
        self.put = _nothing

    def _drain(self) -> None:
        if self._staging is not None:
            self._staging.drain()

    def close(self, state: str, error: dict[str, Any] | None) -> None:
        """Brings what waits for a device, then the rest and the finish on their way."""
        for one in (*self.on_end, self._drain, *self.on_close):
            try:
                one()
            except Exception as problem:
                self.trouble("end", problem)
        self.silence()
        self.sender.close(state=state, error=error)


def _on_device(value: Any) -> bool:
    return type(value) is not float and hasattr(value, "is_cuda")


def _nothing(item: Item, may_wait: bool = False) -> None:
    return None
