"""Detect a loss that is NaN or infinite.

The first NaN or infinite loss is a warning. The alert becomes critical if two of the last five losses are not
finite, or if an update was made with such a loss because no loss scaler skipped it. It recovers after 5
finite losses and resolves after 50 updates.

Signals:
    `loss`, `scale`, `stepped`
Warm-up:
    none
Does not fire on:
    - a single infinite loss on a step that the loss scaler skips: a warning only
    - a step that the script abandons itself: a warning only
Likely causes:
    - a learning rate that is too high
    - log, sqrt or a division at 0
    - float16 overflow in softmax, FFT or a normalization layer
    - a bad batch
    - weights that are already NaN
First action:
    Resume from a checkpoint before the onset, and check the batch and the terms of the loss at that step
    with `run.check`.
Source:
    Any non-finite value: Amazon SageMaker Debugger, ExplodingTensor. The limit of two in five is tocsin's.
"""

from __future__ import annotations

import math

import msgspec

from tocsin_server.detect import sdk


class Settings(sdk.RuleSettings):
    calm = "with a finite loss"
    recover_updates: int = 5
    resolve_updates: int = 50
    recover_records: int = 5
    window: int = sdk.setting(5, "records", "Records in which non-finite losses are counted")
    critical_count: int = sdk.setting(2, "records", "Non-finite losses in the window that make it critical")


class State(sdk.RuleState):
    """``recent``: for each of the last records, whether its loss was non-finite; ``total`` of the episode."""

    recent: list[bool] = msgspec.field(default_factory=list)
    total: int = 0


class NonfiniteLoss(sdk.Rule[Settings, State]):
    """Warning at the first; critical if repeated, or if an update was made without a scaler."""

    title = "Loss is NaN or infinite"
    severity = sdk.CRITICAL
    needs = ("loss",)
    idles = True

    def asleep(self) -> bool:
        return not self.state.recent and not self.episode.state

    def observe(self, view: sdk.View) -> None:
        loss = view.loss
        if loss is None or (not self.state.recent and not self.episode.state and sdk.all_finite(loss)):
            return
        if self.episode.state and self._continues(view, loss):
            return
        for row, value in enumerate(loss):
            if value is None:
                continue
            if math.isfinite(value):
                self._finite(view, row)
            else:
                self._nonfinite(view, row)

    def _continues(self, view: sdk.View, loss: sdk.Values) -> bool:
        """Handle a long episode quickly: every loss is non-finite, and none is worth another report."""
        state, total = self.state, self.state.total + view.n
        if not (sdk.none_finite(loss) and self.already_reported(view, -1, sdk.CRITICAL, sdk.grade(total))):
            return False
        state.total = total
        state.recent = [*state.recent, *[True] * view.n][-self.settings.window :]
        self._fire(view, view.n - 1, sdk.CRITICAL)
        return True

    def _finite(self, view: sdk.View, row: int) -> None:
        recent = self.state.recent
        if recent:
            recent.append(False)
            del recent[: -self.settings.window]
            if not any(recent):
                recent.clear()
        if self.episode.state:
            self.settle(view, row)
            if not self.episode.state:
                self.state.total = 0

    def _nonfinite(self, view: sdk.View, row: int) -> None:
        state = self.state
        state.recent = [*state.recent, True][-self.settings.window :]
        state.total += 1
        repeated = sum(state.recent) >= self.settings.critical_count
        harmless = view.has_scaler(row) or (view.stepped is not None and view.stepped[row] == 0.0)
        self._fire(view, row, sdk.CRITICAL if repeated or not harmless else sdk.WARNING)

    def _fire(self, view: sdk.View, row: int, severity: int) -> None:
        total, step, value = self.state.total, view.step[row], view.value("loss", row) or math.nan
        onset, level = self.episode.onset_step if self.episode.state else step, sdk.grade(total)

        def text() -> tuple[str, list[sdk.Fact]]:
            summary = f"Loss has been non-finite since step {onset} ({sdk.count(total, 'record')})"
            if total == 1:
                summary = f"Loss is {sdk.number(value)} at step {step}"
            return summary, [
                ("loss", value, "", step),
                ("non-finite losses", float(total), "records", None),
            ]

        if self.already_reported(view, row, severity, level):
            self.grow(total, text)
            return
        kind = "nan" if math.isnan(value) else "inf"
        at = onset, view.time_ns[row]
        self.fire(view, row, severity, at, *text(), level=level, kind=kind, size=total)
