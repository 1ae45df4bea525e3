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

from tocsin_server.detect import sdk


class Settings(sdk.RuleSettings):
    calm = "with a finite norm"
    recover_updates: int = 10
    resolve_updates: int = 100
    recover_records: int = 5
    persistent_records: int = sdk.setting(
        5, "records", "Records in a row with a non-finite norm that no scaler explains"
    )
    calibration_updates: int = sdk.setting(30, "updates", "Updates in which a scaler may still calibrate")
    lowest_scale: float = sdk.setting(
        1.0, "loss scale", "Scale up to which a non-finite norm is not caused by scaling"
    )


class State(sdk.RuleState):
    """``streak``: consecutive non-finite norms; ``since``: step and time of its first."""

    streak: int = 0
    since: tuple[int, int] = (0, 0)


class NonfiniteGradNorm(sdk.Rule[Settings, State]):
    """Critical if persistent, at a scale of 1 or less, or if an update was made with it."""

    title = "Gradient norm is NaN or infinite"
    severity = sdk.CRITICAL
    needs = ("grad_norm",)
    idles = True

    def asleep(self) -> bool:
        return not self.state.streak and not self.episode.state

    def observe(self, view: sdk.View) -> None:
        norms = view.grad_norm
        if norms is None or (not self.state.streak and not self.episode.state and sdk.all_finite(norms)):
            return
        if self.episode.state and self._continues(view, norms):
            return
        for row, value in enumerate(norms):
            if value is None:
                continue
            if math.isfinite(value):
                self.state.streak = 0
                self.settle(view, row)
            else:
                self._nonfinite(view, row)

    def _continues(self, view: sdk.View, norms: sdk.Values) -> bool:
        """Handle a long episode quickly: every norm is non-finite, and none is worth another report."""
        state, limits, streak = self.state, self.settings, self.state.streak + view.n
        if state.streak < limits.persistent_records or view.age(0) < limits.calibration_updates:
            return False
        if not (sdk.none_finite(norms) and self.already_reported(view, -1, sdk.CRITICAL, sdk.grade(streak))):
            return False
        state.streak = streak
        self._fire(view, view.n - 1, sdk.CRITICAL, self.episode.kind)
        return True

    def _nonfinite(self, view: sdk.View, row: int) -> None:
        state = self.state
        if not state.streak:
            state.since = view.place(row)
        state.streak += 1
        found = self._evaluate(view, row)
        if found is not None:
            self._fire(view, row, *found)

    def _fire(self, view: sdk.View, row: int, severity: int, kind: str) -> None:
        step, value = view.step[row], view.value("grad_norm", row) or math.nan
        streak, since, level = self.state.streak, self.state.since, sdk.grade(self.state.streak)
        onset = self.episode.onset_step if self.episode.state else since[0]

        def text() -> tuple[str, list[sdk.Fact]]:
            times = ("the last " if onset != since[0] else "") + sdk.count(streak, "record")
            summary = f"Gradient norm has been non-finite since step {onset}, {times} in a row"
            if streak == 1:
                summary = f"Gradient norm is {sdk.number(value)} at step {step}"
            return summary, [
                ("grad norm", value, "", step),
                ("in a row", float(streak), "records", None),
            ]

        if self.already_reported(view, row, severity, level):
            self.grow(streak, text)
            return
        self.fire(view, row, severity, since, *text(), level=level, kind=kind, size=streak)

    def _evaluate(self, view: sdk.View, row: int) -> tuple[int, str] | None:
        """Return severity and kind, or None if the scaler explains it."""
        limits, streak = self.settings, self.state.streak
        scale = view.value("scale", row)
        if not view.has_scaler(row):
            spared = view.stepped is not None and view.stepped[row] == 0.0
            kind = "spared" if spared else "no-scaler"
            return (sdk.WARNING if spared and streak < limits.persistent_records else sdk.CRITICAL), kind
        if scale is not None and scale <= limits.lowest_scale:
            return sdk.CRITICAL, "every-scale"
        if view.age(row) < limits.calibration_updates or streak < limits.persistent_records:
            return None
        return sdk.CRITICAL, "persistent"
