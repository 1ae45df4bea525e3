"""Tests of the rule same-step-failure."""

from __future__ import annotations

import math
from typing import Any

from tocsin_server.detect.interface.similar_runs import SimilarRun, SimilarRuns

RULE = "same-step-failure"


def siblings(*failed: int | None) -> SimilarRuns:
    return SimilarRuns(
        tuple(
            SimilarRun(f"r_{n}", f"run-{n}", failed_step=step, failure="nonfinite-loss")
            for n, step in enumerate(failed)
        )
    )


def failing(watch: Any, step: int, similar: SimilarRuns) -> Any:
    run = watch(siblings=similar)
    run.records(loss=[1.0 + 0.01 * (n % 7) for n in range(step)] + [math.nan] * 5)
    return run


def test_a_nan_at_the_step_of_another_run(watch: Any) -> None:
    """512 here, 514 there: a warning that names the run."""
    run = failing(watch, 512, siblings(514, None))
    finding = run.firing(RULE)[0]
    assert (finding.onset_step, finding.severity) == (512, "warning")
    assert "run-0" in finding.summary
    assert "likely share the cause" in finding.diagnosis.cause


def test_another_rule_may_have_seen_the_failure_before(watch: Any) -> None:
    """The loss diverges, and 180 steps later it is NaN: there the other run failed too."""
    run = watch(siblings=siblings(482))
    usual = [1.0 + 0.01 * (n % 7) for n in range(300)]
    run.records(loss=[*usual, *(1.05 ** (n + 1) for n in range(180)), *[math.nan] * 5])
    assert run.firing("loss-divergence")[0].onset_step < 450
    assert run.firing(RULE)[0].onset_step == 480


def test_failures_elsewhere_are_chance(watch: Any) -> None:
    """More than one percent apart."""
    assert failing(watch, 512, siblings(530, 90, None)).firing(RULE) == []


def test_a_failure_in_the_first_steps_raises_no_alert(watch: Any) -> None:
    """A broken script fails there every time."""
    assert failing(watch, 4, siblings(4, 5)).firing(RULE) == []


def test_an_exception_counts_as_a_failure(watch: Any) -> None:
    """The run ends failed."""
    run = watch(siblings=siblings(301))
    run.records(loss=[1.0 + 0.01 * (n % 7) for n in range(300)])
    run.event("finish", 299, state="failed", error={"type": "RuntimeError"})
    assert run.firing(RULE)[0].onset_step == 299


def test_a_run_that_does_not_fail_raises_no_alert(watch: Any) -> None:
    """Failures of other runs alone raise no alert."""
    run = watch(siblings=siblings(100, 101))
    run.records(loss=[1.0 + 0.01 * (n % 7) for n in range(300)])
    assert run.firing(RULE) == []
