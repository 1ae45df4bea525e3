"""Changes of a stream's loss scale: backoffs, growths, overflows. Computed once and shared by rules.

A record's ``scale`` is the one its step was taken with, so a backoff is visible in the record after the
overflow. If the overflow itself is reported (``skipped`` or ``found_inf``), the report is used instead. For
records more than one update apart, the number of backoffs is derived from their scales.
"""

from __future__ import annotations

import math
from functools import lru_cache

import msgspec

from tocsin_server.detect.interface.context import ScalerSettings
from tocsin_server.detect.interface.view import DEFAULT_SCALER, Values, View

MOST = 1_000_000.0
"""Overflows that one record can report."""


class ScalerTrack(msgspec.Struct):
    """The loss scale of one stream up to the last record."""

    last: float | None = None
    last_step: int = 0
    last_flag: int = 0
    active: bool = False
    """A scale other than 1.0 was seen, so there is an active scaler."""
    calm_from: int | None = None
    """Step of the last change of scale, the start of the current clean span."""
    interval: int = 0
    """Shortest clean span before an observed growth, in updates; 0: none yet."""

    def evidence(self, reported: ScalerSettings | None) -> ScalerSettings:
        """Return the reported settings, or else the defaults with the observed growth interval."""
        if reported is not None:
            return reported
        return _observed(self.interval) if self.interval else DEFAULT_SCALER

    def follow(self, view: View, reported: ScalerSettings | None) -> None:
        """Process the records of ``view``, and set its ``moves``, ``overflows`` and ``scaled``."""
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
        """Handle the common case quickly: the same scale in every record and no skipped step."""
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
        """Count the overflows that caused a backoff, or learn the growth interval from a growth."""
        step, before = view.step[row], self.last or 0.0
        if scale > before:
            span = step - self.calm_from if self.calm_from is not None else 0
            if span > 0 and (not self.interval or span < self.interval):
                self.interval = span
        else:
            distance = step - self.last_step
            known = self.last_flag if flagged else 0
            count = backoffs(before, scale, scaler_settings.backoff_factor) - known
            if count > 0 and not (flagged and distance <= 1):
                overflows.append((row, count, self.last_step if distance <= 1 else self.last_step + 1))
        self.calm_from = step


@lru_cache(maxsize=64)
def _observed(interval: int) -> ScalerSettings:
    """Return the defaults with this growth interval; cached, because it rarely changes within a run."""
    return ScalerSettings(growth_interval=interval)


def backoffs(before: float, after: float, factor: float) -> int:
    """Return the number of backoffs by ``factor`` that lead from ``before`` to ``after``; at least 1."""
    if after <= 0 or not math.isfinite(before):
        return 1
    return max(1, round((math.log(before) - math.log(after)) / math.log(1.0 / factor)))


def _count(flag: float | None) -> int:
    """Return the number of overflows in a flag, at most ``MOST``; invalid values count as 0."""
    return int(min(flag, MOST)) if flag is not None and 0 < flag < math.inf else 0


def _flags(view: View) -> Values | None:
    return view.skipped if view.skipped is not None else view.column("found_inf")
