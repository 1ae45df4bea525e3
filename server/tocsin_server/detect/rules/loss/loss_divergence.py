"""Detect a loss that climbs and does not come back.

A warning if the running median of 50 losses is more than twice its best value for 50 records and still rises,
or exceeds the initial losses after having been below half of them. In both cases the lower quartile of the
newer losses must exceed the upper quartile of the older ones. Critical if the loss stays above three times
its initial losses and ten times its best for 100 records, and a second signal agrees: the loss still grows,
the gradient norm is three times what it was at the best loss, or a fifth of the updates is skipped. Info if
the climb has taken more than 40 % of all steps, or if the loss has recovered from such a height before. It
recovers after 50 updates below twice its best loss from before the onset and resolves after 200.

Signals:
    `loss`, `grad_norm`, `skipped`
Warm-up:
    50 records; the initial loss is the median of the first 10
Does not fire on:
    - losses that were ever negative
    - a slow climb because the weight of a loss term rises (VAE warm-up)
    - a plateau above the best value
    - GAN losses and reinforcement learning
Likely causes:
    - a learning rate that is too high for this stage of training
    - no warm-up
    - no gradient clipping
First action:
    Divide the learning rate by 3 to 10 and resume from the best checkpoint.
Source:
    The idea is `divergence_threshold` of PyTorch Lightning's EarlyStopping; the limits are tocsin's. Because
    of the second signal, the loss of a Q function, which may exceed its first values while it learns, raises
    only a warning.
"""

from __future__ import annotations

import math
from typing import cast

import msgspec

from tocsin_server.detect import sdk


class Settings(sdk.RuleSettings):
    calm = "below the limit"
    recover_updates: int = 50
    resolve_updates: int = 200
    recover_records: int = sdk.setting(
        2, "blocks", "Blocks of 16 records below the limit that are also needed"
    )
    smoothing_records: int = sdk.setting(50, "records", "Records in the running median; also the warm-up")
    first_records: int = sdk.setting(10, "records", "Records at the start whose median is the initial loss")
    diverging_ratio: float = sdk.setting(2.0, "x best", "Smoothed loss above which it may be diverging")
    diverging_records: int = sdk.setting(
        50, "records", "Records above that limit, with the later half above the earlier"
    )
    warm_up: int = sdk.setting(50, "records", "Records before the rule starts")
    learned_ratio: float = sdk.setting(
        0.5, "x initial loss", "Loss below which the run must have been to have learned"
    )
    slow_rise_share: float = sdk.setting(
        0.4, "share of all steps", "Length of a rise from which it is info only"
    )
    min_rise: float = sdk.setting(0.25, "x initial loss", "Smallest rise above the best, for losses near 0")
    recovered_before_ratio: float = sdk.setting(
        1.2, "x", "Loss up to this multiple of a level it recovered from is info only"
    )
    critical_initial_ratio: float = sdk.setting(
        3.0, "x initial loss", "Lasting loss that is critical if a second signal agrees"
    )
    critical_best_ratio: float = sdk.setting(
        10.0, "x best", "Lasting loss that is critical if a second signal agrees"
    )
    critical_records: int = sdk.setting(100, "records", "Records in a row at such a loss", least=1)
    critical_norm_ratio: float = sdk.setting(
        3.0, "x norm at best loss", "Gradient norm that counts as a second signal"
    )
    critical_growth: float = sdk.setting(
        1.1, "x earlier half", "Later half of these records that counts as a second signal"
    )
    critical_skipped_share: float = sdk.setting(
        0.2, "share of updates", "Skipped updates that count as a second signal"
    )


class State(sdk.RuleState):
    """Initial, best and newest losses; ``above``: consecutive medians above the ratio, one per block."""

    initial: float | None = None
    initial_upper: float = 0.0
    """The larger of the initial loss and the upper quartile of the first window."""
    recent: list[float] = msgspec.field(default_factory=list)
    best: float = math.inf
    best_upper: float = math.inf
    """The upper quartile of the window with the best median."""
    best_step: int = 0
    positive: bool = True
    highest: float = 0.0
    """The highest smoothed loss of the current episode."""
    known: float = 0.0
    """The highest level from which the loss has recovered without intervention."""
    above: list[float] = msgspec.field(default_factory=list)
    ruined: list[float] = msgspec.field(default_factory=list)
    """Consecutive medians at which the run is ruined, one per block."""
    norms: list[float] = msgspec.field(default_factory=list)
    """Newest gradient norms."""
    best_norm: float = 0.0
    """Median gradient norm at the best loss; 0 if unknown."""
    best_norms: list[float] = msgspec.field(default_factory=list)
    """The norms at the best loss while their median is not computed: healthy runs never need it."""
    skips: list[float] = msgspec.field(default_factory=list)
    """Numbers of skipped updates of the newest records."""
    left: tuple[int, int] | None = None
    """Step and time of the first of the current consecutive losses above ``best_upper``: the onset."""
    unrecovered: bool = False
    """Whether an episode was open when it was let go, at the end of the run or for another process."""


class LossDivergence(sdk.Rule[Settings, State]):
    """Warning; critical if the loss is far above its first values and a second signal agrees."""

    title = "Training loss diverges"
    severity = sdk.CRITICAL
    inhibited_by = ("nonfinite-loss",)
    adversarial = False
    needs = ("loss",)
    in_blocks = True

    def let_go(self) -> sdk.Episode:
        self.state.unrecovered = self.state.unrecovered or bool(self.episode.state)
        return super().let_go()

    def carried_state(self) -> bytes:
        """Return the best loss of an attempt that ended above it, or the next one would seem recovered."""
        return msgspec.msgpack.encode(self.state) if self.state.unrecovered else b""

    def inherit(self, carried: bytes, step: int) -> None:
        """Compare with the best loss of the attempt before, unless this one starts before it."""
        kept = msgspec.msgpack.decode(carried, type=State)
        if kept.initial is not None and step > kept.best_step:
            self.state = State(
                initial=kept.initial,
                initial_upper=kept.initial_upper,
                best=kept.best,
                best_upper=kept.best_upper,
                best_step=kept.best_step,
                best_norm=kept.best_norm,
                best_norms=kept.best_norms,
                positive=kept.positive,
            )

    def observe(self, view: sdk.View) -> None:
        if view.loss is None:
            return
        for start in range(0, view.n, sdk.PACE):
            losses = view.loss[start : start + sdk.PACE]
            if self.state.positive:
                self._block(view, start, losses)
            else:
                self._go_silent(view, start, start + len(losses))

    def _block(self, view: sdk.View, start: int, losses: sdk.Values) -> None:
        """Process one block, evaluated at its end, because a climb takes several blocks."""
        state, limits, last = self.state, self.settings, start + len(losses) - 1
        if not sdk.positive(losses):
            losses = self._healthy(view, last, losses)
        kept = cast(list[float], losses)
        if not kept or not state.positive:
            return
        self._left(view, start, kept)
        self._beside(view, start)
        state.recent += kept
        if state.initial is None:
            self._begin()
        del state.recent[: -limits.smoothing_records]
        if state.initial is None or len(state.recent) < limits.smoothing_records:
            return
        ordered = sorted(state.recent)
        if sdk.middle(ordered) < state.best:
            self._best(view, last, state.initial, ordered)
        if ordered[limits.smoothing_records // 4] > state.best_upper or state.above or self.episode.state:
            self._evaluate(view, last, state.initial, ordered)

    def _healthy(self, view: sdk.View, row: int, losses: sdk.Values) -> sdk.Values:
        """Return the finite losses above 0; a negative one stops the rule, as ratios mean nothing then."""
        if any(loss is not None and loss < 0 and math.isfinite(loss) for loss in losses):
            self.state.positive = False
            self._calm(view, row)
        return [loss for loss in losses if loss is not None and 0 < loss < math.inf]

    def _left(self, view: sdk.View, start: int, losses: list[float]) -> None:
        """Find where the current losses left the best ones for good."""
        state = self.state
        if losses[-1] <= state.best_upper:
            state.left = None
        elif state.left is None or min(losses) <= state.best_upper:
            stretch = view.loss[start : start + sdk.PACE] if view.loss is not None else []
            within = [
                row for row, loss in enumerate(stretch) if loss is not None and loss <= state.best_upper
            ]
            row = min(start + (within[-1] + 1 if within else 0), start + len(stretch) - 1)
            state.left = view.place(row)

    def _beside(self, view: sdk.View, start: int) -> None:
        """Keep the newest gradient norms and skipped updates, which show whether the run is ruined."""
        state, kept = self.state, self.settings.critical_records
        for name, into in (("grad_norm", state.norms), ("skipped", state.skips)):
            column = view.column(name)
            values = column[start : start + sdk.PACE] if column is not None else []
            into += sdk.not_negative(values)
            del into[:-kept]

    def _go_silent(self, view: sdk.View, first: int, end: int) -> None:
        """Stop checking a loss that can be 0 or negative, whose ratios mean nothing; an open episode ends."""
        for row in range(first, end):
            self.settle(view, row)

    def _begin(self) -> None:
        """Set the initial loss to the median of the first losses."""
        first = self.settings.first_records
        if len(self.state.recent) >= first:
            self.state.initial = sorted(self.state.recent[:first])[first // 2]

    def _best(self, view: sdk.View, row: int, initial: float, ordered: list[float]) -> None:
        state, smooth = self.state, self.settings.smoothing_records
        upper = ordered[3 * smooth // 4]
        state.initial_upper = state.initial_upper or max(initial, upper)
        state.best, state.best_upper, state.best_step = sdk.middle(ordered), upper, view.step[row]
        state.best_norm, state.best_norms = 0.0, state.norms.copy()

    def _evaluate(self, view: sdk.View, row: int, initial: float, ordered: list[float]) -> None:
        state, limits = self.state, self.settings
        smooth, lower = sdk.middle(ordered), ordered[limits.smoothing_records // 4]
        usual = lower <= state.best_upper or smooth <= limits.diverging_ratio * state.best
        if self.episode.back is not None and not self.is_back(smooth):
            self.continues(view, row)
            if usual:  # compared with this attempt, which began after the loss had diverged
                return
        elif usual:
            self._below(view, row)
            return
        state.above.append(smooth)
        blocks = -(-limits.diverging_records // sdk.PACE)
        del state.above[:-blocks]
        if smooth - state.best <= limits.min_rise * initial:
            self._calm(view, row)
        elif lower > state.initial_upper and state.best < limits.learned_ratio * initial:
            self._fire(view, row, smooth, initial, "above-start")
        elif len(state.above) >= blocks and self._rising():
            self._fire(view, row, smooth, initial, "rising")

    def _below(self, view: sdk.View, row: int) -> None:
        self.state.above, self.state.unrecovered = [], False
        self._calm(view, row)

    def _calm(self, view: sdk.View, row: int) -> None:
        """Handle a block without divergence; a level from which the loss recovered becomes known."""
        if self.episode.state:
            self.settle(view, row)
            if not self.episode.state:
                self.state.known = max(self.state.known, self.state.highest)
                self.state.highest = 0.0

    def _rising(self) -> bool:
        half = len(self.state.above) // 2
        earlier, later = sorted(self.state.above[:half]), sorted(self.state.above[half:])
        return later[len(later) // 2] > earlier[len(earlier) // 2]

    def _ruined(self, smooth: float) -> bool:
        """Return whether the loss is far above its first values for long, and a second signal agrees."""
        state, limits = self.state, self.settings
        if smooth <= max(
            limits.critical_initial_ratio * state.initial_upper, limits.critical_best_ratio * state.best
        ):
            state.ruined = []
            return False
        blocks = -(-limits.critical_records // sdk.PACE)
        state.ruined = [*state.ruined, smooth][-blocks:]
        return len(state.ruined) == blocks and self._agrees()

    def _agrees(self) -> bool:
        state, limits = self.state, self.settings
        half = len(state.ruined) // 2
        grows = sdk.middle(sorted(state.ruined[half:])) > limits.critical_growth * sdk.middle(
            sorted(state.ruined[:half])
        )
        if state.best_norms:
            state.best_norm, state.best_norms = sdk.middle(sorted(state.best_norms)), []
        steep = (
            state.best_norm > 0
            and sdk.middle(sorted(state.norms)) > limits.critical_norm_ratio * state.best_norm
        )
        return grows or steep or sum(state.skips) > limits.critical_skipped_share * max(len(state.skips), 1)

    def _fire(self, view: sdk.View, row: int, smooth: float, initial: float, kind: str) -> None:
        state, step = self.state, view.step[row]
        ratio = smooth / state.best
        onset = state.left or (step, view.time_ns[row])
        slow = kind == "rising" and step - onset[0] > self.settings.slow_rise_share * step
        usual = smooth <= self.settings.recovered_before_ratio * state.known
        severity = sdk.INFO if slow or usual else sdk.CRITICAL if self._ruined(smooth) else sdk.WARNING
        state.highest = max(state.highest, smooth)
        level = sdk.grade(ratio)
        evidence: list[sdk.Fact] = [
            ("loss", smooth, "median of 50 records", step),
            ("best loss", state.best, "median of 50 records", state.best_step),
            ("initial loss", initial, "", None),
            ("times the best", ratio, "", None),
        ]
        summary = (
            f"Loss rose {sdk.number(state.best)} → {sdk.number(smooth)}, "
            f"{sdk.number(round(ratio, 1))} times its best"
        )
        kind = "slow" if slow else kind
        back = self.settings.diverging_ratio * state.best
        self.fire(
            view, row, severity, onset, summary, evidence, level=level, kind=kind, back=back, size=ratio
        )
