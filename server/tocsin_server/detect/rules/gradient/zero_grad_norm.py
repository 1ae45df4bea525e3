"""Detect a gradient norm that is exactly 0.

Twenty records in a row with a norm of exactly 0. Critical if the loss is constant within 1e-5, because no
gradient reaches the parameters. A warning if no loss is known. If the loss moves, `norm-after-zero` reports
it instead. Info if the norm is 0 in exactly k-1 of every k records, which is gradient accumulation logged
at every micro-step. It recovers after 3 updates with a norm above 0 and resolves after 50.

Signals:
    `grad_norm`, `loss`
Warm-up:
    20 records
Does not fire on:
    - gradient accumulation
    - small norms: 1e-12 is still a gradient
    - a NaN loss
Likely causes:
    - a detached graph or frozen parameters
    - targets that make the loss vanish
    - a norm taken after `zero_grad`, or at a micro-step without an update
First action:
    Check which parameters receive a gradient after `loss.backward()`.
Source:
    SageMaker Debugger, AllZero and UnchangedTensor (rtol 1e-5); BigScience tr1-13B, whose log prints a norm
    of 0.000 throughout.
"""

from __future__ import annotations

from tocsin_server.detect import sdk


class Settings(sdk.RuleSettings):
    """Thresholds of the rule; "constant" as in SageMaker's UnchangedTensor (rtol 1e-5)."""

    calm = "with a norm above 0"
    recover_updates: int = 3
    resolve_updates: int = 50
    zero_records: int = sdk.setting(20, "records", "Records in a row with a norm of exactly 0")
    constant_range: float = sdk.setting(1e-5, "relative", "Range of the loss within which it is constant")
    accumulation_cycles: int = sdk.setting(
        5, "cycles", "Cycles of equal length that show gradient accumulation"
    )


class State(sdk.ZeroStreak):
    """A streak of zeros, with the cycles of gradient accumulation."""

    cycles: int = 0
    """Number of consecutive times that ``gap`` was the same."""


class ZeroGradNorm(sdk.Rule[Settings, State]):
    """Critical if the loss is constant, warning without a loss, info for accumulation."""

    title = "Gradient norm is exactly 0"
    severity = sdk.CRITICAL
    inhibited_by = ("nonfinite-loss",)
    needs = ("grad_norm",)
    exact = True
    idles = True

    def asleep(self) -> bool:
        state = self.state
        idle = not (state.streak or state.cycles or state.gap or self.episode.state)
        return idle and not self.quantum("grad_norm")

    def observe(self, view: sdk.View) -> None:
        norms = sdk.norms_of(view, self.state, self.quantum("grad_norm"))
        if self._nothing_new(norms):
            return
        for row, norm in enumerate(norms):
            if norm == 0.0:
                self._zero(view, row)
            elif norm is not None:
                self._above(view, row)
            elif self.state.streak:
                self.state.loss(view, row)

    def _nothing_new(self, norms: list[float | None]) -> bool:
        state = self.state
        if 0.0 in norms or state.streak or state.cycles or self.episode.state:
            return False
        if norms.count(None) < len(norms):
            state.gap = 0
        return True

    def _above(self, view: sdk.View, row: int) -> None:
        """End a streak at a norm above 0; streaks of equal length are gradient accumulation."""
        state = self.state
        if state.streak:
            state.cycles = state.cycles + 1 if state.streak == state.gap else 1
            state.gap = state.streak
        else:
            state.cycles = state.gap = 0
        state.end()
        if state.cycles >= self.settings.accumulation_cycles:
            self._accumulation(view, row)
        elif self.episode.state:
            self.settle(view, row)

    def _accumulation(self, view: sdk.View, row: int) -> None:
        state = self.state
        if state.cycles * state.gap < self.settings.zero_records:
            return
        k = state.gap + 1
        summary = f"Gradient norm is 0 in {state.gap} of every {k} records: gradient accumulation over {k}"
        evidence: list[sdk.Fact] = [("micro-steps", float(k), "records per update", view.step[row])]
        self.fire(view, row, sdk.INFO, view.place(row), summary, evidence, kind="accumulation")

    def _zero(self, view: sdk.View, row: int) -> None:
        state = self.state
        state.zero(view, row)
        state.loss(view, row)
        accumulating = state.cycles > 1 and state.streak <= 2 * state.gap
        if state.streak >= self.settings.zero_records and not accumulating:
            self._fire(view, row)
        elif self.episode.state and self._still():
            self.continues(view, row)

    def _still(self) -> bool:
        """Return whether the loss is constant in the current streak, or unknown."""
        return not self.state.moves(self.settings.constant_range)

    def _fire(self, view: sdk.View, row: int) -> None:
        state, level = self.state, sdk.grade(self.state.streak)
        known, still = state.high >= state.low, self._still()
        if known and not still:
            self._moving(view, row)
            return
        times = sdk.count(state.streak, "record")
        zero = "0" if self.quantum("grad_norm") else "exactly 0"
        evidence: list[sdk.Fact] = [
            ("grad norm", 0.0, "", view.step[row]),
            ("in a row", float(state.streak), "records", None),
        ]
        if not known:
            severity, kind, summary = sdk.WARNING, "unknown", f"Gradient norm has been {zero} for {times}"
        else:
            severity, kind = sdk.CRITICAL, "real"
            summary = f"Gradient norm has been {zero} and the loss at {sdk.number(state.high)} for {times}"
            evidence.append(("loss", state.high, "constant", view.step[row]))
        self.fire(
            view, row, severity, state.since, summary, evidence, level=level, kind=kind, size=state.streak
        )

    def _moving(self, view: sdk.View, row: int) -> None:
        """End the episode because the loss moves: a measurement error, which norm-after-zero reports."""
        self.settle(view, row)
