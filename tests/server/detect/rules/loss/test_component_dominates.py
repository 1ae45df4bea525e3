"""Tests of the rule component-dominates."""

from __future__ import annotations

from typing import Any

RULE = "component-dominates"


def terms(watch: Any, l1: list[float], fft: list[float]) -> Any:
    run = watch()
    run.event("loss-components", names=["l1", "fft"])
    run.records(more={"loss/l1": l1, "loss/fft": fft})
    return run


def test_a_small_regularizer_is_info(watch: Any) -> None:
    """A share of 99.5 % from the start is info only."""
    run = terms(watch, [2.0] * 300, [0.01] * 300)
    assert run.severities(RULE) == ["info"]


def test_ten_thousand_times_all_others_is_a_warning(watch: Any) -> None:
    """An FFT that is not normalized."""
    run = terms(watch, [0.1] * 300, [5e4] * 300)
    assert run.severities(RULE) == ["warning"]
    assert "not normalized" in run.firing(RULE)[0].diagnosis.cause


def test_a_share_that_grew_is_a_warning(watch: Any) -> None:
    """Balanced at the start, 99.6 % later."""
    run = terms(watch, [1.0] * 100 + [0.02] * 400, [1.0] * 100 + [5.0] * 400)
    assert run.severities(RULE) == ["warning"]


def test_a_balance_raises_no_alert(watch: Any) -> None:
    """80 to 20."""
    assert terms(watch, [0.8] * 2000, [0.2] * 2000).firing(RULE) == []


def test_resolved_in_balance(watch: Any) -> None:
    """A thousand updates with a smaller share."""
    run = terms(watch, [1.0] * 200 + [0.5] * 1200, [1e-6] * 200 + [0.5] * 1200)
    assert run.states(RULE) == ["firing", "recovering", "resolved"]
