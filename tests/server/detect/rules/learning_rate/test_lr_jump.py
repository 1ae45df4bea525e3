"""Tests of the rule lr-jump."""

from __future__ import annotations

from typing import Any

import pytest

RULE = "lr-jump"


def test_a_rise_above_the_former_peak_is_a_warning(watch: Any) -> None:
    """It had fallen before, so this is not a warm-up."""
    run = watch()
    run.records(lr=[1e-3] * 100 + [5e-4] * 100 + [5e-3] * 50)
    assert [finding.onset_step for finding in run.firing(RULE) if finding.severity == "warning"] == [200]


def test_a_rise_after_a_long_constant_rate_is_a_warning(watch: Any) -> None:
    """Ten times, after six thousand updates."""
    run = watch()
    run.records(every=10, lr=[1e-3] * 600 + [1e-2] * 100)
    assert run.severities(RULE) == ["warning"]


@pytest.mark.parametrize("steps", [1, 20, 390])
def test_a_warm_up_in_steps_raises_no_alert(watch: Any, steps: int) -> None:
    """Per update, or per epoch from 1e-6 on as timm does."""
    rates = [1e-6, 2e-4, 4e-4, 6e-4, 8e-4, 1e-3]
    run = watch()
    run.records(lr=[rate for rate in rates for _ in range(steps)] + [1e-3] * 200)
    assert run.alarms == []


def test_milestones_are_info_only(watch: Any) -> None:
    """A rate that falls tenfold is a schedule, known or not."""
    run = watch()
    run.records(lr=[0.1] * 300 + [0.01] * 300 + [0.001] * 300)
    assert run.severities(RULE) == ["info"]


def test_known_milestones_raise_no_alert(watch: Any) -> None:
    """MultiStepLR lowers the rate by design."""
    run = watch(schedulers=[{"optimizer": "", "scheduler": "MultiStepLR", "arguments": {"gamma": 0.1}}])
    run.records(lr=[0.1] * 300 + [0.01] * 300 + [0.001] * 300)
    assert run.findings == []


def test_a_return_to_the_former_rate_is_a_restart(watch: Any) -> None:
    """lr-restart reports it."""
    run = watch()
    run.records(lr=[1e-3] * 100 + [1e-4] * 100 + [1e-3] * 100)
    assert [finding for finding in run.firing(RULE) if finding.severity == "warning"] == []


def test_declared_jumps_are_expected(watch: Any) -> None:
    """``run.expect("lr-jump", steps=[6000])``."""
    run = watch()
    run.event("expect", 0, what="lr-jump", steps=[6000])
    run.records(every=10, lr=[1e-3] * 600 + [1e-2] * 100)
    assert run.findings == []


def test_rates_that_follow_the_batch_size_are_normal(watch: Any) -> None:
    """Jumps every few records are normal for this script: reported once at most."""
    run = watch()
    run.records(lr=([1e-3] * 12 + [2e-3] * 12) * 80)
    assert run.alarms == []


def test_the_last_digit_of_a_rounded_rate_is_no_jump(watch: Any) -> None:
    """0.000001 to 0.000002 in a log that prints six digits."""
    run = watch()
    rates = [round(2e-5 * (1 - step / 2000), 6) for step in range(1900)] + [2e-6] * 30
    run.records(lr=rates)
    assert run.alarms == []


def test_a_resume_discontinuity_is_no_jump(watch: Any) -> None:
    """A new attempt starts from scratch."""
    run = watch()
    run.records(lr=[1e-3] * 300)
    run.records(attempt=2, start=300, lr=[9.66e-4 * 4] * 300)
    assert run.findings == []
