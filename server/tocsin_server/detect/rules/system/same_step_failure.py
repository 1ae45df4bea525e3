"""Detect a failure at the same step as in similar runs.

A warning if this run and a similar one failed (non-finite values, divergence, collapse or an error) within
1 % of the same step (at least 3 steps). It recovers after 200 updates past that step and resolves after
1000.

Signals:
    alerts of this run, its end, similar runs
Warm-up:
    failures in the first 10 steps do not count
Likely causes:
    - the same order of the data
    - the schedule does something at that step
    - a bug in the script
First action:
    Name the batches with `run.batch`, and try another seed for the order of the data.
Source:
    Two real runs that failed at steps 512 and 514.
"""

from __future__ import annotations

import msgspec

from tocsin_server.detect import sdk

FAILURES = frozenset(
    {"nonfinite-loss", "loss-divergence", "nonfinite-grad-norm", "scaler-collapse", "scaler-at-floor"}
)
"""Rules whose alert means that a run failed at its onset."""


class Settings(sdk.RuleSettings):
    calm = "past the step of the failure"
    recover_updates: int = 200
    resolve_updates: int = 1000
    same_step_within: float = sdk.setting(0.01, "relative", "Difference up to which two steps are the same")
    same_step_min: int = sdk.setting(3, "steps", "Difference that always counts as the same")
    ignore_before_step: int = sdk.setting(10, "steps", "Step below which failures are not compared")


class State(sdk.RuleState):
    """Where this run failed, by rule or exception: step and time of the earliest onset.

    All of them count, because similar runs may detect the same failure by different rules.
    """

    failures: dict[str, tuple[int, int]] = msgspec.field(default_factory=dict)
    reported: list[str] = msgspec.field(default_factory=list)
    """Similar runs already named."""


class SameStepFailure(sdk.RunRule[Settings, State]):
    """Severity: warning."""

    title = "Similar runs failed at this step"
    severity = sdk.WARNING

    def began(self, at: sdk.View, rule: str, subject: str, result: sdk.RuleResult) -> None:
        if rule in FAILURES:
            self._failed(at, result.onset_step, result.onset_ns, rule)

    def on_event(self, at: sdk.View, event: sdk.RunEvent) -> None:
        if event.kind == "finish" and event.data.get("state") == "failed":
            error = event.data.get("error")
            name = str(error.get("type", "")) if isinstance(error, dict) else ""
            self._failed(at, at.step[0], at.time_ns[0], name or "failed")
        elif event.kind == sdk.SIMILAR_RUNS:
            self._look(at)

    def _failed(self, at: sdk.View, step: int, time_ns: int, what: str) -> None:
        known = self.state.failures.get(what)
        if known is None or step < known[0]:
            self.state.failures[what] = (step, time_ns)
        self._look(at)

    def _look(self, at: sdk.View) -> None:
        limits = self.settings
        for what, (step, time_ns) in sorted(self.state.failures.items(), key=lambda item: (item[1], item[0])):
            near = max(limits.same_step_min, limits.same_step_within * step)
            same = [
                item
                for item in self.context.siblings.runs
                if item.failed_step is not None and abs(item.failed_step - step) <= near
            ]
            if step >= limits.ignore_before_step and {item.run_id for item in same} - set(
                self.state.reported
            ):
                self.state.reported = sorted({item.run_id for item in same} | set(self.state.reported))
                self._fire(at, (step, time_ns, what), same)

    def _fire(self, at: sdk.View, failed: tuple[int, int, str], same: list[sdk.SimilarRun]) -> None:
        evidence: list[sdk.Fact] = [("failed at", float(failed[0]), failed[2], failed[0])]
        for item in same[:5]:
            evidence.append(
                (item.name or item.run_id, float(item.failed_step or 0), item.failure, item.failed_step)
            )
        names = ", ".join(item.name or item.run_id for item in same[:3])
        steps = sorted({item.failed_step or 0 for item in same})
        where = f"step {steps[0]}" if len(steps) == 1 else f"steps {steps[0]} to {steps[-1]}"
        summary = (
            f"Failed at step {failed[0]}; {sdk.count(len(same), 'similar run')} failed at {where}: {names}"
        )
        self.fire(at, 0, sdk.WARNING, failed[:2], summary, evidence, level=len(self.state.reported))


_CAUSE = sdk.Cause(
    "systematic",
    "The runs likely share the cause: the same data order, or a schedule that changes at that step.",
    "the same data or schedule at that step",
    (
        sdk.Remedy(
            "Check the batch of that step.",
            "run.batch(batch_id)  # before each step names it in the record",
        ),
        sdk.Remedy("Check the learning rate and the loss weights at that step."),
        sdk.Remedy("Run once with another data order."),
    ),
    "Change the data order: the run passes that step.",
)
CAUSES = ((sdk.DATA, _CAUSE),)
