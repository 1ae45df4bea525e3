"""What a stream's loss scale did: backoffs, growths, overflows. Worked out once, read by several rules.

A record's ``scale`` is the one its step was taken with, so a backoff is visible in the record after
the overflow. Where the overflow itself is known (``skipped`` or ``found_inf``) that is what counts;
records further apart than one update count the backoffs that their scales tell of.
"""

from __future__ import annotations

import math
from functools import lru_cache

import msgspec

from tocsin_server.detect.interface.context import ScalerSettings
from tocsin_server.detect.interface.view import DEFAULT_SCALER, Values, View


class ScalerTrack(msgspec.Struct):
    """The loss scale of one stream up to the last record."""

    last: float | None = None
    last_step: int = 0
    last_flag: int = 0
    active: bool = False
    """A scale other than 1.0 was seen: there is a scaler."""
    quiet_from: int | None = None
    """Step of the last change of scale, the start of the present clean span."""
    interval: int = 0
    """Smallest clean span before a growth that was observed, in updates; 0: none yet."""

    def evidence(self, reported: ScalerSettings | None) -> ScalerSettings:
        """Settings as told, else the defaults with the growth interval as observed."""
        if reported is not None:
            return reported
        return _observed(self.interval) if self.interval else DEFAULT_SCALER

    def follow(self, view: View, reported: ScalerSettings | None) -> None:
        """Takes the records of ``view``, and writes ``moves``, ``overflows`` and ``scaled`` into it."""
        view.scaled = 0 if self.active else view.n
        view.scaler = scaler_settings = self.evidence(reported)
        if view.scale is None:
            self._flags_only(view)
            return
        if self._nothing_new(view):
            view.steady = self.last != 0.0
            return
        flags = _flags(view)
        moves: list[tuple[int, float, float]] = []
        overflows: list[tuple[int, int, int]] = []
        for row, scale in enumerate(view.scale):
            flagged = flags is not None and flags[row] is not None
            if scale is not None and math.isfinite(scale):
                if not self.active and scale != 1.0:
                    self.active, view.scaled = True, row
                if self.last is not None and scale != self.last:
                    moves.append((row, self.last, scale))
                    interval = self.interval
                    self._moved(view, row, scale, scaler_settings, overflows, flagged)
                    if self.interval != interval and reported is None:
                        view.relearned = [*view.relearned, (row, self.evidence(None))]
                self.last, self.last_step = scale, view.step[row]
            flag = _count(flags[row]) if flags is not None else 0
            if flag > 0:
                overflows.append((row, flag, view.step[row]))
            self.last_flag = flag
        view.moves, view.overflows = moves, overflows

    def _nothing_new(self, view: View) -> bool:
        """The common case, told apart quickly: the same scale in every record and nothing skipped."""
        scale = view.scale
        if scale is None or self.last is None or scale.count(self.last) != view.n:
            return False
        flags = _flags(view)
        if flags is not None and any(flags):
            return False
        self.last_step, self.last_flag = view.step[-1], 0
        return True

    def _flags_only(self, view: View) -> None:
        flags = _flags(view)
        self.last_flag = _count(flags[-1]) if flags is not None else 0
        view.steady = not self.active and (flags is None or not any(flags))
        if flags is not None and any(flags):
            view.overflows = [
                (row, _count(flag), view.step[row]) for row, flag in enumerate(flags) if _count(flag)
            ]

    def _moved(
        self,
        view: View,
        row: int,
        scale: float,
        scaler_settings: ScalerSettings,
        overflows: list[tuple[int, int, int]],
        flagged: bool,
    ) -> None:
        """Counts the overflows behind a fall, and learns the growth interval from a growth."""
        step, before = view.step[row], self.last or 0.0
        if scale > before:
            span = step - self.quiet_from if self.quiet_from is not None else 0
            if span > 0 and (not self.interval or span < self.interval):
                self.interval = span
        else:
            distance = step - self.last_step
            known = self.last_flag if flagged else 0
            count = backoffs(before, scale, scaler_settings.backoff_factor) - known
            if count > 0 and not (flagged and distance <= 1):
                overflows.append((row, count, self.last_step if distance <= 1 else self.last_step + 1))
        self.quiet_from = step


@lru_cache(maxsize=64)
def _observed(interval: int) -> ScalerSettings:
    """The defaults with this growth interval; the same at every batch of a run, so it is made once."""
    return ScalerSettings(growth_interval=interval)


def backoffs(before: float, after: float, factor: float) -> int:
    """How many backoffs by ``factor`` lead from ``before`` to ``after``; at least one."""
    if after <= 0:
        return 1
    return max(1, round(math.log(before / after) / math.log(1.0 / factor)))


def _count(flag: float | None) -> int:
    """Overflows that a flag tells of; a value that cannot be a count tells of none."""
    return int(flag) if flag is not None and 0 < flag < math.inf else 0


def _flags(view: View) -> Values | None:
    return view.skipped if view.skipped is not None else view.column("found_inf")
