"""Detect an evaluation metric that stays below its best value.

A warning if three evaluations in a row are 10 % worse than the best median of three (0.3 dB for metrics in
dB). The difference must exceed 3 sigma of the metric's own noise. Critical for a collapse: at three
evaluations in a row the metric has lost half of what it gained in at least ten evaluations, while the same
metric of the training data collapses too, or the training loss rises. A loss on held-out data is never
critical by itself. The goal (`max` or `min`) comes from `run.evaluate(goal=...)` or from the metric's name.
It recovers after two evaluations near the best, and is not reported again for the same best.

Signals:
    `val/...`, `train/...`, `loss`
Warm-up:
    4 evaluations
Does not fire on:
    - noisy validation sets
    - a metric that never left its first level
    - shares near 0
    - metrics whose direction is unknown
Likely causes:
    - overfitting
    - batch-norm or EMA statistics
    - weights of loss terms that change
    - a learning rate that is too high
First action:
    Keep the best checkpoint, and evaluate it with batch statistics and with running statistics.
Source:
    Measured on 2640 AlgoPerf runs: catches 64 of 66 runs that end degraded, and fires on 184 of 2574
    others, many of which do degrade for a while.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

from tocsin_server.detect import sdk

FALLEN = 0.98
"""Training loss, in units of that at the best, below which training still improves."""
RECENT = 64
"""Number of training losses whose median is their level."""
METRICS = 32
"""Maximum number of metrics that are checked; later ones are ignored."""
CHANGES = 16
"""Number of newest second differences whose median estimates the noise; a trend has none."""
BEND = 1.65
"""Median absolute second difference of noise, in units of its sigma: 0.6745 x sqrt(6)."""
CHANCE = 0.02
"""A share that starts below this and never triples is chance level."""


class Settings(sdk.RuleSettings):
    """Thresholds of the rule, measured on 2640 runs.

    A decline of 10 % at three consecutive evaluations detects 64 of the 66 runs that end degraded.
    """

    calm = "near the best"
    recover_updates: int = 0
    resolve_updates: int = 0
    recover_records: int = sdk.setting(2, "evaluations", "Evaluations near the best that are needed")
    worse_evaluations: int = sdk.setting(3, "evaluations", "Evaluations in a row that must be worse")
    worse_by: float = sdk.setting(0.1, "relative", "Distance from the best from which a metric is worse")
    critical_lost_share: float = sdk.setting(
        0.5, "share of gain", "Part of the gain since the first evaluation that, if lost, is critical"
    )
    critical_after_evaluations: int = sdk.setting(
        10, "evaluations", "Evaluations up to the best before a collapse is critical", least=1
    )
    train_loss_ratio: float = sdk.setting(
        1.05, "x training loss at best", "Training loss above which training got worse too"
    )
    worse_by_db: float = sdk.setting(0.3, "dB", "Distance from the best from which a metric in dB is worse")
    noise_deviations: float = sdk.setting(
        3.0, "sigma", "Noise between evaluations that the change must exceed"
    )
    learned_deviations: float = sdk.setting(
        4.0, "sigma", "Noise by which the best must be better than the first value"
    )
    early_share: float = sdk.setting(
        0.05, "share of the run", "Part of the run within which a best is reported as early"
    )


class Track(msgspec.Struct):
    """One metric: first and best value, and its usual change between evaluations."""

    first: float
    first_step: int
    prior: float
    last: float
    best: float
    best_step: int
    best_ns: int
    level: float
    """The best median of three evaluations; the best of many noisy values would be an outlier."""
    changes: list[float] = []
    worse: int = 0
    collapsed: int = 0
    n: int = 1
    best_n: int = 1
    """Number of evaluations up to the best."""
    train: float | None = None
    """Level of the training loss at the best."""
    reported: int | None = None
    """Step of the best for which an alert was raised."""
    at: int = 0
    """Step of the newest value."""


class State(sdk.RuleState):
    """Tracks by metric, and the newest training losses."""

    tracks: dict[str, Track] = msgspec.field(default_factory=dict)
    losses: list[float] = msgspec.field(default_factory=list)
    losses_step: int = 0
    """Step of the newest of them."""


class MetricDegradation(sdk.WideRule[Settings, State]):
    """Warning at 10 %, critical for a collapse, three evaluations in a row; one alert for all metrics."""

    title = "Validation metric is worse than its best value"
    severity = sdk.CRITICAL
    needs = ("val/",)
    about = "val/*"

    def carried_state(self) -> bytes:
        """Return the best of each metric, for an attempt that resumes."""
        return msgspec.msgpack.encode(self.state) if self.state.tracks else b""

    def inherit(self, carried: bytes, step: int) -> None:
        """Take over the best of each metric, unless the attempt starts before the first evaluation."""
        kept = msgspec.msgpack.decode(carried, type=State)
        if step > min(track.first_step for track in kept.tracks.values()):
            self.state = kept
            for track in kept.tracks.values():
                track.worse = track.collapsed = 0

    def ceiling(self) -> float:
        """Return infinity, because only an evaluation leads to a result."""
        return math.inf

    def observe(self, view: sdk.View) -> None:
        names = view.bases.items()
        metrics = [(name, column) for name, column in names if name.startswith(("val/", "train/"))]
        losses = view.column("loss")
        if not metrics:
            self._train(view, losses or (), 0)
            return
        for row in range(view.n):
            self._train(view, losses[row : row + 1] if losses is not None else (), row)
            seen = [(name, value) for name, column in metrics if (value := column[row]) is not None]
            for name, value in seen:
                self._take(view, row, name, value)
            if any(name.startswith("val/") for name, _ in seen):
                self._evaluate(view, row)

    def _train(self, view: sdk.View, losses: Iterable[float | None], row: int) -> None:
        """Keep the newest training losses, which begin at ``row``."""
        state = self.state
        kept = [loss for loss in losses if loss is not None and math.isfinite(loss)]
        if kept:
            state.losses = [*state.losses, *kept][-RECENT:]
            state.losses_step = view.step[min(row + len(kept), view.n) - 1]

    def _take(self, view: sdk.View, row: int, name: str, value: float) -> None:
        reported, unit = self.context.metrics.get(name, ("", ""))
        goal = sdk.goal_of(name.partition("/")[2], reported)
        if goal is None or not math.isfinite(value) or (sdk.is_loss(name) and not reported):
            return
        tracks, up = self.state.tracks, goal == sdk.MAX
        here = view.place(row)
        track = tracks.get(name)
        if track is None or _undone(track, here[0]):
            if track is not None or len(tracks) < METRICS:
                tracks[name] = Track(value, here[0], value, value, value, *here, value, at=here[0])
                tracks[name].train = self._level()
            return
        if here[0] == track.at and value == track.last:
            return  # a line that is written twice is one evaluation
        track.n, track.at = track.n + 1, here[0]
        bend = abs(value - 2 * track.last + track.prior)
        level = sdk.middle(sorted((track.prior, track.last, value)))
        track.level = max(track.level, level) if up else min(track.level, level)
        track.prior, track.last = track.last, value
        if value > track.best if up else value < track.best:
            track.best, (track.best_step, track.best_ns) = value, here
            track.best_n, track.train = track.n, self._level()
        quantum = self.context.quanta.get(name, 0.0)
        self._compare(track, quantum, decibel=sdk.is_decibel(name, unit), up=up)
        if not track.worse:
            track.changes = [*track.changes, bend / BEND][-CHANGES:]

    def _compare(self, track: Track, quantum: float, *, decibel: bool, up: bool) -> None:
        """Count consecutive evaluations that are worse than the best, and those with a collapsed metric."""
        limits, sign = self.settings, 1.0 if up else -1.0
        loss, gain = sign * (track.level - track.last), sign * (track.best - track.first)
        noise = max(sdk.middle(sorted(track.changes)) if track.changes else 0.0, sdk.HIDDEN * quantum)
        # A metric that never left its first level has no best: its changes are noise.
        significant = loss > sdk.ROUNDED * quantum and (
            loss > limits.noise_deviations * noise or track.n <= 5
        )
        significant = significant and (
            gain > limits.learned_deviations * noise or track.best_step == track.first_step
        )
        significant = significant and not (up and 0 < track.first < CHANCE and track.best < 3 * track.first)
        relative = (loss - quantum) / abs(track.level) if track.level else math.inf * (loss > 0)
        worse = loss >= limits.worse_by_db if decibel else relative >= limits.worse_by
        established = gain > 0 and track.best_n >= limits.critical_after_evaluations
        collapsed = established and sign * (track.best - track.last) >= limits.critical_lost_share * gain
        track.worse = track.worse + 1 if worse and significant else 0
        track.collapsed = track.collapsed + 1 if collapsed and worse and significant else 0

    def _evaluate(self, view: sdk.View, row: int) -> None:
        limits = self.settings
        tracks = {name: track for name, track in self.state.tracks.items() if name.startswith("val/")}
        bad = {name: track for name, track in tracks.items() if track.worse >= limits.worse_evaluations}
        if not self.episode.state:  # a best that was reported is not reported again
            bad = {name: track for name, track in bad.items() if track.reported != track.best_step}
        if not bad:
            if self.episode.state and not any(track.worse for track in tracks.values()):
                self.settle(view, row)
            return
        for track in bad.values():
            track.reported = track.best_step
        far = any(self._ruined(name, track) for name, track in bad.items())
        first = min(bad.values(), key=lambda track: track.best_step)
        onset = (first.best_step, first.best_ns)
        early = self._early(view.step[row], first)
        summary, evidence = self._describe(bad, early=early)
        improves = self._improves_in_training(first)
        stale = improves and any(self._collapsed(name, track) for name, track in bad.items())
        kind = "stale" if stale else "overfit" if improves else "early" if early else "late"
        severity = sdk.CRITICAL if far else sdk.WARNING
        self.fire(view, row, severity, onset, summary, evidence, level=2 * len(bad) + stale, kind=kind)

    def _level(self) -> float | None:
        """Return the level of the training loss."""
        return sdk.middle(sorted(self.state.losses)) if self.state.losses else None

    def _improves_in_training(self, track: Track) -> bool:
        """Return whether the training loss has fallen since the best: the model memorizes its data."""
        level, known = self._level(), self.state.losses_step > track.best_step
        return known and level is not None and track.train is not None and level < FALLEN * track.train

    def _ruined(self, name: str, track: Track) -> bool:
        """Return whether a metric collapsed and the training metrics or losses got worse too.

        Otherwise the evaluation may be wrong, or the model overfits, and neither is critical.
        """
        limits = self.settings
        if not self._collapsed(name, track):
            return False
        level, known = self._level(), self.state.losses_step > track.best_step
        if known and level is not None and track.train is not None:
            return level > limits.train_loss_ratio * track.train
        twin = self.state.tracks.get(f"train/{name.removeprefix('val/')}")
        return twin is not None and twin.collapsed >= limits.worse_evaluations

    def _collapsed(self, name: str, track: Track) -> bool:
        """Return whether a task metric, not a loss, lost ``collapse`` of what it had gained."""
        return not sdk.is_loss(name) and track.collapsed >= self.settings.worse_evaluations

    def _early(self, step: int, track: Track) -> bool:
        """Return whether the best is in the first twentieth of the run, as planned or so far."""
        length = max(self.context.planned_steps or 0, step)
        return track.best_step <= self.settings.early_share * length

    def _describe(self, bad: dict[str, Track], *, early: bool) -> tuple[str, list[sdk.Fact]]:
        worst = sorted(bad.items(), key=lambda item: (-_share(item[1]), item[0]))
        evidence: list[sdk.Fact] = []
        for name, track in worst[:4]:
            evidence.append((f"best {name}", track.best, "", track.best_step))
            evidence.append((f"{name} now", track.last, "", None))
        name, track = worst[0]
        shown, when = name.removeprefix("val/"), "already " if early else ""
        summary = (
            f"Validation {shown} got {sdk.number(round(100 * _share(track), 1))} % worse, "
            f"{sdk.number(track.best)} → {sdk.number(track.last)}; its best was {when}at step "
            f"{track.best_step}"
        )
        return summary, evidence


def _undone(track: Track, step: int) -> bool:
    """Return whether the run went back to before the best, whose weights are therefore lost."""
    return step < track.at and step < track.best_step


def _share(track: Track) -> float:
    return abs(track.last - track.best) / abs(track.best) if track.best else math.inf


def _keep(case: sdk.DiagnosisContext) -> sdk.Remedy:
    saved = case.context.checkpoint_before(case.onset)
    if saved is None:
        return sdk.Remedy(f"Resume from the weights of about step {case.onset}, the best so far.")
    return sdk.Remedy(
        f"Keep the checkpoint of step {saved[0]}, the newest one before the best value.", saved[1]
    )


def _stale(case: sdk.DiagnosisContext) -> sdk.Cause:
    """Detect a collapse while the training loss falls; overfitting lowers a metric slowly."""
    return sdk.Cause(
        "evaluation",
        "Likely the evaluation: a validation metric lost at least half of what it had gained while the "
        "training loss still falls. The evaluated weights or statistics may not be the trained ones (an "
        "average, batch norm, the wrong mode), or the validation set changed.",
        "an evaluation of other weights, statistics or samples than before",
        (
            sdk.Remedy(
                "Evaluate the trained weights themselves, on training batches too.",
                "model.train(); by_batch = evaluate(model)\nmodel.eval(); by_running = evaluate(model)",
            ),
            _keep(case),
        ),
        "Evaluate the trained weights on training batches: the metric is good there.",
    )


def _memorized(case: sdk.DiagnosisContext) -> sdk.Cause:
    return sdk.Cause(
        "overfitting",
        "Likely the model memorizes its training samples instead of generalizing: the training loss still "
        "falls.",
        "overfitting",
        (
            _keep(case),
            sdk.Remedy(
                "Stop the run, or add augmentation, weight decay, dropout or data, or use a smaller model."
            ),
        ),
        "Evaluate other held-out samples: they get worse too.",
    )


def _why(case: sdk.DiagnosisContext) -> sdk.Cause | None:
    text = (
        "Likely training optimizes something other than what is validated: a loss whose terms or "
        "weights changed, outdated batch-norm or EMA statistics, or overfitting."
    )
    if case.result.kind == "early":
        text += " The best value was so early that most of the training did harm."
    return sdk.Cause(
        "other-goal",
        text,
        "a training objective that differs from the validation metric",
        (
            _keep(case),
            sdk.Remedy(
                "Evaluate the same weights with batch statistics and with running statistics; if "
                "only one is bad, the running statistics are wrong.",
                "model.train(); by_batch = evaluate(model)\nmodel.eval(); by_running = evaluate(model)",
            ),
            sdk.Remedy(
                "Log every term of the loss, weighted and unweighted, and find the one that got worse.",
                'run.check(losses={"first": first_term, "second": second_term})',
            ),
            sdk.remedies.lower_lr(case, 3.0),
        ),
        "Repeat the evaluation with another seed: the metric is as bad.",
    )


CAUSES = (
    (sdk.MEASUREMENT, sdk.of_kind("stale", _stale)),
    (sdk.OPTIMISATION, sdk.of_kind("overfit", _memorized)),
    (sdk.OPTIMISATION, _why),
)
