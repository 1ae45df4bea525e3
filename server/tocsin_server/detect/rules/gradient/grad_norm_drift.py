"""Detect a gradient norm that grows over thousands of steps.

A warning if the median of 500 records grows by a factor of 3 in each of three windows in a row, or if over
ten or more windows it rises to 50 times its lowest value (Mann-Kendall, z of 3.5), while the learning rate
rises by at most a tenth. Info if the learning rate fell below 0.7 of its value meanwhile. It recovers after
500 updates without growth and resolves after 2000.

Signals:
    `grad_norm`, `lr`
Warm-up:
    2000 records
Does not fire on:
    - growth while the learning rate decays
    - growth during a warm-up
Likely causes:
    - weights or logits that grow slowly
    - too little weight decay
    - a learning rate that is too high for this stage
First action:
    Lower the learning rate, or raise the weight decay.
Source:
    A real ViT run whose norm grew from 1 to 276 before validation declined; reports on OLMo and OPT-175B. The
    norms of 917 AlgoPerf logs grow 33-fold at most over a whole run.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from typing import cast

import msgspec

from tocsin_server.detect import sdk


class Settings(sdk.RuleSettings):
    calm = "without growth"
    recover_updates: int = 500
    resolve_updates: int = 2000
    recover_records: int = sdk.setting(1, "windows", "Windows without growth that are also needed")
    window: int = sdk.setting(500, "records", "Records in a window; the rule compares the medians of windows")
    window_growth: float = sdk.setting(3.0, "x median before", "Growth of a window over the one before")
    growing_windows: int = sdk.setting(3, "windows", "Windows in a row with that growth")
    total_growth: float = sdk.setting(
        50.0, "x lowest median", "Growth that ten or more windows with a rising trend must reach"
    )
    trend_z: float = sdk.setting(3.5, "z", "Mann-Kendall score from which these windows have a rising trend")
    lr_rise_ratio: float = sdk.setting(
        1.1, "x rate before", "Rise of the learning rate above which it explains the growth"
    )
    lr_decay_ratio: float = sdk.setting(
        0.7, "x first rate", "Learning rate below which growth is common, so that it is info only"
    )


Window = tuple[int, int, float, float]
"""First step, its time in nanoseconds, median norm and last learning rate of a window."""


class State(sdk.RuleState):
    """The norms and rates of the current window, the last four windows, and the lowest."""

    norms: list[float] = msgspec.field(default_factory=list)
    rate: float = 0.0
    start: tuple[int, int] = (0, 0)
    medians: list[Window] = msgspec.field(default_factory=list)
    whole: sdk.Bins = msgspec.field(default_factory=lambda: sdk.Bins(1, 40, grow=True))
    """The medians of all windows; neighbors are merged when there are more than 40."""
    lowest: Window | None = None


class GradNormDrift(sdk.Rule[Settings, State]):
    """Warning; info if the learning rate decays meanwhile."""

    title = "Gradient norm drifts upward"
    severity = sdk.WARNING
    inhibited_by = ("nonfinite-loss", "grad-explosion")
    needs = ("grad_norm",)
    in_blocks = True

    def observe(self, view: sdk.View) -> None:
        if view.grad_norm is None:
            return
        state, window = self.state, self.settings.window
        rows, norms = _positive(view.grad_norm)
        start, n = 0, len(norms)
        while start < n:
            if not state.norms:
                state.start = (view.step[rows[start]], view.time_ns[rows[start]])
            stop = min(n, start + window - len(state.norms))
            state.norms += norms[start:stop]
            if len(state.norms) >= window:
                self._window(view, rows[stop - 1])
            start = stop

    def _window(self, view: sdk.View, row: int) -> None:
        state, limits = self.state, self.settings
        rate = view.value("lr", row)
        known = rate if rate is not None and math.isfinite(rate) else 0.0
        window = (*state.start, sdk.middle(sorted(state.norms)), known)
        state.medians.append(window)
        state.whole.push(window[0], window[2])
        if state.lowest is None or window[2] < state.lowest[2]:
            state.lowest = window
        state.norms = []
        del state.medians[: -limits.growing_windows - 1]
        pairs = list(zip(state.medians, state.medians[1:], strict=False))
        if len(pairs) == limits.growing_windows and all(self._grows(*pair) for pair in pairs):
            self._fire(view, row, state.medians[0], state.medians[1])
        elif state.lowest and self._grew_since(state.lowest):
            self._fire(view, row, state.lowest, state.lowest)
        elif self.episode.state:
            self.settle(view, row)

    def _grew_since(self, lowest: Window) -> bool:
        """Return whether the norm has grown since its lowest window, slowly and by far."""
        whole, limits, last = self.state.whole, self.settings, self.state.medians[-1]
        if last[2] < limits.total_growth * lowest[2] or last[3] > limits.lr_rise_ratio * lowest[3]:
            return False
        rise = whole.medians[bisect_right(whole.steps, lowest[0]) - 1 :]
        return len(rise) >= 10 and sdk.kendall(rise) >= limits.trend_z

    def _grows(self, before: Window, after: Window) -> bool:
        limits = self.settings
        return after[2] >= limits.window_growth * before[2] and after[3] <= limits.lr_rise_ratio * before[3]

    def _fire(self, view: sdk.View, row: int, first: Window, onset: Window) -> None:
        last = self.state.medians[-1]
        growth = last[2] / first[2]
        evidence: list[sdk.Fact] = [
            ("norm before", first[2], f"median of {self.settings.window} records", first[0]),
            ("norm now", last[2], "", view.step[row]),
            ("growth", growth, "x", None),
        ]
        decays = last[3] < self.settings.lr_decay_ratio * first[3]
        summary = (
            f"Gradient norm drifted {sdk.number(first[2])} → {sdk.number(last[2])} since step {first[0]}"
        )
        self.fire(
            view, row, sdk.INFO if decays else sdk.WARNING, onset[:2], summary, evidence,
            level=sdk.grade(growth), kind="decay" if decays else "", size=growth,
        )  # fmt: skip


def _positive(norms: sdk.Values) -> tuple[Sequence[int], list[float]]:
    """Return the rows and values of the finite norms above 0; the list may be ``norms`` itself."""
    if sdk.positive(norms):
        return range(len(norms)), cast(list[float], norms)
    kept = [(row, norm) for row, norm in enumerate(norms) if norm is not None and 0.0 < norm < math.inf]
    return [row for row, _ in kept], [norm for _, norm in kept]


def drifting(case: sdk.DiagnosisContext) -> sdk.Cause | None:
    """Return the cause of drifting norms."""
    if case.result.kind == "decay":
        return sdk.Cause(
            "late-growth",
            "The norm grows while the learning rate decays, which is common late "
            "in training and "
            "harmless while the validation metric improves.",
            "growth that is common late in training",
            (sdk.remedies.watch(case), sdk.remedies.clip(case)),
            "Check the validation metric: it still improves.",
        )
    rate = "." if case.rate_faded else ", or a learning rate that is too high for this stage."
    return sdk.Cause(
        "grad-norm-drift",
        f"Likely weights or logits that grow slowly: missing normalization or too little weight decay{rate}",
        "weights that grow slowly",
        (sdk.remedies.clip(case), sdk.remedies.lower_lr(case, 1.5), sdk.remedies.go_back(case)),
        "Log the norm of the weights: it grows over the same steps.",
    )


CAUSES = ((sdk.GRADIENT, drifting),)
