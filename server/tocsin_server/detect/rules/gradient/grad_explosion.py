"""Detect a gradient norm that rises far above its usual level.

A warning if 3 of 5 norms exceed 10 times the median of 200 records, the newest 50 norms, 30 % of the run's
first level, and 6 robust deviations of the logarithm; or if one norm exceeds 1000 times the median. During
the warm-up: if four norms in a row rise by at least a half each, a hundredfold in all. It recovers after 20
updates (10 records) below 5 times the median from before the onset and resolves after 100. After 400 norms at
a new level, further rises are measured from that level.

Signals:
    `grad_norm`
Warm-up:
    50 records
Does not fire on:
    - single outliers of 10 to 17 times the median, which healthy runs have
    - infinite norms of skipped steps
Likely causes:
    - a learning rate at its limit
    - no gradient clipping
    - a bad batch
    - recurrent layers or attention logits
First action:
    Clip the gradient norm at one to two times its usual value, or lower the learning rate.
Source:
    Measured: no alarm on 16 healthy real logs, whose medians range from 0.07 to 21. In the first 60 records
    of 917 AlgoPerf logs, four such rises multiply the norm by 19 at most, except in one run that exploded
    there. Never critical, because norms have heavy tails.
"""

from __future__ import annotations

import math
from itertools import pairwise

import msgspec

from tocsin_server.detect import sdk


class Settings(sdk.RuleSettings):
    calm = "near the usual norm"
    recover_updates: int = 20
    resolve_updates: int = 100
    recover_records: int = 10
    warm_up: int = sdk.setting(50, "records", "Records before the rule starts")
    window: int = sdk.setting(200, "records", "Records over which the usual norm is taken")
    abnormal_ratio: float = sdk.setting(10.0, "x median", "Norm above which a record is abnormal")
    usual_ratio: float = sdk.setting(5.0, "x median", "Norm below which a record is usual again")
    deviations: float = sdk.setting(
        6.0, "robust sigma", "Distance from the median, of the logarithm, that is also required"
    )
    confirm_records: int = sdk.setting(
        3, "records", "Abnormal records, of the last five, before the alert fires"
    )
    single_record_ratio: float = sdk.setting(1000.0, "x median", "Norm at which one record is enough")
    warm_up_step_ratio: float = sdk.setting(
        1.5, "x norm before", "Rise of each of four norms in a row during the warm-up"
    )
    warm_up_total_ratio: float = sdk.setting(100.0, "x", "Rise of these four norms together")
    new_baseline_records: int = sdk.setting(
        400, "records", "Records at a new level after which it is the baseline of further rises"
    )


class State(sdk.RuleState):
    """The usual level; ``recent``: which of the last five were far off; ``outside``: norms beyond it."""

    level: sdk.Level = msgspec.field(default_factory=sdk.Level)
    recent: list[bool] = msgspec.field(default_factory=list)
    outside: list[float] = msgspec.field(default_factory=list)
    onset: tuple[int, int] = (0, 0)
    peak: float = 0.0
    low: float = 0.0
    """The norm from which a climb of the warm-up began; 0 without one."""


class GradExplosion(sdk.Rule[Settings, State]):
    """Warning for three of five norms above ten times the median, or one above a thousand times."""

    title = "Gradient norm explodes"
    severity = sdk.WARNING
    inhibited_by = ("nonfinite-loss",)
    needs = ("grad_norm",)

    def respaced(self) -> None:
        self.state = State()

    def observe(self, view: sdk.View) -> None:
        norms = view.grad_norm
        if norms is None:
            return
        level, near = self.state.level, self.settings.usual_ratio
        if self._calm() and level.quick(norms, near, self.settings.warm_up):
            return
        for row in level.unusual(norms, near, self._calm):
            self._one(view, row, norms[row])

    def ceiling(self) -> float:
        """Return the highest norm that is near the level, however the level changes."""
        ratio = min(self.settings.usual_ratio, self.settings.abnormal_ratio)
        return self.state.level.ceiling(ratio, sdk.PACE) if self._calm() else -math.inf

    def _calm(self) -> bool:
        """Return whether norms near the level change nothing else; in the warm-up each one may be a climb."""
        state = self.state
        warm = len(state.level.values) >= self.settings.warm_up
        return warm and not state.recent and not self.episode.state

    def _one(self, view: sdk.View, row: int, norm: float | None) -> None:
        if norm is None or not math.isfinite(norm):
            return
        state, limits = self.state, self.settings
        level = state.level
        if len(level.values) < limits.warm_up:
            level.extend([norm])
            self._climb(view, row)
            return
        far = level.leaves(norm, limits.abnormal_ratio, limits.deviations, self.quantum("grad_norm"))
        if far and not any(state.recent) and not self.episode.state:
            state.onset, state.peak, state.outside = view.place(row), 0.0, []
        if far or state.recent:
            state.recent = [*state.recent, far][-5:]
        if far:
            self._far(view, row, norm)
        else:
            self._back(view, row, norm)
        if not any(state.recent):
            state.recent = []

    def _climb(self, view: sdk.View, row: int) -> None:
        """Handle a norm of the warm-up: a run may explode before its level is known."""
        state, limits = self.state, self.settings
        norms = state.level.values[-5:]
        if self.episode.state:
            if state.low and norms[-1] > state.peak:
                state.peak = norms[-1]
                self._fire(view, row, state.low)
            return
        if len(norms) < 2 or norms[-2] <= 0:
            return
        if norms[-1] < limits.warm_up_step_ratio * norms[-2]:
            state.onset, state.peak = view.place(row), 0.0
            return
        steep = (
            len(norms) == 5
            and norms[0] > 0
            and all(b >= limits.warm_up_step_ratio * a for a, b in pairwise(norms))
        )
        # The first norm may be almost 0 where layers start at zero, so the second is compared too.
        if steep and norms[-1] >= limits.warm_up_total_ratio * max(norms[0], norms[1] / 3):
            state.low, state.peak = norms[0], norms[-1]
            self._fire(view, row, state.low)

    def _far(self, view: sdk.View, row: int, norm: float) -> None:
        state, limits = self.state, self.settings
        state.outside.append(norm)
        state.peak = max(state.peak, norm)
        ratio = norm / state.level.median
        if sum(state.recent) >= limits.confirm_records or ratio > limits.single_record_ratio:
            self._fire(view, row, state.level.median)
        if len(state.outside) >= limits.new_baseline_records:
            state.level.begin(state.outside)
            state.outside, state.recent = [], []

    def _fire(self, view: sdk.View, row: int, median: float) -> None:
        state = self.state
        ratio = min(state.peak / median, 1e15)
        evidence: list[sdk.Fact] = [
            ("usual norm", median, "median", state.onset[0]),
            ("highest norm", state.peak, "", view.step[row]),
            ("x usual norm", ratio, "", None),
        ]
        summary = (
            f"Gradient norm rose {sdk.number(median)} → {sdk.number(state.peak)} "
            f"({sdk.number(round(ratio))}x its usual level) since step {state.onset[0]}"
        )
        level, back = sdk.grade(ratio), self.settings.usual_ratio * median
        self.fire(view, row, sdk.WARNING, state.onset, summary, evidence, level=level, back=back, size=ratio)

    def _back(self, view: sdk.View, row: int, norm: float) -> None:
        """Handle a norm that is not far off.

        It updates the level, unless an episode is open and the norm is not yet near the level.
        """
        state = self.state
        usual = norm <= self.settings.usual_ratio * state.level.median
        if usual or not self.episode.state:
            state.level.extend([norm])
        else:
            state.outside.append(norm)
        if self.episode.state and usual and self.is_back(norm):
            self.settle(view, row)
        elif self.episode.state:
            self.continues(view, row)


def exploding(case: sdk.DiagnosisContext) -> sdk.Cause | None:
    """Return the cause of a gradient norm that left its level."""
    held = case.loss_held
    tail = "" if held is None else f" The loss stays near {sdk.number(held[0])} up to step {held[1]}."
    rate = "" if case.rate_faded else "a learning rate that is too high, "
    evidence = (sdk.Evidence("learning rate", case.lr, "", case.onset),) if case.lr else ()
    return sdk.Cause(
        "grad-explosion",
        f"Likely {rate}missing gradient clipping, or recurrent or attention layers whose outputs grow.{tail}",
        "gradients that grow layer by layer without clipping",
        (sdk.remedies.clip(case), sdk.remedies.lower_lr(case), sdk.remedies.go_back(case)),
        "Clip at the usual norm: the loss stays at its level.",
        evidence,
    )


CAUSES = ((sdk.GRADIENT, exploding),)
