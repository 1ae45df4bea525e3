"""Detect a learning rate that rises again after it had fallen, unless the script declared the restart.

The rate was below half of its peak for 3 records, and is then above twice its minimum and 2 % of the peak
for 5 records in a row. One episode covers all restarts. It recovers after 100 updates without a rise and
resolves after 2000.

Signals:
    `lr`, class of the scheduler, `run.expect("lr-restart")`
Warm-up:
    none, but the rate must have fallen first
Does not fire on:
    - CosineAnnealingWarmRestarts, CyclicLR and OneCycleLR
    - restarts declared with `run.expect`
    - the first record after a resume
Likely causes:
    - a schedule counted in epochs that is stepped once per batch
    - a scheduler that is created again
First action:
    Give the schedule its length in the unit in which it is stepped. Declare intended restarts with
    `run.expect("lr-restart")`.
Source:
    A run whose rate rose from 5e-5 to 5e-4 within 280 steps and whose loss was non-finite at step 512.
"""

from __future__ import annotations

import math
from typing import cast

from tocsin_server.detect import sdk


class Settings(sdk.RuleSettings):
    calm = "without a rise"
    recover_updates: int = 100
    resolve_updates: int = 2000
    fallen_ratio: float = sdk.setting(0.5, "x peak", "Rate below which it has fallen")
    fallen_records: int = sdk.setting(3, "records", "Records below that limit that are needed")
    rise_ratio: float = sdk.setting(2.0, "x lowest", "Rate above which it has risen again")
    min_peak_ratio: float = sdk.setting(0.02, "x peak", "Rate that it must also reach, if it had fallen to 0")
    risen_records: int = sdk.setting(5, "records", "Records in a row above that limit")


class State(sdk.RuleState):
    """Peak and lowest rate of the current cycle, and for how many records it has fallen or risen."""

    peak: float = 0.0
    low: float = math.inf
    low_at: tuple[int, int] = (0, 0)
    fallen: int = 0
    risen: int = 0
    highest: float = 0.0
    restarts: int = 0


class LrRestart(sdk.Rule[Settings, State]):
    """Warning, unless the scheduler is cyclic or the script declared the restart."""

    title = "Learning rate restarts"
    severity = sdk.WARNING
    needs = ("lr",)
    in_blocks = True

    def observe(self, view: sdk.View) -> None:
        if view.lr is None:
            return
        if self._nothing_new(view, view.lr):
            return
        for row, rate in enumerate(view.lr):
            if rate is not None and math.isfinite(rate):
                self._one(view, row, rate)

    def _nothing_new(self, view: sdk.View, rates: sdk.Values) -> bool:
        """Handle the common cases quickly: the rate is near the peak, or low and not rising."""
        state, limits = self.state, self.settings
        if self.episode.state or state.risen or not sdk.positive(rates):
            return False
        low, high = cast(float, min(rates)), cast(float, max(rates))  # type: ignore[type-var]
        if not state.fallen:
            peak = max(state.peak, high)
            state.peak = peak if low >= limits.fallen_ratio * peak else state.peak
            return low >= limits.fallen_ratio * peak
        lowest = min(low, state.low)
        if high >= limits.fallen_ratio * state.peak or high > max(
            limits.rise_ratio * lowest, limits.min_peak_ratio * state.peak
        ):
            return False
        state.fallen += view.n
        if low < state.low:
            row = rates.index(low)
            state.low, state.low_at = low, view.place(row)
        return True

    def _one(self, view: sdk.View, row: int, rate: float) -> None:
        state, limits = self.state, self.settings
        if rate > state.peak and not state.fallen:
            state.peak = rate
        elif rate < limits.fallen_ratio * state.peak and not state.risen:
            state.fallen += 1
        if state.fallen and rate < state.low:
            state.low, state.low_at, state.risen = rate, view.place(row), 0
        if state.fallen >= limits.fallen_records:
            self._follow(view, row, rate)
        if self.episode.state and not state.risen:
            self.settle(view, row)

    def _follow(self, view: sdk.View, row: int, rate: float) -> None:
        """Check whether a rate that had fallen is rising again."""
        state, limits = self.state, self.settings
        if rate <= max(limits.rise_ratio * state.low, limits.min_peak_ratio * state.peak):
            state.risen, state.highest = 0, 0.0
            return
        state.risen += 1
        state.highest = max(state.highest, rate)
        if state.risen < limits.risen_records:
            return
        if not self._meant(state.low_at[0], view.step[row]):
            state.restarts += 1
            self._fire(view, row, rate)
        state.peak, state.low, state.fallen, state.risen = state.highest, math.inf, 0, 0
        state.highest = 0.0

    def _meant(self, start: int, stop: int) -> bool:
        cyclic = sdk.scheduler_of(self.context, self.suffix) in sdk.CYCLIC
        return cyclic or self.context.expects("lr-restart", start, stop)

    def _fire(self, view: sdk.View, row: int, rate: float) -> None:
        state = self.state
        step, low = state.low_at[0], state.low
        times = f", {sdk.number(round(rate / low, 1))}x" if low > 0 else ""
        evidence: list[sdk.Fact] = [
            ("lowest rate", low, "", step),
            ("rate", rate, "", view.step[row]),
            ("peak before", state.peak, "", None),
            ("restarts", float(state.restarts), "so far", None),
        ]
        again = f", {sdk.count(state.restarts, 'restart')} so far" if state.restarts > 1 else ""
        risen = f"{sdk.number(low)} → {sdk.number(rate)} by step {view.step[row]}{times}"
        summary = f"Learning rate rose again from step {step}: {risen}{again}"
        self.fire(view, row, sdk.WARNING, state.low_at, summary, evidence, level=state.restarts)


def restarted(case: sdk.DiagnosisContext) -> sdk.Cause | None:
    """Return the cause of a restart of the learning rate."""
    name = sdk.scheduler_of(case.context, "")
    reported = f" ({name})" if name else ""
    return sdk.Cause(
        "lr-restart",
        f"The schedule{reported} starts over, likely because its length is given in epochs "
        "but it is stepped per batch, or because it was created again.",
        "a schedule that starts over",
        (
            sdk.remedies.CHECK_SCHEDULE,
            sdk.Remedy(
                "Give the schedule's length in the unit in which it is stepped.",
                "scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=total_updates)",
            ),
            sdk.Remedy("Declare the restart if it is intended.", 'run.expect("lr-restart")'),
        ),
        "Compare the schedule's length with the step of the rise: they agree.",
    )


CAUSES = ((sdk.RATE, restarted),)
