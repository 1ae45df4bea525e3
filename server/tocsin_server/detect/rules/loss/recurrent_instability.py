"""Detect the same kind of instability that comes back again and again.

A warning at the third episode of at least warning severity, with the episodes at least 100 steps and 2 % of
the step count apart. If the distances vary by less than 25 %, it is periodic, and the alert names
what else in the run has that period. It recovers after 20,000 updates without another episode.

Signals:
    episodes of other rules, phases, checkpoints and restarts of the learning rate
Warm-up:
    three episodes
Does not fire on:
    - several rules that report one event: they count once
Likely causes:
    - periodic: restarts of the learning rate, an epoch, a shard
    - irregular: training at the edge of stability
First action:
    Name the batches with `run.batch`. If the distances are irregular, lower the peak learning rate by a
    third.
Source:
    PaLM, with about 20 spikes; a real run with 24 spikes at irregular distances. The limit of 25 % is
    tocsin's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import msgspec

from tocsin_server.detect import sdk

TRIGGERS = frozenset(
    {
        "loss-spike", "loss-divergence", "loss-level-shift", "nonfinite-loss", "nonfinite-grad-norm",
        "grad-explosion", "scaler-overflow-burst", "scaler-collapse",
    }
)  # fmt: skip
KEPT = 32
"""Maximum number of episodes, and of times of each recurring event, that are kept."""
CLOCKS = 16
"""Maximum number of kinds of recurring events that are kept."""


class Settings(sdk.RuleSettings):
    calm = "without an episode"
    recover_updates: int = 20000
    resolve_updates: int = 50000
    episodes: int = sdk.setting(3, "episodes", "Alerts that make the instability recurrent")
    merge_steps: int = sdk.setting(100, "steps", "Alerts that are closer to each other count as one")
    merge_share: float = sdk.setting(
        0.02, "share of the step", "Alerts that are closer to each other count as one"
    )
    periodic_variation: float = sdk.setting(
        0.25, "sigma / mean", "Variation of the distances below which they are periodic"
    )
    same_period_within: float = sdk.setting(
        0.1, "relative", "Difference up to which two periods are the same"
    )


class State(sdk.RuleState):
    """Steps of episodes and of recurring events: restarts of the rate, evaluations, checkpoints."""

    steps: list[int] = msgspec.field(default_factory=list)
    rules: list[str] = msgspec.field(default_factory=list)
    clocks: dict[str, list[int]] = msgspec.field(default_factory=dict)


class RecurrentInstability(sdk.RunRule[Settings, State]):
    """Warning at the third episode."""

    title = "Instability keeps recurring"
    severity = sdk.WARNING

    def began(self, at: sdk.View, rule: str, subject: str, result: sdk.RuleResult) -> None:
        if rule == "lr-restart":
            self._tick("learning rate restarts", result.onset_step)
        if rule not in TRIGGERS or result.severity < sdk.WARNING:
            return
        state, limits, step = self.state, self.settings, result.onset_step
        least = max(limits.merge_steps, int(limits.merge_share * step))
        if state.steps and abs(step - state.steps[-1]) < least:
            return
        state.steps, state.rules = [*state.steps, step][-KEPT:], [*state.rules, rule][-KEPT:]
        if len(state.steps) >= limits.episodes:
            self._fire(at)

    def on_event(self, at: sdk.View, event: sdk.RunEvent) -> None:
        if event.kind == "phase" and event.data.get("state") == "begin":
            self._tick(f"{str(event.data.get('name', ''))[:40]} phases", at.step[0])
        elif event.kind in ("checkpoint", "epoch"):
            self._tick(f"{event.kind}s", at.step[0])

    def _tick(self, clock: str, step: int) -> None:
        clocks = self.state.clocks
        if clock in clocks or len(clocks) < CLOCKS:
            clocks[clock] = [*clocks.get(clock, []), step][-KEPT:]

    def _fire(self, at: sdk.View) -> None:
        state, limits = self.state, self.settings
        mean, variation = _rhythm(state.steps)
        periodic = variation < limits.periodic_variation
        matches = sorted(
            clock
            for clock, steps in state.clocks.items()
            if len(steps) >= 2 and abs(_rhythm(steps)[0] - mean) <= limits.same_period_within * mean
        )
        evidence: list[sdk.Fact] = [
            ("episodes", float(len(state.steps)), "", state.steps[-1]),
            ("mean distance", mean, "steps", None),
            ("variation of distances", variation, "sigma/mean", None),
        ]
        evidence += [("the same period", clock, "", None) for clock in matches[:3]] if periodic else []
        shown = ", ".join(str(step) for step in sorted(state.steps)[-5:])
        lately = "most recently " if len(state.steps) > 5 else ""
        summary = f"Training became unstable {len(state.steps)} times, {lately}at steps {shown}"
        if periodic:
            summary += f": every {sdk.number(round(mean))} steps"
            summary += f", as often as {matches[0]}" if matches else ""
        kind = "matched" if periodic and matches else "periodic" if periodic else "recurrent"
        onset = (state.steps[0], at.time_ns[0])
        self.fire(at, 0, sdk.WARNING, onset, summary, evidence, level=len(state.steps), kind=kind)


def _rhythm(steps: Sequence[int]) -> tuple[float, float]:
    """Return the mean distance, and its standard deviation relative to it."""
    gaps = [abs(later - earlier) for earlier, later in pairwise(steps)]
    mean = sum(gaps) / len(gaps)
    sigma = math.sqrt(sum((gap - mean) ** 2 for gap in gaps) / len(gaps))
    return mean, sigma / mean if mean else math.inf


def _periodic(case: sdk.DiagnosisContext) -> sdk.Cause | None:
    if case.result.kind == "recurrent":
        return None
    same = [str(fact[1]) for fact in case.result.evidence if fact[0] == "the same period"]
    matched = (
        f"has the same period as {same[0]}"
        if same
        else "is periodic: a cycle of the schedule, an epoch, or one data shard"
    )
    return sdk.Cause(
        "periodic",
        f"The instability {matched}; what recurs with it is the likely cause.",
        "something that recurs with the same period",
        (
            sdk.Remedy(
                "Name each batch, so that the shard is recorded.", "run.batch({'shard': shard, 'index': i})"
            ),
            sdk.Remedy("Declare intended restarts of the schedule.", 'run.expect("lr-restart", steps=[...])'),
            sdk.Remedy("Shuffle each epoch with a different seed and check whether the steps change."),
        ),
        "Change the data order: the instability moves to other steps.",
    )


def _at_the_edge(case: sdk.DiagnosisContext) -> sdk.Cause:
    """Return the cause of spikes at irregular intervals."""
    lower = "Reduce Adam's beta2 to 0.95."
    less = "Clip gradients at the usual norm: it recurs less often."
    if not case.rate_faded:
        lower = "Reduce the peak learning rate by a third, or Adam's beta2 to 0.95."
        less = "Reduce the learning rate by a third: it recurs less often."
    return sdk.Cause(
        "at-the-edge",
        "It recurs at irregular intervals: training is at the edge of stability, and some batches exceed it.",
        "training at the edge of stability",
        (sdk.Remedy(lower), sdk.Remedy("Clip gradients at the usual norm.")),
        less,
    )


CAUSES = ((sdk.DATA, _periodic), (sdk.OPTIMISATION, _at_the_edge))
