"""Detect a learning rate that is far from what works for the optimizer or in similar runs.

Checked every 100 records. A warning above 0.005 for optimizers of the Adam family while the loss has not
fallen by 5 % of the median of its first 20 values. Info at 30 times above or below the median peak of
similar runs. It resolves when the rate is in range again.

Signals:
    `lr`, `loss`, class of the optimizer, similar runs
Warm-up:
    200 records
Does not fire on:
    - SGD, prompt tuning and small networks, which use higher rates: a fixed range would fire on 9 of 16
      healthy logs
    - sweeps
    - reinforcement learning
Likely causes:
    - a learning rate copied from another optimizer
    - a typo
First action:
    Divide the learning rate by 10, or use that of the similar runs.
Source:
    UMLAUT (0.01); measurements limit it to the Adam family.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tocsin_server.detect import sdk


class Settings(sdk.RuleSettings):
    calm = "at another rate"
    recover_updates: int = 1
    resolve_updates: int = 100
    adam_max_lr: float = sdk.setting(
        5e-3, "learning rate", "Rate above which an optimizer of the Adam family is out of range"
    )
    warm_up: int = sdk.setting(200, "records", "Records before the rule starts")
    check_records: int = sdk.setting(100, "records", "Records after which the rate is checked again")
    first_records: int = sdk.setting(20, "records", "Records at the start whose median is the first loss")
    learning_fall: float = sdk.setting(0.05, "relative", "Fall of the loss that shows that the rate works")
    similar_runs_ratio: float = sdk.setting(
        30.0, "x", "Distance from the peak rate of similar runs, above or below", least=1.0
    )


class State(sdk.RuleState):
    """Highest rate so far; first and newest losses."""

    peak: float = 0.0
    since: tuple[int, int] | None = None
    over: tuple[int, int] | None = None
    """Where the rate first exceeded the limit for the Adam family; None if it never did."""
    seen: int = 0
    early: list[float] = msgspec.field(default_factory=list)
    recent: list[float] = msgspec.field(default_factory=list)


class LrOutOfRange(sdk.Rule[Settings, State]):
    """Warning for the Adam family if the loss does not fall; info if similar runs used another rate."""

    title = "Learning rate is out of range"
    severity = sdk.WARNING
    needs = ("lr",)
    in_blocks = True

    def observe(self, view: sdk.View) -> None:
        if view.lr is None:
            return
        state = self.state
        if state.since is None:
            state.since = view.place(0)
        start = 0
        while start < view.n:
            stop = min(view.n, start + self.settings.check_records - state.seen % self.settings.check_records)
            self._stretch(view, start, stop)
            start = stop

    def _stretch(self, view: sdk.View, start: int, stop: int) -> None:
        """Process the records up to the next one at which the rate is checked."""
        state, limits = self.state, self.settings
        rates = sdk.finite_of((view.lr or ())[start:stop])
        state.seen += stop - start
        if rates and max(rates) > state.peak:
            state.peak = max(rates)
            if state.over is None and state.peak > limits.adam_max_lr:
                at = next(
                    row for row in range(start, stop) if ((view.lr or ())[row] or 0.0) > limits.adam_max_lr
                )
                state.over = view.place(at)
        if view.loss is not None:
            self._follow(sdk.finite_of(view.loss[start:stop]))
        if rates and state.seen >= limits.warm_up and state.seen % limits.check_records == 0:
            self._evaluate(view, stop - 1, rates[-1])

    def _follow(self, losses: Sequence[float]) -> None:
        state, first = self.state, self.settings.first_records
        room = first - len(state.early)
        if room > 0:
            state.early += losses[:room]
            losses = losses[room:]
        state.recent = [*state.recent, *losses][-first:]

    def _evaluate(self, view: sdk.View, row: int, rate: float) -> None:
        high = rate > self.settings.adam_max_lr and sdk.is_adam(sdk.optimizer_of(self.context, self.suffix))
        if high and not self.context.is_reinforcement and not self._improves():
            self._fire(view, row, rate, sdk.WARNING, "adam", None)
            return
        others = [
            peak for item in self.context.siblings.runs if (peak := item.peak_lr) is not None and peak > 0
        ]
        usual = sdk.middle(sorted(others)) if others else 0.0
        ratio = max(self.state.peak / usual, usual / self.state.peak) if usual and self.state.peak else 1.0
        if ratio > self.settings.similar_runs_ratio:
            low = self.state.peak < usual
            self._fire(view, row, rate, sdk.INFO, "below-siblings" if low else "above-siblings", usual)
        elif self.episode.state:
            self.settle(view, row, at_once=True)

    def _improves(self) -> bool:
        state = self.state
        if len(state.early) < self.settings.first_records or len(state.recent) < self.settings.first_records:
            return True
        first, now = sdk.middle(sorted(state.early)), sdk.middle(sorted(state.recent))
        return now < first - self.settings.learning_fall * abs(first)

    def _fire(
        self, view: sdk.View, row: int, rate: float, severity: int, kind: str, usual: float | None
    ) -> None:
        peak = self.state.peak
        evidence: list[sdk.Fact] = [
            ("learning rate", rate, "", view.step[row]),
            ("peak so far", peak, "", None),
        ]
        if usual is None:
            name = sdk.optimizer_of(self.context, self.suffix)
            limit = self.settings.adam_max_lr
            summary = (
                f"Learning rate {sdk.number(rate)} is above {sdk.number(limit)}, which is high for {name}"
            )
            evidence.append(("usual limit", limit, name, None))
        else:
            times = sdk.number(round(max(peak / usual, usual / peak)))
            way = "lower" if peak < usual else "higher"
            summary = (
                f"Learning rate {sdk.number(peak)} is {times}x {way} than in similar runs, "
                f"{sdk.number(usual)}"
            )
            evidence.append(("peak of similar runs", usual, "median", None))
        began = self.state.over if kind == "adam" else self.state.since
        since = began or view.place(row)
        self.fire(view, row, severity, since, summary, evidence, kind=kind)


def out_of_range(case: sdk.DiagnosisContext) -> sdk.Cause | None:
    """Return the cause of a learning rate out of range."""
    if case.result.kind == "below-siblings":
        return sdk.Cause(
            "lr-too-low", "The learning rate is far below that of similar runs, so training is "
            "slow or stuck.",
            "a learning rate far below that of similar runs",
            (sdk.Remedy("Raise the learning rate to that of the similar runs."), sdk.remedies.CHECK_SCHEDULE),
            "Compare the loss with a similar run at the same step: this run is behind.",
        )  # fmt: skip
    adam = case.result.kind == "adam"
    where = "for optimizers that normalize their updates" if adam else "in similar runs"
    return sdk.Cause(
        "lr-too-high",
        f"The learning rate is far above what usually works {where}.",
        "a learning rate that is too high",
        (sdk.remedies.lower_lr(case, 10.0), sdk.remedies.CHECK_SCHEDULE),
        "Divide the learning rate by 10: the loss falls faster.",
    )


CAUSES = ((sdk.RATE, out_of_range),)
