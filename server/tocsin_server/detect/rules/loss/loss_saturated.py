"""Detect a loss that is constant to the last digit.

The loss is constant within 1e-5 for 50 records, or within 1e-4 if it is printed with four decimals. Critical
at exactly 0 from the start, and at a round number (1, 2 or 5 times a power of ten), which is a clamp. A
warning at any other value. A loss that is printed with few decimals counts only if it is 0 with four decimals
from the start, at a round number for 500 records, or at ln K. At ln K it is reported as chance level, but not
in the first 1000 updates or while the learning rate rises. Info if the loss has converged: it is tiny
compared with earlier losses. In an excerpt, two equal records at a round number of 100 or more are a warning
at once. It recovers after 10 updates more than 0.1 % away and resolves after 100.

Signals:
    `loss` of each optimizer
Warm-up:
    50 records; 2 records at a round number of 100 or more
Does not fire on:
    - a loss that is printed with too few decimals to see it move
    - a loss that falls slightly at every record
    - a head whose weights start at 0, while the learning rate warms up
Likely causes:
    - a hard clamp or `nan_to_num`
    - a saturated sigmoid
    - a critic without normalization
    - a detached graph
    - targets that make the loss vanish
    - equal rewards within each group of GRPO
First action:
    Remove the clamp or replace it by a soft one, and check the targets.
Source:
    SageMaker Debugger, UnchangedTensor (rtol 1e-5); a WGAN whose losses stayed at -1000 and +1000.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import sub

from tocsin_server.detect import sdk


class Settings(sdk.RuleSettings):
    """Thresholds of the rule; "constant" as in SageMaker's UnchangedTensor (rtol 1e-5)."""

    calm = "with a changing loss"
    recover_updates: int = 10
    resolve_updates: int = 100
    constant_records: int = sdk.setting(50, "records", "Records in a row within the range")
    constant_range: float = sdk.setting(1e-5, "relative", "Range of the loss within which it is constant")
    few_digits_below: float = sdk.setting(
        0.01, "loss", "Loss below which four constant decimals may be rounding"
    )
    rounding_range: float = sdk.setting(1e-4, "loss", "Range that four decimals alone can cause")
    round_records: int = sdk.setting(
        500, "records", "Records in a row at a round number, if the log has few decimals"
    )
    min_size_quanta: float = sdk.setting(
        1000.0, "x quantum", "Smallest size of a constant loss in a log with few decimals"
    )
    warm_up: int = sdk.setting(
        1000, "updates", "Updates from the first record, during which chance level is usual"
    )
    clamped_records: int = sdk.setting(2, "records", "Records at the very start that reveal a clamp", least=2)
    clamped_size: float = sdk.setting(100.0, "loss", "Smallest round number that few records reveal")
    clamped_spacing: int = sdk.setting(
        10, "steps", "Smallest distance of records of which few reveal a clamp"
    )
    resolve_change: float = sdk.setting(0.001, "relative", "Change of the loss that ends the alert")


class State(sdk.RuleState):
    """The current stretch of constant losses, and the loss before it."""

    streak: int = 0
    low: float = 0.0
    high: float = 0.0
    since: tuple[int, int] = (0, 0)
    largest: float = 0.0
    """Largest size of any loss before the stretch."""
    falling: bool = True
    """Whether each loss of the stretch was below the previous one, so that it still improves slowly."""
    last: float = 0.0
    height: float = 0.0
    """The constant loss of the current episode."""
    rate: float | None = None
    """Learning rate when a loss at chance level was last checked."""


class LossSaturated(sdk.Rule[Settings, State]):
    """Critical at a clamp's round number, or at 0 from the start; warning at chance level or elsewhere."""

    title = "Loss is constant"
    severity = sdk.CRITICAL
    inhibited_by = ("nonfinite-loss", "masked-nan")
    needs = ("loss",)
    exact = True
    in_blocks = True

    def observe(self, view: sdk.View) -> None:
        if view.loss is None:
            return
        rows, values = view.losses
        for start in range(0, len(values), sdk.PACE):
            self._some(view, rows[start : start + sdk.PACE], values[start : start + sdk.PACE])

    def _some(self, view: sdk.View, rows: Sequence[int], values: list[float]) -> None:
        if self._all_differ(view, rows[-1], values):
            return
        for row, loss in zip(rows, values, strict=True):
            self._one(view, row, loss)

    def _all_differ(self, view: sdk.View, row: int, values: list[float]) -> bool:
        """Handle the common case quickly: no loss is close to the previous one."""
        state = self.state
        if self.episode.state or not state.streak:
            return False
        nearest, low, high = min(map(abs, map(sub, values, [state.last, *values]))), min(values), max(values)
        if nearest <= self._range(low, high):
            return False
        state.largest = max(state.largest, abs(state.last))
        if max(high, -low) > state.largest:
            before = values[:-1]
            state.largest = max(state.largest, max(before, default=0.0), -min(before, default=0.0))
        state.streak, state.falling, state.since = 1, True, view.place(row)
        state.low = state.high = state.last = values[-1]
        return True

    def _one(self, view: sdk.View, row: int, loss: float) -> None:
        state = self.state
        low, high = (loss, loss) if not state.streak else (min(state.low, loss), max(state.high, loss))
        if not state.streak or high - low > self._range(low, high):
            state.largest = max(state.largest, abs(state.last))
            low = high = loss
            state.streak, state.falling = 0, True
            state.since = view.place(row)
        elif loss >= state.last:
            state.falling = False
        state.streak += 1
        state.low, state.high, state.last = low, high, loss
        if state.streak < self.settings.constant_records:
            if self.episode.state:
                self._excursion(view, row, loss)
            elif state.streak == self.settings.clamped_records and not state.largest:
                self._few(view, row, loss)
        elif not state.falling:
            self._fire(view, row, loss)

    def _range(self, low: float, high: float) -> float:
        """Return within which range a loss is constant."""
        limits = self.settings
        quantum = self.quantum("loss")
        if not quantum and round(low, 4) == low and round(high, 4) == high:
            quantum = limits.rounding_range
        return max(limits.constant_range * max(high, -low), 1.01 * quantum)

    def _few(self, view: sdk.View, row: int, loss: float) -> None:
        """Handle identical first records that are far apart, which do not occur by chance."""
        limits, since = self.settings, self.state.since
        far = view.step[row] - since[0] >= limits.clamped_spacing * (limits.clamped_records - 1)
        least = max(limits.clamped_size, limits.min_size_quanta * self.quantum("loss"))
        if far and abs(loss) >= least and is_round(loss):
            self.state.height = loss
            self.fire(view, row, sdk.WARNING, since, *self._describe(view, row, loss), kind="clamp")

    def _excursion(self, view: sdk.View, row: int, loss: float) -> None:
        """Ignore single records off a clamp: a loss that returns to it, or nearly, has not moved."""
        if abs(loss - self.state.height) > self.settings.resolve_change * abs(self.state.height):
            self.settle(view, row)
        else:
            self.continues(view, row)

    def _fire(self, view: sdk.View, row: int, loss: float) -> None:
        state = self.state
        kind = self._kind(view, row, loss)
        severity = {"zero": sdk.CRITICAL, "clamp": sdk.CRITICAL, "converged": sdk.INFO}.get(kind, sdk.WARNING)
        if kind == "zero" and self.quantum("loss") and _norm(view, row) is None:
            severity = sdk.WARNING  # it may also be tiny
        level = sdk.grade(state.streak // self.settings.constant_records)
        if kind == "rounded" or (kind == "chance" and self._warms_up(view, row)):
            return
        state.height = loss
        described = self._describe(view, row, loss)
        self.fire(view, row, severity, state.since, *described, level=level, kind=kind, size=state.streak)

    def _warms_up(self, view: sdk.View, row: int) -> bool:
        """Return whether the run has only begun, so that a loss at chance level is usual."""
        state, rate = self.state, view.value("lr", row)
        rises = rate is not None and state.rate is not None and rate > state.rate
        state.rate = rate
        return not state.largest and (rises or view.step[row] - state.since[0] < self.settings.warm_up)

    def _describe(self, view: sdk.View, row: int, loss: float) -> tuple[str, list[sdk.Fact]]:
        state = self.state
        evidence: list[sdk.Fact] = [
            ("loss", loss, "constant", view.step[row]),
            ("in a row", float(state.streak), "records", None),
            ("range", state.high - state.low, "", None),
        ]
        quantum = self.quantum("loss")
        if loss == 0 and quantum:
            said = f"Loss has been printed as 0 (below {sdk.number(quantum / 2)})"
        else:
            said = f"Loss has stayed at {sdk.number(round(loss, 9))}"
        return f"{said} for {sdk.count(state.streak, 'record')}", evidence

    def _kind(self, view: sdk.View, row: int, loss: float) -> str:
        """Return zero, clamp, chance, rounded (too few digits), converged or constant."""
        state, limits, quantum = self.state, self.settings, self.quantum("loss")
        fell = state.largest > 0 and abs(loss) < limits.few_digits_below * max(state.largest, 1e-300)
        if loss == 0.0:
            kind = "converged" if fell else "zero"
        elif abs(loss) < limits.few_digits_below and round(loss, 4) == loss:
            kind = "rounded"
        elif fell:
            kind = "converged"
        elif is_round(loss):
            kind = "clamp"
        else:
            kind = "chance" if sdk.chance(loss, 1e-4) else "constant"
        return kind if self._is_proved(view, row, kind, loss, quantum) else "rounded"

    def _is_proved(self, view: sdk.View, row: int, kind: str, loss: float, quantum: float) -> bool:
        """Return whether a loss that is printed with few decimals really is constant.

        A healthy loss may change by less than the quantum for a while. But it does not stay at ln K or at a
        round number, and it is not 0.0000 from the first record on with a gradient norm of 0 or none.
        """
        limits = self.settings
        if not quantum or quantum <= limits.constant_range * abs(loss):
            return True
        if kind == "zero":
            return quantum <= sdk.FINE and not _norm(view, row)
        visible = abs(loss) >= limits.min_size_quanta * quantum
        return visible and (
            kind == "chance" or (kind == "clamp" and self.state.streak >= limits.round_records)
        )


def _norm(view: sdk.View, row: int) -> float | None:
    return view.value("grad_norm", row)


def is_round(value: float) -> bool:
    """Return whether ``value`` is typical of a clamp: 1, 2 or 5 times a power of ten, at least 1."""
    size = abs(value)
    if size < 0.999:
        return False
    decade = 10.0 ** math.floor(math.log10(size) + 1e-6)
    return any(abs(size / decade - digit) < 1e-5 * digit for digit in (1, 2, 5))


_CLAMP = sdk.Remedy(
    "Replace the clamp by a soft bound: outside of a clamp the gradient is 0.",
    "loss = bound * torch.tanh(raw / bound)   # instead of raw.clamp(-bound, bound)",
)
_CRITIC = sdk.Remedy(
    "Bound the critic with spectral norm, a gradient penalty or layer norm.",
    "layer = torch.nn.utils.parametrizations.spectral_norm(layer)",
)
_TARGETS = sdk.Remedy("Check the targets of one batch: a single class, all padding, or all -100.")

_REWARDS = sdk.Remedy("With GRPO, check the rewards: if they are equal within a group, its advantages are 0.")


def _clamp(case: sdk.DiagnosisContext) -> sdk.Cause | None:
    clamped = _clamped(case)
    if clamped is None:
        return None
    value = _height(clamped)
    mirror = [
        subject
        for rule, subject, result in case.others
        if rule == "loss-saturated" and abs(_height(result) + value) <= 1e-5 * abs(value)
    ]
    also = f" The series {mirror[0]} is constant at the same number with the opposite sign." if mirror else ""
    return sdk.Cause(
        "clamp",
        "The loss is constant at a round number: a clamp (or nan_to_num) cuts it off and "
        f"passes no gradient.{also} The unclamped value keeps growing.",
        "a clamp that cuts off the loss",
        (_CLAMP, _CRITIC, sdk.remedies.lower_lr(case)),
        "Log the loss before the clamp: it is outside the clamp's bounds.",
    )


def _clamped(case: sdk.DiagnosisContext) -> sdk.RuleResult | None:
    """Return the result for a loss at a clamp: this alert's, or one that explains gradients of 0."""
    if case.rule == "loss-saturated":
        return case.result if case.result.kind == "clamp" else None
    if case.rule != "zero-grad-norm" or case.result.kind != "real":
        return None
    series = case.subject.partition("/")[2]
    return next(
        (
            result
            for rule, subject, result in case.others
            if rule == "loss-saturated" and result.kind == "clamp" and subject.partition("/")[2] == series
        ),
        None,
    )


def _height(result: sdk.RuleResult) -> float:
    return next(float(fact[1]) for fact in result.evidence if fact[0] == "loss")


_ZERO = sdk.Cause(
    "zero-loss",
    "The loss has been 0 from the start: a single class, ignored targets, a mask "
    "over everything, a weight of 0, or, with GRPO, equal rewards within each group.",
    "targets for which the loss is always 0",
    (_TARGETS, _REWARDS, sdk.remedies.CHECK_GRAPH),
    "Evaluate one batch whose targets you have checked: its loss is 0.",
)


def _dead(case: sdk.DiagnosisContext) -> sdk.Cause | None:
    if case.result.kind not in ("constant", "chance", "converged"):
        return None
    text = {
        "constant": "The loss no longer depends on the batch: saturated activations, a detached graph, "
        "or a learning rate of 0 on a repeated batch.",
        "chance": "If the loss is a cross-entropy, it is at chance level: the output is the same for every "
        "input.",
        "converged": "The loss has reached its lower limit.",
    }[case.result.kind]
    return sdk.Cause(
        "dead",
        text,
        "saturated activations or a detached graph",
        (sdk.remedies.CHECK_GRAPH, sdk.remedies.lower_lr(case)),
        "Evaluate two different batches: their losses are equal.",
    )


SHARED_CAUSES = ((sdk.FORWARD, _clamp),)
CAUSES = ((sdk.DATA, sdk.of_kind("zero", _ZERO)), (sdk.FORWARD, _dead))
