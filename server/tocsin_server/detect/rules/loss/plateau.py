"""Report a loss that has stopped falling although the learning rate is still high.

Info if the median of 50 losses had no new best (0.5 % lower) for 3000 records and for half of the run, the
newest quarter of the run is not below the quarter before (Mann-Whitney), and the learning rate is above
half its peak.

Signals:
    `loss`, `lr`
Warm-up:
    4000 records
Does not fire on:
    - a schedule that lowers the learning rate
    - losses below 2 % of the initial one
    - GAN losses and reinforcement learning
Likely causes:
    - a learning rate that is still too high
    - the model and the data allow no lower loss
First action:
    Let the learning rate decay from where the loss stopped falling.
Source:
    PyTorch's `ReduceLROnPlateau`. Info only, because a constant learning rate always ends on a plateau.
"""

from __future__ import annotations

import math

import msgspec

from tocsin_server.detect import sdk


class Settings(sdk.RuleSettings):
    """Thresholds as in torch's ReduceLROnPlateau, with a patience that scales with the run's length."""

    calm = "after a new best"
    recover_updates: int = 0
    resolve_updates: int = 0
    recover_records: int = sdk.setting(1, "records", "Records after a new best that are needed")
    patience: int = sdk.setting(3000, "records", "Records without a new best")
    patience_share: float = sdk.setting(0.5, "share of the run so far", "Part of the run without a new best")
    better_by: float = sdk.setting(0.005, "relative", "Fall below the best that counts as a new best")
    signed_better_by: float = sdk.setting(0.5, "x spread", "The same, for a loss that was ever 0 or negative")
    falling_z: float = sdk.setting(1.0, "z", "Mann-Whitney score above which the loss is still falling")
    rising_z: float = sdk.setting(
        3.0, "z", "Mann-Whitney score above which the loss is rising, which other rules report"
    )
    compared_medians: int = sdk.setting(
        20, "medians", "Medians needed in each of the two quarters that are compared"
    )
    signed_level_spread: float = sdk.setting(
        3.0, "x spread", "Range of the last half's medians, for a loss that was ever 0 or negative"
    )
    low_lr_ratio: float = sdk.setting(
        0.5, "x peak rate", "Learning rate below which a plateau is the end of the schedule"
    )
    lr_fall: float = sdk.setting(
        0.02, "relative", "Fall of the learning rate since the best that shows an active schedule"
    )
    converged_ratio: float = sdk.setting(0.02, "x initial loss", "Loss below which the run has converged")


class State(sdk.RuleState):
    """The best median so far and where; peak and current learning rate."""

    bins: sdk.Bins = msgspec.field(default_factory=lambda: sdk.Bins(50, 1))
    course: sdk.Bins = msgspec.field(default_factory=lambda: sdk.Bins(1, 160, grow=True))
    """The medians of the whole run, evenly thinned."""
    rests: list[float] = msgspec.field(default_factory=list)
    """Newest distances of single losses from the median of their bin, which give the spread."""
    lowest: float = math.inf
    n: int = 0
    initial: float | None = None
    best: float = math.inf
    best_n: int = 0
    best_at: tuple[int, int] = (0, 0)
    best_rate: float = 0.0
    peak: float = 0.0
    rate: float = 0.0


class Plateau(sdk.Rule[Settings, State]):
    """Info only, because runs with a constant rate always end on a plateau."""

    title = "Loss has stopped falling"
    severity = sdk.INFO
    inhibited_by = ("nonfinite-loss", "loss-divergence", "not-learning", "loss-saturated", "zero-lr")
    adversarial = False
    bears_on = ()
    needs = ("loss",)
    in_blocks = True

    def observe(self, view: sdk.View) -> None:
        state = self.state
        if view.loss is None:
            return
        for row in state.bins.extend(view):
            rate = view.value("lr", row)
            if rate is not None and math.isfinite(rate):
                state.peak, state.rate = max(state.peak, rate), rate
            self._note(view, row)
            self._evaluate(view, row, state.bins.medians[-1])

    def _note(self, view: sdk.View, row: int) -> None:
        state, level = self.state, self.state.bins.medians[-1]
        loss = view.value("loss", row)
        single = level if loss is None else loss
        state.n += state.bins.size
        state.course.push(view.step[row], level)
        state.lowest = min(state.lowest, level, single)
        state.rests = [*state.rests, abs(single - level)][-64:]

    def _evaluate(self, view: sdk.View, row: int, level: float) -> None:
        state, limits = self.state, self.settings
        if state.initial is None:
            state.initial = level
        if state.best == math.inf or level < state.best - self._least():
            state.best, state.best_n, state.best_rate = level, state.n, state.rate
            state.best_at = view.place(row)
            self.settle(view, row)
            return
        waited = state.n - state.best_n
        if (
            waited >= max(limits.patience, limits.patience_share * state.n)
            and sdk.ROUNDED * self.quantum("loss") <= self._least()
            and self._matters(state.initial)
            and self._stands()
        ):
            self._fire(view, row, waited)

    def _least(self) -> float:
        """Return the minimum improvement for a new best.

        It is a share of the best, or of the spread if the best was ever <= 0.
        """
        state, limits = self.state, self.settings
        if state.lowest > 0:
            return limits.better_by * state.best
        return limits.signed_better_by * self._spread()

    def _spread(self) -> float:
        """Return 1.4826 MAD of single losses around the median of their bin."""
        return 1.4826 * sdk.middle(sorted(self.state.rests))

    def _stands(self) -> bool:
        """Return whether the newest quarter of the run is neither below nor above the previous quarter."""
        medians, limits = self.state.course.medians, self.settings
        quarter = len(medians) // 4
        if quarter < limits.compared_medians:
            return False
        half = medians[-2 * quarter :]
        if self.state.lowest <= 0 and max(half) - min(half) > limits.signed_level_spread * self._spread():
            return False
        z = sdk.falls(medians[-2 * quarter : -quarter], medians[-quarter:])
        return -limits.rising_z < z < limits.falling_z

    def _matters(self, initial: float) -> bool:
        state, limits = self.state, self.settings
        converged = 0 <= state.best < limits.converged_ratio * abs(initial)
        ended = state.peak > 0 and state.rate < limits.low_lr_ratio * state.peak
        falls = state.rate < (1 - limits.lr_fall) * state.best_rate
        return not converged and not ended and not falls

    def _fire(self, view: sdk.View, row: int, waited: int) -> None:
        state = self.state
        evidence: list[sdk.Fact] = [
            ("best loss", state.best, "median of 50 records", state.best_at[0]),
            ("records since", float(waited), "records", None),
        ]
        if state.peak:
            evidence.append(("learning rate", state.rate, "", view.step[row]))
        since = sdk.count(view.step[row] - state.best_at[0], "step")
        summary = f"Loss has not been below {sdk.number(state.best)} for {since}"
        self.fire(view, row, sdk.INFO, state.best_at, summary, evidence)


def _why(case: sdk.DiagnosisContext) -> sdk.Cause | None:
    if case.rate_faded:
        return sdk.Cause(
            "limit",
            "Likely the limit of model and data: the learning rate is far below its peak.",
            "the limit of model and data",
            (sdk.Remedy("Stop the run if the validation metric no longer improves."),),
            "Check the validation metric: it no longer improves.",
        )
    rate = f" ({sdk.number(case.lr)})" if case.lr else ""
    return sdk.Cause(
        "rate-high",
        f"Likely a learning rate{rate} that is too high for a lower loss; it may also be the "
        "limit of model and data.",
        "a learning rate that is still too high",
        (
            sdk.Remedy(
                "Lower the learning rate when the loss stops falling.",
                "scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.3, patience=5)",
            ),
            sdk.remedies.lower_lr(case, 3.0),
        ),
        "Divide the learning rate by 3: the loss falls again.",
    )


CAUSES = ((sdk.OPTIMISATION, _why),)
