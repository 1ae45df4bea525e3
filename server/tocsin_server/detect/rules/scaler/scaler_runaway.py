"""Detect a loss scale that doubles again and again because the gradients are almost zero.

A warning after eight growths of the scale without an overflow, together with 10 gradient norms below 1e-6
or 50 losses that are constant within 1e-5. With healthy gradients it is info, and only above 2^24. An
overflow ends the episode: it recovers after 100 updates and resolves after 500.

Signals:
    `scale`, `skipped`, `grad_norm`, `loss`
Warm-up:
    eight growths of the scale
Does not fire on:
    - a growing scale alone: 2^21 takes 10,000 updates without an overflow at torch's defaults, and
      DeepSpeed starts at 2^32
Likely causes:
    - targets or masks that make the loss vanish
    - a detached graph or frozen parameters
    - a tiny loss weight, or a mean over a huge tensor
First action:
    Check the targets, which parameters receive a gradient, and how the loss is reduced.
Source:
    A real run that grew from 2^16 to 2^29 at a loss of 0; Apex and InternEvo cap the scale at 2^24.
"""

from __future__ import annotations

import math

from tocsin_server.detect import sdk


class Settings(sdk.RuleSettings):
    calm = "after an overflow"
    recover_updates: int = 100
    resolve_updates: int = 500
    growths: int = sdk.setting(8, "growths", "Growths in a row without an overflow; also the warm-up")
    check_from_growths: int = sdk.setting(4, "growths", "Growths from which norms and losses are checked")
    dead_norm: float = sdk.setting(1e-6, "grad norm", "Norm below which gradients are close to 0")
    constant_range: float = sdk.setting(1e-5, "relative", "Range of the loss within which it is constant")
    dead_records: int = sdk.setting(10, "records", "Records in a row with such norms or losses")
    scale_cap: float = sdk.setting(
        2.0**24, "loss scale", "Scale at which other scalers stop growing (Apex, InternEvo)"
    )


class State(sdk.RuleState):
    """Growths since the last overflow and their start; the current streaks of dead signals."""

    growths: int = 0
    start: tuple[int, int] = (0, 0)
    first: float = 0.0
    scale: float = 0.0
    dead: int = 0
    still: int = 0
    low: float = math.inf
    high: float = -math.inf


class ScalerRunaway(sdk.Rule[Settings, State]):
    """Warning with negligible gradients or a constant loss; info above Apex's maximum scale."""

    title = "Loss scale grows without overflow"
    severity = sdk.WARNING
    inhibited_by = ("nonfinite-loss",)
    bears_on = ("scaler-collapse", "scaler-overflow-burst", "nonfinite-loss", "nonfinite-grad-norm")
    needs = ("scale",)
    in_blocks = True

    def observe(self, view: sdk.View) -> None:
        state = self.state
        quiet = state.growths < self.settings.check_from_growths and not self.episode.state
        if quiet and not view.moves and not view.overflows:
            return
        moves = {row: (before, after) for row, before, after in view.moves}
        bad = {row for row, _, _ in view.overflows}
        for row in range(view.n):
            if row in moves:
                self._moved(view, row, *moves[row])
            if row in bad:
                state.growths = 0
                self.settle(view, row)
            elif state.growths >= self.settings.check_from_growths:
                self._look(view, row)
            elif self.episode.state:
                self.settle(view, row)

    def _moved(self, view: sdk.View, row: int, before: float, after: float) -> None:
        state = self.state
        if after < before or before <= 0 or not math.isfinite(after):
            state.growths = 0
            return
        if not state.growths:
            state.start, state.first = view.place(row), before
        grown = (math.log(after) - math.log(before)) / math.log(view.scaler.growth_factor)
        state.growths += max(1, round(grown))
        state.scale = after

    def _look(self, view: sdk.View, row: int) -> None:
        """Check norm and loss of one record while the scale keeps growing."""
        state, limits = self.state, self.settings
        norm = view.value("grad_norm", row)
        if norm is not None:
            state.dead = state.dead + 1 if norm < limits.dead_norm else 0
        loss = view.value("loss", row)
        if loss is not None:
            self._follow(loss)
        if state.growths < limits.growths:
            return
        if state.dead >= limits.dead_records:
            self._fire(view, row, sdk.WARNING, "dead")
        elif state.still >= 5 * limits.dead_records:
            self._fire(view, row, sdk.WARNING, "still")
        elif state.scale > limits.scale_cap:
            self._fire(view, row, sdk.INFO, "high")

    def _follow(self, loss: float) -> None:
        state = self.state
        low, high = min(state.low, loss), max(state.high, loss)
        if high - low <= self.settings.constant_range * max(abs(high), abs(low)):
            state.still, state.low, state.high = state.still + 1, low, high
        else:
            state.still, state.low, state.high = 0, loss, loss

    def _fire(self, view: sdk.View, row: int, severity: int, kind: str) -> None:
        state = self.state
        evidence: list[sdk.Fact] = [
            ("scale", state.scale, "", view.step[row]),
            ("scale before", state.first, "", state.start[0]),
            ("growths", float(state.growths), "without overflow", None),
        ]
        why = {"dead": " while gradients are close to 0", "still": " while the loss is constant"}
        summary = (
            f"Loss scale grew {sdk.scale(state.first)} → {sdk.scale(state.scale)} without "
            f"overflow{why.get(kind, '')}"
        )
        level = severity * 100 + state.growths // 4
        self.fire(view, row, severity, state.start, summary, evidence, level=level, kind=kind)


def running_away(case: sdk.DiagnosisContext) -> sdk.Cause | None:
    """Return the cause of a scale that grows without overflows."""
    if case.result.kind == "high":
        return sdk.Cause(
            "small-gradients", "Nothing overflows, so the scale grows, which is normal for small losses.",
            "a small loss",
            (sdk.Remedy("Do nothing while loss and gradient norm are normal."), sdk.remedies.BF16),
            "Watch the gradient norm: it stays at its level.",
        )  # fmt: skip
    usual = case.usual_norm
    norm = f" (norm {sdk.number(usual)})" if usual is not None else ""
    return sdk.Cause(
        "no-gradient",
        f"Gradients are close to 0{norm}, so nothing can overflow: a target or mask that "
        "makes the loss 0, a detached graph, frozen parameters, or a tiny loss weight.",
        "gradients close to 0",
        (
            sdk.remedies.CHECK_GRAPH,
            sdk.Remedy("Check the targets of one batch and how the loss is reduced."),
            sdk.remedies.BF16,
        ),
        "Print the unscaled gradients of one batch: they are close to 0.",
    )


CAUSES = ((sdk.GRADIENT, running_away),)
