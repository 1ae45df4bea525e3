"""Detect a loss that consists almost entirely of one term.

Info if one term is 99 % of the sum of absolute values for 100 records, or 90 % for 1000. A warning if it was
below 80 % at the start, or is 10,000 times the sum of all others. It recovers after 200 updates with a
smaller share.

Signals:
    `loss/<term>`, from `run.check(losses={...})`
Warm-up:
    100 records
Does not fire on:
    - small regularizers: a large share alone is info
Likely causes:
    - a term that is summed while others are averaged
    - an FFT without normalization
    - weights that change
First action:
    Normalize or weight the terms so that they have a similar size.
Source:
    A restoration network with an FFT loss; the limits are tocsin's.
"""

from __future__ import annotations

import math

import msgspec

from tocsin_server.detect import sdk


class Settings(sdk.RuleSettings):
    """Thresholds of the rule; see Source in the module docstring.

    Small regularizers are common, so a share alone is only info.
    """

    calm = "with a smaller share"
    recover_updates: int = 200
    resolve_updates: int = 1000
    recover_records: int = sdk.setting(50, "records", "Records with a smaller share that are needed")
    dominant_share: float = sdk.setting(
        0.99, "share of all terms", "Share of one term that is reported after dominant_records"
    )
    dominant_records: int = sdk.setting(100, "records", "Records in a row with that share")
    long_dominant_share: float = sdk.setting(
        0.9, "share of all terms", "Share of one term that is reported after long_dominant_records"
    )
    long_dominant_records: int = sdk.setting(1000, "records", "Records in a row with that share")
    warning_ratio: float = sdk.setting(
        1e4, "x all other terms", "Size of the largest term from which it is a warning"
    )
    grown_from_share: float = sdk.setting(
        0.8, "share of all terms", "Share at the start below which a dominant term has grown"
    )
    first_records: int = sdk.setting(50, "records", "Records over which the share at the start is taken")


class State(sdk.RuleState):
    """Which term leads, since when, and its share at the start."""

    leader: str = ""
    much: int = 0
    often: int = 0
    apart: int = 0
    since: tuple[int, int] = (0, 0)
    n: int = 0
    start: dict[str, float] = msgspec.field(default_factory=dict)


class ComponentDominates(sdk.WideRule[Settings, State]):
    """Info; warning if it became dominant during the run, or is 10,000 times the sum of all others."""

    title = "One term dominates the loss"
    severity = sdk.WARNING
    inhibited_by = ("nonfinite-loss", "nonfinite-loss-component")
    bears_on = ("metric-degradation",)
    needs = ("loss/",)
    about = "loss/*"

    def observe(self, view: sdk.View) -> None:
        terms = {
            name[5:]: values
            for name, values in view.bases.items()
            if name.startswith("loss/") and self.context.is_component(name[5:])
        }
        for row in range(view.n) if len(terms) >= 2 else ():
            sizes = {name: abs(value) for name, column in terms.items() if (value := column[row]) is not None}
            if len(sizes) >= 2 and all(map(math.isfinite, sizes.values())):
                self._one(view, row, sizes)

    def _rounding(self, term: str) -> float:
        """Return by how much a term may be larger than it was printed."""
        return self.context.quanta.get(f"loss/{term}", 0.0) / 2

    def _one(self, view: sdk.View, row: int, sizes: dict[str, float]) -> None:
        state, limits = self.state, self.settings
        total = sum(sizes.values())
        if total <= 0:
            return
        if state.n < limits.first_records:
            for name, size in sizes.items():
                state.start[name] = state.start.get(name, 0.0) + size / total / limits.first_records
        state.n += 1
        leader = max(sizes, key=lambda name: sizes[name])
        rest = total - sizes[leader] + sum(self._rounding(name) for name in sizes if name != leader)
        share = sizes[leader] / (sizes[leader] + rest)
        if leader != state.leader or share < limits.long_dominant_share:
            state.much = state.often = state.apart = 0
            state.leader, state.since = leader, view.place(row)
        if share < limits.long_dominant_share:
            self.settle(view, row)
            return
        state.much += 1
        state.often = state.often + 1 if share >= limits.dominant_share else 0
        state.apart = state.apart + 1 if sizes[leader] > limits.warning_ratio * rest else 0
        self._evaluate(view, row, sizes, share)

    def _evaluate(self, view: sdk.View, row: int, sizes: dict[str, float], share: float) -> None:
        state, limits = self.state, self.settings
        if state.often < limits.dominant_records and state.much < limits.long_dominant_records:
            return
        apart = state.apart >= limits.dominant_records
        grown = (
            state.often >= limits.dominant_records
            and state.start.get(state.leader, 1.0) < limits.grown_from_share
        )
        evidence: list[sdk.Fact] = [
            (f"loss/{name}", size, "", view.step[row]) for name, size in sorted(sizes.items())[:12]
        ]
        evidence.append(("share", 100 * share, "%", view.step[row]))
        evidence.append(("share at the start", 100 * state.start.get(state.leader, 0.0), "%", None))
        summary = f"Loss term {state.leader} is {sdk.number(round(100 * share, 2))} % of the loss"
        severity, kind = (
            (sdk.WARNING, "apart" if apart else "grown") if apart or grown else (sdk.INFO, "share")
        )
        self.fire(view, row, severity, state.since, summary, evidence, level=severity, kind=kind)


def _why(case: sdk.DiagnosisContext) -> sdk.Cause | None:
    grown = case.result.kind == "grown"
    return sdk.Cause(
        "unbalanced",
        f"{case.result.summary}, so the other terms are hardly trained. "
        + (
            ("It did not dominate at the start: its weight changes, or the other terms have been learned.")
            if grown
            else (
                "Likely a term that is summed where the others are averaged, or a transform that is "
                "not normalized."
            )
        ),
        "unbalanced terms of the loss",
        (
            sdk.Remedy(
                "Average the term over its elements, as the other terms do; normalize its transform, if any."
            ),
            sdk.Remedy("Weight the terms so that their gradients have similar norms."),
        ),
        "Log the gradient norm of each term: one dominates.",
    )


CAUSES = ((sdk.OPTIMISATION, _why),)
