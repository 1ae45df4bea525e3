"""Detect a loss scale that is 0, or at its minimum while updates still overflow.

Critical if the scale is exactly 0 after having been above 0, or while updates are skipped. Critical as well
if the scale is at its minimum (reported by the script, or recognized because backoff stops there) and five
more updates overflow. It recovers after 50 updates without an overflow and resolves after 200.

Signals:
    `scale`, `skipped`
Warm-up:
    none
Does not fire on:
    - a scale of 0 from the first record without skipped steps: the scaler was only switched off
Likely causes:
    - the causes of `scaler-collapse`
    - at a scale of 0 the inverse scale is infinite, and 0 times infinity is NaN, so every later update is
      skipped
First action:
    Resume from a checkpoint before the collapse. Raising the scale by hand does not repair the weights.
Source:
    Measured with torch 2.13, where 166 overflows take 2^16 to 0; the minimum-scale errors of fairseq and
    DeepSpeed.
"""

from __future__ import annotations

import math

from tocsin_server.detect import sdk


class Settings(sdk.RuleSettings):
    calm = "without overflow"
    recover_updates: int = 50
    resolve_updates: int = 200
    floor_overflows: int = sdk.setting(
        5, "overflows", "Overflows at an unchanged lowest scale that show that it is the minimum"
    )


class State(sdk.RuleState):
    """How close the scale is to its floor.

    ``lowest``: the lowest scale so far; ``stuck``: consecutive overflows at it; ``backed_off``: whether
    it was reached by a backoff.
    """

    positive: bool = False
    scale: float | None = None
    lowest: float = math.inf
    backed_off: bool = False
    stuck: int = 0
    since: tuple[int, int] = (0, 0)


class ScalerAtFloor(sdk.Rule[Settings, State]):
    """Critical: at 0 no update is made any more; at the minimum, updates are still skipped."""

    title = "Loss scale is at its minimum"
    severity = sdk.CRITICAL
    needs = ("scale",)
    idles = True

    def asleep(self) -> bool:
        return self.state.positive and not self.state.stuck and not self.episode.state

    def observe(self, view: sdk.View) -> None:
        if view.scale is None or not view.has_scaler(view.n - 1) or self._nothing_new(view):
            return
        overflowed = {row for row, _, _ in view.overflows}
        for row, value in enumerate(view.scale):
            if value is not None and math.isfinite(value) and view.has_scaler(row):
                self._one(view, row, value, row in overflowed)

    def _nothing_new(self, view: sdk.View) -> bool:
        quiet = not view.moves and not view.overflows and not self.episode.state and self.state.positive
        if quiet:
            self.state.stuck = 0
        return quiet

    def _one(self, view: sdk.View, row: int, value: float, overflowed: bool) -> None:
        state = self.state
        if value != state.scale:
            state.backed_off = state.scale is not None and value < state.scale
            state.scale, state.stuck = value, 0
        state.lowest = min(state.lowest, value)
        if value == 0.0 and (state.positive or overflowed):
            self._stuck(view, row, value, "zero", 1)
        elif value != 0.0 and overflowed and value == state.lowest and self._floor(view, value):
            self._stuck(view, row, value, "minimum", self.settings.floor_overflows)
        elif not overflowed:
            state.stuck = 0
            if self.episode.state and value != 0.0:
                self.settle(view, row)
        state.positive = state.positive or value > 0.0

    def _floor(self, view: sdk.View, value: float) -> bool:
        """Return whether ``value`` may be the floor: reported as such, or where backing off ended."""
        floor = view.scaler.min_scale
        return value <= floor * 1.0001 if floor > 0 else self.state.backed_off

    def _stuck(self, view: sdk.View, row: int, value: float, kind: str, need: int) -> None:
        state = self.state
        if not state.stuck:
            state.since = view.place(row)
        state.stuck += 1
        if state.stuck < need:
            return
        evidence: list[sdk.Fact] = [
            ("scale", value, "", view.step[row]),
            ("updates lost at it", float(state.stuck), "records", None),
        ]
        if kind == "zero":
            summary = f"Loss scale has been 0 since step {state.since[0]}, so every update is skipped"
        else:
            times = sdk.count(state.stuck, "more overflow")
            summary = f"Loss scale is at its minimum {sdk.scale(value)}, {times} without a change"
        level = sdk.grade(state.stuck)
        self.fire(
            view, row, sdk.CRITICAL, state.since, summary, evidence, level=level, kind=kind, size=state.stuck
        )
