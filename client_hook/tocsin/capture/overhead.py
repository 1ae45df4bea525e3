"""Measure the hook's own cost on the training thread, for one step in 64.

For that step, the callbacks are replaced by timed ones; other steps have no overhead. The patches themselves
(a flag and a ``try`` around torch's function, well below 1 us each) and calls of the script (``run.log``) are
not included. Only host time is measured: nothing waits for a device.

The computation of the gradient norm is timed separately. If it would cost more than SHARE of the training
time, it is done half as often, down to one in NORM_RAREST steps. These intervals are powers of two, so that
ranks with different intervals have steps in common. An interval that the script has set is not changed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from time import monotonic_ns, perf_counter_ns
from typing import Any

from . import loss, optimizer, scaler
from .ledger import Ledger

EVERY = 64
SHARE = 0.01
NORM_RAREST = 4096
NAMES = ("hook/cost_us", "hook/share_percent", "hook/queued", "hook/dropped")

CALLBACKS: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (loss, ("_before_one", "_before", "_after")),
    (Ledger, ("after_one",)),
    (optimizer, ("_enter", "_leave", "_zeroed")),
    (scaler, ("_remember", "_unscaled", "_open", "_close", "_before_update", "_updated")),
)
OWN = ((optimizer, ("own_norm",)), (scaler, ("own_norm",)))

_busy: list[OverheadMeter] = []
"""The meter whose timed callbacks are installed: at most one per process."""


class OverheadMeter:
    """Time one step in EVERY of a run, and add the results to the next record."""

    def __init__(self, ledger: Ledger, waiting: Callable[[], tuple[int, int]]) -> None:
        self._ledger = ledger
        self._waiting = waiting
        self._undo: list[tuple[Any, str, Any]] = []
        self._inside = 0
        self._began = 0
        self._paused = 0
        self._step_ns = 0
        self.spent_ns = self.own_ns = self._norm_ns = 0
        ledger.step_scheduler.schedule(EVERY, self._open)

    def _open(self) -> None:
        self._ledger.step_scheduler.schedule(self._number + 1, self._close)
        if _busy:
            return
        _busy.append(self)
        self.spent_ns = self.own_ns = self._inside = 0
        for owner, names in CALLBACKS:
            self._replace(owner, names, self._timed)
        for owner, names in OWN:
            self._replace(owner, names, self._timed_own)
        self._began, self._paused = monotonic_ns(), self._ledger.reporter.paused_ns

    def _close(self) -> None:
        """End the measurement at the end of the step. The current callback still adds its time."""
        measured = self in _busy
        self._step_ns = monotonic_ns() - self._began - (self._ledger.reporter.paused_ns - self._paused)
        self.stop()
        number = self._number
        if measured:
            self._ledger.step_scheduler.schedule(number + 1, self._report)
        ahead = self._ledger.step + 1 - number  # the steps of a resumed run do not begin at 0
        due = next_look(number + ahead, self._ledger.norm_every) - ahead
        self._ledger.step_scheduler.schedule(due, self._open)

    def stop(self) -> None:
        """Restore the callbacks. May be called again."""
        undo, self._undo = self._undo, []
        for owner, name, plain in undo:
            setattr(owner, name, plain)
        if self in _busy:
            _busy.remove(self)

    def _report(self) -> None:
        ledger = self._ledger
        if self.own_ns:
            self._norm_ns = self.own_ns
        every = ledger.norm_every
        if ledger.norm_adapts and self.own_ns:
            ledger.norm_every = every = rarer(every, self.own_ns, self._step_ns)
        own = self._norm_ns / every if every else 0.0
        cost = self.spent_ns - self.own_ns + own
        share = 100.0 * cost / self._step_ns if self._step_ns > 0 else 0.0
        if not ledger.quiet:
            queued, dropped = self._waiting()
            values = (cost * 1e-3, share, float(queued), float(dropped))
            ledger.reporter.add_to_next_record(dict(zip(NAMES, values, strict=True)))

    @property
    def _number(self) -> int:
        primary = self._ledger.primary
        return primary.number if primary is not None else 0

    def _replace(self, owner: Any, names: tuple[str, ...], make: Callable[[Any], Any]) -> None:
        for name in names:
            plain = getattr(owner, name)
            self._undo.append((owner, name, plain))
            setattr(owner, name, make(plain))

    def _timed(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            if self._inside:
                return plain(*args, **kwargs)
            self._inside = 1
            began = perf_counter_ns()
            try:
                return plain(*args, **kwargs)
            finally:
                self.spent_ns += perf_counter_ns() - began
                self._inside = 0

        return timed

    def _timed_own(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            began = perf_counter_ns()
            try:
                return plain(*args, **kwargs)
            finally:
                self.own_ns += perf_counter_ns() - began

        return timed


def rarer(every: int, own_ns: int, step_ns: int) -> int:
    """Return ``every``, doubled until a norm that takes ``own_ns`` costs at most SHARE.

    Args:
        every: Current number of steps between norms, a power of two.
        own_ns: Time to compute one norm, ns.
        step_ns: Time of one step, ns.
    """
    while step_ns > 0 and own_ns > SHARE * every * step_ns and every < NORM_RAREST:
        every *= 2
    return every


def next_look(step: int, norm_every: int) -> int:
    """Return the next step to measure, about EVERY later, with a norm of ours if there is one soon."""
    every = norm_every if 0 < norm_every <= EVERY else 1
    return (step + EVERY) // every * every


def _forget() -> None:
    """In a forked child: stop the measurement of the parent."""
    for meter in tuple(_busy):
        meter.stop()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
