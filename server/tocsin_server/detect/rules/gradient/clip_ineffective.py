"""Detect a clipping threshold that never has an effect or that removes the gradient.

Info if the threshold is above 30 times the 99th percentile of 200 norms, or below a hundredth of their 1st
percentile. A threshold of 0 is a warning, because it removes every gradient. A threshold of 1e6 or more is
info after 10 norms. It resolves after a window in range.

Signals:
    `grad_norm`, the clipping threshold that the hook captured
Warm-up:
    200 records
Does not fire on:
    - an infinite threshold, which only measures the norm
Likely causes:
    - a value copied from another model
    - 0, set in the belief that it switches clipping off
First action:
    Set the threshold to one to two times the usual norm.
Source:
    A real training with a threshold of 1e7.
"""

from __future__ import annotations

import math

import msgspec

from tocsin_server.detect import sdk


class Settings(sdk.RuleSettings):
    recover_updates: int = sdk.setting(
        1, "updates", "Updates after a window with a normal threshold before the alert is recovering"
    )
    resolve_updates: int = sdk.setting(
        1, "updates", "Updates after such a window before the alert is resolved"
    )
    recover_records: int = sdk.setting(1, "windows", "Windows with a normal threshold that are needed")
    window: int = sdk.setting(200, "records", "Records over which the norms are taken; also the warm-up")
    never_clips_ratio: float = sdk.setting(
        30.0, "x 99th percentile", "Clipping threshold from which it never has an effect"
    )
    absurd_threshold: float = sdk.setting(
        1e6, "grad norm", "Clipping threshold that is reported soon, whatever the norms"
    )
    absurd_records: int = sdk.setting(
        10, "records", "Records with finite norms, including 0, before such a threshold is reported"
    )
    always_clips_ratio: float = sdk.setting(
        0.01, "x 1st percentile", "Threshold below which clipping removes nearly all of the gradient"
    )


class State(sdk.RuleState):
    """The norms since the last full window."""

    stretch: sdk.Stretch = msgspec.field(default_factory=sdk.Stretch)
    seen: int = 0
    """Number of finite norms at a threshold of 1e6 or more, until it was reported."""
    highest: float = 0.0


class ClipIneffective(sdk.Rule[Settings, State]):
    """Info; warning for a clipping threshold of 0, which removes every gradient."""

    title = "Clipping threshold is out of range"
    severity = sdk.WARNING
    inhibited_by = ("nonfinite-loss", "zero-grad-norm", "norm-after-zero")
    bears_on = ("grad-explosion",)
    needs = ("grad_norm",)
    in_blocks = True

    def observe(self, view: sdk.View) -> None:
        clip = sdk.clip_of(self.context, self.suffix)
        if view.grad_norm is None or (clip is None and not self.episode.state):
            return
        if clip is not None and clip >= self.settings.absurd_threshold and not self.episode.state:
            self._at_once(view, clip)
        for row, norms in self.state.stretch.windows(view, clip, self.settings.window):
            self._window(view, row, sorted(norms), clip)

    def _at_once(self, view: sdk.View, clip: float) -> None:
        """Check for a threshold that no gradient reaches.

        This also works for gradients of 0, which have no level.
        """
        state, limits = self.state, self.settings
        for row, norm in enumerate(view.grad_norm or []):
            if norm is None or not math.isfinite(norm):
                continue
            state.seen, state.highest = state.seen + 1, max(state.highest, norm)
            if state.seen == limits.absurd_records and state.highest * limits.never_clips_ratio < clip:
                summary = (
                    f"Clipping threshold {sdk.number(clip)} has no effect: the highest norm is "
                    f"{sdk.number(state.highest)}"
                )
                evidence: list[sdk.Fact] = [
                    ("highest norm", state.highest, "", view.step[row]),
                    ("clip", clip, "", None),
                ]
                onset = view.place(row)
                self.fire(view, row, sdk.INFO, onset, summary, evidence, kind="never")

    def _window(self, view: sdk.View, row: int, norms: list[float], clip: float | None) -> None:
        limits = self.settings
        low, high = norms[len(norms) // 100], norms[-1 - len(norms) // 100]
        since = self.state.stretch.since
        evidence: list[sdk.Fact] = [("usual norm", sdk.middle(norms), "median", view.step[row])]
        if clip is None or limits.always_clips_ratio * low <= clip <= limits.never_clips_ratio * high:
            self.settle(view, row, at_once=True)
            return
        evidence.append(("clip", clip, "", None))
        if clip <= 0:
            kind, summary = "zero", f"Clipping threshold {sdk.number(clip)} removes every gradient"
        elif clip > high:
            kind = "never"
            summary = (
                f"Clipping threshold {sdk.number(clip)} has no effect: 99 % of the norms are "
                f"below {sdk.number(high)}"
            )
        else:
            kind = "tiny"
            summary = (
                f"Clipping threshold {sdk.number(clip)} cuts a gradient norm of {sdk.number(low)} "
                "by more than 100x"
            )
        self.fire(view, row, sdk.WARNING if clip <= 0 else sdk.INFO, since, summary, evidence, kind=kind)


def clip_value(case: sdk.DiagnosisContext) -> sdk.Cause | None:
    """Return the cause of an ineffective clipping threshold."""
    text = {
        "zero": "A threshold of 0 multiplies every gradient by 0, so nothing is learned.",
        "never": "The clipping threshold is far above every gradient of this run, so it has no effect.",
        "tiny": "The clipping threshold is far below every gradient, so updates are tiny.",
    }
    return sdk.Cause(
        "clip-value",
        text.get(case.result.kind, text["never"]),
        "a clipping threshold copied from another model",
        (sdk.remedies.clip(case),),
        "Log the norm returned by clip_grad_norm_: it agrees with the reported norm.",
    )


CAUSES = ((sdk.GRADIENT, clip_value),)
