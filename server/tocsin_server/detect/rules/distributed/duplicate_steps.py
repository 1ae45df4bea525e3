"""Detect several processes that report the same steps as one run.

A warning after 10 steps in a row that several processes of the same rank report within 10 s. If the values
are equal, every rank logs or each process trains alone; if they differ, different runs share one id. It
recovers after 50 updates and resolves after 200.

Signals:
    `loss`, `lr`, `scale`, `grad_norm` of processes with the same rank
Warm-up:
    10 steps
Does not fire on:
    - ranks with numbers of their own
    - a restart that repeats steps
Likely causes:
    - no launcher, or no process group
    - one run id for several runs
First action:
    Start the ranks with `torchrun`, or give each run its own `TOCSIN_RUN_ID`.
Source:
    A real log in which four processes print each line.
"""

from __future__ import annotations

from collections.abc import Iterable

from tocsin_server.detect.sdk import (
    MEASUREMENT,
    WARNING,
    Cause,
    DiagnosisContext,
    Fact,
    RankReports,
    Remedy,
    Report,
    RuleSettings,
    RuleState,
    RunRule,
    View,
    setting,
)


class Settings(RuleSettings):
    """Thresholds; processes that only take over from each other never report ten common steps."""

    recover_updates: int = setting(50, "updates", "reported once before the alert is recovering")
    resolve_updates: int = setting(200, "updates", "reported once before it is resolved")
    steps: int = setting(10, "steps", "in a row that are reported several times")


class State(RuleState):
    """Consecutive steps with equal values and with different ones, and where they started."""

    equal: int = 0
    different: int = 0
    since: tuple[int, int] = (0, 0)
    last: int = 0


class DuplicateSteps(RunRule[Settings, State]):
    """Severity: warning."""

    title = "Several processes report the same steps"
    severity = WARNING

    def reported(self, at: View, reports: RankReports) -> None:
        state = self.state
        same = _same_rank(reports.reports)
        if len(same) < 2:
            return
        if at.step[0] > state.last + self.settings.steps:
            state.equal = state.different = 0
        state.last = at.step[0]
        if not state.equal and not state.different:
            state.since = (at.step[0], at.time_ns[0])
        if _all_equal(same):
            state.equal, state.different = state.equal + 1, 0
        else:
            state.equal, state.different = 0, state.different + 1
        if max(state.equal, state.different) >= self.settings.steps:
            self._fire(at, len(same), state.equal > 0)

    def _fire(self, at: View, sources: int, equal: bool) -> None:
        how = "the same values" if equal else "different values"
        evidence: list[Fact] = [
            ("processes", float(sources), "with the same rank", at.step[0]),
            ("told world size", float(self.context.world_size), "", None),
        ]
        summary = f"{sources} processes of the same rank report each step, with {how}"
        self.fire(
            at,
            0,
            WARNING,
            self.state.since,
            summary,
            evidence,
            level=sources,
            kind="equal" if equal else "mixed",
        )


def _same_rank(reports: Iterable[Report]) -> list[Report]:
    """Return the largest group of reports that claim the same rank."""
    groups: dict[int, list[Report]] = {}
    for report in reports:
        groups.setdefault(report.rank, []).append(report)
    return max(groups.values(), key=len)


def _all_equal(reports: list[Report]) -> bool:
    """Return whether the measured values are bit-identical; durations may differ."""
    reported = [
        {name: str(value) for name, value in report.values.items() if name != "step_time"}
        for report in reports
    ]
    return all(values == reported[0] for values in reported)


_APART = Remedy("Give each run an id of its own.", "unset TOCSIN_RUN_ID")
_FILES = Remedy("Let each process write a log file of its own, or say its rank in front of each line.")


def reported_twice(case: DiagnosisContext) -> Cause | None:
    """Return the cause of several processes that report one run."""
    if case.result.kind == "mixed":
        return Cause(
            "one-identity",
            "Different runs report under one identity, or ranks that do not tell their number, each with "
            "the loss of its own part of the data.",
            "different runs, or ranks without a number, under one identity",
            (_APART if case.context.project else _FILES,),
            "The processes belong to one training.",
        )  # fmt: skip
    return Cause(
        "all-ranks-log",
        "Every process reports, and each believes to be alone: either all ranks log, or they were never "
        "joined and each trains the whole model on the same data."
        + (
            ""
            if case.context.project
            else " Or one process writes each line twice: a logger with two handlers."
        ),
        "processes that do not know of each other",
        (
            Remedy(
                "Start them together, so that each knows its rank.", "torchrun --nproc-per-node=4 train.py"
            ),
            Remedy("Report from rank 0 only.", "if rank == 0:\n    run = tocsin.watch('project')"),
            Remedy("See whether gradients are shared.", "torch.distributed.is_initialized()"),
        ),
        "Each process has a rank of its own and reports it.",
    )


CAUSES = ((MEASUREMENT, reported_twice),)
