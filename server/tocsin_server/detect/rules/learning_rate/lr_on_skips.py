"""Report a schedule that advances on skipped steps.

Info after 10 skipped steps at which the learning rate changed nevertheless. It recovers after 100 updates
and resolves after 300.

Signals:
    `lr`, `skipped`
Warm-up:
    none
Does not fire on:
    - one skipped step in 2000 updates, which is normal
Likely causes:
    - `scheduler.step()` is called although the loss scaler skipped the update
First action:
    Call `scheduler.step()` only if the update was made.
Source:
    Lightning issue 18828.
"""

from __future__ import annotations

from tocsin_server.detect import sdk


class Settings(sdk.RuleSettings):
    calm = "without such a step"
    recover_updates: int = 100
    resolve_updates: int = 300
    skipped_steps: int = sdk.setting(
        10, "skipped steps", "Skipped steps after each of which the learning rate changed"
    )


class State(sdk.RuleState):
    """The last rate, whether its step was skipped, and how many skipped steps advanced the schedule."""

    last: float | None = None
    skipped: bool = False
    ahead: int = 0
    since: tuple[int, int] = (0, 0)


class LrOnSkips(sdk.Rule[Settings, State]):
    """Severity: info."""

    title = "Schedule advances on skipped steps"
    severity = sdk.INFO
    needs = ("skipped",)
    in_blocks = True

    def observe(self, view: sdk.View) -> None:
        if view.skipped is None or view.lr is None:
            return
        if not self.state.skipped and not self.episode.state and not any(view.skipped):
            self.state.last = view.lr[-1]
            return
        for row, rate in enumerate(view.lr):
            self._one(view, row, rate, bool(view.skipped[row]))

    def _one(self, view: sdk.View, row: int, rate: float | None, skipped: bool) -> None:
        state = self.state
        moved = rate is not None and state.last is not None and rate != state.last
        if state.skipped and moved:
            if not state.ahead:
                state.since = view.place(row)
            state.ahead += 1
            if state.ahead >= self.settings.skipped_steps:
                self._fire(view, row)
        elif self.episode.state:
            self.settle(view, row)
        state.last, state.skipped = rate, skipped

    def _fire(self, view: sdk.View, row: int) -> None:
        ahead = self.state.ahead
        evidence: list[sdk.Fact] = [
            ("skipped steps", float(ahead), "that advanced the schedule", view.step[row])
        ]
        summary = f"Schedule is {sdk.count(ahead, 'step')} ahead because it advances on skipped updates"
        self.fire(
            view, row, sdk.INFO, self.state.since, summary, evidence, level=sdk.grade(ahead), size=ahead
        )


_CAUSE = sdk.Cause(
    "lr-on-skips",
    "scheduler.step() is called even if the scaler skipped the update.",
    "a scheduler that is stepped on skipped updates",
    (
        sdk.Remedy(
            "Call scheduler.step() only after an update that was not skipped.",
            "before = scaler.get_scale()\nscaler.step(optimizer)\nscaler.update()\n"
            "if scaler.get_scale() >= before:\n    scheduler.step()",
        ),
    ),
    "Print the learning rate before and after a skipped update: it changes.",
)
CAUSES = ((sdk.RATE, _CAUSE),)
