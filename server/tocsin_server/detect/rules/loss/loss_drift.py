"""Detect a loss that rises slowly over thousands of steps.

The rule applies the Mann-Kendall trend test to medians of 100 records with a rise above 1 %. Info over 1000
records (z of 3.6), a warning over 2000 (z of 4.5). It is only info if the loss has recovered before from at
least five sixths of that height, or was ever 0 or negative. A warning too, after 200 records and 1000
updates, if the loss has risen by 0.7 % since the start of the run (z of 4.5). It recovers after 500 records
without a trend.

Signals:
    `loss`, `lr`
Warm-up:
    200 records
Does not fire on:
    - a learning rate that rose by a factor of 1.2 in the same records
    - losses below 5 % of the initial one
    - GAN losses and reinforcement learning
Likely causes:
    - a learning rate slightly too high for this stage, so that weights or logits grow
    - data that become harder
First action:
    Halve the learning rate and resume from where the drift began.
Source:
    A real run whose loss rose by 1.4 % over 56,000 steps without a spike; Mann (1945), Kendall (1975).
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import msgspec

from tocsin_server.detect import sdk


class Settings(sdk.RuleSettings):
    calm = "without a rise"
    recover_updates: int = 0
    resolve_updates: int = 0
    recover_records: int = sdk.setting(5, "bins", "Bins of 100 records without a rise that are needed")
    short_bins: int = sdk.setting(10, "bins of 100 records", "Bins whose rise is reported", least=5)
    long_bins: int = sdk.setting(20, "bins of 100 records", "Bins whose rise is a warning", least=5)
    short_z: float = sdk.setting(3.6, "z", "Mann-Kendall score from which short_bins have a rising trend")
    long_z: float = sdk.setting(4.5, "z", "Mann-Kendall score from which long_bins have a rising trend")
    start_updates: int = sdk.setting(
        1000, "updates", "Updates before a rise since the start of the run is reported"
    )
    start_rise: float = sdk.setting(0.007, "relative", "Smallest rise since the start of the run")
    rise: float = sdk.setting(0.01, "relative", "Smallest rise of the last fifth above the first fifth")
    min_rise: float = sdk.setting(0.25, "x initial loss", "Smallest rise, for losses near 0")
    near_zero: float = sdk.setting(0.05, "x initial loss", "Loss below which it is near 0")
    signed_rise: float = sdk.setting(2.0, "x spread", "Smallest rise of a loss that was ever 0 or negative")
    recovered_before_ratio: float = sdk.setting(
        1.2, "x", "Loss up to this multiple of a level it recovered from is info only"
    )
    lr_rise_ratio: float = sdk.setting(
        1.2, "x rate before", "Rise of the learning rate that explains it, so that it is info only"
    )


class State(sdk.RuleState):
    """The last 20 bins and the learning rate at each of them; ``start``: finer bins of the first records."""

    bins: sdk.Bins = msgspec.field(default_factory=lambda: sdk.Bins(100, 20))
    start: sdk.Bins = msgspec.field(default_factory=lambda: sdk.Bins(10, 100))
    rates: list[float] = msgspec.field(default_factory=list)
    rate: float = 0.0
    initial: float | None = None
    lowest: float = math.inf
    highest: float = 0.0
    """The highest median of the current rise."""
    known: float = 0.0
    """The highest median from which the loss has recovered without intervention."""
    rewound: bool = False
    """Whether the run went back, so that a rise over these records is no rise since the start."""
    rests: list[float] = msgspec.field(default_factory=list)
    """Newest distances of single losses from the median of their bin, which give the spread."""


class LossDrift(sdk.Rule[Settings, State]):
    """Info over 1000 records, warning over 2000, unless the learning rate rises."""

    title = "Loss rises slowly"
    severity = sdk.WARNING
    inhibited_by = ("nonfinite-loss", "loss-divergence", "loss-level-shift")
    adversarial = False
    needs = ("loss",)
    in_blocks = True

    def discontinuity(self) -> None:
        super().discontinuity()
        self.state.rewound = True

    def observe(self, view: sdk.View) -> None:
        if view.loss is None:
            return
        state = self.state
        for row in self._completed(view):
            state.rate = view.value("lr", row) or state.rate
            state.rates = [*state.rates, state.rate][-self.settings.long_bins :]
            self._note(view.loss[row], state.bins.medians[-1])
            self._evaluate(view, row)

    def _completed(self, view: sdk.View) -> Iterator[int]:
        """Yield the rows that complete a bin of 100, with the records up to there in ``start``."""
        bins, (rows, losses), at = self.state.bins, view.losses, 0
        while at < len(losses) and len(bins.medians) < self.settings.short_bins:
            stop = at + bins.size - len(bins.waiting)
            part = rows[at:stop], losses[at:stop]
            for _ in self.state.start.fill(view, *part):
                pass
            yield from bins.fill(view, *part)
            at = stop
        yield from bins.fill(view, rows[at:], losses[at:])

    def _note(self, loss: float | None, median: float) -> None:
        state = self.state
        single = median if loss is None else loss
        state.lowest = min(state.lowest, median, single)
        state.rests = [*state.rests, abs(single - median)][-64:]

    def _evaluate(self, view: sdk.View, row: int) -> None:
        state, limits = self.state, self.settings
        medians = state.bins.medians
        if state.initial is None:
            state.initial = medians[0]
        long = len(medians) >= limits.long_bins and self._rises(medians, limits.long_z, limits.rise)
        short = len(medians) >= limits.short_bins and self._rises(
            medians[-limits.short_bins :], limits.short_z, limits.rise
        )
        first = len(medians) < limits.short_bins and self._rises_from_the_start(view, row)
        if not long and not short and not first:
            self._ends(view, row)
            return
        span = limits.long_bins if long else limits.short_bins
        rose = state.rates[-1] > limits.lr_rise_ratio * min(state.rates[-span:])
        # The loss of a critic, which may be negative, drifts normally.
        sure = (
            (long or first)
            and not rose
            and state.lowest > 0
            and not medians[-1] <= limits.recovered_before_ratio * state.known
        )
        state.highest = max(state.highest, medians[-1])
        self._fire(view, row, span, sdk.WARNING if sure else sdk.INFO, "rate" if rose else "drift")

    def _ends(self, view: sdk.View, row: int) -> None:
        """Handle a record without a rise; a level from which the loss recovered becomes known."""
        if not self.episode.state:
            return
        self.settle(view, row)
        if not self.episode.state:
            self.state.known = max(self.state.known, self.state.highest)
            self.state.highest = 0.0

    def _rises_from_the_start(self, view: sdk.View, row: int) -> bool:
        medians = self.state.start.medians
        known = len(medians) >= 20 and view.age(row) >= self.settings.start_updates and not self.state.rewound
        return known and self._rises(medians, self.settings.long_z, self.settings.start_rise)

    def _rises(self, medians: list[float], z: float, rise: float) -> bool:
        limits, fifth = self.settings, len(medians) // 5
        low, high = sdk.middle(sorted(medians[:fifth])), sdk.middle(sorted(medians[-fifth:]))
        if self.state.lowest > 0:
            initial = abs(self.state.initial or 0.0)
            least = max(rise * low, limits.min_rise * initial * (low < limits.near_zero * initial))
        else:
            least = limits.signed_rise * 1.4826 * sdk.middle(sorted(self.state.rests))
        return high - low > least and sdk.kendall(medians) >= z

    def _fire(self, view: sdk.View, row: int, span: int, severity: int, kind: str) -> None:
        medians, steps = self.state.bins.medians[-span:], self.state.bins.steps[-span:]
        onset = (steps[0], view.time_ns[row])
        finest = medians if len(medians) >= self.settings.short_bins else self.state.start.medians
        evidence: list[sdk.Fact] = [
            ("loss before", medians[0], "median of 100 records", steps[0]),
            ("loss", medians[-1], "median of 100 records", view.step[row]),
            ("trend", sdk.kendall(finest), "Mann-Kendall z", None),
        ]
        over = sdk.count(view.step[row] - steps[0], "step")
        summary = f"Loss rose slowly, {sdk.number(medians[0])} → {sdk.number(medians[-1])} in {over}"
        self.fire(view, row, severity, onset, summary, evidence, kind=kind)


_RATE = sdk.Cause(
    "rate-rises",
    "The learning rate rises at the same time, and the loss follows it.",
    "a rising learning rate",
    (sdk.remedies.CHECK_SCHEDULE,),
    "Wait until the learning rate falls: the loss falls too.",
)


COMPARE = sdk.Remedy("Compare an early batch with a recent one: shard, labels, scaling of the inputs.")


def _why(case: sdk.DiagnosisContext) -> sdk.Cause:
    if case.rate_faded:
        return sdk.Cause(
            "slow-divergence",
            "Likely harder data, or weights or logits that grow: the learning rate is far below its peak.",
            "data that gets harder",
            (COMPARE, sdk.remedies.go_back(case), sdk.remedies.clip(case)),
            "Evaluate an early batch and a recent one with the same weights: the recent loss is higher.",
        )
    rate = f" ({sdk.number(case.lr)})" if case.lr else ""
    return sdk.Cause(
        "slow-divergence",
        f"Likely a learning rate{rate} that is slightly too high, so that weights or logits "
        "grow, or harder data.",
        "data that gets harder",
        (sdk.remedies.lower_lr(case, 2.0), sdk.remedies.go_back(case), sdk.remedies.clip(case)),
        "Resume at half the learning rate: the loss stops rising.",
    )


CAUSES = ((sdk.RATE, sdk.of_kind("rate", _RATE)), (sdk.OPTIMISATION, sdk.of_kind("drift", _why)))
