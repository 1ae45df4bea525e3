"""Detect gradients that overflow while the loss scale does not react.

Critical after three overflows in a row, each of which left the scale of the next record unchanged. An
overflow is a non-finite norm, a skipped step, or a step abandoned with a non-finite loss. It recovers after
10 updates with finite gradients and resolves after 100.

Signals:
    `grad_norm`, `skipped`, `stepped`, `loss`, `scale`
Warm-up:
    none
Does not fire on:
    - runs without a loss scaler
    - a scale that has just backed off, which is at its floor
    - records more than half a growth interval apart
    - steps abandoned for a large but finite norm
Likely causes:
    - a `continue` before `scaler.update()`
    - `optimizer.step()` called directly instead of `scaler.step(optimizer)`
    - a static loss scale
First action:
    Let `scaler.step(optimizer)` decide about skipping, and call `scaler.update()` in every iteration.
Source:
    The update rule of `torch.amp.GradScaler`, reproduced with real torch.
"""

from __future__ import annotations

import math

from tocsin_server.detect import sdk


class Settings(sdk.RuleSettings):
    calm = "with finite gradients"
    recover_updates: int = 10
    resolve_updates: int = 100
    overflow_records: int = sdk.setting(
        3, "records", "Records in a row that overflow while the scale does not change"
    )
    max_spacing: float = sdk.setting(0.5, "growth intervals", "Largest distance of records that are compared")


class State(sdk.RuleState):
    """``streak``: consecutive overflows after each of which the next record had the same scale."""

    streak: int = 0
    since: tuple[int, int] = (0, 0)
    abandoned: int = 0
    scale: float | None = None
    step: int = 0
    overflowed: bool = False
    """The previous record had non-finite gradients or was abandoned with a non-finite loss."""
    at: tuple[int, int] = (0, 0)
    moved: bool = False
    """The scale backed off within the current run of overflows."""


class ScalerNotUpdating(sdk.Rule[Settings, State]):
    """Critical after three consecutive overflows that left the scale unchanged."""

    title = "Loss scale ignores overflows"
    severity = sdk.CRITICAL
    needs = ("scale",)
    idles = True

    def asleep(self) -> bool:
        state = self.state
        return not (state.overflowed or state.streak or state.moved or self.episode.state)

    def observe(self, view: sdk.View) -> None:
        if view.scale is None or not view.has_scaler(view.n - 1):
            return
        if self._nothing_new(view) or (self.episode.state and self._continues(view, view.grad_norm)):
            return
        for row, value in enumerate(view.scale):
            if value is not None and math.isfinite(value) and view.has_scaler(row):
                self._one(view, row, value)

    def _nothing_new(self, view: sdk.View) -> bool:
        """Handle the common case quickly: one scale, all gradients finite, no skipped step."""
        if self.episode.state or self.state.overflowed or view.overflows or view.moves:
            return False
        if view.grad_norm is not None and not sdk.all_finite(view.grad_norm):
            return False
        if view.stepped is not None and 0.0 in view.stepped:
            return False
        state, last = self.state, (view.scale or [None])[-1]
        if last is None or not math.isfinite(last):
            return False
        state.scale, state.step = last, view.step[-1]
        state.streak, state.abandoned, state.moved = 0, 0, False
        return True

    def _continues(self, view: sdk.View, norms: sdk.Values | None) -> bool:
        """Handle a long episode quickly: one scale, and no norm is finite."""
        state, streak = self.state, self.state.streak + view.n
        if not state.overflowed or state.moved or not state.streak or view.scaled or not state.scale:
            return False
        apart = self.settings.max_spacing * view.scaler.growth_interval
        if view.moves or view.relearned or view.step[-1] - state.step > apart:
            return False
        if norms is None or (view.scale or []).count(state.scale) < view.n or not sdk.none_finite(norms):
            return False
        fires = (
            streak >= self.settings.overflow_records
        )  # fewer overflows are neither calm nor worth a report
        if fires and not self.already_reported(view, -1, sdk.CRITICAL, sdk.grade(streak)):
            return False
        stepped = view.stepped or []
        state.streak, state.step = streak, view.step[-1]
        state.at = (view.step[-1], view.time_ns[-1])
        state.abandoned += stepped[:-1].count(0.0)
        if fires:
            self._fire(view, view.n - 1, state.scale)
        state.abandoned += stepped[-1:].count(0.0)
        return True

    def _one(self, view: sdk.View, row: int, value: float) -> None:
        state = self.state
        if state.overflowed and state.scale is not None:
            self._after(view, row, value)
        state.overflowed = _overflowed(view, row)
        if state.overflowed:
            state.at = view.place(row)
            state.abandoned += view.stepped is not None and view.stepped[row] == 0.0
        else:
            state.streak, state.abandoned, state.moved = 0, 0, False
            self.settle(view, row)
        state.scale, state.step = value, view.step[row]

    def _after(self, view: sdk.View, row: int, value: float) -> None:
        """Check whether the scale changed in the record after an overflow."""
        state, limits = self.state, self.settings
        apart = view.step[row] - state.step
        if value != state.scale or value == 0.0:
            state.streak, state.moved = 0, True
            return
        if state.moved or apart > limits.max_spacing * view.scaler_at(row).growth_interval:
            return
        if not state.streak:
            state.since = state.at
        state.streak += 1
        if state.streak >= limits.overflow_records:
            self._fire(view, row, value)

    def _fire(self, view: sdk.View, row: int, value: float) -> None:
        state, step, level = self.state, view.step[row], sdk.grade(self.state.streak)
        streak, since, abandoned = state.streak, state.since, state.abandoned
        again = self.episode.state and since[0] > self.episode.onset_step

        def text() -> tuple[str, list[sdk.Fact]]:
            where = f", from step {since[0]} on" if again else ""
            times = sdk.count(streak, "overflow")
            return f"{times} in a row{where} while the loss scale stays {sdk.scale(value)}", [
                ("scale", value, "unchanged", step),
                ("overflows", float(streak), "in a row", None),
                ("abandoned steps", float(abandoned), "", None),
            ]

        if self.already_reported(view, row, sdk.CRITICAL, level):
            self.grow(streak, text)
            return
        kind = "abandoned" if abandoned else "static"
        self.fire(view, row, sdk.CRITICAL, since, *text(), level=level, kind=kind, size=streak)


def _overflowed(view: sdk.View, row: int) -> bool:
    """Return whether the record has non-finite gradients.

    They show in the norm, in the scaler's flag, or in a step abandoned with a non-finite loss.
    """
    norm = view.value("grad_norm", row)
    if norm is not None:
        return not math.isfinite(norm)
    if view.skipped is not None and view.skipped[row]:
        return True
    abandoned = view.stepped is not None and view.stepped[row] == 0.0
    loss = view.value("loss", row)
    return bool(abandoned and loss is not None and not math.isfinite(loss))
