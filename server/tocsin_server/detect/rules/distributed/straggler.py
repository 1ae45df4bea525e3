"""Detect a rank that is slower than the others.

A warning if the same rank is the slowest in three windows of 50 steps in a row, and the median step time of
the fastest rank is below 0.7 of that rank's. It resolves after 100 steps in windows without a straggler.

Signals:
    `step_time` of every rank
Warm-up:
    150 steps
Does not fire on:
    - synchronous training, in which all ranks wait for the slowest: only times measured before that wait
      differ
Likely causes:
    - a throttled or shared GPU
    - a slower link or disk
    - uneven work
First action:
    Check clocks, temperature and network of that rank's machine.
Source:
    NVIDIA NeMo, StragglerDetection (0.7).
"""

from __future__ import annotations

import math

import msgspec

from tocsin_server.detect import sdk


class Settings(sdk.RuleSettings):
    recover_updates: int = sdk.setting(
        1, "updates", "Updates in a window without a straggler before the alert is recovering"
    )
    resolve_updates: int = sdk.setting(
        100, "updates", "Updates in windows without a straggler before the alert is resolved"
    )
    recover_records: int = sdk.setting(
        1, "windows", "Windows without a straggler before the alert is recovering"
    )
    window: int = sdk.setting(50, "steps", "Steps over which the median step time of each rank is taken")
    straggler_score: float = sdk.setting(0.7, "fastest / own time", "Score below which a rank is a straggler")
    windows: int = sdk.setting(3, "windows", "Windows in a row with the same slowest rank; also the warm-up")


class State(sdk.RuleState):
    """Step time in seconds by rank in the current window; how often the same rank was the slowest."""

    times: dict[int, list[float]] = msgspec.field(default_factory=dict)
    steps: int = 0
    start: tuple[int, int] = (0, 0)
    slowest: int = -1
    windows: int = 0
    since: tuple[int, int] = (0, 0)


class Straggler(sdk.RunRule[Settings, State]):
    """Severity: warning."""

    title = "One rank is slower"
    severity = sdk.WARNING

    def reported(self, at: sdk.View, reports: sdk.RankReports) -> None:
        newest = max(report.attempt for report in reports.reports)
        state = self.state
        if not state.steps:
            state.start = at.place(0)
        state.steps += 1
        for report in reports.reports:
            seconds = report.values.get("step_time", 0.0)
            if report.attempt == newest and 0 < seconds < math.inf:
                state.times.setdefault(report.rank, []).append(seconds)
        if state.steps >= self.settings.window:
            self._window(at)
            state.times, state.steps = {}, 0

    def rest(self, view: sdk.View, row: int) -> None:
        """Do nothing: recovery counts windows without a straggler, not records."""

    def _window(self, at: sdk.View) -> None:
        state, limits = self.state, self.settings
        enough = {rank: times for rank, times in state.times.items() if 2 * len(times) >= limits.window}
        if len(enough) < 2:
            return
        medians = {rank: sdk.middle(sorted(times)) for rank, times in enough.items()}
        best = min(medians.values())
        slowest = max(medians, key=medians.__getitem__)
        if best / medians[slowest] >= limits.straggler_score:
            state.slowest, state.windows = -1, 0
            self.settle(at, 0)
            return
        if slowest != state.slowest:
            state.slowest, state.windows, state.since = slowest, 0, state.start
        state.windows += 1
        if state.windows >= limits.windows:
            self._fire(at, medians, best)

    def _fire(self, at: sdk.View, medians: dict[int, float], best: float) -> None:
        rank = self.state.slowest
        times = sdk.number(round(medians[rank] / best, 1))
        evidence: list[sdk.Fact] = [
            (f"step time of rank {rank}", medians[rank], "s", at.step[0]),
            ("step time of the fastest rank", best, "s", at.step[0]),
            ("score", best / medians[rank], "best / own", None),
            ("ranks", float(len(medians)), "compared", None),
        ]
        summary = (
            f"Rank {rank} takes {times} times as long as the fastest rank, "
            f"{sdk.number(medians[rank])} s per step"
        )
        self.fire(at, 0, sdk.WARNING, self.state.since, summary, evidence, level=rank)


_CAUSE = sdk.Cause(
    "slow-rank",
    "All ranks wait for the slowest one: its GPU is throttled or shared, its network or "
    "disk is slower, or it has more work.",
    "a rank on a slower machine",
    (
        sdk.Remedy(
            "Check the clocks and throttle reasons of that machine's GPU.",
            "nvidia-smi -q -d PERFORMANCE,CLOCK",
        ),
        sdk.Remedy(
            "Give each rank the same amount of data.", "sampler = DistributedSampler(dataset, drop_last=True)"
        ),
        sdk.Remedy("Move that rank to another machine and compare."),
    ),
    "Swap two machines: the slow rank moves with its machine.",
)
CAUSES = ((sdk.SYSTEM, _CAUSE),)
