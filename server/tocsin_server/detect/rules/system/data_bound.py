"""Detect training that waits for its data.

Info if waiting for data takes more than 30 % of the step time over 100 records, a warning above 50 %. It
resolves after two windows below 30 %.

Signals:
    `data_time` (seconds of a step spent waiting for data), `step_time`
Warm-up:
    20 records
Does not fire on:
    - the first batch, which waits for the workers to start
Likely causes:
    - too few workers
    - decoding on the CPU
    - small files on remote storage
First action:
    Raise `num_workers`, and set `persistent_workers=True` and `pin_memory=True` on the DataLoader.
Source:
    Healthy mmaction logs stay below 7.6 %.
"""

from __future__ import annotations

import math

from tocsin_server.detect import sdk


class Settings(sdk.RuleSettings):
    """Thresholds of the rule; healthy logs are at most 0.076."""

    recover_updates: int = sdk.setting(
        1, "updates", "Updates after a window below the limit before the alert is recovering"
    )
    resolve_updates: int = sdk.setting(100, "updates", "Updates below the limit before the alert is resolved")
    recover_records: int = sdk.setting(2, "windows", "Windows below the limit that are also needed")
    skip_records: int = sdk.setting(20, "records", "Records at the start that are ignored")
    window: int = sdk.setting(100, "records", "Records over which the share is taken; also the warm-up")
    info_share: float = sdk.setting(
        0.3, "share of step time", "Time spent waiting for data from which the alert is info"
    )
    warning_share: float = sdk.setting(
        0.5, "share of step time", "Time spent waiting for data from which it is a warning"
    )


class State(sdk.RuleState):
    """Seconds in the current window."""

    seen: int = 0
    count: int = 0
    data: float = 0.0
    total: float = 0.0
    start: tuple[int, int] = (0, 0)


class DataBound(sdk.Rule[Settings, State]):
    """Warning if half of the time is spent waiting for data, info from a third."""

    title = "Training waits for data"
    severity = sdk.WARNING
    bears_on = ("throughput-regression", "stalled")
    needs = ("data_time",)
    in_blocks = True

    def observe(self, view: sdk.View) -> None:
        waits, times = view.column("data_time"), view.column("step_time")
        if waits is None or times is None:
            return
        for row, wait in enumerate(waits):
            step = times[row]
            if wait is not None and step is not None and 0 < step < math.inf and 0 <= wait < math.inf:
                self._one(view, row, wait, step)

    def _one(self, view: sdk.View, row: int, wait: float, step: float) -> None:
        state, limits = self.state, self.settings
        state.seen += 1
        if state.seen <= limits.skip_records:
            return
        if not state.count:
            state.start = view.place(row)
        state.count += 1
        state.data += wait
        state.total += step
        if state.count < limits.window:
            return
        share = min(state.data / state.total, 1.0)
        state.count, state.data, state.total = 0, 0.0, 0.0
        if share > limits.info_share:
            self._fire(view, row, share)
        elif self.episode.state:
            self.settle(view, row)

    def _fire(self, view: sdk.View, row: int, share: float) -> None:
        severity = sdk.WARNING if share > self.settings.warning_share else sdk.INFO
        evidence: list[sdk.Fact] = [("waiting for data", share, "of the step time", view.step[row])]
        summary = f"{sdk.number(round(100 * share))} % of the step time is spent waiting for data"
        self.fire(view, row, severity, self.state.start, summary, evidence, level=severity)


_CAUSE = sdk.Cause(
    "data-bound",
    (
        "The data loader is slower than the model: too few workers, decoding on the CPU, or "
        "small files on remote storage."
    ),
    "a data loader that is slower than the model",
    (
        sdk.Remedy(
            "Use more workers, keep them alive, and prefetch batches.",
            "DataLoader(dataset, num_workers=8, pin_memory=True, persistent_workers=True)",
        ),
        sdk.Remedy("Keep the data on a local disk, in large files."),
    ),
    "Train on one cached batch: steps get shorter.",
)
CAUSES = ((sdk.SYSTEM, _CAUSE),)
