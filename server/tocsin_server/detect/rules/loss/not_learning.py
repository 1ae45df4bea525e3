"""Detect a loss that does not fall from the start.

After 200 records and 1000 updates, the median of the last 40 losses is less than 5 % below that of the
first 10; 50 records are enough if the loss is, or began as, that of guessing among 100 or more. A warning if
the loss is that of guessing (within 0.5 % of ln K for a number K of classes or tokens), or if it fell by less
than 1 %, or after 5000 updates by less than 5 % and not significantly (Mann-Whitney, z of 3). The rule stops
once the loss has fallen by 5 %.

Signals:
    `loss`, `lr`, `skipped`, `grad_norm`
Warm-up:
    50 or 200 records and 1000 updates, and while the learning rate rises
Does not fire on:
    - slow warm-ups
    - losses that change sign, such as those of policy gradients
    - noise that would hide a fall of 5 %
    - fine-tuning that improves little
    - runs that resume late
    - GAN losses and reinforcement learning
Likely causes:
    - a learning rate of 0, skipped updates or a gradient norm of 0
    - a learning rate that is far too high or too low
    - labels that do not belong to their inputs, constant inputs or frozen layers
First action:
    Train on one small batch until the loss is almost 0. If that fails, the graph or the labels are wrong.
Source:
    Measured: none of 31 healthy logs is flagged, but a ViT that stays at ln 1000 for 173,000 steps is. The
    conditions for logs of every step are tocsin's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from tocsin_server.detect import sdk

USUAL_RATES = 1e-5, 0.1
"""Learning rates with which most models learn something."""
TOO_LOW = 1e-7
"""Learning rate below which no usual optimizer moves the weights in thousands of updates."""


class Settings(sdk.RuleSettings):
    """Thresholds of the rule, measured on real logs: 200 records and 5 %. The others are tocsin's."""

    calm = "after the loss has fallen"
    recover_updates: int = 0
    resolve_updates: int = 0
    recover_records: int = sdk.setting(1, "records", "Records after the loss has fallen that are needed")
    warm_up: int = sdk.setting(200, "records", "Records before the rule starts")
    chance_records: int = sdk.setting(50, "records", "Records that are enough if the loss is at chance level")
    warm_up_updates: int = sdk.setting(1000, "updates", "Updates before the rule starts")
    first_records: int = sdk.setting(10, "records", "Records at the start whose median is the initial loss")
    recent_records: int = sdk.setting(40, "records", "Records whose median is the current loss")
    learning_fall: float = sdk.setting(0.05, "relative", "Fall below the initial loss that shows learning")
    long_run_updates: int = sdk.setting(
        5000, "updates", "Updates from which a slight fall shows learning if it is significant"
    )
    slight_fall: float = sdk.setting(0.01, "relative", "Fall that is enough if it is significant")
    significant_z: float = sdk.setting(3.0, "z", "Mann-Whitney score between the first and the last third")
    few_classes: int = sdk.setting(
        100, "classes", "Classes below which chance level counts only if the loss did not fall at all"
    )
    chance_range: float = sdk.setting(
        0.005, "relative", "Distance from ln K, K classes, within which a loss is at chance level"
    )


class State(sdk.RuleState):
    """Initial loss, the last losses, medians of the whole stretch, the last learning rates."""

    first: list[float] = msgspec.field(default_factory=list)
    last: list[float] = msgspec.field(default_factory=list)
    bins: sdk.Bins = msgspec.field(default_factory=lambda: sdk.Bins(4, 60, grow=True))
    rates: list[float] = msgspec.field(default_factory=list)
    norms: list[float] = msgspec.field(default_factory=list)
    skips: list[float] = msgspec.field(default_factory=list)
    start: tuple[int, int] = (0, 0)
    n: int = 0
    learned: bool = False


class NotLearning(sdk.Rule[Settings, State]):
    """Severity: warning. The likely causes are checked in a fixed order."""

    title = "Loss has never decreased"
    severity = sdk.WARNING
    inhibited_by = ("nonfinite-loss", "loss-divergence", "loss-saturated")
    adversarial = False
    needs = ("loss",)
    in_blocks = True

    def respaced(self) -> None:
        self.state.last = []

    def observe(self, view: sdk.View) -> None:
        state = self.state
        if view.loss is None or state.learned:
            return
        for start in range(0, view.n, sdk.PACE):
            if not state.learned:
                self._block(view, range(start, min(start + sdk.PACE, view.n)))

    def _block(self, view: sdk.View, block: range) -> None:
        """Process one block, so that results do not depend on how many records came at once."""
        state, limits = self.state, self.settings
        rows, losses = view.losses_between(block.start, block.stop)
        if losses:
            self._take(view, rows, losses)
        self._signals(view, block)
        enough = state.n >= limits.chance_records and len(state.last) >= limits.recent_records
        if losses and enough and view.age(rows[-1]) >= limits.warm_up_updates:
            self._evaluate(view, rows[-1])

    def _take(self, view: sdk.View, rows: Sequence[int], losses: list[float]) -> None:
        state, limits = self.state, self.settings
        if not state.n:
            state.start = (view.step[rows[0]], view.time_ns[rows[0]])
        state.n += len(losses)
        if len(state.first) < limits.first_records:
            state.first = [*state.first, *losses][: limits.first_records]
        state.last += losses
        del state.last[: -limits.recent_records]
        for _ in state.bins.fill(view, rows, losses):
            pass

    def _signals(self, view: sdk.View, block: range) -> None:
        state = self.state
        for column, kept in (
            (view.lr, state.rates),
            (view.grad_norm, state.norms),
            (view.skipped, state.skips),
        ):
            kept += [value for value in (column or ())[block.start : block.stop] if value is not None]
            del kept[: -self.settings.recent_records * 2]

    def _evaluate(self, view: sdk.View, row: int) -> None:
        state, limits = self.state, self.settings
        first, now = sdk.middle(sorted(state.first)), sdk.middle(sorted(state.last))
        early, late = state.bins.medians[:10], state.bins.medians[-10:]
        if first < now or sdk.middle(sorted(early)) > first:
            first, now = sdk.middle(sorted(early)), sdk.middle(sorted(late))
        if min(state.bins.medians) < 0 < max(state.bins.medians):
            return  # If a loss changes its sign, neither its height nor its fall shows what was learned.
        size = max(abs(first), abs(now))
        fall = (first - now) / size if size > 0 else 0.0
        few = state.n < limits.warm_up
        if fall >= limits.learning_fall:
            state.learned = not few
            self.settle(view, row)
            return
        guess = sdk.chance(now, limits.chance_range)
        if guess is not None and guess < limits.few_classes and fall >= limits.slight_fall:
            guess = None  # For small K, a loss is often near ln K by coincidence.
        if few and (guess or self._began_at_chance(now) or 0) < limits.few_classes:
            return
        if state.start[0] > limits.warm_up_updates or self._warming_up() or not self._certain(size):
            return
        if guess is None and self._slowly(fall, view.age(row)):
            return
        self._fire(view, row, first, now, guess)

    def _began_at_chance(self, now: float) -> int | None:
        """Return the number of classes among which the model guessed at first, if it is no better now."""
        first = sdk.middle(sorted(self.state.first))
        return sdk.chance(first, self.settings.chance_range) if now >= first else None

    def _certain(self, size: float) -> bool:
        """Return whether a fall of that size would be visible in the noise; else more records are needed."""
        if sdk.ROUNDED * self.quantum("loss") > self.settings.slight_fall * size:
            return False
        last = self.state.bins.medians[-20:]
        center = sdk.middle(sorted(last))
        spread = sdk.MAD_TO_SIGMA * sdk.middle(sorted(abs(median - center) for median in last))
        return 3 * 1.25 * spread / math.sqrt(len(last)) <= self.settings.learning_fall * size

    def _slowly(self, fall: float, age: int) -> bool:
        """Return whether the loss falls slightly, by more than chance explains."""
        medians = self.state.bins.medians
        third = len(medians) // 3
        z = sdk.falls(medians[:third], medians[-third:]) if third >= 4 else 0.0
        significant = z >= self.settings.significant_z or age < self.settings.long_run_updates
        return fall >= self.settings.slight_fall and significant

    def _warming_up(self) -> bool:
        """Return whether the learning rate rose over the stored records."""
        rates = self.state.rates
        return bool(rates) and rates[-1] > 1.01 * rates[0]

    def _fire(self, view: sdk.View, row: int, first: float, now: float, guess: int | None) -> None:
        state = self.state
        evidence: list[sdk.Fact] = [
            ("initial loss", first, "median of 10 records", state.start[0]),
            ("loss", now, "median of 40 records", view.step[row]),
            ("records", float(state.n), "records", None),
        ]
        summary = (
            f"Loss has not decreased: {sdk.number(first)} → {sdk.number(now)} in "
            f"{sdk.count(view.age(row), 'step')}"
        )
        if guess is not None:
            summary += f"; for a cross-entropy, this is chance level for {guess} classes"
            evidence.append(("chance level of a cross-entropy", math.log(guess), f"ln {guess}", None))
        if state.rates:
            evidence.append(("learning rate", state.rates[-1], "", view.step[row]))
        self.fire(view, row, sdk.WARNING, state.start, summary, evidence, kind=self._kind(guess))

    def _kind(self, guess: int | None) -> str:
        state = self.state
        if state.rates and max(state.rates) == 0.0:
            return "rate-zero"
        if state.skips and min(state.skips) > 0:
            return "skipping"
        if state.norms and max(abs(norm) for norm in state.norms) == 0.0:
            return "norm-zero"
        return "chance" if guess is not None else "flat"


_FEW = sdk.Remedy(
    "Train on one small batch: a working model drives its loss to nearly 0.",
    "batch = next(iter(loader))\nfor _ in range(500):\n    train_step(batch)",
)
_RATES = sdk.Remedy(
    "Try learning rates a factor of 10 apart; a rate that is too high is as likely as one that is too low.",
    "for lr in (1e-5, 1e-4, 1e-3, 1e-2): ...",
)
_LABELS = sdk.Remedy("Check the labels of one batch: shuffled apart, a single class, or all ignored (-100).")


def _why(case: sdk.DiagnosisContext) -> sdk.Cause | None:
    """Return a learning rate or layers without a gradient, if nothing in the records prevents learning."""
    if case.result.kind not in ("chance", "flat"):
        return None
    rate = f" ({sdk.number(case.lr)})" if case.lr else ""
    if case.rate_faded:
        return sdk.Cause(
            "graph",
            "The loss does not change, likely because no gradient reaches important layers: the learning "
            "rate is far below its peak but was high enough before.",
            "layers without a gradient",
            (_FEW, sdk.remedies.CHECK_GRAPH),
            "Print the gradients after backward(): some are 0 or None.",
        )
    if case.kind("grad-explosion") is not None:
        return sdk.Cause(
            "rate-high",
            f"The loss does not change while the gradient norm has left its level, likely because of a "
            f"learning rate{rate} that is too high or missing gradient clipping.",
            "a learning rate that is too high",
            (sdk.remedies.lower_lr(case), sdk.remedies.clip(case), _RATES),
            "Divide the learning rate by 10: the gradient norm stays at its level.",
        )
    low = case.lr is not None and 0 < case.lr < TOO_LOW
    how = "far too low" if low else "far too high (the model collapsed) or far too low"
    return sdk.Cause(
        "rate-wrong",
        f"The loss does not fall, likely because the learning rate{rate} is {how}.",
        f"a learning rate {'far too low' if low else 'far too high or too low'}",
        (_RATES, _FEW, sdk.remedies.CHECK_GRAPH),
        "Try four learning rates a factor of 10 apart: the loss falls at one of them.",
    )


_AT_CHANCE = sdk.Cause(
    "labels",
    "The loss is at chance level, likely because labels do not belong to their inputs, all inputs are "
    "equal, or layers are frozen.",
    "labels that do not belong to their inputs, constant inputs, or frozen layers",
    (_LABELS, _FEW, sdk.remedies.CHECK_GRAPH),
    "Check one batch and its gradients: labels are wrong, all inputs are equal, or gradients are 0.",
)
_FROZEN = sdk.Cause(
    "frozen",
    "Most layers are frozen or receive no gradient.",
    "layers that are frozen or receive no gradient",
    (sdk.remedies.CHECK_GRAPH, _FEW),
    "Print which parameters have requires_grad and a nonzero gradient: few do.",
)


def _labels_first(case: sdk.DiagnosisContext) -> sdk.Cause | None:
    """Return :data:`_AT_CHANCE` first if learning rate and gradient norm are as usual."""
    usual = case.lr is not None and USUAL_RATES[0] <= case.lr <= USUAL_RATES[1]
    return _AT_CHANCE if usual and case.kind("grad-explosion") is None else None


_RATE_ZERO = sdk.Cause(
    "rate-zero",
    "The learning rate is 0, so nothing is learned.",
    "a learning rate of 0",
    (sdk.remedies.CHECK_SCHEDULE,),
    "Print optimizer.param_groups: the learning rate is 0.",
)


_SKIPPING = sdk.Cause(
    "all-skipped",
    "Every update is skipped, so the weights never change.",
    "skipped updates",
    (sdk.remedies.FIND_MODULE, sdk.remedies.WIRE_SCALER, sdk.remedies.BF16),
    "Compare the weights of two steps: they are equal.",
)


_NORM_ZERO = sdk.Cause(
    "no-gradient",
    "The gradient norm is 0, so no gradient reaches the parameters.",
    "a detached graph",
    (sdk.remedies.CHECK_GRAPH,),
    "Print the gradients after backward(): all are 0 or None.",
)


CAUSES = (
    (sdk.DATA, sdk.of_kind("chance", _labels_first)),
    (sdk.RATE, sdk.of_kind("rate-zero", _RATE_ZERO)),
    (sdk.SCALER, sdk.of_kind("skipping", _SKIPPING)),
    (sdk.GRADIENT, sdk.of_kind("norm-zero", _NORM_ZERO)),
    (sdk.OPTIMISATION, _why),
    (sdk.OPTIMISATION, sdk.of_kind("chance", _AT_CHANCE)),
    (sdk.OPTIMISATION, sdk.of_kind("flat", _FROZEN)),
)
