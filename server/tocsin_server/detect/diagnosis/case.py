"""A case: one alert to be explained, with what other rules have open and the records before the onset."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from tocsin_server.core.causal_order import NEAR_STEPS
from tocsin_server.detect.interface.context import RunContext
from tocsin_server.detect.interface.history import History, median
from tocsin_server.detect.interface.rule import INFO, RuleResult

NUMERIC = frozenset(
    {
        "nonfinite-loss",
        "nonfinite-grad-norm",
        "scaler-overflow-burst",
        "scaler-collapse",
        "scaler-at-floor",
        "scaler-not-updating",
        "nonfinite-weights",
    }
)
"""Rules about values that left the number range; they share causes."""
LOSS_SHAPE = frozenset({"loss-spike", "loss-divergence"})
FINITE_SIGNS = LOSS_SHAPE | {"grad-explosion", "grad-precursor"}
"""Rules about finite values that leave their level. Beside values that left the number range they are signs
of the same trouble, whichever of them fired first, and have its cause."""

BASELINE, RECENT = 60, 5
"""Records before the onset that make the baseline, and the last of them that may already differ."""
AFTERMATH, FEWEST = 60, 3
"""Records from the onset on in which training may be seen to run away, and finite ones that are needed."""
LR_STEPS, LR_RECORDS = 100, 10
"""How far back a change of learning rate counts as an event before the onset (catalogue section 4)."""
LR_EVENT = 1.5
LOSS_RISE, NORM_RISE = 1.25, 3.0
OWN_SPREAD = 30.0
"""Median deviations of a loss around 0 that count as its size."""


@dataclass(frozen=True)
class DiagnosisContext:
    """What is known when an alert is explained."""

    rule: str
    subject: str
    result: RuleResult
    others: Sequence[tuple[str, str, RuleResult]]
    history: History
    upto: int
    """Number of the newest record that may be looked at."""
    context: RunContext

    @cached_property
    def episode(self) -> list[tuple[str, str, RuleResult]]:
        """This alert and the others, the earliest onset first."""
        mine = (self.rule, self.subject, self.result)
        return sorted([mine, *self.others], key=lambda item: (item[2].onset_step, item[0], item[1]))

    def kind(self, rule: str) -> str | None:
        """Which condition of ``rule`` holds in this episode; None where the rule is silent."""
        return next((result.kind for name, _, result in self.episode if name == rule), None)

    @cached_property
    def numeric(self) -> bool:
        """Whether this alert is about values that left the number range, or a sign of it."""
        return self.rule in NUMERIC or (self.rule in FINITE_SIGNS and bool(self._overflowed))

    @cached_property
    def _overflowed(self) -> list[int]:
        """Onsets of the rules about values that left the number range, near this alert's own."""
        return [
            result.onset_step
            for rule, _, result in self.episode
            if rule in NUMERIC
            and result.severity > INFO
            and abs(result.onset_step - self.result.onset_step) <= NEAR_STEPS
        ]

    @cached_property
    def onset(self) -> int:
        """Where the trouble began: the earliest onset of rules about numbers, else this alert's own."""
        if self.rule in NUMERIC:
            steps = [result.onset_step for rule, _, result in self.episode if rule in NUMERIC]
            return min([*steps, self.result.onset_step])
        return min(self._overflowed) if self.numeric else self.result.onset_step

    def before(self, base: str) -> list[tuple[int, float]]:
        """(step, value) of the records of ``base`` before the onset, at most ``BASELINE``."""
        return self.history.between(base, -(1 << 62), self.onset, upto=self.upto)[-BASELINE:]

    def since(self, base: str) -> list[tuple[int, float]]:
        """(step, value) from the onset on."""
        return self.history.between(base, self.onset, 1 << 62, upto=self.upto)

    def rise(self, base: str) -> tuple[float, float, float] | None:
        """Baseline, last level before the onset, and their ratio; None where that cannot be said.

        Of a loss at or below 0 there is no ratio: 1 plus the rise in terms of its size, or of its own
        spread where it is around 0.
        """
        values = [value for _, value in self.before(base) if math.isfinite(value)]
        if len(values) < 2 * RECENT:
            return None
        usual, recent = median(values[:-RECENT]), median(values[-RECENT:])
        if usual is None or recent is None:
            return None
        if usual > 0:
            return usual, recent, recent / usual
        spread = median([abs(value - usual) for value in values[:-RECENT]]) or 0.0
        size = max(abs(usual), OWN_SPREAD * spread)
        return (usual, recent, 1 + (recent - usual) / size) if size > 0 else None

    def _left(self, base: str) -> bool:
        """Whether the last level before the onset is beyond nine in ten of the baseline: no mere noise."""
        values = sorted(value for _, value in self.before(base)[:-RECENT] if math.isfinite(value))
        rise = self.rise(base)
        return rise is not None and rise[1] > values[9 * len(values) // 10]

    def _aftermath(self, base: str, least: float) -> tuple[float, float, float] | None:
        """Baseline, level of the last finite values soon after the onset, and their ratio, if it rose.

        A loss scaler leaves out the updates that overflow, so finite values that go on rising come of the
        updates between them: training runs away, however early the first overflow was.
        """
        known = [value for _, value in self.before(base) if math.isfinite(value)]
        values = [value for _, value in self.since(base)[:AFTERMATH] if math.isfinite(value)]
        if len(known) < 2 * RECENT or len(values) < FEWEST or not self.history.has("scale"):
            return None
        usual, now = median(known), median(values[-RECENT:])
        if usual is None or now is None or usual <= 0 or now < least * usual or now <= max(known):
            return None
        return usual, now, now / usual

    @cached_property
    def lr_event(self) -> tuple[int, float, float] | None:
        """Step, rate before and rate at the onset where it rose by ``LR_EVENT`` shortly before."""
        rates = [(step, rate) for step, rate in self._rates() if math.isfinite(rate) and rate > 0]
        if len(rates) < 2:
            return None
        if self.restart is not None:
            return (*self.restart, rates[-1][1])
        near = [item for item in rates if item[0] >= self.onset - LR_STEPS]
        near = near if len(near) >= LR_RECORDS else rates[-LR_RECORDS:]
        step, low = min(near, key=lambda item: (item[1], -item[0]))
        now = near[-1][1]
        return (step, low, now) if now >= LR_EVENT * low else None

    def _rates(self) -> list[tuple[int, float]]:
        """(step, rate) of the last ``LR_STEPS`` steps before the onset, or records if these are more.

        Where records are steps apart, that of the onset too: updates between them had rates up to it.
        """
        near = self.history.between("lr", self.onset - LR_STEPS, self.onset, upto=self.upto)
        rates = max(near, self.before("lr"), key=len)
        newest = self.since("lr")[:1]
        apart = bool(rates and newest) and newest[0][0] > rates[-1][0] + 1
        return [*rates, *newest] if apart else rates

    @cached_property
    def restart(self) -> tuple[int, float] | None:
        """Step and rate from which a restarted schedule was rising until the onset."""
        for rule, _, result in self.episode:
            lowest = next((float(fact[1]) for fact in result.evidence if fact[0] == "lowest rate"), 0.0)
            if rule == "lr-restart" and result.onset_step < self.onset and lowest > 0:
                rates = [rate for step, rate in self.before("lr") if step > result.onset_step]
                rising = bool(rates) and rates[-1] == max(rates) and rates[-1] >= LR_EVENT * lowest
                return (result.onset_step, lowest) if rising else None
        return None

    @cached_property
    def lr(self) -> float | None:
        """The learning rate at the onset."""
        rates = [rate for _, rate in self.before("lr") if math.isfinite(rate)]
        rates = rates or [rate for _, rate in self.since("lr") if math.isfinite(rate)]
        return rates[-1] if rates else None

    @cached_property
    def loss_rose(self) -> tuple[float, float, float] | None:
        """As :meth:`rise` of the loss where it was rising before the onset."""
        rise = self.rise("loss")
        return rise if rise is not None and rise[2] >= LOSS_RISE and self._left("loss") else None

    @cached_property
    def norm_rose(self) -> tuple[float, float, float] | None:
        """As :meth:`rise` of the gradient norm where it was rising before the onset."""
        rise = self.rise("grad_norm")
        return rise if rise is not None and rise[2] >= NORM_RISE and self._left("grad_norm") else None

    @cached_property
    def loss_ran_away(self) -> tuple[float, float, float] | None:
        """As :meth:`rise` of the loss where it rose before the onset, or soon after it."""
        return self.loss_rose or self._aftermath("loss", LOSS_RISE)

    @cached_property
    def norm_ran_away(self) -> tuple[float, float, float] | None:
        """As :meth:`rise` of the gradient norm where it rose before the onset, or soon after it."""
        return self.norm_rose or self._aftermath("grad_norm", NORM_RISE)

    @cached_property
    def steady(self) -> bool:
        """Whether loss and gradient norm are known, and neither rose before the onset or soon after it."""
        rises = [rise for base in ("loss", "grad_norm") if (rise := self.rise(base)) is not None]
        return bool(rises) and self.loss_ran_away is None and self.norm_ran_away is None

    @cached_property
    def runaway_step(self) -> int:
        """Step by which loss or norm had risen: the first of the last records before the onset, or the onset
        where they rose after it."""
        if self.loss_rose is None and self.norm_rose is None:
            return self.onset
        steps = [step for base in ("loss", "grad_norm") for step, _ in self.before(base)[-RECENT:]]
        return min(steps, default=self.onset)

    @cached_property
    def shape_first(self) -> RuleResult | None:
        """A loss or gradient norm that left its level before the numbers went wrong."""
        for rule, _, result in self.episode:
            near = rule in LOSS_SHAPE or result.onset_step >= self.onset - NEAR_STEPS
            if rule in FINITE_SIGNS and result.onset_step < self.onset and near:
                return result
        return None

    @cached_property
    def lowest_bad_scale(self) -> float | None:
        """The lowest loss scale at which loss or norm was not finite; None where none was seen.

        At a scale of 0 nothing is finite, whatever the model does.
        """
        bad = {
            step
            for base in ("loss", "grad_norm")
            for step, value in self.since(base)
            if not math.isfinite(value)
        }
        scales = [scale for step, scale in self.since("scale") if step in bad and scale > 0]
        return min(scales, default=None)

    @cached_property
    def usual_norm(self) -> float | None:
        """The median gradient norm before the onset."""
        return median([value for _, value in self.before("grad_norm")])
