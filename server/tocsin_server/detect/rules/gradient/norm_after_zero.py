"""Detect a gradient norm of 0 while the loss changes.

A warning if the norm is exactly 0 in 20 records in a row while the loss moves by more than 1e-5. A fall of
the loss by 5 % proves that updates are applied. It recovers after 3 updates above 0 and resolves after 50.

Signals:
    `grad_norm`, `loss`
Warm-up:
    20 records
Does not fire on:
    - a constant loss, or zeros in cycles: both are `zero-grad-norm`
Likely causes:
    - the norm is measured after `zero_grad`
    - the norm is measured at a micro-step without an update
    - no gradient reaches the parameters
First action:
    If the loss falls, log the value that `clip_grad_norm_` returns, before `zero_grad`. Otherwise print which
    parameters get a gradient.
Source:
    Post-mortems of real trainings; BigScience tr1-13B, whose log prints 0.000 throughout.
"""

from __future__ import annotations

from tocsin_server.detect import sdk

LASTING = 50
"""Records with a norm of 0 after which a loss that does not fall means that nothing is trained."""
UNCERTAIN = "the loss changes, so there may be gradients"


class Settings(sdk.RuleSettings):
    """Thresholds of the rule; "constant" as in SageMaker's UnchangedTensor (rtol 1e-5)."""

    calm = "with a norm above 0"
    recover_updates: int = 3
    resolve_updates: int = 50
    zero_records: int = sdk.setting(
        20, "records", "Records in a row with a norm of exactly 0; also the warm-up"
    )
    constant_range: float = sdk.setting(1e-5, "relative", "Range of the loss within which it is constant")
    learning_fall: float = sdk.setting(
        0.05, "relative", "Fall of the loss that shows that updates are applied"
    )


class State(sdk.ZeroStreak):
    """First loss of the current streak, and the level of the newest losses in it."""

    first: float | None = None
    level: float = 0.0


class NormAfterZero(sdk.Rule[Settings, State]):
    """Severity: warning."""

    title = "Gradient norm is 0 while the loss changes"
    severity = sdk.WARNING
    inhibited_by = ("nonfinite-loss",)
    needs = ("grad_norm",)
    exact = True
    idles = True

    def asleep(self) -> bool:
        return not (self.state.streak or self.state.gap or self.episode.state or self.quantum("grad_norm"))

    def observe(self, view: sdk.View) -> None:
        norms = sdk.norms_of(view, self.state, self.quantum("grad_norm"))
        if self._nothing_new(norms):
            return
        for row, norm in enumerate(norms):
            if norm == 0.0:
                self._zero(view, row)
            elif norm is not None:
                state = self.state
                state.gap, state.first = state.streak, None
                state.end()
                self.settle(view, row)
            elif self.state.streak:
                self._loss(view, row)

    def _nothing_new(self, norms: list[float | None]) -> bool:
        state = self.state
        return not (0.0 in norms or state.streak or state.gap or self.episode.state)

    def _zero(self, view: sdk.View, row: int) -> None:
        state, limits = self.state, self.settings
        state.zero(view, row)
        self._loss(view, row)
        if state.streak >= max(limits.zero_records, 2 * state.gap + 1) and state.moves(limits.constant_range):
            self._fire(view, row)

    def _loss(self, view: sdk.View, row: int) -> None:
        state = self.state
        loss = state.loss(view, row)
        if loss is not None:
            state.level = loss if state.first is None else 0.8 * state.level + 0.2 * loss
            state.first = loss if state.first is None else state.first

    def _fire(self, view: sdk.View, row: int) -> None:
        state, level = self.state, sdk.grade(self.state.streak)
        first = state.first or 0.0
        falls = state.level < first - self.settings.learning_fall * abs(first)
        span = f"between {sdk.number(state.low)} and {sdk.number(state.high)}"
        evidence: list[sdk.Fact] = [
            ("grad norm", 0.0, "", view.step[row]),
            ("in a row", float(state.streak), "records", None),
            ("lowest loss", state.low, "", None),
            ("highest loss", state.high, "", None),
        ]
        summary = (
            f"Gradient norm has been 0 for {sdk.count(state.streak, 'record')} while the loss varied {span}"
        )
        self.fire(
            view, row, sdk.WARNING, state.since, summary, evidence,
            level=level, kind="falls" if falls else "moves", size=state.streak,
        )  # fmt: skip


def measured_late(case: sdk.DiagnosisContext) -> sdk.Cause | None:
    """Return the cause if the measurement is wrong and not the model.

    That is certain if the loss falls. Otherwise a norm that was above 0 until the onset, or that stays 0 for
    many records, shows that no gradient is left.
    """
    certain = case.result.kind == "falls"
    if not certain and (case.usual_norm or _lasting(case)):
        return None
    return _late("the loss has fallen, so updates are applied" if certain else UNCERTAIN)


def _late(reason: str) -> sdk.Cause:
    return sdk.Cause(
        "measurement",
        f"Likely a measurement error: {reason}. The norm is probably measured after "
        "zero_grad, or at a micro-step without an update.",
        "a norm measured after zero_grad",
        (sdk.remedies.NORM_BEFORE_ZERO, sdk.remedies.UPDATE_STEPS_ONLY),
        "Print the norm directly after backward(): it is above 0.",
    )


def only_noise(case: sdk.DiagnosisContext) -> sdk.Cause | None:
    """Return the cause if the loss moves without falling."""
    if case.result.kind == "falls":
        return None
    return sdk.Cause(
        "no-gradient",
        "Likely no gradient reaches the parameters, and the loss changes only because batches differ.",
        "a detached graph; the loss changes only because batches differ",
        (sdk.remedies.CHECK_GRAPH,),
        "Train on one batch repeatedly: its loss does not change.",
    )


def maybe_late(case: sdk.DiagnosisContext) -> sdk.Cause | None:
    """Return a wrong measurement as the second explanation while the loss moves without falling."""
    return None if case.result.kind == "falls" else _late(UNCERTAIN)


def _lasting(case: sdk.DiagnosisContext) -> bool:
    return any(name == "in a row" and float(value) >= LASTING for name, value, *_ in case.result.evidence)


CAUSES = ((sdk.MEASUREMENT, measured_late), (sdk.GRADIENT, only_noise), (sdk.SYSTEM, maybe_late))
