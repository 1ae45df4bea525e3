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

from tocsin_server.detect import sdk


class Settings(sdk.RuleSettings):
    """Recovery thresholds, the same as for nonfinite-loss."""

    calm = "with finite terms"
    recover_updates: int = 5
    resolve_updates: int = 50


class State(sdk.RuleState):
    """By term: consecutive non-finite records. Only terms that are currently non-finite are kept."""

    bad: dict[str, int] = msgspec.field(default_factory=dict)
    first: str = ""
    since: tuple[int, int] = (0, 0)
    alone: bool = False
    """Whether other terms were finite when the episode began: a NaN in the weights reaches them later."""


class NonfiniteLossComponent(sdk.WideRule[Settings, State]):
    """Warning, because its false alarm rate was not measured.

    A non-finite total loss is reported by nonfinite-loss.
    """

    title = "Loss term is NaN or infinite"
    severity = sdk.WARNING
    needs = ("loss/",)
    about = "loss/*"

    def observe(self, view: sdk.View) -> None:
        terms = {
            name: values
            for name, values in view.bases.items()
            if name.startswith("loss/") and self.context.is_component(name[5:])
        }
        for row in range(view.n) if terms else ():
            values = {name: value for name, column in terms.items() if (value := column[row]) is not None}
            if values:
                self._one(view, row, values)

    def _one(self, view: sdk.View, row: int, values: dict[str, float]) -> None:
        state = self.state
        bad = {name: value for name, value in values.items() if not math.isfinite(value)}
        if not bad:
            state.bad = {}
            self.settle(view, row)
            return
        if not state.bad:
            state.first, state.since = min(bad), view.place(row)
            state.alone = len(bad) < len(values)
        state.bad = {name: state.bad.get(name, 0) + 1 for name in bad}
        if not state.alone or len(bad) < len(values):
            self._fire(view, row, bad, values)

    def _fire(self, view: sdk.View, row: int, bad: dict[str, float], values: dict[str, float]) -> None:
        state, step = self.state, view.step[row]
        times = max(state.bad.values())
        evidence: list[sdk.Fact] = [(name, value, "", step) for name, value in sorted(values.items())[:12]]
        names = ", ".join(name.removeprefix("loss/") for name in sorted(bad)[:4])
        value = sdk.number(next(iter(bad.values())))
        others = (
            ""
            if len(bad) == len(values)
            else f" while {sdk.count(len(values) - len(bad), 'other term')} finite"
        )
        others = others.replace("terms finite", "terms are finite").replace("term finite", "term is finite")
        summary = f"Loss term {names} is {value} at step {step}{others}"
        kind = "one" if len(bad) < len(values) else "all"
        self.fire(view, row, sdk.WARNING, state.since, summary, evidence, level=sdk.grade(times), kind=kind)


def _why(case: sdk.DiagnosisContext) -> sdk.Cause | None:
    reported = next(
        (v for rule, _, v in case.episode if rule == "nonfinite-loss-component" and v.kind == "one"), None
    )
    if reported is None or case.rule not in (
        "nonfinite-loss-component",
        "nonfinite-loss",
        "nonfinite-grad-norm",
    ):
        return None
    return sdk.Cause(
        "loss-term",
        f"{reported.summary}: the error is in the computation of that term, not in the model as a whole.",
        "one term of the loss",
        (sdk.remedies.FP32_ISLAND, sdk.remedies.CHECK_BATCH, sdk.remedies.BF16),
        "Compute the term in float32 from the same batch: it is finite.",
    )


def _all(case: sdk.DiagnosisContext) -> sdk.Cause:
    return sdk.Cause(
        "all-terms",
        "Every term of the loss is non-finite, so the model's output or the batch is.",
        "the model's output or the batch, which all terms share",
        (sdk.remedies.FIND_MODULE, sdk.remedies.CHECK_BATCH, sdk.remedies.go_back(case)),
        "Check the model's output for the same batch: it is non-finite.",
    )


SHARED_CAUSES = ((sdk.DATA, _why),)
CAUSES = ((sdk.DATA, sdk.of_kind("all", _all)),)
