"""Detect weights that are NaN or infinite, after which nothing is learned.

Critical if `run.check(weights=model)` or the hook's own check finds non-finite weights. Critical as well if
an update was made with a non-finite gradient or loss and the next three losses are not finite. The onset is
that update. It recovers after 5 updates with a finite loss and resolves after 50.

Signals:
    `nonfinite/weights`, `grad_norm`, `loss`, `stepped`, `skipped`
Warm-up:
    none
Does not fire on:
    - overflows that a loss scaler skips
    - steps that the script abandons
    - a NaN loss whose next loss is finite
Likely causes:
    - an update without a loss scaler that could skip it
    - `clip_grad_norm_` with an infinite norm, which makes every gradient NaN
First action:
    Resume from a checkpoint before the onset, and pass `error_if_nonfinite=True` to `clip_grad_norm_`.
Source:
    Follows from the arithmetic; the limit of three losses is tocsin's.
"""

from __future__ import annotations

import math

from tocsin_server.detect.sdk import (
    CRITICAL,
    FORWARD,
    Cause,
    DiagnosisContext,
    Fact,
    Remedy,
    Rule,
    RuleSettings,
    RuleState,
    Values,
    View,
    all_finite,
    count,
    none_finite,
    remedies,
    setting,
)


class Settings(RuleSettings):
    """Thresholds of tocsin; NaN weights necessarily give a NaN loss."""

    recover_updates: int = setting(5, "updates", "Updates with a finite loss before the alert is recovering")
    resolve_updates: int = setting(50, "updates", "Updates with a finite loss before the alert is resolved")
    nonfinite_losses: int = setting(
        3, "records", "Records in a row, after the update, with a non-finite loss"
    )


class State(RuleState):
    """The update that may have corrupted the weights, and the non-finite losses since."""

    since: tuple[int, int] | None = None
    bad: int = 0


class NonfiniteWeights(Rule[Settings, State]):
    """Critical, because training can only resume from older weights."""

    title = "Weights are NaN or infinite"
    severity = CRITICAL
    needs = ("loss", "nonfinite/weights")
    idles = True

    def asleep(self) -> bool:
        return self.state.since is None and not self.episode.state

    def observe(self, view: View) -> None:
        reported = view.column("nonfinite/weights")
        if reported is None and self._nothing_new(view):
            return
        if reported is None and self.episode.state and self._continues(view, view.loss):
            return
        for row in range(view.n):
            known = reported[row] if reported is not None else None
            if known is not None:
                self._reported_by_script(view, row, known)
            else:
                self._conclude(view, row)

    def _nothing_new(self, view: View) -> bool:
        if self.state.since is not None or self.episode.state:
            return False
        norms, losses = view.grad_norm, view.loss
        return (norms is None or all_finite(norms)) and (losses is None or all_finite(losses))

    def _continues(self, view: View, losses: Values | None) -> bool:
        """Handle a long episode quickly: no loss is finite."""
        state = self.state
        if losses is None or state.since is None or state.bad < self.settings.nonfinite_losses:
            return False
        if not (none_finite(losses) and self.already_reported(view, -1, CRITICAL)):
            return False
        state.bad += view.n
        return True

    def _reported_by_script(self, view: View, row: int, known: float) -> None:
        if known > 0 or not math.isfinite(known):
            evidence: list[Fact] = [("weights that are not finite", known, "values", view.step[row])]
            onset = self.state.since or (view.step[row], view.time_ns[row])
            began = self.episode.onset_step if self.episode.state else onset[0]
            seen = f", checked after step {view.step[row]}" if view.step[row] > began else ""
            summary = f"Weights have been non-finite since step {began}{seen}"
            self.fire(view, row, CRITICAL, onset, summary, evidence, level=1, kind="reported")
        elif self.episode.state:
            self.settle(view, row)

    def _conclude(self, view: View, row: int) -> None:
        state = self.state
        loss = view.loss[row] if view.loss is not None else None
        if loss is not None and math.isfinite(loss):
            state.since, state.bad = None, 0
            if self.episode.state:
                self.settle(view, row)
        elif loss is not None and state.since is not None:
            state.bad += 1
            if state.bad >= self.settings.nonfinite_losses:
                self._fire(view, row, state.since)
        if state.since is None and _corrupts(view, row):
            state.since, state.bad = (view.step[row], view.time_ns[row]), 0

    def _fire(self, view: View, row: int, onset: tuple[int, int]) -> None:
        if self.already_reported(view, row, CRITICAL):
            return
        evidence: list[Fact] = [
            ("update with a gradient that is not finite", "taken", "", onset[0]),
            ("losses not finite since", float(self.state.bad), "records", None),
        ]
        summary = (
            f"The update of step {onset[0]} corrupted the weights: "
            f"{count(self.state.bad, 'record')} since then without a finite loss"
        )
        self.fire(view, row, CRITICAL, onset, summary, evidence, kind="concluded")


def _corrupts(view: View, row: int) -> bool:
    """Return whether an update was made with a non-finite gradient. Its norm decides, or else the loss.

    A loss may overflow while its gradient does not; with a finite norm the weights stay finite.
    """
    stepped = view.stepped[row] if view.stepped is not None else None
    skipped = view.skipped[row] if view.skipped is not None else None
    if stepped == 0.0 or (skipped or 0.0) > 0 or (stepped is None and view.has_scaler(row)):
        return False
    norm = view.grad_norm[row] if view.grad_norm is not None else None
    loss = view.loss[row] if view.loss is not None else None
    known = loss if norm is None else norm
    return known is not None and not math.isfinite(known)


def _why(case: DiagnosisContext) -> Cause | None:
    return Cause(
        "weights-corrupted",
        "Likely an update with a non-finite gradient corrupted the weights, so later losses are non-finite.",
        "NaN weights",
        (
            remedies.go_back(case),
            Remedy(
                "Skip every update whose gradient is not finite.",
                "norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)",
            ),
            remedies.FIND_MODULE,
        ),
        "Run all(p.isfinite().all() for p in model.parameters()): it is False.",
    )


CAUSES = ((FORWARD, _why),)
