"""Detect updates that overflow far more often than a healthy loss scaler allows.

A healthy scaler overflows at the rate r = ln(1 + ln(growth) / ln(1/backoff)) / growth_interval, 0.035 % of
the updates with torch's defaults. Five overflows within 50 updates, or five within 1000 at more than 10 r,
are a warning. More than 100 r over 1000 updates is critical. It recovers after 200 updates without an
overflow and resolves after 500.

Signals:
    `skipped` or `found_inf`, otherwise drops of `scale`
Warm-up:
    overflows of the first 30 updates, while the scaler calibrates, are not counted
Does not fire on:
    - growth of the scale and one skipped step after it
    - a growth interval of 100, whose healthy rate is 0.7 %: the limits scale with the rate
Likely causes:
    - activations or gradients that grow
    - a learning rate that is too high
    - bad batches
    - one operation at the limit of float16
First action:
    Find the operation that overflows and compute it in float32, or divide the learning rate by 2 to 5.
Source:
    Derived from the update rule of `torch.amp.GradScaler`. The factors 10 and 100 are tocsin's.
"""

from __future__ import annotations

import math
from bisect import bisect_left

import msgspec

from tocsin_server.detect import sdk


class Settings(sdk.RuleSettings):
    calm = "without overflow"
    recover_updates: int = 200
    resolve_updates: int = 500
    calibration_updates: int = sdk.setting(30, "updates", "Updates in which a scaler may still calibrate")
    burst_window: int = sdk.setting(50, "updates", "Updates in which the overflows of a burst are counted")
    burst_overflows: int = sdk.setting(5, "overflows", "Overflows in that window that are a burst")
    window: int = sdk.setting(1000, "updates", "Updates over which the rate of overflows is taken")
    min_overflows: int = sdk.setting(5, "overflows", "Overflows in that window before the rate counts")
    warning_ratio: float = sdk.setting(10.0, "x healthy rate", "Rate above which it is a warning")
    critical_ratio: float = sdk.setting(100.0, "x healthy rate", "Rate above which it is critical")


class State(sdk.RuleState):
    """``seen``: (step, ns, overflows) of the last ``window`` updates, in order, one entry per record."""

    seen: list[tuple[int, int, int]] = msgspec.field(default_factory=list)
    total: int = 0
    """Overflows in ``seen``; a running sum, because overflows may come at every record."""

    def __post_init__(self) -> None:
        self.total = sum(times for _, _, times in self.seen)  # missing in older snapshots


class OverflowBurst(sdk.Rule[Settings, State]):
    """Warning for a burst or 10 times the healthy rate, critical for 100 times."""

    title = "Gradients overflow in a burst"
    severity = sdk.CRITICAL
    needs = ("scale", "skipped", "found_inf")
    idles = True

    def observe(self, view: sdk.View) -> None:
        if not view.overflows and not self.episode.state:
            return
        if not view.overflows:
            for row in range(view.n):
                self.settle(view, row)
                if not self.episode.state:
                    return
            return
        events: dict[int, list[tuple[int, int]]] = {}
        for row, times, step in view.overflows:
            events.setdefault(row, []).append((times, step))
        for row in range(view.n):
            for times, step in events.get(row, ()):
                self._overflow(view, row, times, step)
            if row not in events and self.episode.state:
                self.settle(view, row)

    def _overflow(self, view: sdk.View, row: int, times: int, step: int) -> None:
        if step - view.first_step < self.settings.calibration_updates:
            return
        state, seen = self.state, self.state.seen
        seen.append((step, view.time_ns[row], times))
        state.total += times
        while seen and seen[0][0] <= view.step[row] - self.settings.window:
            state.total -= seen.pop(0)[2]
        scaler_settings = view.scaler_at(row)
        found = self._evaluate(view.step[row], scaler_settings.healthy_rate)
        if found is None:
            self.continues(view, row)
            return
        severity, first, total, span = found
        span = min(span, view.step[row] - view.first_step + 1)
        rate, healthy = total / span, max(1, math.ceil(scaler_settings.healthy_rate * span))
        evidence: list[sdk.Fact] = [
            ("overflows", float(total), f"in {span} updates", step),
            ("rate", rate, "per update", None),
            ("healthy", float(healthy), f"at most in {span} updates", None),
        ]
        summary = f"{sdk.count(total, 'overflow')} in {span} updates; a healthy run has at most {healthy}"
        self.fire(view, row, severity, first, summary, evidence, level=sdk.grade(total), size=total)

    def _evaluate(self, now: int, rate: float) -> tuple[int, tuple[int, int], int, int] | None:
        """Return severity, onset, overflows and updates of the checked stretch, or None if healthy."""
        limits, seen, total = self.settings, self.state.seen, self.state.total
        if total >= limits.min_overflows and total / limits.window > min(limits.critical_ratio * rate, 0.9):
            return sdk.CRITICAL, seen[0][:2], total, limits.window
        burst = seen[bisect_left(seen, (now - limits.burst_window + 1,)) :]
        in_burst = sum([times for _, _, times in burst])
        need = max(
            limits.burst_overflows, math.ceil(limits.burst_window * min(limits.warning_ratio * rate, 0.6))
        )
        if in_burst >= need:
            return sdk.WARNING, burst[0][:2], in_burst, limits.burst_window
        if total >= limits.min_overflows and total / limits.window > min(limits.warning_ratio * rate, 0.6):
            return sdk.WARNING, seen[0][:2], total, limits.window
        return None
