"""Detect a GAN in which one side has won or the critic grows without bound.

The rule compares medians of 50 records. A warning if one side is below 2 % of its first level for 500
records while the other is at 1.5 times its own, or if one side is above 100 and ten times its first level
and grows four times in a row. It recovers after 200 updates in balance.

Signals:
    `loss` and `loss/<optimizer>` of optimizers with different losses
Warm-up:
    500 records
Does not fire on:
    - negative losses and losses that oscillate, both normal for a GAN
    - optimizers that share one objective
Likely causes:
    - a discriminator that is too strong
    - a critic without a Lipschitz constraint
First action:
    Change the ratio of learning rates or updates, or add spectral normalization or a gradient penalty.
Source:
    A real WGAN; the limits are tocsin's.
"""

from __future__ import annotations

import math

import msgspec

from tocsin_server.detect import sdk

SIDES = 8
"""Maximum number of optimizers that are tracked."""


class Settings(sdk.RuleSettings):
    calm = "in balance"
    recover_updates: int = 200
    resolve_updates: int = 1000
    recover_records: int = sdk.setting(2, "bins", "Bins in balance that are needed")
    records_per_bin: int = sdk.setting(
        50, "records", "Records in each bin; the rule compares the medians of bins"
    )
    won_bins: int = sdk.setting(10, "bins", "Bins in a row with one loss at 0 and the other one risen")
    zero_share: float = sdk.setting(
        0.02, "share of first level", "Positive loss below this share counts as 0"
    )
    risen_ratio: float = sdk.setting(1.5, "x first level", "Level from which the other loss has risen")
    critic_loss: float = sdk.setting(
        100.0, "loss", "Absolute loss from which a loss is that of a large critic"
    )
    critic_growth: float = sdk.setting(10.0, "x first level", "Level from which a critic has grown")
    growing_bins: int = sdk.setting(4, "bins", "Bins in a row, each larger than the one before")


class Side(msgspec.Struct):
    """The loss of one optimizer in bins: first and current level, and for how long it was low or grew."""

    waiting: list[float] = []
    first: float | None = None
    level: float = 0.0
    low: int = 0
    growing: int = 0
    since: tuple[int, int] = (0, 0)


class State(sdk.RuleState):
    """The sides by optimizer (``""``: the primary one)."""

    sides: dict[str, Side] = msgspec.field(default_factory=dict)


class AdversarialImbalance(sdk.WideRule[Settings, State]):
    """Severity: warning."""

    title = "GAN training is unbalanced"
    severity = sdk.WARNING
    inhibited_by = ("nonfinite-loss", "loss-saturated")
    needs = ("loss/",)
    about = "loss"

    def observe(self, view: sdk.View) -> None:
        columns = [
            (name.partition("/")[2], column) for name, column in view.bases.items() if self._side(name)
        ]
        for row in range(view.n) if columns else ():
            for name, column in columns:
                value = column[row]
                if value is not None and math.isfinite(value):
                    self._take(view, row, name, value)

    def _side(self, name: str) -> bool:
        """Return whether a column is the loss of a known optimizer, and not one of its terms."""
        suffix = name.removeprefix("loss/")
        return name == "loss" or (
            name.startswith("loss/") and not suffix.isdigit() and not self.context.is_component(suffix)
        )

    def _take(self, view: sdk.View, row: int, name: str, value: float) -> None:
        sides = self.state.sides
        side = sides.get(name)
        if side is None:
            if len(sides) >= SIDES:
                return
            side = sides[name] = Side()
        side.waiting.append(value)
        if len(side.waiting) >= self.settings.records_per_bin:
            level, side.waiting = sdk.middle(sorted(side.waiting)), []
            self._level(view, row, side, level)
            self._evaluate(view, row, name, side)

    def _level(self, view: sdk.View, row: int, side: Side, level: float) -> None:
        if side.first is None:
            side.first = level
        if not side.low and not side.growing:
            side.since = view.place(row)
        low = side.first > 0 and 0 <= level < self.settings.zero_share * side.first
        side.low = side.low + 1 if low else 0
        side.growing = side.growing + 1 if abs(level) > abs(side.level) else 0
        side.level = level

    def _evaluate(self, view: sdk.View, row: int, name: str, side: Side) -> None:
        limits = self.settings
        others = [other for who, other in self.state.sides.items() if who != name and other.first is not None]
        if not others or _alike(side, others[0]):
            return
        risen = any(other.level > limits.risen_ratio * max(abs(other.first or 0.0), 1e-9) for other in others)
        large = abs(side.level) > max(limits.critic_loss, limits.critic_growth * abs(side.first or 0.0))
        if side.low >= limits.won_bins and risen:
            self._fire(view, row, name, side, "won")
        elif large and side.growing >= limits.growing_bins:
            self._fire(view, row, name, side, "unbounded")
        elif self.episode.state and not side.low and not large:
            self.settle(view, row)

    def _fire(self, view: sdk.View, row: int, name: str, side: Side, kind: str) -> None:
        evidence: list[sdk.Fact] = []
        for who, other in sorted(self.state.sides.items()):
            evidence.append((_shown(who), other.level, "median of 50 records", view.step[row]))
            evidence.append((f"{_shown(who)} at first", other.first or 0.0, "median of 50 records", None))
        now, first = sdk.number(side.level), sdk.number(side.first or 0.0)
        what = _shown(name) if name else "Loss"
        summary = {
            "won": f"{what} is near 0 ({now}) while the other network's loss rises",
            "unbounded": f"{what} grows without bound, {first} → {now}",
        }[kind]
        self.fire(view, row, sdk.WARNING, side.since, summary, evidence, kind=kind)


def _alike(side: Side, other: Side) -> bool:
    """Return whether two losses are the same, as for optimizers with one shared objective."""
    return side.first == other.first and side.level == other.level


def _shown(name: str) -> str:
    return f"loss/{name}" if name else "loss"


def _unbounded(case: sdk.DiagnosisContext) -> sdk.Cause:
    bound = "layer = torch.nn.utils.parametrizations.spectral_norm(layer)"
    return sdk.Cause(
        "unbounded-critic",
        "The critic grows without bound: it has no gradient penalty or spectral norm, or too weak a one.",
        "an unbounded critic",
        (
            sdk.Remedy("Add spectral norm to the critic's layers.", bound),
            sdk.Remedy("Add a gradient penalty (WGAN-GP, weight 10)."),
            sdk.remedies.lower_lr(case),
        ),
        "Log the gradient norm of the critic: it grows.",
    )


_WON = sdk.Cause(
    "one-sided",
    ("One network separates real from generated samples perfectly, so the other gets no useful gradient."),
    "one network that is too strong",
    (
        sdk.Remedy(
            "Lower the stronger network's learning rate, update it less often, or use label smoothing of 0.9."
        ),
        sdk.Remedy(
            "Use a loss whose gradient does not vanish: non-saturating, hinge, or Wasserstein with penalty."
        ),
        sdk.Remedy("Add noise to the discriminator's inputs, or spectral norm to its layers."),
    ),
    "Look at generated samples: they no longer improve.",
)


CAUSES = (
    (sdk.OPTIMISATION, sdk.of_kind("unbounded", _unbounded)),
    (sdk.OPTIMISATION, sdk.of_kind("won", _WON)),
)
