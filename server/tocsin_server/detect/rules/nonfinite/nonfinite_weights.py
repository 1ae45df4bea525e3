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

from tocsin_server.detect import sdk


class Settings(sdk.RuleSettings):
    """Thresholds of tocsin; NaN weights necessarily give a NaN loss."""

    calm = "with a finite loss"
    recover_updates: int = 5
    resolve_updates: int = 50
    nonfinite_losses: int = sdk.setting(
        3, "records", "Records in a row, after the update, with a non-finite loss"
    )


class State(sdk.RuleState):
    """The update that may have corrupted the weights, and the non-finite losses since."""

    since: tuple[int, int] | None = None
    bad: int = 0


class NonfiniteWeights(sdk.Rule[Settings, State]):
    """Critical, because training can only resume from older weights."""

    title = "Weights are NaN or infinite"
    severity = sdk.CRITICAL
    needs = ("loss", "nonfinite/weights")
    idles = True

    def asleep(self) -> bool:
        return self.state.since is None and not self.episode.state

    def observe(self, view: sdk.View) -> None:
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

    def _nothing_new(self, view: sdk.View) -> bool:
        if self.state.since is not None or self.episode.state:
            return False
        norms, losses = view.grad_norm, view.loss
        return (norms is None or sdk.all_finite(norms)) and (losses is None or sdk.all_finite(losses))

    def _continues(self, view: sdk.View, losses: sdk.Values | None) -> bool:
        """Handle a long episode quickly: no loss is finite."""
        state = self.state
        if losses is None or state.since is None or state.bad < self.settings.nonfinite_losses:
            return False
        if not (sdk.none_finite(losses) and self.already_reported(view, -1, sdk.CRITICAL)):
            return False
        state.bad += view.n
        return True

    def _reported_by_script(self, view: sdk.View, row: int, known: float) -> None:
        if known > 0 or not math.isfinite(known):
            evidence: list[sdk.Fact] = [("weights that are not finite", known, "values", view.step[row])]
            onset = self.state.since or view.place(row)
            began = self.episode.onset_step if self.episode.state else onset[0]
            seen = f", checked after step {view.step[row]}" if view.step[row] > began else ""
            summary = f"Weights have been non-finite since step {began}{seen}"
            self.fire(view, row, sdk.CRITICAL, onset, summary, evidence, level=1, kind="reported")
        elif self.episode.state:
            self.settle(view, row)

    def _conclude(self, view: sdk.View, row: int) -> None:
        state = self.state
        loss = view.value("loss", row)
        if loss is not None and math.isfinite(loss):
            state.since, state.bad = None, 0
            self.settle(view, row)
        elif loss is not None and state.since is not None:
            state.bad += 1
            if state.bad >= self.settings.nonfinite_losses:
                self._fire(view, row, state.since)
        if state.since is None and _corrupts(view, row):
            state.since, state.bad = view.place(row), 0

    def _fire(self, view: sdk.View, row: int, onset: tuple[int, int]) -> None:
        if self.already_reported(view, row, sdk.CRITICAL):
            return
        evidence: list[sdk.Fact] = [
            ("update with a gradient that is not finite", "taken", "", onset[0]),
            ("losses not finite since", float(self.state.bad), "records", None),
        ]
        summary = (
            f"The update of step {onset[0]} corrupted the weights: "
            f"{sdk.count(self.state.bad, 'record')} since then without a finite loss"
        )
        self.fire(view, row, sdk.CRITICAL, onset, summary, evidence, kind="concluded")


def _corrupts(view: sdk.View, row: int) -> bool:
    """Return whether an update was made with a non-finite gradient. Its norm decides, or else the loss.

    A loss may overflow while its gradient does not; with a finite norm the weights stay finite.
    """
    stepped = view.value("stepped", row)
    skipped = view.value("skipped", row)
    if stepped == 0.0 or (skipped or 0.0) > 0 or (stepped is None and view.has_scaler(row)):
        return False
    norm = view.value("grad_norm", row)
    loss = view.value("loss", row)
    known = loss if norm is None else norm
    return known is not None and not math.isfinite(known)


def _why(case: sdk.DiagnosisContext) -> sdk.Cause | None:
    return sdk.Cause(
        "weights-corrupted",
        "Likely an update with a non-finite gradient corrupted the weights, so later losses are non-finite.",
        "NaN weights",
        (
            sdk.remedies.go_back(case),
            sdk.Remedy(
                "Skip every update whose gradient is not finite.",
                "norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)",
            ),
            sdk.remedies.FIND_MODULE,
        ),
        "Run all(p.isfinite().all() for p in model.parameters()): it is False.",
    )


CAUSES = ((sdk.FORWARD, _why),)
