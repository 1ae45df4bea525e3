"""Detect a learning rate of 0.

Critical if the highest learning rate of all parameter groups is exactly 0 for 20 updates. Info, after 200
updates, if it decayed to 0 and the planned length of the run is unknown. A warning if it is below a
thousandth of its peak before the planned end. It recovers after 3 updates above 0 and resolves after 50.

Signals:
    `lr` of all parameter groups, `loss`, the planned number of steps
Warm-up:
    20 records and a loss that does not fall, if the rate was never above 0
Does not fire on:
    - step 0 of a warm-up
    - the last 2 % of the planned steps
    - one parameter group that is frozen on purpose
    - logs that print 2e-7 as 0.000000
Likely causes:
    - a scheduler that is stepped once per batch instead of once per epoch, so that it ends early
    - every update is skipped, so that the schedule never advances
First action:
    Compare the length of the schedule with the number of updates, and pass `planned_steps=` to
    `tocsin.watch`.
Source:
    Post-mortems of real trainings; the limits are tocsin's.
"""

from __future__ import annotations

import math

import msgspec

from tocsin_server.detect import sdk


class Settings(sdk.RuleSettings):
    calm = "with a rate above 0"
    recover_updates: int = 3
    resolve_updates: int = 50
    zero_updates: int = sdk.setting(20, "updates", "Updates at 0 before the alert fires")
    zero_records: int = sdk.setting(3, "records", "Records at 0 that are also needed")
    zero_records_from_start: int = sdk.setting(
        20, "records", "Records at 0 from the start, for logs that round small rates to 0"
    )
    learning_fall: float = sdk.setting(
        0.02, "relative", "Fall of the loss that shows that a rate of 0 is only rounding"
    )
    tiny_ratio: float = sdk.setting(1e-3, "x peak", "Rate below which training hardly learns")
    faded_ratio: float = sdk.setting(0.1, "x peak", "Last rate before 0 below which the schedule has ended")
    faded_updates: int = sdk.setting(
        200, "updates", "Updates at 0 after the end of a schedule of unknown length"
    )
    end_share: float = sdk.setting(
        0.98, "share of planned steps", "Part of the run from which a rate near 0 is the end of the schedule"
    )


class State(sdk.RuleState):
    """``peak`` and ``last`` rate above 0; the current stretch at (nearly) 0 and its losses."""

    peak: float = 0.0
    last: float = 0.0
    since: tuple[int, int] | None = None
    zero: bool = False
    """The rate in the stretch is exactly 0, not only tiny."""
    fall: sdk.Fall = msgspec.field(default_factory=sdk.Fall)
    records: int = 0
    first_loss: float | None = None
    loss: float | None = None


class ZeroLr(sdk.Rule[Settings, State]):
    """Critical at exactly 0 in the middle of training, warning at a thousandth of the peak.

    Info if the planned length is unknown and the rate decayed to 0, because the schedule has probably ended.
    """

    title = "Learning rate is 0"
    severity = sdk.CRITICAL
    needs = ("lr",)
    exact = True
    in_blocks = True

    def observe(self, view: sdk.View) -> None:
        if view.lr is None or self._nothing_new(view, view.lr):
            return
        groups = view.groups("lr")
        for row in range(view.n):
            rate = _fastest(groups, row)
            if rate is not None:
                self._one(view, row, rate)

    def _nothing_new(self, view: sdk.View, rates: sdk.Values) -> bool:
        """Handle the common case quickly: one group, all rates well above a thousandth of the peak."""
        if (
            self.quantum("lr")
            or self.state.since is not None
            or self.episode.state
            or len(view.bases) > len(self._single(view))
        ):
            return False
        try:
            low, high = min(rates), max(rates)  # type: ignore[type-var]
        except TypeError:
            return False
        if low is None or high is None or not 0 < low < math.inf or high == math.inf:
            return False
        peak = max(self.state.peak, high)
        if low < self.settings.tiny_ratio * peak:
            return False
        self.state.peak, self.state.last = peak, rates[-1] or peak
        return True

    @staticmethod
    def _single(view: sdk.View) -> list[str]:
        """Return the signals that are not the rate of a further parameter group."""
        return [base for base in view.bases if not base.startswith("lr/")]

    def _one(self, view: sdk.View, row: int, rate: float) -> None:
        state = self.state
        if not state.fall.is_zero(rate, self.quantum("lr")) and rate == 0:
            state.since = None  # too few decimals to know
            return
        if rate > 0 and rate >= self.settings.tiny_ratio * state.peak:
            state.peak, state.last = max(state.peak, rate), rate
            state.since = None
            self.settle(view, row)
            return
        if state.since is None or state.zero != (rate == 0):
            state.since, state.zero = view.place(row), rate == 0
            state.records, state.first_loss = 0, None
        state.records += 1
        self._follow_loss(view, row)
        if not self._expected(view.step[row]):
            self._evaluate(view, row, rate)

    def _follow_loss(self, view: sdk.View, row: int) -> None:
        loss = view.value("loss", row)
        if loss is not None and math.isfinite(loss):
            state = self.state
            state.first_loss = loss if state.first_loss is None else state.first_loss
            state.loss = loss if state.loss is None or state.records == 1 else 0.8 * state.loss + 0.2 * loss

    def _expected(self, step: int) -> bool:
        planned = self.context.planned_steps
        return planned is not None and step >= self.settings.end_share * planned

    def _evaluate(self, view: sdk.View, row: int, rate: float) -> None:
        state, limits = self.state, self.settings
        since = state.since or view.place(row)
        updates = view.step[row] - since[0] + 1
        if updates < limits.zero_updates or state.records < limits.zero_records:
            return
        planned = self.context.planned_steps is not None
        if not state.zero:
            if planned:
                self._fire(view, row, sdk.WARNING, since, rate, updates, "tiny")
        elif state.peak == 0.0:
            if state.records >= limits.zero_records_from_start and not self._improving():
                self._fire(view, row, sdk.CRITICAL, since, rate, updates, "never")
        elif planned or state.last > limits.faded_ratio * state.peak:
            self._fire(view, row, sdk.CRITICAL, since, rate, updates, "dropped")
        elif updates >= limits.faded_updates:
            self._fire(view, row, sdk.INFO, since, rate, updates, "faded")

    def _improving(self) -> bool:
        """Return whether the loss falls, which is impossible at a rate that really is 0."""
        first, now = self.state.first_loss, self.state.loss
        return (
            first is not None and now is not None and now < first - self.settings.learning_fall * abs(first)
        )

    def _fire(
        self,
        view: sdk.View,
        row: int,
        severity: int,
        since: tuple[int, int],
        rate: float,
        updates: int,
        kind: str,
    ) -> None:
        state, step, level = self.state, view.step[row], sdk.grade(updates)
        what = "0" if rate == 0 else f"{sdk.number(rate)}, less than a thousandth of its peak,"
        planned = self.context.planned_steps
        evidence: list[sdk.Fact] = [
            ("learning rate", rate, "", step),
            ("peak so far", state.peak, "", None),
            ("last rate above 0", state.last, "", since[0]),
            ("updates", float(updates), "at it", None),
        ]
        if planned is not None:
            evidence.append(("planned steps", float(planned), "", None))
        summary = f"Learning rate has been {what} since step {since[0]} ({updates} updates)"
        self.fire(view, row, severity, since, summary, evidence, level=level, kind=kind, size=updates)


def _fastest(groups: list[sdk.Values], row: int) -> float | None:
    """Return the highest rate of all parameter groups, because one may be frozen on purpose."""
    rates = [group[row] for group in groups]
    finite = [rate for rate in rates if rate is not None and math.isfinite(rate)]
    return max(finite, default=None)
