"""Report steps that go back within one process.

Info when the step number decreases. All statistics start again from there. It recovers after 20 updates
forward and resolves after 50.

Signals:
    step numbers
Warm-up:
    none
Does not fire on:
    - a step that occurs twice
    - a new attempt
Likely causes:
    - a rollback to a checkpoint
    - several runs in one log
First action:
    If these are several runs, give each its own id.
Source:
    Real logs: from step 7580 to 7520; 80 runs in one file.
"""

from __future__ import annotations

from collections.abc import Iterable

from tocsin_server.detect import sdk


class Settings(sdk.RuleSettings):
    """Thresholds; an episode ends after steps have increased for a while."""

    calm = "forward"
    recover_updates: int = 20
    resolve_updates: int = 50


class State(sdk.RuleState):
    """How often steps went back. It is kept across discontinuities."""

    times: int = 0


class StepRewind(sdk.Rule[Settings, State]):
    """Severity: info."""

    title = "Steps go back"
    severity = sdk.INFO
    needs = ("loss", "grad_norm", "scale", "lr", "step_time")
    idles = True

    @classmethod
    def subjects(cls, bases: Iterable[str], suffix: str) -> bool:
        """Return whether the stream is that of the primary optimizer, whose steps are the run's."""
        return not suffix and super().subjects(bases, suffix)

    @property
    def subject(self) -> str:
        """Return an empty subject: the whole run."""
        return ""

    def discontinuity(self) -> None:
        """Keep the state: a discontinuity is what this rule detects."""

    def observe(self, view: sdk.View) -> None:
        if view.rewound_from is not None:
            self._fire(view, view.rewound_from)
        elif self.episode.state:
            for row in range(view.n):
                self.settle(view, row)

    def _fire(self, view: sdk.View, furthest: int) -> None:
        state, step = self.state, view.step[0]
        state.times += 1
        lost = furthest - step
        evidence: list[sdk.Fact] = [
            ("furthest step", float(furthest), "", None),
            ("went back to", float(step), "", step),
            ("times", float(state.times), "so far", None),
        ]
        summary = f"Steps went back {sdk.count(lost, 'step')}, {furthest} → {step}"
        if state.times > 1:
            summary = f"Steps went back {state.times} times, the last time {furthest} → {step}"
        self.fire(view, 0, sdk.INFO, (step, view.time_ns[0]), summary, evidence, level=state.times)
        for row in range(1, view.n):
            self.settle(view, row)


_CAUSE = sdk.Cause(
    "rewind",
    "The process went back to a checkpoint, or several runs report as one.",
    "a rollback within the process",
    (sdk.Remedy("Give each run its own name or id.", 'tocsin.watch("project", resume="run-id")'),),
    "Check the log: the script loaded a checkpoint, or another process reports under this id.",
)
CAUSES = ((sdk.MEASUREMENT, _CAUSE),)
