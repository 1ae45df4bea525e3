"""Detect a gradient norm that rises as it does before a loss spike.

A warning if two norms in a row rise and both exceed 5 times the median of 100 records, the newest 50 norms,
30 % of the first level and 6 robust deviations of the logarithm, and the second one exceeds 10 times the
median. It recovers after 10 updates near the median and resolves after 50.

Signals:
    `grad_norm`
Warm-up:
    50 records
Does not fire on:
    - a single outlier
    - two outliers that fall
Likely causes:
    - the causes of `loss-spike`, which often follows
First action:
    Watch the next steps. If the loss spikes, halve the learning rate or clip the gradients.
Source:
    The training chronicles of BLOOM: norms of 0.24, 0.95, 2.4, 15.9 and 145, then a loss spike. The limits
    are tocsin's.
"""

from __future__ import annotations

import math

import msgspec

from tocsin_server.detect import sdk


class Settings(sdk.RuleSettings):
    calm = "near the usual norm"
    recover_updates: int = 10
    resolve_updates: int = 50
    recover_records: int = 5
    warm_up: int = sdk.setting(50, "records", "Records before the rule starts")
    abnormal_ratio: float = sdk.setting(5.0, "x median", "Norm above which a record is abnormal")
    second_ratio: float = sdk.setting(10.0, "x median", "Norm that the second abnormal record must reach")
    deviations: float = sdk.setting(
        6.0, "robust sigma", "Distance from the median, of the logarithm, that is also required"
    )
    new_baseline_records: int = sdk.setting(
        200, "records", "Records at a new level after which it is the baseline of further rises"
    )


class State(sdk.RuleState):
    """The usual level; ``rising``: the last norms, each unusually high and above the previous one."""

    level: sdk.Level = msgspec.field(default_factory=lambda: sdk.Level(kept=100, refresh=20))
    rising: list[float] = msgspec.field(default_factory=list)
    onset: tuple[int, int] = (0, 0)
    outside: list[float] = msgspec.field(default_factory=list)


class GradPrecursor(sdk.Rule[Settings, State]):
    """Warning for two consecutive norms that are unusually high and rising."""

    title = "Gradient norm precedes a loss spike"
    severity = sdk.WARNING
    inhibited_by = ("grad-explosion", "loss-spike", "loss-divergence", "nonfinite-loss")
    needs = ("grad_norm",)

    def respaced(self) -> None:
        self.state = State()

    def observe(self, view: sdk.View) -> None:
        norms = view.grad_norm
        if norms is None:
            return
        level, near = self.state.level, self.settings.abnormal_ratio
        if self._calm() and level.quick(norms, near, self.settings.warm_up):
            return
        for row in level.unusual(norms, near, self._calm):
            self._one(view, row, norms[row])

    def ceiling(self) -> float:
        """Return the highest norm that is near the level, however the level changes."""
        level = self.state.level
        warm = len(level.values) >= self.settings.warm_up
        return level.ceiling(self.settings.abnormal_ratio, sdk.PACE) if warm and self._calm() else -math.inf

    def _calm(self) -> bool:
        return not (self.state.rising or self.state.outside or self.episode.state)

    def _one(self, view: sdk.View, row: int, norm: float | None) -> None:
        if norm is None or not math.isfinite(norm):
            return
        state, limits = self.state, self.settings
        level = state.level
        if len(level.values) < limits.warm_up:
            level.extend([norm])
        elif level.leaves(norm, limits.abnormal_ratio, limits.deviations, self.quantum("grad_norm")):
            self._off(view, row, norm)
        else:
            self._usual(view, row, norm)

    def _off(self, view: sdk.View, row: int, norm: float) -> None:
        state, limits = self.state, self.settings
        if not state.rising:
            state.onset = view.place(row)
        state.rising = [*state.rising, norm] if not state.rising or norm > state.rising[-1] else [norm]
        state.rising = state.rising[-8:]
        state.outside.append(norm)
        if len(state.rising) >= 2 and norm > limits.second_ratio * state.level.median:
            self._fire(view, row, norm)
        elif self.episode.state:
            self.continues(view, row)
        if len(state.outside) >= limits.new_baseline_records:
            state.level.begin(state.outside)
            state.outside, state.rising = [], []

    def _fire(self, view: sdk.View, row: int, norm: float) -> None:
        if self.already_reported(view, row, sdk.WARNING):
            return
        state = self.state
        median = state.level.median
        way = " → ".join(sdk.number(value) for value in [median, *state.rising])
        evidence: list[sdk.Fact] = [
            ("usual norm", median, "median of 100 records", state.onset[0]),
            ("norm", norm, "", view.step[row]),
            ("records in a row", float(len(state.rising)), "rising", None),
        ]
        back = self.settings.abnormal_ratio * median
        self.fire(view, row, sdk.WARNING, state.onset, f"Gradient norm rose {way}", evidence, back=back)

    def _usual(self, view: sdk.View, row: int, norm: float) -> None:
        state = self.state
        state.rising = []
        near = norm <= self.settings.abnormal_ratio * state.level.median
        if near or not self.episode.state:
            state.level.extend([norm])
            state.outside = []
        else:
            state.outside.append(norm)
        if self.episode.state and near and self.is_back(norm):
            self.settle(view, row)
        elif self.episode.state:
            self.continues(view, row)


def imminent(case: sdk.DiagnosisContext) -> sdk.Cause | None:
    """Return what a rising norm indicates."""
    rate = "" if case.rate_faded else " or a learning rate that is nearly too high"
    return sdk.Cause(
        "grad-precursor",
        f"Likely an unusual batch{rate}; the loss may spike within the next records.",
        "an imminent loss spike",
        (sdk.remedies.clip(case), sdk.remedies.lower_lr(case, 2.0), sdk.remedies.watch(case)),
        "Watch the next records: the loss spikes.",
    )


CAUSES = ((sdk.GRADIENT, imminent),)
