"""Detect a loss that swings periodically around its level.

The rule uses windows of 256 records (periods of 2 to 8 records) or of 64 medians of 16 (slow swings). Info
if the autocorrelation is below -0.5 at half a period and above 0.4 at a whole one, and the swings are 10 %
of the level. A warning if the swings grew by a factor of 1.5 within four windows and the level does not
fall. A period of 2 stays info. It recovers after three windows without swings.

Signals:
    `loss`, `lr`
Warm-up:
    256 records
Does not fire on:
    - batch noise, which is not correlated in time
    - data sets or tasks that alternate
    - cyclic learning rates
    - GAN losses and reinforcement learning
Likely causes:
    - a learning rate or momentum at the edge of stability
    - batches that are too small
First action:
    Halve the learning rate, or use a larger batch.
Source:
    AutoTrainer (ICSE 2021) for the symptom; the limits of the autocorrelation are tocsin's.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tocsin_server.detect import sdk


class Settings(sdk.RuleSettings):
    """Thresholds of the rule; see Source in the module docstring.

    The autocorrelations of pure noise have a spread of 0.06 (fast) and 0.12 (slow).
    """

    calm = "without oscillation"
    recover_updates: int = 0
    resolve_updates: int = 0
    recover_records: int = sdk.setting(
        3, "windows", "Windows of 256 records without oscillation that are needed"
    )
    fast_window: int = sdk.setting(
        256, "records", "Records that are evaluated together, for oscillations of a few records"
    )
    slow_bins: int = sdk.setting(
        64, "bins of 16 records", "Bins that are evaluated together, for slow oscillations"
    )
    half_period_max: float = sdk.setting(-0.5, "autocorrelation", "Largest value at half a period")
    period_min: float = sdk.setting(0.4, "autocorrelation", "Smallest value at a whole period")
    min_amplitude: float = sdk.setting(0.1, "x level", "Smallest amplitude")
    warning_growth: float = sdk.setting(
        1.5, "x amplitude before", "Growth over four windows from which it is a warning"
    )


class State(sdk.RuleState):
    """The last losses, their medians, and height and level of the last windows."""

    last: list[float] = msgspec.field(default_factory=list)
    medians: list[float] = msgspec.field(default_factory=list)
    rates: list[float] = msgspec.field(default_factory=list)
    heights: list[float] = msgspec.field(default_factory=list)
    levels: list[float] = msgspec.field(default_factory=list)
    since: int = 0


class LossOscillation(sdk.Rule[Settings, State]):
    """Info; warning if the swings grow."""

    title = "Loss oscillates around its level"
    severity = sdk.WARNING
    inhibited_by = ("nonfinite-loss", "loss-divergence", "loss-saturated")
    adversarial = False
    needs = ("loss",)
    in_blocks = True

    def observe(self, view: sdk.View) -> None:
        if view.loss is None:
            return
        state = self.state
        rows, values = view.losses
        at, n = 0, len(values)
        while at < n:
            if not state.last:
                state.since = view.step[rows[at]]
            more = min(self.settings.fast_window - len(state.last), n - at)
            state.last += values[at : at + more]
            at += more
            if len(state.last) >= self.settings.fast_window:
                self._window(view, rows[at - 1])

    def _window(self, view: sdk.View, row: int) -> None:
        state = self.state
        rate = view.value("lr", row)
        state.rates = [*state.rates, rate or 0.0][-5:]
        medians = [sdk.middle(sorted(state.last[at : at + 16])) for at in range(0, len(state.last), 16)]
        state.medians = [*state.medians, *medians][-self.settings.slow_bins :]
        self._evaluate(view, row)
        state.last = []

    def _evaluate(self, view: sdk.View, row: int) -> None:
        state, limits = self.state, self.settings
        ordered = sorted(state.last)
        level, height = sdk.middle(ordered), _spread(ordered)
        state.heights, state.levels = [*state.heights, height][-5:], [*state.levels, level][-5:]
        least = limits.min_amplitude * abs(level)
        period = self._period(state.last, level, height, range(1, 5), 1) if height >= least else None
        if period is None and len(state.medians) >= limits.slow_bins:
            slow = sorted(state.medians)
            height = _spread(slow)
            if height >= least:
                period = self._period(state.medians, sdk.middle(slow), height, range(2, 17), 16)
        if period is None:
            self.settle(view, row)
            return
        self._fire(view, row, period, height, level)

    def _period(
        self, values: Sequence[float], center: float, spread: float, halves: range, size: int
    ) -> int | None:
        """Return the period of a swing in records, or None if none is found.

        Args:
            values: Losses, or medians of ``size`` losses each.
            center: Their median.
            spread: Spread of the noise.
            halves: Possible half periods, in units of ``size`` records.
            size: Number of records per value.
        """
        low, high = center - 4 * spread, center + 4 * spread
        clipped = [low if value < low else high if value > high else value for value in values]
        found = sdk.autocorrelations(clipped, halves)
        least = min(found)
        if least > self.settings.half_period_max:
            return None
        half = halves[found.index(least)]
        return (
            2 * half * size
            if sdk.autocorrelations(clipped, [2 * half])[0] >= self.settings.period_min
            else None
        )

    def _fire(self, view: sdk.View, row: int, period: int, height: float, level: float) -> None:
        state, limits = self.state, self.settings
        before = state.heights[0]
        grown = (
            len(state.heights) == 5
            and state.heights[-1] > limits.warning_growth * before
            and level >= state.levels[0]
        )
        cycle = min(state.rates) > 0 and max(state.rates) > 1.3 * min(state.rates) and period > 64
        turns = period == 2
        severity = sdk.WARNING if grown and not cycle and not turns else sdk.INFO
        evidence: list[sdk.Fact] = [
            ("period", float(period), "records", view.step[row]),
            ("amplitude", height, "robust sigma", view.step[row]),
            ("amplitude before", before, "robust sigma", None),
            ("level", level, "median of 256 records", view.step[row]),
        ]
        summary = (
            f"Loss oscillates by {sdk.number(height)} around {sdk.number(level)} with a period of "
            f"{period} records"
        )
        kind = "rate" if cycle else "turns" if turns else "swing"
        onset = (state.since, view.time_ns[row])
        self.fire(view, row, severity, onset, summary, evidence, level=severity, kind=kind)


def _spread(ordered: list[float]) -> float:
    center = sdk.middle(ordered)
    return sdk.MAD_TO_SIGMA * sdk.middle(sorted([abs(value - center) for value in ordered]))


def _turns(case: sdk.DiagnosisContext) -> sdk.Cause | None:
    if case.result.kind == "swing":
        return None
    by_rate = case.result.kind == "rate"
    return sdk.Cause(
        "by-plan",
        "The learning rate oscillates with the same period."
        if by_rate
        else "Every other record is higher, so two data sets, tasks or micro-batches likely alternate.",
        "alternating data sets or tasks",
        (
            sdk.Remedy(
                "Log the loss of each data set under its own name.", "run.log(text_loss=a, image_loss=b)"
            ),
        ),
        "Log the data set of each step: it changes with the loss.",
    )


def _why(case: sdk.DiagnosisContext) -> sdk.Cause | None:
    if case.result.kind == "rate":
        return None
    if case.rate_faded:
        return sdk.Cause(
            "momentum",
            "Likely a momentum at the edge of stability: the learning rate is far below its peak.",
            "a momentum at the edge of stability",
            (sdk.Remedy("Use a larger batch or gradient accumulation, and average the weights (EMA)."),),
            "Lower the momentum: the oscillation shrinks.",
        )
    rate = f" ({sdk.number(case.lr)})" if case.lr else ""
    return sdk.Cause(
        "rate-high",
        (
            f"Likely a learning rate{rate} or momentum at the edge of stability, so that each "
            "update overshoots."
        ),
        "a learning rate or momentum at the edge of stability",
        (
            sdk.remedies.lower_lr(case, 2.0),
            sdk.Remedy("Use a larger batch or gradient accumulation, and average the weights (EMA)."),
        ),
        "Halve the learning rate: the oscillation shrinks.",
    )


CAUSES = ((sdk.DATA, _turns), (sdk.OPTIMISATION, _why))
