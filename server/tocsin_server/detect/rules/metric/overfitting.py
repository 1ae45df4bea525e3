"""Detect a validation loss that rises while the training loss falls.

A warning if the validation loss had no new best for 5 evaluations, its last three values exceed the best by
5 % and by 3 times its usual change between evaluations, and the training loss has fallen by 2 % since the
best. A new best resolves it. Each best raises at most one alert.

Signals:
    validation losses and metrics (`val/...`), training metrics (`train/...`), `loss`
Warm-up:
    6 evaluations
Does not fire on:
    - validation sets that are noisy
    - a task metric that holds or improves while the validation loss rises
    - a metric of the training data that falls as well
    - the same best that `metric-degradation` reports
Likely causes:
    - memorization of the training data
    - overconfidence
First action:
    Keep the best checkpoint and stop, or add data augmentation or regularization.
Source:
    SageMaker Debugger, Overfit, whose ratio of 0.1 is too tight; patience as is usual in early stopping.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

from tocsin_server.detect import sdk

RECENT = 64
"""Number of training losses whose median is the level at an evaluation."""
LOSSES, METRICS = 8, 32
"""Maximum number of held-out losses and of other metrics that are tracked; later ones are ignored."""


class Settings(sdk.RuleSettings):
    """Thresholds of the rule; the minimum rise avoids alerts for noisy validation sets."""

    calm = "after a new best"
    recover_updates: int = 0
    resolve_updates: int = 0
    recover_records: int = sdk.setting(1, "evaluations", "Evaluations after a new best that are needed")
    patience: int = sdk.setting(5, "evaluations", "Evaluations without a new best")
    worse_by: float = sdk.setting(
        0.05, "relative", "Rise of the validation loss above its best, over three evaluations"
    )
    noise_ratio: float = sdk.setting(
        3.0, "x usual change", "Change between evaluations that the rise must exceed"
    )
    train_fall: float = sdk.setting(0.02, "relative", "Smallest fall of the training loss since the best")
    metric_holds_within: float = sdk.setting(
        0.02, "relative", "Distance from its best within which a task metric holds"
    )


class Held(msgspec.Struct):
    """One held-out loss: its best, the step of the best, and the training loss there."""

    best: float
    best_step: int
    best_ns: int
    train: float | None
    since: int = 0
    last: list[float] = []
    changes: list[float] = []
    reported: bool = False
    """Whether an alert was raised for this best."""


class Score(msgspec.Struct):
    """Another metric, signed so that higher is better."""

    best: float
    last: float
    since: int = 0
    """Evaluations since its best."""


class State(sdk.RuleState):
    """The newest training losses, the held-out losses, and the other metrics."""

    train: list[float] = msgspec.field(default_factory=list)
    held: dict[str, Held] = msgspec.field(default_factory=dict)
    scores: dict[str, Score] = msgspec.field(default_factory=dict)


class Overfitting(sdk.WideRule[Settings, State]):
    """Warning, unless a task metric holds or improves."""

    title = "Validation loss rises, training loss falls"
    severity = sdk.WARNING
    inhibited_by = ("nonfinite-loss", "loss-divergence", "metric-degradation")
    needs = ("val/",)
    about = "val/loss"

    @classmethod
    def subjects(cls, bases: Iterable[str], suffix: str) -> bool:
        return suffix == sdk.WIDE and any(base.startswith("val/") and sdk.is_loss(base) for base in bases)

    def ceiling(self) -> float:
        """Return infinity, because only an evaluation leads to a result."""
        return math.inf

    def observe(self, view: sdk.View) -> None:
        names = view.bases.items()
        metrics = [(name, column) for name, column in names if name.startswith(("val/", "train/"))]
        losses, state = view.column("loss"), self.state
        if not metrics:
            newest = [loss for loss in losses or () if loss is not None and math.isfinite(loss)]
            state.train = [*state.train, *newest][-RECENT:]
            return
        for row in range(view.n):
            loss = losses[row] if losses is not None else None
            if loss is not None and math.isfinite(loss):
                state.train = [*state.train, loss][-RECENT:]
            self._evaluation(view, row, metrics)

    def _evaluation(self, view: sdk.View, row: int, metrics: list[tuple[str, list[float | None]]]) -> None:
        seen = [(name, value) for name, column in metrics if (value := column[row]) is not None]
        for name, value in seen:
            if math.isfinite(value) and name.startswith("val/") and sdk.is_loss(name):
                self._held(view, row, name, value)
            elif math.isfinite(value) and not sdk.is_loss(name):
                self._score(name, value)
        if any(name.startswith("val/") for name, _ in seen):
            self._evaluate(view, row)

    def _held(self, view: sdk.View, row: int, name: str, value: float) -> None:
        state = self.state
        held = state.held.get(name)
        if held is None or value < held.best:
            if held is not None or len(state.held) < LOSSES:
                level = sdk.middle(sorted(state.train)) if state.train else None
                kept = held.changes if held else []
                state.held[name] = Held(
                    value, view.step[row], view.time_ns[row], level, 0, [value], list(kept)
                )
            return
        held.changes = [*held.changes, abs(value - held.last[-1])][-16:]
        held.last = [*held.last, value][-3:]
        held.since += 1

    def _score(self, name: str, value: float) -> None:
        scores = self.state.scores
        goal = sdk.goal_of(name.partition("/")[2], self.context.metrics.get(name, ("", ""))[0])
        if goal is None or (name not in scores and len(scores) >= METRICS):
            return
        height = -value if goal == sdk.MIN else value
        score = scores.setdefault(name, Score(height, height))
        score.last, score.since = height, score.since + 1
        if height > score.best:
            score.best, score.since = height, 0

    def _holds(self, score: Score) -> bool:
        """Return whether a metric had a new best recently, or is near its best."""
        limits = self.settings
        near = score.best - score.last <= limits.metric_holds_within * abs(score.best)
        return score.since < limits.patience or near

    def _evaluate(self, view: sdk.View, row: int) -> None:
        state = self.state
        turned = sorted(name for name, held in state.held.items() if self._turned(name, held))
        if self.episode.state and turned:
            self._fire(view, row, turned[0], state.held[turned[0]])
            return
        turned = [name for name in turned if not state.held[name].reported]
        if turned and self._generalizes_less():
            self._fire(view, row, turned[0], state.held[turned[0]])
        elif self.episode.state and all(held.since == 0 for held in state.held.values()):
            self.settle(view, row)

    def _generalizes_less(self) -> bool:
        """Return whether no task metric contradicts that the model memorizes its training data."""
        scores = self.state.scores.items()
        held = [score for name, score in scores if name.startswith("val/")]
        train = [score for name, score in scores if name.startswith("train/")]
        return not any(map(self._holds, held)) and all(map(self._holds, train))

    def _turned(self, name: str, held: Held) -> bool:
        limits, train, quanta = self.settings, self.state.train, self.context.quanta
        if held.since < limits.patience or held.train is None or not train:
            return False
        rise = min(held.last) - held.best
        noise = max(sdk.middle(sorted(held.changes)), sdk.HIDDEN * quanta.get(name, 0.0))
        least = max(limits.worse_by * abs(held.best), limits.noise_ratio * noise)
        fall = held.train - sdk.middle(sorted(train))
        visible = rise > sdk.ROUNDED * quanta.get(name, 0.0) and fall > sdk.ROUNDED * quanta.get("loss", 0.0)
        return visible and rise >= least and fall >= limits.train_fall * abs(held.train)

    def _fire(self, view: sdk.View, row: int, name: str, held: Held) -> None:
        held.reported = True
        now, then = sdk.middle(sorted(self.state.train)), held.train or 0.0
        evidence: list[sdk.Fact] = [
            (f"best {name}", held.best, "", held.best_step),
            (f"{name} now", held.last[-1], "", view.step[row]),
            ("training loss at the best", then, f"median of {RECENT} records", held.best_step),
            ("training loss now", now, f"median of {RECENT} records", view.step[row]),
        ]
        summary = (
            f"Validation loss rose {sdk.number(held.best)} → {sdk.number(held.last[-1])} in "
            f"{sdk.count(held.since, 'evaluation')} while training loss fell {sdk.number(then)} → "
            f"{sdk.number(now)}"
        )
        self.fire(view, row, sdk.WARNING, (held.best_step, held.best_ns), summary, evidence)


def _why(case: sdk.DiagnosisContext) -> sdk.Cause | None:
    saved = case.context.checkpoint_before(case.onset)
    return sdk.Cause(
        "overfitting",
        "Likely the model memorizes its training samples instead of generalizing.",
        "overfitting",
        (
            sdk.Remedy("Stop the run and keep the best checkpoint.", saved[1] if saved else ""),
            sdk.Remedy("Add augmentation, weight decay or dropout, use a smaller model, or add data."),
            sdk.Remedy(
                "Select checkpoints by the task metric, and report its direction.",
                "run.evaluate(wer=wer, goal='min')",
            ),
        ),
        "Evaluate other held-out samples: their loss rises too.",
    )


CAUSES = ((sdk.OPTIMISATION, _why),)
