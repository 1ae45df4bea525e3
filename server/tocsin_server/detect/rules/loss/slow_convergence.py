"""Report a loss that is behind that of similar runs at the same step.

Info if the median of 32 losses is 10 % above that of similar runs of the project for 500 steps. The alert
mentions it if the peak learning rate of those runs is 30 times higher.

Signals:
    `loss`, `lr`, the same of similar runs of the project
Warm-up:
    500 steps
Does not fire on:
    - runs with other data, batch size or loss terms: only runs whose configurations overlap are compared
Likely causes:
    - a learning rate far below that of the similar runs
    - another difference in the configuration
First action:
    Compare the two configurations, and adopt one difference at a time.
Source:
    SageMaker Debugger, SimilarAcrossRuns; a run whose learning rate was 100 times too small.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence

import msgspec

from tocsin_server.detect.sdk import (
    INFO,
    RATE,
    Bins,
    Cause,
    DiagnosisContext,
    Fact,
    Remedy,
    Rule,
    RuleSettings,
    RuleState,
    SimilarRun,
    View,
    middle,
    number,
    setting,
)


class Settings(RuleSettings):
    """Thresholds of the rule; see Source in the module docstring."""

    recover_updates: int = setting(0, "updates", "Updates no longer behind before the alert is recovering")
    resolve_updates: int = setting(500, "updates", "Updates no longer behind before the alert is resolved")
    recover_records: int = setting(2, "bins", "Bins of 32 records no longer behind that are needed")
    behind_by: float = setting(0.1, "relative", "Distance above the similar runs' loss at the same step")
    behind_updates: int = setting(500, "updates", "Updates behind without interruption")
    lr_ratio: float = setting(30.0, "x lower", "Peak learning rate that explains it")


class State(RuleState):
    """Medians of 32 losses, where the run fell behind, and the peak learning rate."""

    bins: Bins = msgspec.field(default_factory=lambda: Bins(32, 1))
    since: tuple[int, int] | None = None
    peak: float = 0.0


class SlowConvergence(Rule[Settings, State]):
    """Severity: info."""

    title = "Loss lags behind similar runs"
    severity = INFO
    inhibited_by = ("nonfinite-loss", "loss-divergence", "not-learning", "loss-saturated")
    adversarial = False
    bears_on = ()
    needs = ("loss",)
    in_blocks = True

    def observe(self, view: View) -> None:
        if view.loss is None or self.suffix:
            return
        state = self.state
        for row in state.bins.extend(view):
            rate = view.lr[row] if view.lr is not None else None
            if rate is not None and state.peak < rate < math.inf:
                state.peak = rate
            self._evaluate(view, row, state.bins.medians[-1])

    def _evaluate(self, view: View, row: int, loss: float) -> None:
        state, limits = self.state, self.settings
        if not self.context.siblings.runs and not self.episode.state:
            return
        step = (state.bins.steps[-1] + view.step[row]) // 2
        known = [
            (value, run) for run in self.context.siblings.runs if (value := loss_at(run, step)) is not None
        ]
        reference = middle(sorted(value for value, _ in known)) if known else math.inf
        if loss - reference <= limits.behind_by * abs(reference) or reference == math.inf:
            state.since = None
            if self.episode.state:
                self.settle(view, row)
            return
        state.since = state.since or (view.step[row], view.time_ns[row])
        if view.step[row] - state.since[0] >= limits.behind_updates:
            self._fire(view, row, loss, reference, [run for _, run in known])

    def _fire(self, view: View, row: int, loss: float, reference: float, runs: Sequence[SimilarRun]) -> None:
        state, step = self.state, view.step[row]
        rates = [run.peak_lr for run in runs if run.peak_lr]
        theirs = middle(sorted(rates)) if rates else 0.0
        low = state.peak > 0 and theirs > self.settings.lr_ratio * state.peak
        evidence: list[Fact] = [
            ("loss", loss, "median of 32 records", step),
            ("loss of similar runs", reference, f"median of {len(runs)}", step),
            ("compared with", ", ".join(run.name or run.run_id for run in runs[:3]), "", None),
        ]
        if theirs and state.peak:
            evidence += [("peak learning rate", state.peak, "", None), ("theirs", theirs, "", None)]
        share = 100 * (loss - reference) / abs(reference) if reference else math.inf
        summary = f"Loss is {number(round(share))} % above that of similar runs at step {step}"
        if low:
            summary += f"; the learning rate is {number(round(theirs / state.peak))}x lower than theirs"
        onset = state.since or (step, view.time_ns[row])
        self.fire(view, row, INFO, onset, summary, evidence, kind="rate" if low else "behind")


def loss_at(run: SimilarRun, step: int) -> float | None:
    """Return the loss of a similar run at ``step``, interpolated; None outside its points."""
    at = bisect_left(run.steps, step)
    if at >= len(run.steps) or len(run.steps) != len(run.losses):
        return None
    if run.steps[at] == step:
        return run.losses[at]
    if at == 0:
        return None
    left, right = run.steps[at - 1], run.steps[at]
    share = (step - left) / (right - left)
    return run.losses[at - 1] + share * (run.losses[at] - run.losses[at - 1])


def _why(case: DiagnosisContext) -> Cause | None:
    by_rate = case.result.kind == "rate"
    environment = {fact[0]: fact[1] for fact in case.result.evidence}
    theirs = environment.get("theirs")
    code = f"for group in optimizer.param_groups:\n    group['lr'] = {theirs:.3g}" if by_rate else ""
    return Cause(
        "slower-than-siblings",
        "Likely the learning rate, which is far below that of the similar runs." if by_rate else
        "The configuration differs from that of the similar runs.",
        "a learning rate far below that of similar runs",
        (
            Remedy(f"Use the similar runs' learning rate, {number(float(theirs or 0.0))}." if by_rate else
                   "Compare the configurations and adopt one difference at a time.", code),
        ),
        "Use the similar runs' learning rate: the loss catches up.",
    )  # fmt: skip


CAUSES = ((RATE, _why),)
