"""Report a loss that falls in steps at equal distances, as at epoch boundaries.

Info if the median falls by 10 % or more from one stretch of 80 records to the next, with level stretches
before and after it, twice at equal distances (within 15 %) from the start.

Signals:
    `loss`, `lr`
Warm-up:
    160 records
Does not fire on:
    - drops of the learning rate
    - a loss that falls continuously
    - GAN losses and reinforcement learning
Likely causes:
    - epochs: the model sees samples that it remembers
First action:
    Choose the checkpoint by validation, and train for fewer epochs or on more data.
Source:
    A real fine-tuning of three epochs (1.09, 0.73, 0.41).
"""

from __future__ import annotations

from itertools import pairwise

import msgspec

from tocsin_server.detect import sdk

DROPS = 8
"""Maximum number of drops that are kept; older ones are dropped."""


class Settings(sdk.RuleSettings):
    """Thresholds of tocsin, based on a real three-epoch fine-tuning."""

    calm = "without a drop"
    recover_updates: int = 1000
    resolve_updates: int = 5000
    bins_per_side: int = sdk.setting(
        5, "bins of 16 records", "Bins before and after a drop that must not overlap", least=3
    )
    drop: float = sdk.setting(0.1, "relative", "Fall of the loss at a drop")
    even_within: float = sdk.setting(
        0.15, "relative", "Difference up to which the distances of drops are equal"
    )
    drops: int = sdk.setting(2, "drops", "Drops in a row at equal distances")
    min_drop_quanta: float = sdk.setting(
        5.0, "x quantum", "Multiple of the printed loss's last digit that a drop must exceed"
    )
    lr_change_ratio: float = sdk.setting(
        1.3, "x", "Change of the learning rate between bins that explains a drop"
    )


class State(sdk.RuleState):
    """The newest bins, the learning rates at them, and where drops were."""

    bins: sdk.Bins = msgspec.field(default_factory=lambda: sdk.Bins(16, 10))
    rates: list[float] = msgspec.field(default_factory=list)
    rate: float = 0.0
    drops: list[int] = msgspec.field(default_factory=list)
    sizes: list[float] = msgspec.field(default_factory=list)


class StairSteps(sdk.Rule[Settings, State]):
    """Info, because the pattern is not wrong by itself; validation shows whether it matters."""

    title = "Loss drops at epoch boundaries"
    severity = sdk.INFO
    inhibited_by = ("nonfinite-loss", "loss-divergence")
    adversarial = False
    bears_on = ()
    needs = ("loss",)
    in_blocks = True

    def observe(self, view: sdk.View) -> None:
        if view.loss is None:
            return
        state = self.state
        for row in state.bins.extend(view):
            state.rate = view.value("lr", row) or state.rate
            state.rates = [*state.rates, state.rate][-2 * self.settings.bins_per_side :]
            self._evaluate(view, row)
            self.settle(view, row)

    def _evaluate(self, view: sdk.View, row: int) -> None:
        state, limits = self.state, self.settings
        medians, n = state.bins.medians, limits.bins_per_side
        if len(medians) < 2 * n:
            return
        before, after = medians[:n], medians[n:]
        if max(after) >= min(before) or min(after) <= 0:
            return
        old, new = sdk.middle(sorted(before)), sdk.middle(sorted(after))
        if new > (1 - limits.drop) * old:
            return
        height = old - new
        if height < limits.min_drop_quanta * self.quantum("loss"):
            return
        sudden = before[-1] - after[1] > 0.7 * height and _level(before, height) and _level(after[1:], height)
        by_rate = any(
            _apart(earlier, later) > limits.lr_change_ratio for earlier, later in pairwise(state.rates)
        )
        if sudden and not by_rate:
            state.bins.medians, state.bins.steps = after, state.bins.steps[n:]
            state.rates = state.rates[n:]
            state.drops = [*state.drops, state.bins.steps[0]][-DROPS:]
            state.sizes = [*state.sizes, 1 - new / old][-DROPS:]
            self._evenly(view, row)

    def _evenly(self, view: sdk.View, row: int) -> None:
        state, limits = self.state, self.settings
        edges = [view.first_step, *state.drops]
        gaps = [later - earlier for earlier, later in pairwise(edges)][-limits.drops :]
        if len(gaps) < limits.drops or max(gaps) > (1 + limits.even_within) * min(gaps):
            return
        period = gaps[-1]
        evidence: list[sdk.Fact] = [
            ("distance", float(period), "steps", state.drops[-1]),
            ("drops", float(len(state.drops)), "", None),
            ("height", state.sizes[-1], "relative", state.drops[-1]),
        ]
        summary = f"Loss drops every {period} steps, last by {sdk.number(round(100 * state.sizes[-1], 1))} %"
        onset = (state.drops[0], view.time_ns[row])
        self.fire(view, row, sdk.INFO, onset, summary, evidence, level=len(state.drops))


def _level(medians: list[float], height: float) -> bool:
    """Return whether the loss was constant on both sides of the drop: a step and not a slope."""
    return abs(medians[0] - medians[-1]) < 0.3 * height


def _apart(first: float, second: float) -> float:
    return max(first, second) / min(first, second) if min(first, second) > 0 else 1.0


_CAUSE = sdk.Cause(
    "memorisation",
    "Likely memorized training samples: the loss drops when an epoch starts and the "
    "model sees samples again.",
    "samples that are seen again",
    (
        sdk.Remedy(
            "Evaluate on a validation set and stop when its loss rises.",
            "run.evaluate(loss=val_loss, goal='min')",
        ),
        sdk.Remedy("Train for fewer epochs, or use more data, augmentation or dropout."),
    ),
    "Compare the distance of the drops with the epoch's length: they are equal.",
)
CAUSES = ((sdk.DATA, _CAUSE),)
