"""Detect a loss that climbs within the first records, before other rules have a baseline.

A warning if five losses in a row are three times the best median of five losses so far, above nine tenths of
all earlier losses and above the first loss. Only the first 150 records are checked; then `loss-divergence`
and `loss-spike` have their baselines. It recovers after 10 updates near the best median and resolves after
50.

Signals:
    `loss`
Warm-up:
    15 records
Does not fire on:
    - single outliers
    - losses whose noise reaches a factor of three
    - losses that were ever 0 or negative
    - GAN losses and reinforcement learning
Likely causes:
    - a learning rate that is too high, or a warm-up that is too short
    - no gradient clipping
First action:
    Start again with a longer warm-up or a third of the learning rate.
Source:
    Measured on the first records of 917 AlgoPerf logs: it fires on those that diverge there (0.15 to 1.8, 32
    to 241, 0.5 to 100 million), and on no other.
"""

from __future__ import annotations

import math

import msgspec

from tocsin_server.detect import sdk


class Settings(sdk.RuleSettings):
    calm = "near the best median"
    recover_updates: int = 10
    resolve_updates: int = 50
    warm_up: int = sdk.setting(15, "records", "Records before the rule starts", least=10)
    last_record: int = sdk.setting(150, "records", "Records after which the rule stops")
    climb_ratio: float = sdk.setting(
        3.0, "x best", "Height, above the best median of five losses, of five losses in a row"
    )
    above_share: float = sdk.setting(
        0.9, "share of earlier losses", "Earlier losses that these five must exceed as well"
    )
    recovered_ratio: float = sdk.setting(
        1.5, "x best", "Median of five losses below which the loss has recovered"
    )


class State(sdk.RuleState):
    """All losses so far, at most ``until``, and the best median of five of them."""

    losses: list[float] = msgspec.field(default_factory=list)
    best: float = math.inf
    newest: list[tuple[int, int]] = msgspec.field(default_factory=list)
    """Step and time of the newest five of them, because the onset may be in an earlier view."""


class EarlyClimb(sdk.Rule[Settings, State]):
    """Warning: nothing is known yet about the usual spikes of this run."""

    title = "Loss climbs in the first records"
    severity = sdk.WARNING
    inhibited_by = ("nonfinite-loss", "loss-spike", "loss-divergence")
    adversarial = False
    needs = ("loss",)
    in_blocks = True

    def observe(self, view: sdk.View) -> None:
        if view.loss is None or (
            len(self.state.losses) >= self.settings.last_record and not self.episode.state
        ):
            return
        rows, losses = view.losses
        full, back = len(self.state.losses) >= self.settings.last_record, self.episode.back
        if full and back is not None and losses and min(losses) > back:
            return
        for row, loss in zip(rows, losses, strict=True):
            if len(self.state.losses) < self.settings.last_record:
                self._one(view, row, loss)
            elif self.episode.state and self.is_back(loss):
                self.settle(view, row)

    def _one(self, view: sdk.View, row: int, loss: float) -> None:
        state, limits = self.state, self.settings
        state.losses.append(loss)
        state.newest = [*state.newest[-4:], view.place(row)]
        newest, before = state.losses[-5:], sorted(state.losses[:-5])
        if len(state.losses) >= limits.warm_up and min(before[0], *newest) > 0:
            bar = max(
                limits.climb_ratio * state.best,
                state.losses[0],
                before[min(int(limits.above_share * len(before)), len(before) - 1)],
            )
            if min(newest) > bar:
                self._fire(view, row, loss)
            elif self.episode.state and self.is_back(loss):
                self.settle(view, row)
        state.best = min(state.best, sdk.middle(sorted(newest))) if len(newest) == 5 else state.best

    def _fire(self, view: sdk.View, row: int, loss: float) -> None:
        best = self.state.best
        if self.already_reported(view, row, sdk.WARNING, level := int(math.log2(min(loss / best, 1e15)))):
            return
        evidence: list[sdk.Fact] = [
            ("loss", loss, "", view.step[row]),
            ("best loss", best, "median of 5", None),
        ]
        onset = self.state.newest[0]
        summary = (
            f"Loss climbed {sdk.number(best)} → {sdk.number(loss)} in the first "
            f"{len(self.state.losses)} records"
        )
        back = self.settings.recovered_ratio * best
        self.fire(view, row, sdk.WARNING, onset, summary, evidence, level=level, back=back)


def _why(case: sdk.DiagnosisContext) -> sdk.Cause | None:
    return sdk.Cause(
        "early-divergence",
        "Likely a learning rate that is too high for untrained weights, or a warm-up that is too short.",
        "a learning rate that is too high at the start",
        (
            sdk.remedies.lower_lr(case, 3.0),
            sdk.Remedy("Use a longer warm-up: 1000 to 2000 steps is usual for transformers."),
            sdk.remedies.clip(case),
        ),
        "Repeat the first steps with a third of the rate: the loss does not climb.",
    )


CAUSES = ((sdk.OPTIMISATION, _why),)
