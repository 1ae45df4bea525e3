"""Detect a gradient norm that stays NaN or infinite.

Critical after 5 non-finite norms in a row, at once if the loss scale is 1 or lower, and at once without a
loss scaler (a warning if the script abandoned the step). It recovers after 10 updates with a finite norm
and resolves after 100.

Signals:
    `grad_norm`, `scale`, `stepped`
Warm-up:
    the first 30 updates under a loss scaler, unless the scale is 1 or lower
Does not fire on:
    - an infinite norm on a skipped step, which is how a scaler reports an overflow: 4 of 21 healthy real
      logs contain some
    - a norm averaged over an epoch, which stays infinite after one overflow: log the norm itself
Likely causes:
    - a learning rate that is too high
    - float16 overflow in the backward pass
    - if the norm is non-finite at every loss scale, the forward pass itself
    - NaN weights
First action:
    Compute the operation that overflows in float32, or lower the learning rate, and resume from before the
    onset.
Source:
    Measured on real logs; Swin-Transformer issues 50 and 82 (healthy runs with infinite averages).
"""

from __future__ import annotations

import math

from tocsin_server.detect.sdk import (
    CRITICAL,
    WARNING,
    Fact,
    Rule,
    RuleSettings,
    RuleState,
    Values,
    View,
    all_finite,
    count,
    grade,
    none_finite,
    number,
    setting,
)


class Settings(RuleSettings):
    """Thresholds of the rule; see Source in the module docstring."""

    recover_updates: int = setting(10, "updates", "Updates with a finite norm before the alert is recovering")
    resolve_updates: int = setting(100, "updates", "Updates with a finite norm before the alert is resolved")
    recover_records: int = setting(5, "records", "Records with a finite norm that are also needed")
    persistent_records: int = setting(
        5, "records", "Records in a row with a non-finite norm that no scaler explains"
    )
    calibration_updates: int = setting(30, "updates", "Updates in which a scaler may still calibrate")
    lowest_scale: float = setting(
        1.0, "loss scale", "Scale up to which a non-finite norm is not caused by scaling"
    )


class State(RuleState):
    """``streak``: consecutive non-finite norms; ``since``: step and time of its first."""

    streak: int = 0
    since: tuple[int, int] = (0, 0)


class NonfiniteGradNorm(Rule[Settings, State]):
    """Critical if persistent, at a scale of 1 or less, or if an update was made with it."""

    title = "Gradient norm is NaN or infinite"
    severity = CRITICAL
    needs = ("grad_norm",)
    idles = True

    def asleep(self) -> bool:
        return not self.state.streak and not self.episode.state

    def observe(self, view: View) -> None:
        norms = view.grad_norm
        if norms is None or (not self.state.streak and not self.episode.state and all_finite(norms)):
            return
        if self.episode.state and self._continues(view, norms):
            return
        for row, value in enumerate(norms):
            if value is None:
                continue
            if math.isfinite(value):
                self.state.streak = 0
                if self.episode.state:
                    self.settle(view, row)
            else:
                self._nonfinite(view, row, value)

    def _continues(self, view: View, norms: Values) -> bool:
        """Handle a long episode quickly: every norm is non-finite, and none is worth another report."""
        state, limits, streak = self.state, self.settings, self.state.streak + view.n
        if state.streak < limits.persistent_records or view.age(0) < limits.calibration_updates:
            return False
        if not (none_finite(norms) and self.already_reported(view, -1, CRITICAL, grade(streak))):
            return False
        state.streak = streak
        return True

    def _nonfinite(self, view: View, row: int, value: float) -> None:
        state = self.state
        if not state.streak:
            state.since = (view.step[row], view.time_ns[row])
        state.streak += 1
        found = self._evaluate(view, row)
        if found is None:
            return
        severity, kind = found
        level = grade(state.streak)
        if self.already_reported(view, row, severity, level):
            return
        summary = f"Gradient norm is {number(value)} at step {view.step[row]}"
        if state.streak > 1:
            times = count(state.streak, "record")
            since = self.episode.onset_step if self.episode.state else state.since[0]
            last = "the last " if since != state.since[0] else ""
            summary = f"Gradient norm has been non-finite since step {since}, {last}{times} in a row"
        evidence: list[Fact] = [
            ("grad norm", value, "", view.step[row]),
            ("in a row", float(state.streak), "records", None),
        ]
        self.fire(view, row, severity, state.since, summary, evidence, level=level, kind=kind)

    def _evaluate(self, view: View, row: int) -> tuple[int, str] | None:
        """Return severity and kind, or None if the scaler explains it."""
        limits, streak = self.settings, self.state.streak
        scale = view.scale[row] if view.scale is not None else None
        if not view.has_scaler(row):
            spared = view.stepped is not None and view.stepped[row] == 0.0
            kind = "spared" if spared else "no-scaler"
            return (WARNING if spared and streak < limits.persistent_records else CRITICAL), kind
        if scale is not None and scale <= limits.lowest_scale:
            return CRITICAL, "every-scale"
        if view.age(row) < limits.calibration_updates or streak < limits.persistent_records:
            return None
        return CRITICAL, "persistent"
