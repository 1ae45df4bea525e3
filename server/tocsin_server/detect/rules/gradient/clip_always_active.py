"""Report that almost every gradient is clipped.

Info if 95 % of 500 norms exceed the clipping threshold, so that the threshold sets the step size. It resolves
when fewer than 80 % of a window exceed it.

Signals:
    `grad_norm`, the clipping threshold that the hook captured
Warm-up:
    500 records
Does not fire on:
    - an infinite threshold, which only measures the norm
Likely causes:
    - a clipping threshold below the usual norm
First action:
    Raise the threshold to about twice the usual norm, or tune the learning rate together with it.
Source:
    Info only, because it is normal during the warm-up of language models.
"""

from __future__ import annotations

import msgspec

from tocsin_server.detect import sdk


class Settings(sdk.RuleSettings):
    recover_updates: int = sdk.setting(
        1, "updates", "Updates after a window with unclipped gradients before the alert is recovering"
    )
    resolve_updates: int = sdk.setting(
        1, "updates", "Updates after such a window before the alert is resolved"
    )
    recover_records: int = sdk.setting(1, "windows", "Windows with unclipped gradients that are needed")
    window: int = sdk.setting(500, "records", "Records over which clipping is counted; also the warm-up")
    clipped_share: float = sdk.setting(
        0.95, "share of records", "Share of norms above the clipping threshold from which the alert fires"
    )
    resolve_share: float = sdk.setting(
        0.8, "share of records", "Share of norms above the threshold below which the alert resolves"
    )


class State(sdk.RuleState):
    """The norms since the last full window."""

    stretch: sdk.Stretch = msgspec.field(default_factory=sdk.Stretch)


class ClipAlwaysActive(sdk.Rule[Settings, State]):
    """Severity: info."""

    title = "Almost every gradient is clipped"
    severity = sdk.INFO
    inhibited_by = ("nonfinite-loss",)
    bears_on = ("slow-convergence",)
    needs = ("grad_norm",)
    in_blocks = True

    def observe(self, view: sdk.View) -> None:
        clip = sdk.clip_of(self.context, self.suffix)
        if view.grad_norm is None or (clip is None and not self.episode.state):
            return
        for row, norms in self.state.stretch.windows(view, clip, self.settings.window):
            self._window(view, row, norms, clip)

    def _window(self, view: sdk.View, row: int, norms: list[float], clip: float | None) -> None:
        limits = self.settings
        share = sum(norm > clip for norm in norms) / len(norms) if clip is not None and clip > 0 else 0.0
        if share >= limits.clipped_share and clip is not None:
            evidence: list[sdk.Fact] = [
                ("clip", clip, "", None),
                ("usual norm", sdk.middle(sorted(norms)), "median", view.step[row]),
                ("clipped", share, "of the records", None),
            ]
            summary = f"{share:.0%} of the gradient norms exceed the clipping threshold of {sdk.number(clip)}"
            self.fire(view, row, sdk.INFO, self.state.stretch.since, summary, evidence)
        elif share < limits.resolve_share and self.episode.state:
            self.settle(view, row, at_once=True)


def clipped(case: sdk.DiagnosisContext) -> sdk.Cause | None:
    """Return the meaning of norms that are always clipped."""
    usual = case.usual_norm
    to = f" to {sdk.number(2 * usual)} (twice the usual norm)" if usual else ""
    return sdk.Cause(
        "clip-always-active",
        "Nearly every update has the same length, so the clipping threshold sets the step "
        "size instead of the gradient.",
        "a clipping threshold below the usual norm",
        (sdk.Remedy(f"Raise the clipping threshold{to}."),),
        "Double the threshold: updates get longer at the same learning rate.",
    )


CAUSES = ((sdk.GRADIENT, clipped),)
