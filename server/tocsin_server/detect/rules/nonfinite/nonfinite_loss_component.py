"""Detect a term of the loss that is NaN or infinite, and name it.

A warning that names the term and gives the values of all terms. If the total is non-finite too,
`nonfinite-loss` is critical. It recovers after 5 updates with finite terms and resolves after 50.

Signals:
    `loss/<term>`, from `run.check(losses={...})`
Warm-up:
    none
Does not fire on:
    - a term that is not computed at a step: missing is not NaN
    - losses of other optimizers
Likely causes:
    - one term alone: its own computation (FFT or exp in float16, log, sqrt or a division at 0)
    - all terms: the output of the model, or the batch
First action:
    Compute the named term in float32, and check its inputs.
Source:
    A real training with an FFT loss in float16.
"""

from __future__ import annotations

import math

import msgspec

from tocsin_server.detect.sdk import (
    DATA,
    WARNING,
    Cause,
    DiagnosisContext,
    Fact,
    RuleSettings,
    RuleState,
    View,
    WideRule,
    count,
    grade,
    number,
    remedies,
    setting,
)


class Settings(RuleSettings):
    """Recovery thresholds, the same as for nonfinite-loss."""

    recover_updates: int = setting(5, "updates", "Updates with finite terms before the alert is recovering")
    resolve_updates: int = setting(50, "updates", "Updates with finite terms before the alert is resolved")


class State(RuleState):
    """By term: consecutive non-finite records. Only terms that are currently non-finite are kept."""

    bad: dict[str, int] = msgspec.field(default_factory=dict)
    first: str = ""
    since: tuple[int, int] = (0, 0)
    alone: bool = False
    """Whether other terms were finite when the episode began: a NaN in the weights reaches them later."""


class NonfiniteLossComponent(WideRule[Settings, State]):
    """Warning, because its false alarm rate was not measured.

    A non-finite total loss is reported by nonfinite-loss.
    """

    title = "Loss term is NaN or infinite"
    severity = WARNING
    needs = ("loss/",)
    about = "loss/*"

    def observe(self, view: View) -> None:
        terms = {
            name: values
            for name, values in view.bases.items()
            if name.startswith("loss/") and self.context.is_component(name[5:])
        }
        for row in range(view.n) if terms else ():
            values = {name: value for name, column in terms.items() if (value := column[row]) is not None}
            if values:
                self._one(view, row, values)

    def _one(self, view: View, row: int, values: dict[str, float]) -> None:
        state = self.state
        bad = {name: value for name, value in values.items() if not math.isfinite(value)}
        if not bad:
            state.bad = {}
            if self.episode.state:
                self.settle(view, row)
            return
        if not state.bad:
            state.first, state.since = min(bad), (view.step[row], view.time_ns[row])
            state.alone = len(bad) < len(values)
        state.bad = {name: state.bad.get(name, 0) + 1 for name in bad}
        if not state.alone or len(bad) < len(values):
            self._fire(view, row, bad, values)

    def _fire(self, view: View, row: int, bad: dict[str, float], values: dict[str, float]) -> None:
        state, step = self.state, view.step[row]
        times = max(state.bad.values())
        evidence: list[Fact] = [(name, value, "", step) for name, value in sorted(values.items())[:12]]
        names = ", ".join(name.removeprefix("loss/") for name in sorted(bad)[:4])
        value = number(next(iter(bad.values())))
        others = (
            "" if len(bad) == len(values) else f" while {count(len(values) - len(bad), 'other term')} finite"
        )
        others = others.replace("terms finite", "terms are finite").replace("term finite", "term is finite")
        summary = f"Loss term {names} is {value} at step {step}{others}"
        kind = "one" if len(bad) < len(values) else "all"
        self.fire(view, row, WARNING, state.since, summary, evidence, level=grade(times), kind=kind)


def _why(case: DiagnosisContext) -> Cause | None:
    reported = next(
        (v for rule, _, v in case.episode if rule == "nonfinite-loss-component" and v.kind == "one"), None
    )
    if reported is None or case.rule not in (
        "nonfinite-loss-component",
        "nonfinite-loss",
        "nonfinite-grad-norm",
    ):
        return None
    return Cause(
        "loss-term",
        f"{reported.summary}: the error is in the computation of that term, not in the model as a whole.",
        "one term of the loss",
        (remedies.FP32_ISLAND, remedies.CHECK_BATCH, remedies.BF16),
        "Compute the term in float32 from the same batch: it is finite.",
    )


def _all(case: DiagnosisContext) -> Cause | None:
    if case.result.kind != "all":
        return None
    return Cause(
        "all-terms",
        "Every term of the loss is non-finite, so the model's output or the batch is.",
        "the model's output or the batch, which all terms share",
        (remedies.FIND_MODULE, remedies.CHECK_BATCH, remedies.go_back(case)),
        "Check the model's output for the same batch: it is non-finite.",
    )


SHARED_CAUSES = ((DATA, _why),)
CAUSES = ((DATA, _all),)
