"""Detect a change of the learning rate that its schedule does not explain.

The learning rate changes by a factor of 1.5 between two records after 10 steady ones. An increase is a
warning if the rate had fallen before and now exceeds its peak, or had been constant for 5000 updates (a
tenth of the planned steps, if known). A decrease is info. It resolves after 10 updates.

Signals:
    `lr`, class of the scheduler, `run.expect("lr-jump")`
Warm-up:
    the first rise, which belongs to the warm-up
Does not fire on:
    - warm-ups and schedules in steps
    - the first record after a resume
    - a rate that follows the batch size
    - rates that a log rounds to few decimals, such as 0.000002
    - a return to an earlier value, which is `lr-restart`
Likely causes:
    - a milestone of the schedule
    - a callback
    - a second scheduler
First action:
    Compare the rate with the configured schedule. Declare an intended change with `run.expect("lr-jump")`.
Source:
    The limits are tocsin's.
"""

from __future__ import annotations

import math
from typing import cast

import msgspec

from tocsin_server.detect import sdk


class Settings(sdk.RuleSettings):
    calm = "without a jump"
    recover_updates: int = 5
    resolve_updates: int = 10
    jump_ratio: float = sdk.setting(1.5, "x rate before", "Change between two records that counts as a jump")
    steady_records: int = sdk.setting(10, "records", "Records at nearly the same rate before a jump")
    steady_change: float = sdk.setting(0.05, "relative", "Change per record up to which the rate is steady")
    warm_up_max_updates: int = sdk.setting(
        5000, "updates", "Updates at a constant rate from the start after which a rise is not a warm-up"
    )
    warm_up_max_share: float = sdk.setting(
        0.1, "share of planned steps", "Part of the run after which a rise is not a warm-up"
    )
    jump_peak_ratio: float = sdk.setting(
        1.05, "x peak", "Rate above which a rise is a jump and not a restart"
    )
    intended_jumps: int = sdk.setting(
        4, "jumps", "Jumps in the last 200 records from which they count as intended"
    )


class State(sdk.RuleState):
    """The last rate, how long it has been steady, its peak, and the records of the last jumps."""

    last: float | None = None
    last_step: int = 0
    steady: int = 0
    since: int = 0
    peak: float = 0.0
    fell: bool = False
    quantum: float = 0.0
    """Smallest change so far.

    Logs that round a rate to 0.000002 show changes of 0.000001.
    """
    seen: int = 0
    jumps: list[int] = msgspec.field(default_factory=list)


class LrJump(sdk.Rule[Settings, State]):
    """Warning for an increase, info for a decrease."""

    title = "Learning rate jumps"
    severity = sdk.WARNING
    needs = ("lr",)
    in_blocks = True

    def observe(self, view: sdk.View) -> None:
        if view.lr is None:
            return
        if self._steady(view, view.lr):
            return
        for row, rate in enumerate(view.lr):
            if rate is not None and math.isfinite(rate) and rate >= 0:
                self._one(view, row, rate)

    def _steady(self, view: sdk.View, rates: sdk.Values) -> bool:
        """Handle the common case quickly: all rates are close to the last one."""
        state, limits = self.state, self.settings
        if state.last is None or self.episode.state or not sdk.positive(rates):
            return False
        known = [state.last, *cast(list[float], rates)]
        low, high = min(known), max(known)
        if high - low > limits.steady_change * low or (low < 0.9 * max(state.peak, high) and not state.fell):
            return False
        state.seen += view.n
        state.steady += view.n
        state.peak = max(state.peak, high)
        state.last, state.last_step = rates[-1], view.step[-1]
        return True

    def _one(self, view: sdk.View, row: int, rate: float) -> None:
        state, limits = self.state, self.settings
        before, state.last = state.last, rate
        state.seen += 1
        if before is None:
            state.since = view.step[row]
        elif abs(rate - before) <= limits.steady_change * before:
            state.steady += 1
            self.settle(view, row)
        else:
            change = abs(rate - before)
            if change > sdk.ROUNDED * max(state.quantum, self.quantum("lr")):
                self._changed(view, row, before, rate)
            state.quantum = min(change, state.quantum or change)
            state.steady, state.since = 0, view.step[row]
        if rate < 0.9 * state.peak:
            state.fell = True
        state.peak = max(state.peak, rate)
        state.last_step = view.step[row]

    def _changed(self, view: sdk.View, row: int, before: float, rate: float) -> None:
        state, limits = self.state, self.settings
        if before <= 0 or rate <= 0 or max(rate / before, before / rate) < limits.jump_ratio:
            return
        if state.steady < limits.steady_records:
            return
        state.jumps = [*(at for at in state.jumps if at > state.seen - 200), state.seen]
        if len(state.jumps) >= limits.intended_jumps or self.context.expects(
            "lr-jump", state.last_step, view.step[row]
        ):
            return
        scheduler = sdk.scheduler_of(self.context, self.suffix)
        if rate < before:
            if scheduler not in sdk.STEPPED | sdk.CYCLIC:
                self._fire(view, row, sdk.INFO, before, rate)
        elif scheduler not in sdk.CYCLIC and not self._explained(view.step[row], rate):
            self._fire(view, row, sdk.WARNING, before, rate)

    def _explained(self, step: int, rate: float) -> bool:
        """Return whether an increase belongs to the warm-up or is a restart."""
        state, limits = self.state, self.settings
        if state.fell:
            return rate <= limits.jump_peak_ratio * state.peak
        planned = self.context.planned_steps
        if planned is not None:
            return step < limits.warm_up_max_share * planned
        return state.last_step - state.since < limits.warm_up_max_updates

    def _fire(self, view: sdk.View, row: int, severity: int, before: float, rate: float) -> None:
        step = view.step[row]
        up = rate > before
        times = sdk.number(round(max(rate / before, before / rate), 1))
        evidence: list[sdk.Fact] = [
            ("rate before", before, "", self.state.last_step),
            ("rate", rate, "", step),
            ("peak before", self.state.peak, "", None),
        ]
        way = "rose" if up else "fell"
        summary = f"Learning rate {way} {times}x at step {step}, {sdk.number(before)} → {sdk.number(rate)}"
        self.fire(
            view, row, severity, (step, view.time_ns[row]), summary, evidence,
            level=len(self.state.jumps), kind="up" if up else "down",
        )  # fmt: skip


def jumped(case: sdk.DiagnosisContext) -> sdk.Cause | None:
    """Return the cause of a jump of the learning rate."""
    return sdk.Cause(
        "lr-jump",
        (
            "Something other than the schedule sets the learning rate: a milestone, a callback "
            "or a second scheduler."
        ),
        "a learning rate that is set outside its schedule",
        (
            sdk.remedies.CHECK_SCHEDULE,
            sdk.Remedy(
                "Declare the change if it is intended.",
                f'run.expect("lr-jump", steps=[{case.result.onset_step}])',
            ),
        ),
        "Print the schedule's learning rate at this step: it differs from the optimizer's.",
    )


CAUSES = ((sdk.RATE, jumped),)
