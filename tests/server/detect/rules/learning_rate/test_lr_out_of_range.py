"""Tests of the rule lr-out-of-range."""

from __future__ import annotations

from typing import Any

from tocsin_server.detect.interface.similar_runs import SimilarRun, SimilarRuns

RULE = "lr-out-of-range"
ADAM = [{"name": "", "class": "AdamW"}]
SGD = [{"name": "", "class": "SGD"}]


def falling(count: int) -> list[float]:
    return [3.0 / (1 + 0.01 * step) for step in range(count)]


def test_a_high_rate_for_adam_at_which_nothing_is_learned(watch: Any) -> None:
    """A warning that names the limit."""
    run = watch(optimizers=ADAM)
    run.records(loss=[2.3] * 400, lr=[0.05] * 400)
    assert run.severities(RULE) == ["warning"]
    assert "AdamW" in run.firing(RULE)[0].summary


def test_a_high_rate_that_works_raises_no_alert(watch: Any) -> None:
    """A small network may learn at 0.01."""
    run = watch(optimizers=ADAM)
    run.records(loss=falling(400), lr=[0.01] * 400)
    assert run.severities(RULE) == []


def test_an_agents_loss_raises_no_alert(watch: Any) -> None:
    """In reinforcement learning the loss need not fall: torch's own examples train at 0.03."""
    run = watch(optimizers=ADAM, libraries=frozenset({"gymnasium"}))
    run.records(loss=[2.3] * 400, lr=[0.03] * 400)
    assert run.severities(RULE) == []


def test_the_onset_is_where_the_rate_passed_the_limit(watch: Any) -> None:
    """A warm-up that goes too far was right at its first step: step 250 is 0.005, step 251 is above."""
    run = watch(optimizers=ADAM)
    run.records(loss=[2.3] * 400, lr=[2e-5 * step for step in range(400)])
    assert {item.onset_step for item in run.firing(RULE)} == {251}


def test_the_same_rate_is_usual_for_sgd(watch: Any) -> None:
    """The range belongs to the family."""
    run = watch(optimizers=SGD)
    run.records(loss=[2.3] * 400, lr=[0.1] * 400)
    assert run.firing(RULE) == []


def test_an_unknown_optimizer_has_no_range(watch: Any) -> None:
    """Logs do not contain the optimizer's class."""
    run = watch()
    run.records(loss=[2.3] * 400, lr=[0.1] * 400)
    assert run.firing(RULE) == []


def siblings(*peaks: float) -> SimilarRuns:
    return SimilarRuns(tuple(SimilarRun(f"r_{index}", "", peak_lr=peak) for index, peak in enumerate(peaks)))


def test_far_below_similar_runs_is_reported(watch: Any) -> None:
    """A factor of 100: the alternative cause is a model that does not learn."""
    run = watch(siblings=siblings(1e-4, 2e-4, 1e-4))
    run.records(loss=falling(400), lr=[1e-6] * 400)
    finding = run.firing(RULE)[0]
    assert (finding.severity, "100x lower" in finding.summary) == ("info", True)


def test_a_sweep_of_rates_raises_no_alert(watch: Any) -> None:
    """A sweep varies the rate by a factor of ten."""
    run = watch(siblings=siblings(1e-4, 1e-3, 3e-4))
    run.records(loss=falling(400), lr=[3e-5] * 400)
    assert run.findings == []


def test_ends_with_a_rate_in_range(watch: Any) -> None:
    """The schedule brought it down."""
    run = watch(optimizers=ADAM)
    run.records(loss=[2.3] * 900, lr=[0.05] * 400 + [1e-3] * 500)
    assert run.states(RULE)[-1] == "resolved"
