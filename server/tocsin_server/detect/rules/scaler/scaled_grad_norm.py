"""Detect a gradient norm that is measured before the gradients are unscaled.

A warning if the norm follows the loss scale: the medians of 8 records before and after a change of the scale
change by the same factor, within 35 % of its logarithm, in four changes in a row. A warning as well if the
hook saw that scaled gradients were clipped. A median of 200 norms above 1e4 at a scale of 1024 or more is
info. It resolves when the norm does not follow the scale for 2000 updates.

Signals:
    `grad_norm`, `scale`, whether the hook saw `unscale_`
Warm-up:
    four changes of the scale with at least 4 records on each side, or 200 records
Does not fire on:
    - losses that are summed, whose norms of 2e5 are healthy
    - norms that match one change of the scale by chance
Likely causes:
    - the gradients are clipped, and the norm taken, before `scaler.unscale_(optimizer)`
First action:
    Call `scaler.unscale_(optimizer)` before `clip_grad_norm_`. Otherwise, at a scale of 65,536, a threshold
    of 1.0 clips gradients to a norm of 1.5e-5.
Source:
    Measured with torch; Lightning issue 9205. The limits are tocsin's.
"""

from __future__ import annotations

import math
from typing import cast

import msgspec

from tocsin_server.detect import sdk

UNSCALE = sdk.Remedy(
    "Call unscale_() before you measure the norm and clip gradients.",
    "scaler.scale(loss).backward()\n"
    "scaler.unscale_(optimizer)\n"
    "norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)\n"
    "scaler.step(optimizer)\n"
    "scaler.update()",
)


class Settings(sdk.RuleSettings):
    resolve_updates: int = sdk.setting(
        2000, "updates", "Updates with an independent norm before the alert is resolved"
    )
    compared_records: int = sdk.setting(
        8, "records", "Records before and after a change of scale that are compared"
    )
    min_records_per_side: int = sdk.setting(4, "records", "Smallest number of records on each side")
    follows_within: float = sdk.setting(
        0.35, "x log of the change", "Distance within which the norm follows the scale"
    )
    changes: int = sdk.setting(4, "changes of scale", "Changes of scale in a row that the norm follows")
    suspicious_norm: float = sdk.setting(
        1e4, "grad norm", "Median norm that is suspicious at a scale of 1024 or more"
    )
    window: int = sdk.setting(200, "records", "Records over which that median is taken")


class State(sdk.RuleState):
    """Norms at the current and the previous scale, and how many changes of scale the norm followed."""

    scale: float = 0.0
    before: list[float] = msgspec.field(default_factory=list)
    ratio: float = 1.0
    now: list[float] = msgspec.field(default_factory=list)
    compared: bool = True
    followed: int = 0
    since: tuple[int, int] = (0, 0)
    at: tuple[int, int] = (0, 0)
    window: list[float] = msgspec.field(default_factory=list)


class ScaledGradNorm(sdk.Rule[Settings, State]):
    """Warning if the norm follows the scale or the hook detected it; info if it is only high."""

    title = "Gradient norm measured before unscale_"
    severity = sdk.WARNING
    inhibited_by = ("nonfinite-loss",)
    needs = ("grad_norm",)
    in_blocks = True

    def observe(self, view: sdk.View) -> None:
        if view.grad_norm is None or view.scale is None:
            return
        if self._nothing_new(view, view.grad_norm, view.scale):
            return
        for row, norm in enumerate(view.grad_norm):
            loss_scale = view.scale[row]
            if loss_scale is None or not 0 < loss_scale < math.inf or loss_scale == 1.0:
                continue
            if loss_scale != self.state.scale:
                self._changed(view, row, loss_scale)
            if norm is not None and 0 < norm < math.inf:
                self._one(view, row, norm)

    def _nothing_new(self, view: sdk.View, norms: sdk.Values, scales: sdk.Values) -> bool:
        """Handle the common cases quickly: no scaler, or one scale that was compared before."""
        state, limits = self.state, self.settings
        if scales.count(1.0) == view.n:
            return True
        one_scale = state.compared and state.scale > 0 and scales.count(state.scale) == view.n
        if not (one_scale and sdk.positive(norms)):
            return False
        known = cast(list[float], norms)
        state.now = [*state.now, *known][-limits.compared_records :]
        start = 0
        while start < view.n:
            stop = min(view.n, start + limits.window - len(state.window))
            state.window += known[start:stop]
            start = stop
            if len(state.window) >= limits.window:
                self._level(view, stop - 1, sdk.middle(sorted(state.window)))
                state.window = []
        return True

    def _changed(self, view: sdk.View, row: int, loss_scale: float) -> None:
        state = self.state
        state.ratio = loss_scale / state.scale if state.scale else 1.0
        state.before, state.now = state.now[-self.settings.compared_records :], []
        state.scale, state.at = loss_scale, view.place(row)
        state.compared = state.ratio == 1.0 or len(state.before) < self.settings.min_records_per_side

    def _one(self, view: sdk.View, row: int, norm: float) -> None:
        state, limits = self.state, self.settings
        if state.compared:
            state.now = [*state.now[1 - limits.compared_records :], norm]
        else:
            state.now.append(norm)
        if not state.compared and len(state.now) >= limits.compared_records:
            self._compare(view, row)
        state.window.append(norm)
        if len(state.window) >= limits.window:
            self._level(view, row, sdk.middle(sorted(state.window)))
            state.window = []

    def _compare(self, view: sdk.View, row: int) -> None:
        """Check whether the norm changed as the scale did."""
        state, limits = self.state, self.settings
        state.compared = True
        change = math.log(state.ratio)
        moved = math.log(sdk.middle(sorted(state.now)) / sdk.middle(sorted(state.before)))
        if abs(moved - change) > limits.follows_within * abs(change):
            state.followed = 0
            if self.episode.kind == "follows":
                self.settle(view, row)
            return
        if not state.followed:
            state.since = state.at
        state.followed += 1
        if state.followed >= limits.changes:
            self._fire(view, row, sdk.WARNING, state.since, "follows", sdk.middle(sorted(state.now)))

    def _level(self, view: sdk.View, row: int, median: float) -> None:
        """Check the median of a window: scaled norms seen by the hook, or a suspiciously high level."""
        if self.suffix in self.context.scaled_norms:
            self._fire(view, row, sdk.WARNING, view.place(row), "seen", median)
        elif median > self.settings.suspicious_norm and self.state.scale >= 1024:
            self._fire(view, row, sdk.INFO, view.place(row), "high", median)
        elif self.episode.state and self.episode.kind != "follows":
            self.settle(view, row, at_once=True)

    def _fire(
        self, view: sdk.View, row: int, severity: int, onset: tuple[int, int], kind: str, norm: float
    ) -> None:
        state = self.state
        evidence: list[sdk.Fact] = [
            ("norm", norm, "median", view.step[row]),
            ("scale", state.scale, "", view.step[row]),
        ]
        if kind != "seen":
            evidence.append(("norm / scale", norm / state.scale, "what it would be unscaled", None))
        if kind == "follows":
            evidence.append(("changes of scale", float(state.followed), "that the norm followed", None))
        summary = {
            "follows": f"Gradient norm followed {state.followed} changes of the loss scale",
            "seen": f"Gradient norm is that of scaled gradients; unscaled it is {sdk.number(norm)}",
            "high": (
                f"Gradient norm is {sdk.number(norm)} at a scale of {sdk.scale(state.scale)}, "
                "perhaps not unscaled"
            ),
        }[kind]
        self.fire(view, row, severity, onset, summary, evidence, level=severity, kind=kind)


def measured_scaled(case: sdk.DiagnosisContext) -> sdk.Cause | None:
    """Return the cause: the measurement, and the clipping with it."""
    sure = "Perhaps the" if case.result.kind == "high" else "The"
    return sdk.Cause(
        "scaled-norm",
        f"{sure} norm is measured before scaler.unscale_(), so it is the true norm times the "
        "scale, and clipping cuts gradients far too short.",
        "a norm measured before unscale_",
        (UNSCALE, sdk.remedies.WIRE_SCALER),
        "Watch the norm when the scale halves: it halves too.",
    )


CAUSES = ((sdk.MEASUREMENT, measured_scaled),)
