"""loss-divergence: the loss climbs and does not come back (catalogue C3).

The running median of 50 is more than twice its best and rising, or above the first losses after it
had been below half of them; and the quartiles of then and now do not overlap, so that noise of small
batches is no climb. Meant for losses that stay positive; silent for adversaries (GAN).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import msgspec

from tocsin_server.detect.rolling import OrderedWindow
from tocsin_server.detect.rule import (
    CRITICAL,
    INFO,
    WARNING,
    Fact,
    Rule,
    RuleInfo,
    RuleSettings,
    RuleState,
    describe,
    setting,
)  # fmt: skip
from tocsin_server.detect.steps import ladder
from tocsin_server.detect.view import View
from tocsin_server.detect.wording import number
from tocsin_server.domain import Severity


@dataclass(frozen=True)
class Settings(RuleSettings):
    """Defaults from catalogue C3."""

    recover_updates: int = setting(50, "updates", "below the limit before the alert is recovering")
    resolve_updates: int = setting(200, "updates", "below the limit before it is resolved")
    recover_records: int = setting(20, "records", "below the limit that are needed besides")
    smooth: int = setting(50, "records", "of the running median; also the warm-up")
    first: int = setting(10, "records", "whose median is the initial loss")
    ratio: float = setting(2.0, "x best", "smoothed loss above which it may be diverging")
    records: int = setting(50, "records", "above that, with the later half above the earlier")
    warm_up: int = setting(50, "records", "before the rule says anything")
    fallen: float = setting(0.5, "of the initial loss", "below which it must have been to have learned")
    slow: float = setting(0.4, "of all steps", "that a climb takes which is only told")
    floor: float = setting(0.25, "of the initial loss", "least rise above the best, for losses near 0")
    habit: float = setting(1.2, "x", "a height from which it came back before: only told")
    lost: float = setting(0.75, "of what was learned", "that must be lost again before it is critical")


class State(RuleState):
    """Initial, best and present smoothed loss; ``above``: smoothed losses in a row beyond the ratio."""

    start: list[float] = msgspec.field(default_factory=list)
    initial: float | None = None
    initial_upper: float = 0.0
    """The larger of the initial loss and the upper quartile of the first window."""
    recent: OrderedWindow = msgspec.field(default_factory=lambda: OrderedWindow(50))
    best: float = math.inf
    best_upper: float = math.inf
    """The upper quartile of the window with the best median."""
    best_step: int = 0
    positive: bool = True
    highest: float = 0.0
    """The highest smoothed loss of the present episode."""
    known: float = 0.0
    """The highest from which the loss has come back by itself."""
    above: list[float] = msgspec.field(default_factory=list)
    left: tuple[int, int] | None = None
    """Step and time of the first of the present losses in a row above ``best_upper``: the onset."""


class LossDivergence(Rule[Settings, State]):
    """Critical: the run does not come back from this by itself."""

    info: ClassVar[RuleInfo] = RuleInfo(
        id="loss-divergence",
        title="Loss diverges",
        severity=Severity.CRITICAL,
        inhibited_by=("nonfinite-loss",),
        adversarial=False,
        settings=describe(Settings),
    )
    settings_type = Settings
    state_type = State
    needs = ("loss",)
    paced = True

    def observe(self, view: View) -> None:
        if view.loss is None or not self.state.positive:
            self._go_silent(view)
            return
        state, limits = self.state, self.settings
        state.recent.size = limits.smooth
        half, quarter, isfinite = limits.smooth // 2, limits.smooth // 4, math.isfinite
        # Every loss of a run comes by here, so what most of them need is done in this loop.
        for row, loss in enumerate(view.loss):
            if loss is None or not isfinite(loss):
                continue
            if loss <= 0:
                self._not_positive(view, row, loss)
                continue
            ordered = state.recent.push(loss)
            if state.initial is None:
                self._begin(loss)
            if loss <= state.best_upper:
                state.left = None
            elif state.left is None:
                state.left = (view.step[row], view.time_ns[row])
            if state.initial is None or len(ordered) < limits.smooth:
                continue
            if ordered[half] < state.best:
                self._best(view, row, state.initial, ordered)
            if ordered[quarter] > state.best_upper or state.above or self.episode.state:
                self._judge(view, row, state.initial, ordered)

    def _go_silent(self, view: View) -> None:
        """A loss that can be 0 or negative has no ratios; an open episode runs out."""
        if self.episode.state and view.loss is not None:
            for row in range(view.n):
                if self.episode.state:
                    self.settle(view, row)

    def _not_positive(self, view: View, row: int, loss: float) -> None:
        self.state.positive = self.state.positive and loss == 0
        if self.episode.state:
            self.settle(view, row)

    def _begin(self, loss: float) -> None:
        """One of the first losses, whose median is the initial one."""
        state, first = self.state, self.settings.first
        state.start.append(loss)
        if len(state.start) == first:
            state.initial = sorted(state.start)[first // 2]
            state.start = []

    def _best(self, view: View, row: int, initial: float, ordered: list[float]) -> None:
        state, smooth = self.state, self.settings.smooth
        upper = ordered[3 * smooth // 4]
        state.initial_upper = state.initial_upper or max(initial, upper)
        state.best, state.best_upper, state.best_step = ordered[smooth // 2], upper, view.step[row]

    def _judge(self, view: View, row: int, initial: float, ordered: list[float]) -> None:
        state, limits = self.state, self.settings
        smooth, lower = ordered[limits.smooth // 2], ordered[limits.smooth // 4]
        if lower <= state.best_upper or smooth <= limits.ratio * state.best:
            self._below(view, row)
            return
        state.above.append(smooth)
        del state.above[: -limits.records]
        if smooth - state.best <= limits.floor * initial:
            self._calm(view, row)
        elif lower > state.initial_upper and state.best < limits.fallen * initial:
            self._ring(view, row, smooth, initial, "above-start")
        elif len(state.above) >= limits.records and self._rising():
            self._ring(view, row, smooth, initial, "rising")

    def _below(self, view: View, row: int) -> None:
        self.state.above = []
        self._calm(view, row)

    def _calm(self, view: View, row: int) -> None:
        """A height from which the loss came back is its own from then on."""
        if self.episode.state:
            self.settle(view, row)
            if not self.episode.state:
                self.state.known = max(self.state.known, self.state.highest)
                self.state.highest = 0.0

    def _rising(self) -> bool:
        half = len(self.state.above) // 2
        earlier, later = sorted(self.state.above[:half]), sorted(self.state.above[half:])
        return later[len(later) // 2] > earlier[len(earlier) // 2]

    def _ring(self, view: View, row: int, smooth: float, initial: float, kind: str) -> None:
        state, step = self.state, view.step[row]
        ratio = smooth / state.best
        onset = state.left or (step, view.time_ns[row])
        slow = kind == "rising" and step - onset[0] > self.settings.slow * step
        lost = smooth - state.best >= self.settings.lost * (initial - state.best)
        usual = smooth <= self.settings.habit * state.known
        severity = INFO if slow or usual else CRITICAL if lost else WARNING
        state.highest = max(state.highest, smooth)
        level = ladder(int(ratio))
        if self.old_news(view, row, severity, level):
            return
        evidence: list[Fact] = [
            ("loss", smooth, "median of 50 records", step),
            ("best loss", state.best, "median of 50 records", state.best_step),
            ("initial loss", initial, "", None),
            ("times the best", ratio, "", None),
        ]
        summary = (
            f"Loss climbs {number(state.best)} → {number(smooth)}, {number(round(ratio, 1))} times its best"
        )
        kind = "slow" if slow else kind
        self.ring(view, row, severity, onset, summary, evidence, level=level, kind=kind)


RULE = LossDivergence
