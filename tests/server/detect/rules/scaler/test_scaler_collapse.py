"""Tests of the rule scaler-collapse."""

from __future__ import annotations

import math
from typing import Any

COLLAPSE = "scaler-collapse"


def test_dates_back_to_the_first_backoff_of_the_fall(watch: Any, torch_scale: Any) -> None:
    """Warning at four powers of two, critical at eight, onset where the first of them overflowed."""
    scale, skipped = torch_scale([step >= 400 for step in range(460)])
    run = watch()
    run.records(scale=scale, skipped=skipped)
    first = run.firing(COLLAPSE)[0]
    assert run.states(COLLAPSE) == ["pending", "firing"]
    assert run.severities(COLLAPSE) == ["warning", "critical"]
    assert (first.onset_step, first.step) == (400, 404)
    assert run.firing(COLLAPSE)[-1].onset_step == 400


def test_a_fall_with_clean_updates_between_is_one_fall(watch: Any, torch_scale: Any) -> None:
    """Bursts within 500 updates and no growth between belong together."""
    scale, skipped = torch_scale(
        [step in (400, 401, 402, 500, 501, 502, 620, 621, 622) for step in range(700)]
    )
    run = watch()
    run.records(scale=scale, skipped=skipped)
    assert {finding.onset_step for finding in run.firing(COLLAPSE)} == {400}
    assert run.severities(COLLAPSE) == ["warning", "critical"]


def test_an_ordinary_overflow_before_the_collapse_is_not_its_onset(watch: Any, torch_scale: Any) -> None:
    """One overflow after each growth, the last of them 250 updates before every update overflows."""
    scale, skipped = torch_scale([step % 2001 == 2000 or step >= 6252 for step in range(6262)])
    run = watch()
    run.records(scale=scale, skipped=skipped)
    assert {finding.onset_step for finding in run.firing(COLLAPSE)} == {6252}
    assert run.firing(COLLAPSE)[0].summary == "Loss scale fell 2¹⁶ → 2¹² in 4 steps"


def test_a_growth_that_overflows_repeatedly_is_the_onset(watch: Any, torch_scale: Any) -> None:
    """The collapse begins with the overflow after a growth where the next ones follow at once."""
    scale, skipped = torch_scale([step >= 2000 for step in range(2010)])
    run = watch()
    run.records(scale=scale, skipped=skipped)
    assert run.firing(COLLAPSE)[0].onset_step == 2000


def test_backoffs_at_even_distances_are_one_fall(watch: Any, torch_scale: Any) -> None:
    """Every 100 updates: none of them is the ordinary one before a collapse."""
    scale, skipped = torch_scale([step >= 400 and step % 100 == 0 for step in range(900)])
    run = watch()
    run.records(scale=scale, skipped=skipped)
    assert run.firing(COLLAPSE)[0].onset_step == 400


def test_the_healthy_saw_tooth_raises_no_alert(watch: Any, torch_scale: Any) -> None:
    """One skip after each growth, for 20 000 updates."""
    scale, skipped = torch_scale([step % 2001 == 2000 for step in range(20_000)])
    run = watch()
    run.records(scale=scale, skipped=skipped)
    assert run.findings == []


def test_a_low_but_steady_scale_raises_no_alert(watch: Any) -> None:
    """2048 to 16384 and 8 to 32 are healthy: only the change counts."""
    for low in (2048.0, 8.0):
        run = watch()
        run.records(every=10, scale=[low * 2.0 ** (index // 150 % 3) for index in range(3000)])
        assert run.alarms == []


def test_a_slow_descent_raises_no_alert(watch: Any) -> None:
    """A scaler that falls from 65536 to 4096 over thousands of updates is calibrating."""
    run = watch()
    run.records(
        every=10, scale=[65536.0] * 120 + [32768.0] * 60 + [16384.0] * 60 + [8192.0] * 80 + [4096.0] * 200
    )
    assert run.alarms == []


def test_start_up_calibration_raises_no_alert(watch: Any, torch_scale: Any) -> None:
    """From 2^32 down to 2^15 in the first updates, as DeepSpeed does."""
    scale, skipped = torch_scale([step < 17 for step in range(300)], init=2.0**32)
    run = watch()
    run.records(scale=scale, skipped=skipped)
    assert run.findings == []


def test_below_one_is_critical_even_at_start_up(watch: Any, torch_scale: Any) -> None:
    """An fp16 run that overflows from its first update falls below 1 at the 17th."""
    scale, skipped = torch_scale([True] * 25)
    run = watch()
    run.records(scale=scale, skipped=skipped)
    finding = run.firing(COLLAPSE)[0]
    assert (finding.onset_step, finding.step, finding.severity) == (0, 17, "critical")


def test_no_scaler_is_no_collapse(watch: Any) -> None:
    """A constant 1.0 (bf16), a constant 0.5 and a scale of 0 from the start are not collapses."""
    for constant in (1.0, 0.5, 0.0):
        run = watch()
        run.records(scale=[constant] * 600, loss=[1.0 / (1 + step) for step in range(600)])
        assert run.findings == []


def test_collapse_to_zero_stays_one_alert(watch: Any, torch_scale: Any) -> None:
    """From 65536 to 0 and a thousand updates at 0: one episode, never recovering."""
    scale, skipped = torch_scale([step >= 100 for step in range(1500)])
    run = watch()
    run.records(scale=scale, skipped=skipped, grad_norm=[math.inf if skip else 1.0 for skip in skipped])
    assert run.states(COLLAPSE) == ["pending", "firing"]
    assert len([finding for finding in run.findings if finding.rule == COLLAPSE]) < 60


def test_the_summary_has_both_scales_and_the_steps(watch: Any, torch_scale: Any) -> None:
    """In powers of two."""
    scale, skipped = torch_scale([step >= 400 for step in range(409)])
    run = watch()
    run.records(scale=scale, skipped=skipped)
    assert run.firing(COLLAPSE)[-1].summary == "Loss scale fell 2¹⁶ → 2⁸ in 8 steps"


def test_recovers_after_calm_updates(watch: Any, torch_scale: Any) -> None:
    """A fall that ends is recovering after 200 calm updates and resolved after 500."""
    scale, skipped = torch_scale([400 <= step < 405 for step in range(1000)])
    run = watch()
    run.records(scale=scale, skipped=skipped)
    assert run.states(COLLAPSE) == ["pending", "firing", "recovering", "resolved"]
