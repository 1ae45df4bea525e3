"""Tests of the rule nonfinite-input."""

from __future__ import annotations

import math
from typing import Any

RULE = "nonfinite-input"


def test_a_bad_batch_is_a_warning(watch: Any) -> None:
    """One of fifty holds NaN."""
    run = watch()
    run.records(loss=[1.0] * 50, more={"nonfinite/batch": [0.0] * 30 + [1.0] + [0.0] * 19})
    finding = run.firing(RULE)[0]
    assert (finding.severity, finding.onset_step, finding.subject) == ("warning", 30, "nonfinite/batch")


def test_many_bad_batches_stay_a_warning(watch: Any) -> None:
    """Five of two hundred. It is not critical, because its false alarm rate was not measured."""
    run = watch()
    run.records(more={"nonfinite/batch": ([0.0] * 39 + [1.0]) * 5})
    assert run.severities(RULE) == ["warning"]


def test_nan_as_a_mask_is_never_critical(watch: Any) -> None:
    """Every batch holds it: never critical."""
    run = watch()
    run.records(more={"nonfinite/batch": [1.0] * 300})
    assert "critical" not in run.severities(RULE)


def test_it_is_the_first_cause_of_a_bad_loss(watch: Any) -> None:
    """The loss of that step is NaN because its batch is."""
    run = watch()
    run.records(loss=[1.0] * 20 + [math.nan] * 3, more={"nonfinite/batch": [0.0] * 20 + [1.0] * 3})
    assert "batch itself" in run.firing("nonfinite-loss")[-1].diagnosis.cause


def test_resolved_after_finite_batches(watch: Any) -> None:
    """Five hundred updates."""
    run = watch()
    run.records(more={"nonfinite/batch": [1.0] + [0.0] * 600})
    assert run.states(RULE) == ["firing", "recovering", "resolved"]
