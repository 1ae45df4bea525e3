"""Detect steps that take longer than before or than in similar runs.

The rule compares medians of 50 records. Info if four in a row exceed 1.3 times the usual step time and its
95th percentile for at least 60 s; a warning above 2 times, or above 3 times the median of similar runs. It
resolves after two windows at the usual step time.

Signals:
    `step_time`, similar runs
Warm-up:
    50 records that are ignored, and 200 that define the usual step time
Does not fire on:
    - checkpoints and evaluations
    - compilation at the start
    - longer sequences or larger images
Likely causes:
    - shared storage
    - another job on the machine
    - throttled clocks
    - duplicated work
First action:
    Profile one process with `py-spy`, and check the GPU clocks with `nvidia-smi -q -d CLOCK`.
Source:
    SageMaker StepOutlier; a run 4 to 8 times slower than a similar one.
"""

from __future__ import annotations

import math

import msgspec

from tocsin_server.detect import sdk


class Settings(sdk.RuleSettings):
    """Thresholds of the rule; the factor of a warning is tocsin's, as shared machines vary."""

    calm = "at the usual step time"
    recover_updates: int = 1
    resolve_updates: int = 50
    recover_records: int = sdk.setting(2, "windows", "Windows at the usual step time that are also needed")
    skip_records: int = sdk.setting(
        50, "records", "Records at the start that are ignored (compilation, caches)"
    )
    baseline_records: int = sdk.setting(
        200, "records", "Records after those that define the usual step time; also the warm-up"
    )
    window: int = sdk.setting(50, "records", "Records in a window; the rule compares its median step time")
    slow_windows: int = sdk.setting(4, "windows", "Windows in a row that must be slow")
    info_ratio: float = sdk.setting(1.3, "x usual", "Step time from which the alert is info")
    warning_ratio: float = sdk.setting(2.0, "x usual", "Step time from which it is a warning")
    min_duration_s: float = sdk.setting(60.0, "seconds", "Shortest duration of the slow windows")
    similar_runs_ratio: float = sdk.setting(3.0, "x similar runs", "Step time from which it is a warning")


class State(sdk.RuleState):
    """Step times in seconds: records seen, the usual time, the current window and slow windows before it."""

    seen: int = 0
    base: list[float] = msgspec.field(default_factory=list)
    usual: float = 0.0
    upper: float = 0.0
    """The 95th percentile of the usual step time."""
    window: list[float] = msgspec.field(default_factory=list)
    start: tuple[int, int] = (0, 0)
    slow: list[tuple[int, int, float]] = msgspec.field(default_factory=list)
    """Step, time and median of the consecutive slow windows."""


class ThroughputRegression(sdk.Rule[Settings, State]):
    """Warning at twice the usual time or three times that of similar runs, info from 1.3 times."""

    title = "Steps take longer"
    severity = sdk.WARNING
    bears_on = ("data-bound", "gpu-underused", "stalled", "straggler")
    needs = ("step_time",)
    in_blocks = True

    @classmethod
    def subjects(cls, bases: object, suffix: str) -> bool:
        """Return whether the stream is that of the primary optimizer, whose step time is the run's."""
        return not suffix and super().subjects(bases, suffix)  # type: ignore[arg-type]

    def observe(self, view: sdk.View) -> None:
        times = view.column("step_time")
        if times is None:
            return
        state = self.state
        if state.usual and 0 < len(state.window) < self.settings.window - view.n and sdk.positive(times):
            state.seen += view.n
            state.window += times  # type: ignore[arg-type]
            return
        for row, seconds in enumerate(times):
            if seconds is not None and 0 < seconds < math.inf:
                self._one(view, row, seconds)

    def _one(self, view: sdk.View, row: int, seconds: float) -> None:
        state, limits = self.state, self.settings
        state.seen += 1
        if state.seen <= limits.skip_records:
            return
        if not state.usual:
            state.base.append(seconds)
            if len(state.base) == limits.baseline_records:
                ordered = sorted(state.base)
                state.usual, state.upper = sdk.middle(ordered), ordered[len(ordered) * 95 // 100]
                state.base = []
            return
        if not state.window:
            state.start = view.place(row)
        state.window.append(seconds)
        if len(state.window) >= limits.window:
            self._evaluate(view, row, sdk.middle(sorted(state.window)))
            state.window = []

    def _evaluate(self, view: sdk.View, row: int, median: float) -> None:
        state, limits = self.state, self.settings
        others = [throughput for item in self.context.siblings.runs if (throughput := item.step_time_s)]
        other = sdk.middle(sorted(others)) if others else 0.0
        if other and median > limits.similar_runs_ratio * other:
            self._fire(view, row, sdk.WARNING, state.start, median, other, "sibling")
            return
        if median <= max(limits.info_ratio * state.usual, state.upper):
            state.slow = []
            self.settle(view, row)
            return
        state.slow = [*state.slow, (*state.start, median)][-limits.slow_windows :]
        lasted = (view.time_ns[row] - state.slow[0][1]) * 1e-9
        if len(state.slow) < limits.slow_windows or lasted < limits.min_duration_s:
            return
        least = min(item[2] for item in state.slow)
        severity = sdk.WARNING if least > max(limits.warning_ratio * state.usual, state.upper) else sdk.INFO
        self._fire(view, row, severity, state.slow[0][:2], median, state.usual, "regression")

    def _fire(
        self,
        view: sdk.View,
        row: int,
        severity: int,
        onset: tuple[int, int],
        median: float,
        usual: float,
        kind: str,
    ) -> None:
        than = "in similar runs" if kind == "sibling" else "before"
        times = sdk.number(round(median / usual, 1))
        evidence: list[sdk.Fact] = [
            ("step time", median, "s", view.step[row]),
            (f"step time {than}", usual, "s", None),
            ("times slower", median / usual, "", None),
        ]
        summary = (
            f"Steps take {sdk.number(median)} s, {times} times as long as {than} ({sdk.number(usual)} s)"
        )
        self.fire(view, row, severity, onset, summary, evidence, level=severity, kind=kind)


def slower(case: sdk.DiagnosisContext) -> sdk.Cause | None:
    """Return the cause of slower steps."""
    sibling = case.result.kind == "sibling"
    where = (
        "The same work is several times faster in similar runs: another machine, fewer "
        "loader workers, duplicated work on several GPUs, or logging in the inner loop."
        if sibling
        else "The machine got slower: data from shared storage, another job, a throttled GPU, or "
        "memory that is swapped or fragmented."
    )
    return sdk.Cause(
        "slower",
        where,
        "a machine or a data loader that got slower",
        (
            sdk.Remedy(
                "Measure data loading and computation separately.",
                "tocsin.log(data_time=data_s, step_time=step_s)",
            ),
            sdk.Remedy("Check the GPU's clocks and throttle reasons.", "nvidia-smi -q -d PERFORMANCE,CLOCK"),
            sdk.Remedy("Profile the process.", "py-spy top --pid <pid>"),
        ),
        "Compare sequence length, resolution and batch size before and after: they are unchanged.",
    )


CAUSES = ((sdk.SYSTEM, slower),)
