"""Report a GPU that has little to do.

Info if the 95th percentile of 200 samples of the GPU utilization is below 70 %. It resolves after a busy
window.

Signals:
    `gpu_util` (percent)
Warm-up:
    20 samples
Does not fire on:
    - small models, for which this may be intended
Likely causes:
    - waiting for data, for the CPU that launches kernels, or for other ranks
    - small batches
First action:
    Use a larger batch or `torch.compile`, and check `data-bound`.
Source:
    SageMaker Debugger, LowGPUUtilization.
"""

from __future__ import annotations

import math

import msgspec

from tocsin_server.detect import sdk


class Settings(sdk.RuleSettings):
    """Thresholds of SageMaker Debugger, LowGPUUtilization (95th percentile below 70 %)."""

    recover_updates: int = sdk.setting(
        1, "updates", "Updates after a busy window before the alert is recovering"
    )
    resolve_updates: int = sdk.setting(
        1, "updates", "Updates after such a window before the alert is resolved"
    )
    recover_records: int = sdk.setting(
        1, "windows", "Windows that must be busy before the alert is recovering"
    )
    skip_samples: int = sdk.setting(20, "samples", "Samples at the start that are ignored")
    window: int = sdk.setting(200, "samples", "Samples over which the percentile is taken; also the warm-up")
    busy_percent: float = sdk.setting(
        70.0, "%", "95th percentile of the utilization below which the GPU is underused"
    )


class State(sdk.RuleState):
    """Samples of the current window, in percent."""

    seen: int = 0
    samples: list[float] = msgspec.field(default_factory=list)
    start: tuple[int, int] = (0, 0)


class GpuUnderused(sdk.Rule[Settings, State]):
    """Info, because small models leave a GPU idle, which may be intended."""

    title = "GPU is underused"
    severity = sdk.INFO
    bears_on = ("throughput-regression",)
    needs = ("gpu_util",)
    in_blocks = True

    def observe(self, view: sdk.View) -> None:
        used = view.column("gpu_util")
        if used is None:
            return
        state, limits = self.state, self.settings
        for row, percent in enumerate(used):
            if percent is None or not math.isfinite(percent):
                continue
            state.seen += 1
            if state.seen <= limits.skip_samples:
                continue
            if not state.samples:
                state.start = view.place(row)
            state.samples.append(percent)
            if len(state.samples) >= limits.window:
                ordered, state.samples = sorted(state.samples), []
                self._evaluate(view, row, ordered)

    def _evaluate(self, view: sdk.View, row: int, ordered: list[float]) -> None:
        high, median = ordered[len(ordered) * 95 // 100], ordered[len(ordered) // 2]
        if high >= self.settings.busy_percent:
            self.settle(view, row, at_once=True)
            return
        evidence: list[sdk.Fact] = [
            ("95th percentile", high, "%", view.step[row]),
            ("median", median, "%", None),
        ]
        summary = f"GPU utilization is below {sdk.number(round(high))} % in 95 % of the samples"
        self.fire(view, row, sdk.INFO, self.state.start, summary, evidence)


_CAUSE = sdk.Cause(
    "idle-gpu",
    "The GPU waits for data, for the CPU that launches kernels or for other ranks, or batches are small.",
    "a waiting GPU",
    (
        sdk.Remedy("Use a larger batch if it fits."),
        sdk.Remedy("Fuse small kernels.", "model = torch.compile(model)"),
        sdk.Remedy(
            "Measure data loading and computation separately.",
            "tocsin.log(data_time=data_s, step_time=step_s)",
        ),
    ),
    "Profile some steps: the GPU is idle between kernels.",
)
CAUSES = ((sdk.SYSTEM, _CAUSE),)
