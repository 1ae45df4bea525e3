"""Detect several processes that report the same steps as one run.

A warning after 10 steps in a row that several processes of the same rank report within 10 s. If the values
are equal, every rank logs or each process trains alone; if they differ, different runs share one id. It
recovers after 50 updates and resolves after 200.

Signals:
    `loss`, `lr`, `scale`, `grad_norm` of processes with the same rank
Warm-up:
    10 steps
Does not fire on:
    - processes that report different ranks
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

from tocsin_server.detect import sdk


class Settings(sdk.RuleSettings):
    """Thresholds; processes that only replace each other never report ten common steps."""

    calm = "reported once"
    recover_updates: int = 50
    resolve_updates: int = 200
    steps: int = sdk.setting(10, "steps", "Steps in a row that are reported more than once")


class State(sdk.RuleState):
    """Consecutive steps with equal values and with different ones, and where they started."""

    equal: int = 0
    different: int = 0
    since: tuple[int, int] = (0, 0)
    last: int = 0


class DuplicateSteps(sdk.RunRule[Settings, State]):
    """Severity: warning."""

    title = "Several processes report the same steps"
    severity = sdk.WARNING

    def reported(self, at: sdk.View, reports: sdk.RankReports) -> None:
        state = self.state
        same = _same_rank(reports.reports)
        if len(same) < 2:
            return
        if at.step[0] > state.last + self.settings.steps:
            state.equal = state.different = 0
        state.last = at.step[0]
        if not state.equal and not state.different:
            state.since = at.place(0)
        if _all_equal(same):
            state.equal, state.different = state.equal + 1, 0
        else:
            state.equal, state.different = 0, state.different + 1
        if max(state.equal, state.different) >= self.settings.steps:
            self._fire(at, len(same), state.equal > 0)

    def _fire(self, at: sdk.View, sources: int, equal: bool) -> None:
        how = "the same values" if equal else "different values"
        evidence: list[sdk.Fact] = [
            ("processes", float(sources), "with the same rank", at.step[0]),
            ("reported world size", float(self.context.world_size), "", None),
        ]
        summary = f"{sources} processes of the same rank report each step, with {how}"
        self.fire(
            at,
            0,
            sdk.WARNING,
            self.state.since,
            summary,
            evidence,
            level=sources,
            kind="equal" if equal else "mixed",
        )


def _same_rank(reports: Iterable[sdk.Report]) -> list[sdk.Report]:
    """Return the largest group of reports with the same rank."""
    groups: dict[int, list[sdk.Report]] = {}
    for report in reports:
        groups.setdefault(report.rank, []).append(report)
    return max(groups.values(), key=len)


def _all_equal(reports: list[sdk.Report]) -> bool:
    """Return whether the measured values are bit-identical; durations may differ."""
    reported = [
        {name: str(value) for name, value in report.values.items() if name != "step_time"}
        for report in reports
    ]
    return all(values == reported[0] for values in reported)


_APART = sdk.Remedy("Give each run its own id.", "unset TOCSIN_RUN_ID")
_FILES = sdk.Remedy("Write one log file per process, or log the rank in each line.")


def reported_twice(case: sdk.DiagnosisContext) -> sdk.Cause | None:
    """Return the cause of several processes that report one run."""
    if case.result.kind == "mixed":
        return sdk.Cause(
            "one-identity",
            "Several runs share one run id, or the ranks of one run do not report their rank.",
            "several runs with one id, or ranks that do not report their rank",
            (_APART if case.context.project else _FILES,),
            "Compare the commands of the processes: they belong to different runs.",
        )  # fmt: skip
    return sdk.Cause(
        "all-ranks-log",
        "Each process reports as the only one: either all ranks log, or they were never "
        "joined and each trains its own copy of the model."
        + (
            ""
            if case.context.project
            else " One process may also write each line twice because its logger has two handlers."
        ),
        "processes that were started without ranks",
        (
            sdk.Remedy(
                "Start the processes with torchrun, so that each gets its rank.",
                "torchrun --nproc-per-node=4 train.py",
            ),
            sdk.Remedy("Report from rank 0 only.", "if rank == 0:\n    run = tocsin.watch('project')"),
            sdk.Remedy(
                "Check that gradients are averaged over all processes.", "torch.distributed.is_initialized()"
            ),
        ),
        "Print the world size in each process: it is 1 everywhere.",
    )


CAUSES = ((sdk.MEASUREMENT, reported_twice),)
