"""Tests of the rule vanishing-gradient."""

from __future__ import annotations

from typing import Any

RULE = "vanishing-gradient"


def test_a_millionth_of_the_early_norm_is_a_warning(watch: Any) -> None:
    """The loss does not fall meanwhile."""
    run = watch()
    run.records(loss=[2.3] * 400, grad_norm=[1.0] * 100 + [1e-7] * 300)
    finding = run.firing(RULE)[0]
    assert (finding.onset_step, finding.severity) == (100, "warning")


def test_below_what_fp16_can_express_from_the_start(watch: Any) -> None:
    """Then there is no early norm to compare with."""
    run = watch()
    run.records(loss=[2.3] * 300, grad_norm=[1e-10] * 300)
    assert run.severities(RULE) == ["warning"]


def test_a_small_loss_has_small_gradients(watch: Any) -> None:
    """True norms of 1e-4 to 1e-3 at a loss of 5e-4 are healthy."""
    run = watch()
    run.records(loss=[5e-4] * 1000, grad_norm=[1e-4 + 1e-6 * (step % 900) for step in range(1000)])
    assert run.findings == []


def test_convergence_is_info_only(watch: Any) -> None:
    """The loss has fallen far, so the model has converged."""
    run = watch()
    run.records(loss=[0.9**step + 1e-3 for step in range(600)], grad_norm=[0.9**step for step in range(600)])
    assert run.alarms == []
    assert run.severities(RULE) == ["info"]


def test_norms_of_exactly_zero_are_other_rules(watch: Any) -> None:
    """Other rules handle a norm of exactly 0."""
    run = watch()
    run.records(loss=[2.3] * 600, grad_norm=[1.0] * 100 + [0.0] * 500)
    assert run.firing(RULE) == []


def test_ends_with_the_usual_norm(watch: Any) -> None:
    """Recovering after a hundred updates, resolved after three hundred."""
    run = watch()
    run.records(loss=[2.3] * 900, grad_norm=[1.0] * 100 + [1e-7] * 300 + [1.0] * 500)
    assert run.states(RULE) == ["firing", "recovering", "resolved"]
