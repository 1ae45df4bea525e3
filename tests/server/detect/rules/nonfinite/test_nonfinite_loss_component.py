"""Tests of the rule nonfinite-loss-component."""

from __future__ import annotations

import math
from typing import Any

RULE = "nonfinite-loss-component"


def terms(watch: Any, l1: list[float], fft: list[float]) -> Any:
    run = watch()
    run.event("loss-components", names=["l1", "fft"])
    run.records(loss=[a + b for a, b in zip(l1, fft, strict=True)], more={"loss/l1": l1, "loss/fft": fft})
    return run


def test_the_term_is_named(watch: Any) -> None:
    """The FFT term is infinite, the other is finite."""
    run = terms(watch, [1.0] * 20, [0.5] * 15 + [math.inf] * 5)
    finding = run.firing(RULE)[0]
    assert (finding.severity, finding.onset_step) == ("warning", 15)
    assert "fft is +Inf" in finding.summary


def test_it_is_the_cause_of_a_bad_loss(watch: Any) -> None:
    """The total is infinite because that term is."""
    run = terms(watch, [1.0] * 20, [0.5] * 15 + [math.inf] * 5)
    assert "that term" in run.firing("nonfinite-loss")[-1].diagnosis.cause


def test_the_term_stays_a_warning_and_the_total_is_critical(watch: Any) -> None:
    """Ten in a row: the critical alert is that of the loss itself."""
    run = terms(watch, [1.0] * 20, [0.5] * 10 + [math.nan] * 10)
    assert run.severities(RULE) == ["warning"]
    assert "critical" in run.severities("nonfinite-loss")


def test_all_terms_are_another_cause(watch: Any) -> None:
    """What they share is the model's output."""
    run = terms(watch, [1.0] * 10 + [math.nan] * 3, [1.0] * 10 + [math.nan] * 3)
    assert "Every term" in run.firing(RULE)[0].diagnosis.cause


def test_another_optimizers_loss_is_no_term(watch: Any) -> None:
    """The discriminator's NaN belongs to nonfinite-loss."""
    run = watch()
    run.records(loss=[1.0] * 10, more={"loss/D": [1.0] * 9 + [math.nan]})
    assert run.firing(RULE) == []


def test_terms_are_not_adversarial(watch: Any) -> None:
    """Rules about the shape of the loss still apply to a loss with terms."""
    spiked = [1.0 + 0.01 * (step % 7) for step in range(100)] + [9.0] * 5
    run = terms(watch, spiked, [0.1 + 0.001 * (step % 5) for step in range(105)])
    assert run.firing("loss-spike") != []
