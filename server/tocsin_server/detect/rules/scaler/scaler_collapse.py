"""Detect a loss scale that falls far below the run's own level.

The rule compares log2 of the scale with the run's own median level. A fall within 500 updates, with no
growth in between, is pending at 3, a warning at 4 and critical at 8 powers of two. A scale below 1 after a
backoff is critical at any level. The onset is the first backoff of the fall. It recovers after 200 updates
without a backoff and resolves after 500.

Signals:
    `scale`
Warm-up:
    the first 30 updates, unless the scale falls below 1
Does not fire on:
    - low but stable scales: healthy runs train at 2048 to 16384 and at 8 to 32
    - a slow descent over thousands of updates, by which a scaler finds its level
    - a constant scale of 1.0 (bfloat16, `enabled=False`)
Likely causes:
    - training that diverges
    - one operation that overflows float16, while the loss stays flat
    - weights or batches that are NaN at any scale
    - weights that were pre-trained in bfloat16
First action:
    Divide the learning rate by 5, or compute the overflowing operation in float32 outside autocast, and
    resume from before the onset.
Source:
    PyTorch's documentation of `GradScaler`; DeepSpeed issue 534, fairseq issue 512, the BigScience tr1-13B
    chronicles. The limits of 4 and 8 are tocsin's, measured on real logs.
"""

from __future__ import annotations

import math

import msgspec

from tocsin_server.detect import sdk

QUARTERS = 4
"""Levels are counted in quarters of a power of two, for growth factors other than 2."""
APART = 50
"""Updates between two overflows above which they belong to separate runs of overflows."""
LOWEST = -1100 * QUARTERS
"""The level of a scale of 0, below 2^-1074, the smallest float64."""


Fall = tuple[int, int, int, float]
"""A backoff: (step, ns, level before, scale before)."""


class Settings(sdk.RuleSettings):
    calm = "without backoff"
    recover_updates: int = 200
    resolve_updates: int = 500
    calibration_updates: int = sdk.setting(
        30, "updates", "Updates in which a scaler may still calibrate, unless the scale falls below 1"
    )
    window: int = sdk.setting(
        500, "updates", "Updates within which the fall must happen, without growth in between"
    )
    pending_fall: float = sdk.setting(
        3.0, "powers of two", "Fall below the run's level from which the alert is pending"
    )
    warning_fall: float = sdk.setting(
        4.0, "powers of two", "Fall below the run's level from which it is a warning"
    )
    critical_fall: float = sdk.setting(
        8.0, "powers of two", "Fall below the run's level from which it is critical"
    )
    lowest_scale: float = sdk.setting(
        1.0, "loss scale", "Scale below which it is critical, whatever the level was"
    )


class State(sdk.RuleState):
    """``levels``: records at each level after warm-up; ``falls``: backoffs of the current fall."""

    levels: dict[int, int] = msgspec.field(default_factory=dict)
    level: int | None = None
    falls: list[Fall] = msgspec.field(default_factory=list)
    """The earliest first; none older than the window."""
    backed_off: bool = False
    upto: int = 0
    """Number of records of the stream that were counted or checked."""


class ScalerCollapse(sdk.Rule[Settings, State]):
    """Warning at 4 powers of two below the usual level, critical at 8 or below a scale of 1."""

    title = "Loss scale collapses"
    severity = sdk.CRITICAL
    needs = ("scale",)
    idles = True

    def asleep(self) -> bool:
        return bool(self.state.levels) and not self.episode.state

    def observe(self, view: sdk.View) -> None:
        self._catch_up(view)
        if view.scale is None or not view.has_scaler(view.n - 1):
            return
        quiet = not view.moves and not self.episode.state and 0.0 not in view.scale
        if quiet and view.age(0) >= self.settings.calibration_updates:
            self._hold(view)
            return
        moves = {row: (before, after) for row, before, after in view.moves}
        for row, value in enumerate(view.scale):
            if value is not None and math.isfinite(value) and view.has_scaler(row):
                self._one(view, row, value, moves.get(row))

    def _catch_up(self, view: sdk.View) -> None:
        """Count the calm records that this rule did not see; they had the previous level."""
        state = self.state
        missed = view.first - state.upto
        if state.upto and missed > 0 and state.level is not None and not self.episode.state:
            self._count(state.level, missed)
        state.upto = view.first + view.n

    def _hold(self, view: sdk.View) -> None:
        """Handle the common case: the whole batch has one scale."""
        values = [value for value in view.scale or () if value is not None and math.isfinite(value)]
        if values:
            self.state.level = level_of(values[0])
            self._count(self.state.level, len(values))

    def _one(self, view: sdk.View, row: int, value: float, move: tuple[float, float] | None) -> None:
        state = self.state
        if move is not None:
            self._moved(view, row, move)
        state.level = level_of(value)
        self._prune(view.step[row])
        if value == 0.0 or (move is not None and move[1] < move[0]):
            self._evaluate(view, row, value)
        elif self.episode.state:
            self.settle(view, row)
        if view.age(row) >= self.settings.calibration_updates and not self.episode.state:
            self._count(state.level, 1)

    def _moved(self, view: sdk.View, row: int, move: tuple[float, float]) -> None:
        before, after = move
        if after > before:
            self.state.falls.clear()
            return
        self.state.backed_off = True
        step, ns = (view.step[row - 1], view.time_ns[row - 1]) if row else self._previous(view)
        self.state.falls.append((step, ns, level_of(before), before))

    def _previous(self, view: sdk.View) -> tuple[int, int]:
        """Return step and time of the record before this batch, in which the overflow happened."""
        return view.before or view.place(0)

    def _prune(self, now: int) -> None:
        falls = self.state.falls
        while falls and falls[0][0] < now - self.settings.window:
            del falls[0]

    def _count(self, level: int, records: int) -> None:
        levels = self.state.levels
        levels[level] = levels.get(level, 0) + records

    def _median(self) -> int | None:
        """Return the median level since warm-up."""
        levels = self.state.levels
        half, below = sum(levels.values()) / 2, 0
        for level in sorted(levels):
            below += levels[level]
            if below >= half:
                return level
        return None

    def _evaluate(self, view: sdk.View, row: int, value: float) -> None:
        limits, falls = self.settings, self.state.falls
        level = self.state.level if self.state.level is not None else LOWEST
        below_one = value < limits.lowest_scale and self.state.backed_off
        if not falls or (view.age(row) < limits.calibration_updates and not below_one):
            self.continues(view, row)
            return
        start, run = falls[0], falls[first_of_run(falls) :]
        usual = self._median()
        depth = (min(start[2], usual if usual is not None else start[2]) - level) / QUARTERS
        onset = (run[0][0], run[0][1])
        if below_one or depth >= limits.warning_fall:
            severity = sdk.CRITICAL if below_one or depth >= limits.critical_fall else sdk.WARNING
            if not self.already_reported(view, row, severity, self._depth(depth)):
                summary, evidence = self._describe(view, row, value, run)
                kind = "below-one" if below_one else "fall"
                self.fire(view, row, severity, onset, summary, evidence, level=self._depth(depth), kind=kind)
        elif depth >= limits.pending_fall:
            self.pend(view, row, onset, *self._describe(view, row, value, run))
        elif self.episode.state:
            self.continues(view, row)

    def _depth(self, depth: float) -> int:
        """Return the level of an episode, which increases every four powers of two."""
        return int(min(depth, 160.0) // 4)

    def _describe(
        self, view: sdk.View, row: int, value: float, run: list[Fall]
    ) -> tuple[str, list[sdk.Fact]]:
        step, start = view.step[row], run[0]
        since = self.episode.onset_step if self.episode.state else start[0]
        top = self._top(start)
        steps = max(1, step - since)
        usual = self._median()
        evidence: list[sdk.Fact] = [
            ("scale", value, "", step),
            ("scale before", top, "", since),
            ("backoffs", float(len(run)), "without growth", None),
        ]
        if usual is not None and usual > LOWEST:
            evidence.append(("usual scale of this run", 2.0 ** min(usual / QUARTERS, 1023.0), "", None))
        return (
            f"Loss scale fell {sdk.scale(top)} → {sdk.scale(value)} in {sdk.count(steps, 'step')}",
            evidence,
        )

    def _top(self, start: Fall) -> float:
        """Return the scale from which the episode's fall started."""
        for name, value, _, _ in self.episode.evidence:
            if name == "scale before" and isinstance(value, float) and self.episode.state:
                return value
        return start[3]


def first_of_run(falls: list[Fall]) -> int:
    """Return the index of the backoff that began the collapse.

    Backoffs before it are left out if each was a single one, such as the one after an ordinary growth, and if
    the pause after them is longer than the run of backoffs that follows.
    """
    for i in range(1, len(falls) - 1):
        pause = falls[i][0] - falls[i - 1][0]
        if pause <= APART or falls[i - 1][2] - falls[i][2] > QUARTERS:
            return 0
        if pause > falls[-1][0] - falls[i][0]:
            return i
    return 0


def level_of(scale: float) -> int:
    """Return log2 of the scale in quarters; a scale of 0 has the lowest level."""
    return round(math.log2(scale) * QUARTERS) if scale > 0 else LOWEST
