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

from tocsin_server.detect import sdk


class Settings(sdk.RuleSettings):
    calm = "no longer behind"
    recover_updates: int = 0
    resolve_updates: int = 500
    recover_records: int = sdk.setting(2, "bins", "Bins of 32 records no longer behind that are needed")
    behind_by: float = sdk.setting(0.1, "relative", "Distance above the similar runs' loss at the same step")
    behind_updates: int = sdk.setting(500, "updates", "Updates behind without interruption")
    lr_ratio: float = sdk.setting(30.0, "x lower", "Peak learning rate that explains it")


class State(sdk.RuleState):
    """Medians of 32 losses, where the run fell behind, and the peak learning rate."""

    bins: sdk.Bins = msgspec.field(default_factory=lambda: sdk.Bins(32, 1))
    since: tuple[int, int] | None = None
    peak: float = 0.0


class SlowConvergence(sdk.Rule[Settings, State]):
    """Severity: info."""

    title = "Loss lags behind similar runs"
    severity = sdk.INFO
    inhibited_by = ("nonfinite-loss", "loss-divergence", "not-learning", "loss-saturated")
    adversarial = False
    bears_on = ()
    needs = ("loss",)
    in_blocks = True

    def observe(self, view: sdk.View) -> None:
        if view.loss is None or self.suffix:
            return
        state = self.state
        for row in state.bins.extend(view):
            rate = view.value("lr", row)
            if rate is not None and state.peak < rate < math.inf:
                state.peak = rate
            self._evaluate(view, row, state.bins.medians[-1])

    def _evaluate(self, view: sdk.View, row: int, loss: float) -> None:
        state, limits = self.state, self.settings
        if not self.context.siblings.runs and not self.episode.state:
            return
        step = (state.bins.steps[-1] + view.step[row]) // 2
        known = [
            (value, run) for run in self.context.siblings.runs if (value := loss_at(run, step)) is not None
        ]
        reference = sdk.middle(sorted(value for value, _ in known)) if known else math.inf
        if loss - reference <= limits.behind_by * abs(reference) or reference == math.inf:
            state.since = None
            self.settle(view, row)
            return
        state.since = state.since or view.place(row)
        if view.step[row] - state.since[0] >= limits.behind_updates:
            self._fire(view, row, loss, reference, [run for _, run in known])

    def _fire(
        self, view: sdk.View, row: int, loss: float, reference: float, runs: Sequence[sdk.SimilarRun]
    ) -> None:
        state, step = self.state, view.step[row]
        rates = [run.peak_lr for run in runs if run.peak_lr]
        theirs = sdk.middle(sorted(rates)) if rates else 0.0
        low = state.peak > 0 and theirs > self.settings.lr_ratio * state.peak
        evidence: list[sdk.Fact] = [
            ("loss", loss, "median of 32 records", step),
            ("loss of similar runs", reference, f"median of {len(runs)}", step),
            ("compared with", ", ".join(run.name or run.run_id for run in runs[:3]), "", None),
        ]
        if theirs and state.peak:
            evidence += [("peak learning rate", state.peak, "", None), ("theirs", theirs, "", None)]
        share = 100 * (loss - reference) / abs(reference) if reference else math.inf
        summary = f"Loss is {sdk.number(round(share))} % above that of similar runs at step {step}"
        if low:
            summary += f"; the learning rate is {sdk.number(round(theirs / state.peak))}x lower than theirs"
        onset = state.since or (step, view.time_ns[row])
        self.fire(view, row, sdk.INFO, onset, summary, evidence, kind="rate" if low else "behind")


def loss_at(run: sdk.SimilarRun, step: int) -> float | None:
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


def _why(case: sdk.DiagnosisContext) -> sdk.Cause | None:
    text = "The configuration differs from that of the similar runs."
    remedy = sdk.Remedy("Compare the configurations and adopt one difference at a time.")
    if case.result.kind == "rate":
        theirs = next(float(value) for name, value, *_ in case.result.evidence if name == "theirs")
        text = "Likely the learning rate, which is far below that of the similar runs."
        remedy = sdk.Remedy(
            f"Use the similar runs' learning rate, {sdk.number(theirs)}.",
            f"for group in optimizer.param_groups:\n    group['lr'] = {theirs:.3g}",
        )
    return sdk.Cause(
        "slower-than-siblings",
        text,
        "a learning rate far below that of similar runs",
        (remedy,),
        "Use the similar runs' learning rate: the loss catches up.",
    )


CAUSES = ((sdk.RATE, _why),)
