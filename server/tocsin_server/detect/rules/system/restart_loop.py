"""Detect restarts that get no further.

A warning after 3 restarts since the furthest step was last passed. It resolves 20 updates beyond that step.

Signals:
    attempts and their steps
Warm-up:
    the first attempt
Does not fire on:
    - restarts that get further
Likely causes:
    - a checkpoint, a batch, a schedule or a memory limit that stops every restart
First action:
    Read the error of the last attempt. Resume from an older checkpoint or skip the data.
Source:
    The limit of 3 is tocsin's.
"""

from __future__ import annotations

from tocsin_server.detect import sdk


class Settings(sdk.RuleSettings):
    restarts: int = sdk.setting(3, "restarts", "Restarts without passing the furthest step")
    resolve_steps: int = sdk.setting(20, "updates", "Steps past the furthest step that resolve the alert")


class State(sdk.RuleState):
    """The highest step, when it was last exceeded, and the number of restarts since."""

    furthest: int = -1
    restarts: int = 0
    since: tuple[int, int] = (0, 0)


class RestartLoop(sdk.RunRule[Settings, State]):
    """Severity: warning."""

    title = "Restarts make no progress"
    severity = sdk.WARNING

    def resumed(self, at: sdk.View, attempt: int, furthest: int) -> None:
        state = self.state
        if furthest < 0:
            return
        if furthest > state.furthest:
            state.furthest, state.restarts = furthest, 0
            state.since = (furthest, at.time_ns[0])
        state.restarts += 1
        if state.restarts >= self.settings.restarts:
            self._fire(at, attempt)

    def rest(self, view: sdk.View, row: int) -> None:
        """End the episode once the highest step is exceeded."""
        if view.step[row] > self.state.furthest + self.settings.resolve_steps:
            self.episode.last_step = view.step[row] - self.settings.resolve_updates
            self.settle(view, row, at_once=True)

    def _fire(self, at: sdk.View, attempt: int) -> None:
        state = self.state
        evidence: list[sdk.Fact] = [
            ("furthest step", float(state.furthest), "", state.furthest),
            ("restarts", float(state.restarts), "since then", None),
            ("attempt", float(attempt), "", at.step[0]),
        ]
        summary = f"{sdk.count(state.restarts, 'restart')} without passing step {state.furthest}"
        self.fire(at, 0, sdk.WARNING, state.since, summary, evidence, level=state.restarts)


_CAUSE = sdk.Cause(
    "restart-loop",
    "Each restart fails before it passes the same step, so the checkpoint, batch, "
    "schedule or memory use at that step is the likely cause.",
    "a cause that every restart meets again",
    (
        sdk.Remedy("Resume from an older checkpoint, or skip the data around that step."),
        sdk.Remedy("Read the error of the last attempt before you restart again."),
    ),
    "Read the errors of the attempts: they agree.",
)
CAUSES = ((sdk.SYSTEM, _CAUSE),)
