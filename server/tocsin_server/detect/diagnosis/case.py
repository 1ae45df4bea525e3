"""The input of a diagnosis: an alert, the open results of other rules, and the records before the onset."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

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
"""Rules about values outside the range of the number format; they share causes."""
LOSS_SHAPE = frozenset({"loss-spike", "loss-divergence"})
FINITE_SIGNS = LOSS_SHAPE | {"grad-explosion", "grad-precursor"}
"""Rules about finite values that leave their usual level.

Near a value that exceeded the number range, they are signs of the same problem and share its cause,
whichever rule fired first.
"""

BASELINE, RECENT = 60, 5
"""Records before the onset in the baseline, and how many of the last ones may already differ."""
AFTERMATH, FEWEST = 60, 3
"""Records after the onset in which training may diverge, and the finite ones needed among them."""
RETURNS = 3
"""Times that a non-finite record must follow a finite one to show that the batches differ."""
LR_STEPS, LR_RECORDS = 100, 10
"""Steps and records before the onset in which a change of learning rate counts as related."""
LR_EVENT = 1.5
LOSS_RISE, NORM_RISE = 1.25, 3.0
FADED = 1e-3
"""Share of its peak below which a learning rate is too low to be a cause."""
OWN_SPREAD = 30.0
"""Number of median deviations that count as the size of a loss around 0."""


USELESS_SCALE = 2.0**-40
"""With a smaller loss scale even a gradient of 65504, the largest number of fp16, underflows to 0."""


@dataclass(frozen=True)
class DiagnosisContext:
    """The data available for the diagnosis of an alert."""

    rule: str
    subject: str
    result: RuleResult
    others: Sequence[tuple[str, str, RuleResult]]
    history: History
    upto: int
    """Number of the newest record to use."""
    context: RunContext

    @cached_property
    def episode(self) -> list[tuple[str, str, RuleResult]]:
        """Return this alert's result and the others, earliest onset first."""
        mine = (self.rule, self.subject, self.result)
        return sorted([mine, *self.others], key=lambda item: (item[2].onset_step, item[0], item[1]))

    def kind(self, rule: str) -> str | None:
        """Return which condition of ``rule`` holds in this episode, or None if it did not fire."""
        return next((result.kind for name, _, result in self.episode if name == rule), None)

    @cached_property
    def numeric(self) -> bool:
        """Return whether this alert is about values that exceeded the number range, or a sign of it."""
        return self.rule in NUMERIC or (self.rule in FINITE_SIGNS and bool(self._overflowed))

    @cached_property
    def _overflowed(self) -> list[int]:
        """Return the onsets of rules in ``NUMERIC`` near this alert's onset."""
        return [
            result.onset_step
            for rule, _, result in self.episode
            if rule in NUMERIC
            and result.severity > INFO
            and abs(result.onset_step - self.result.onset_step) <= NEAR_STEPS
        ]

    @cached_property
    def onset(self) -> int:
        """Return the step at which the problem started.

        That is the earliest onset of the rules in ``NUMERIC``, or else this alert's onset.
        """
        if self.rule in NUMERIC:
            steps = [result.onset_step for rule, _, result in self.episode if rule in NUMERIC]
            return min([*steps, self.result.onset_step])
        return min(self._overflowed) if self.numeric else self.result.onset_step

    def before(self, base: str) -> list[tuple[int, float]]:
        """Return (step, value) of up to ``BASELINE`` records of ``base`` before the onset."""
        known = self._read.get((base, False))
        if known is None:
            earlier = self.history.between(base, -(1 << 62), self.onset, upto=self.upto)
            known = self._read[base, False] = earlier[-BASELINE:]
        return known

    def since(self, base: str) -> list[tuple[int, float]]:
        """Return (step, value) from the onset on."""
        known = self._read.get((base, True))
        if known is None:
            known = self.history.between(base, self.onset, 1 << 62, upto=self.upto)
            self._read[base, True] = known
        return known

    @cached_property
    def _read(self) -> dict[tuple[str, bool], list[tuple[int, float]]]:
        """Keep what was read, by signal and whether it is from the onset on; many causes read the same."""
        return {}

    def rise(self, base: str) -> tuple[float, float, float] | None:
        """Return the baseline, the last level before the onset, and their ratio, or None if unknown.

        A loss at or below 0 has no ratio. The third value is then 1 plus the rise relative to the size
        of the loss, or to its spread if the loss is around 0.
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
        """Return whether the last level before the onset is above the 90th percentile of the baseline."""
        values = sorted(value for _, value in self.before(base)[:-RECENT] if math.isfinite(value))
        rise = self.rise(base)
        return rise is not None and rise[1] > values[9 * len(values) // 10]

    def _aftermath(self, base: str, least: float) -> tuple[float, float, float] | None:
        """Return the baseline, the level of the last finite values soon after the onset, and their ratio.

        None if it did not rise. A loss scaler skips the updates that overflow, so finite values that
        keep rising come from the updates between them: training diverges, however early the first
        overflow was.
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
        """Return step, earlier rate and rate at the onset if the rate rose by ``LR_EVENT`` shortly before."""
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
        """Return (step, rate) of the last ``LR_STEPS`` steps or ``BASELINE`` records, whichever are more.

        If records are several steps apart, the rate at the onset is included: it applied to updates
        before it.
        """
        near = self.history.between("lr", self.onset - LR_STEPS, self.onset, upto=self.upto)
        rates = max(near, self.before("lr"), key=len)
        newest = self.since("lr")[:1]
        apart = bool(rates and newest) and newest[0][0] > rates[-1][0] + 1
        return [*rates, *newest] if apart else rates

    @cached_property
    def restart(self) -> tuple[int, float] | None:
        """Return step and rate from which a restarted schedule rose until the onset."""
        for rule, _, result in self.episode:
            lowest = next((float(fact[1]) for fact in result.evidence if fact[0] == "lowest rate"), 0.0)
            if rule == "lr-restart" and result.onset_step < self.onset and lowest > 0:
                rates = [rate for step, rate in self.before("lr") if step > result.onset_step]
                rising = bool(rates) and rates[-1] == max(rates) and rates[-1] >= LR_EVENT * lowest
                return (result.onset_step, lowest) if rising else None
        return None

    @cached_property
    def lr(self) -> float | None:
        """Return the learning rate at the onset."""
        rates = [rate for _, rate in self.before("lr") if math.isfinite(rate)]
        rates = rates or [rate for _, rate in self.since("lr") if math.isfinite(rate)]
        return rates[-1] if rates else None

    @cached_property
    def rate_faded(self) -> bool:
        """Return whether the learning rate has been far below its peak since the onset."""
        if self.lr is None:
            return False
        highest = max([self.lr, *(rate for _, rate in self.since("lr") if math.isfinite(rate))])
        return highest < FADED * self.history.peak_rate(self.onset, upto=self.upto)

    @cached_property
    def scaled(self) -> bool:
        """Return whether a loss scale is logged; only then does advice about fp16 fit."""
        return self.history.has("scale")

    @cached_property
    def loss_held(self) -> tuple[float, int] | None:
        """Return the usual loss and the newest step if the loss is known and stayed at its level, or None."""
        before = [value for _, value in self.before("loss")]
        since = self.since("loss")
        if len(before) < 2 * RECENT or not since or self._loss_alert:
            return None
        usual = median(before)
        if usual is None or usual <= 0:
            return None
        low, high = usual / LOSS_RISE, usual * LOSS_RISE
        held = all(low <= value <= high for value in [*before[-RECENT:], *(loss for _, loss in since)])
        return (usual, since[-1][0]) if held else None

    @cached_property
    def _loss_alert(self) -> bool:
        return any(rule.startswith(("loss-", "nonfinite-loss")) for rule, _, _ in self.episode)

    @cached_property
    def no_update_can_succeed(self) -> bool:
        """Return whether the loss scale is useless or weights are not finite: only a checkpoint helps."""
        scales = [scale for _, scale in self.since("scale")]
        useless = bool(scales) and scales[-1] < USELESS_SCALE
        return useless or self.kind("scaler-at-floor") == "zero" or self.kind("nonfinite-weights") is not None

    @cached_property
    def loss_rose(self) -> tuple[float, float, float] | None:
        """Return the :meth:`rise` of the loss if it was rising before the onset."""
        rise = self.rise("loss")
        return rise if rise is not None and rise[2] >= LOSS_RISE and self._left("loss") else None

    @cached_property
    def norm_rose(self) -> tuple[float, float, float] | None:
        """Return the :meth:`rise` of the gradient norm if it was rising before the onset."""
        rise = self.rise("grad_norm")
        return rise if rise is not None and rise[2] >= NORM_RISE and self._left("grad_norm") else None

    @cached_property
    def loss_ran_away(self) -> tuple[float, float, float] | None:
        """Return the :meth:`rise` of the loss if it rose before the onset or soon after."""
        return self.loss_rose or self._aftermath("loss", LOSS_RISE)

    @cached_property
    def norm_ran_away(self) -> tuple[float, float, float] | None:
        """Return the :meth:`rise` of the gradient norm if it rose before the onset or soon after."""
        return self.norm_rose or self._aftermath("grad_norm", NORM_RISE)

    @cached_property
    def steady(self) -> bool:
        """Return whether loss or gradient norm is known, and neither rose before the onset or soon after."""
        rises = [rise for base in ("loss", "grad_norm") if (rise := self.rise(base)) is not None]
        return bool(rises) and self.loss_ran_away is None and self.norm_ran_away is None

    @cached_property
    def runaway_step(self) -> int:
        """Return the step by which loss or norm had risen.

        That is the first of the last ``RECENT`` records before the onset, or the onset if they rose
        after it.
        """
        if self.loss_rose is None and self.norm_rose is None:
            return self.onset
        steps = [step for base in ("loss", "grad_norm") for step, _ in self.before(base)[-RECENT:]]
        return min(steps, default=self.onset)

    @cached_property
    def shape_first(self) -> RuleResult | None:
        """Return the result of a loss or gradient norm rule that preceded the non-finite values, or None."""
        for rule, _, result in self.episode:
            near = rule in LOSS_SHAPE or result.onset_step >= self.onset - NEAR_STEPS
            if rule in FINITE_SIGNS and result.onset_step < self.onset and near:
                return result
        return None

    @cached_property
    def lowest_bad_scale(self) -> float | None:
        """Return the lowest loss scale at which loss or norm was non-finite, or None.

        A scale of 0 is ignored, because there every value is non-finite whatever the model does.
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
    def mixed(self) -> tuple[list[int], int] | None:
        """Return the steps of non-finite records and the number of records since the onset, or None.

        None unless failures follow finite records at least ``RETURNS`` times, and at least as many records
        are finite, at loss scales no lower than the lowest that failed.
        """
        scales, losses = dict(self.since("scale")), dict(self.since("loss"))
        values = {step: [value] for step, value in losses.items()}
        for step, value in self.since("grad_norm"):
            values.setdefault(step, []).append(value)
        first = min(
            (step for step, each in values.items() if not all(map(math.isfinite, each))), default=None
        )
        if first is None or not scales:
            return None
        steps = sorted(step for step in values if step >= first)[:AFTERMATH]
        bad = [step for step in steps if not all(map(math.isfinite, values[step]))]
        good = [step for step in steps if step not in bad]
        returns = sum(one in good and other in bad for one, other in pairwise(steps))
        lowest = min((scales[step] for step in bad if scales.get(step, 0) > 0), default=math.inf)
        held = [step for step in good if scales.get(step, 0) >= lowest]
        if returns < RETURNS or len(held) < len(bad) or scales.get(first, 0) <= 0:
            return None
        return bad, len(steps)

    @cached_property
    def usual_norm(self) -> float | None:
        """Return the median gradient norm before the onset."""
        return median([value for _, value in self.before("grad_norm")])
