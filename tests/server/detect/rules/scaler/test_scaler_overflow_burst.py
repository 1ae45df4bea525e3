"""Tests of the rule scaler-overflow-burst."""

from __future__ import annotations

from typing import Any

import pytest

BURST = "scaler-overflow-burst"


def test_five_overflows_in_fifty_updates_are_a_burst(watch: Any, torch_scale: Any) -> None:
    """The alert comes with the fifth overflow and dates back to the first."""
    scale, skipped = torch_scale([step in (300, 305, 311, 320, 333) for step in range(400)])
    run = watch()
    run.records(scale=scale, skipped=skipped)
    (finding,) = run.firing(BURST)
    assert (finding.onset_step, finding.step, finding.severity) == (300, 333, "warning")


def test_the_same_burst_without_skip_flags(watch: Any, torch_scale: Any) -> None:
    """Falls of the scale replace missing skip flags."""
    scale, _ = torch_scale([step in (300, 305, 311, 320, 333) for step in range(400)])
    run = watch()
    run.records(scale=scale)
    assert run.firing(BURST)[0].onset_step == 300


@pytest.mark.parametrize("interval", [2, 10, 100, 2000])
def test_a_healthy_saw_tooth_raises_no_alert(watch: Any, torch_scale: Any, interval: Any) -> None:
    """Growth after every interval and one skip after it is healthy."""
    overflows = [step % (interval + 1) == interval for step in range(6000)]
    scale, skipped = torch_scale(overflows, interval=interval)
    run = watch(scalers=[{"growth_interval": interval}])
    run.records(scale=scale, skipped=skipped)
    assert run.findings == []


def test_start_up_calibration_raises_no_alert(watch: Any, torch_scale: Any) -> None:
    """Skips of the first 30 updates are not counted, then or later."""
    scale, skipped = torch_scale([step < 8 or step == 40 for step in range(300)])
    run = watch()
    run.records(scale=scale, skipped=skipped)
    assert run.findings == []


def test_a_rate_a_hundred_times_the_healthy_one_is_critical(watch: Any, torch_scale: Any) -> None:
    """Overflows all the time, scattered: warning first, critical when they are 3.5 % of 1000 updates."""
    scale, skipped = torch_scale([step % 20 == 0 and step > 100 for step in range(1200)], init=2.0**80)
    run = watch()
    run.records(scale=scale, skipped=skipped)
    assert run.severities(BURST) == ["warning", "critical"]


def test_a_burst_ends(watch: Any, torch_scale: Any) -> None:
    """200 updates without overflow: recovering, 500: resolved, and one episode in all."""
    scale, skipped = torch_scale([300 <= step < 306 for step in range(1200)])
    run = watch()
    run.records(scale=scale, skipped=skipped)
    assert run.states(BURST) == ["firing", "recovering", "resolved"]


def test_thinned_records_count_backoffs_from_the_scale(watch: Any) -> None:
    """2^16 to 2^11 within 20 updates is five backoffs, also at every tenth step."""
    run = watch()
    run.records(start=5000, every=10, scale=[65536.0] * 20 + [4096.0] + [2048.0] * 5)
    assert run.firing(BURST)[0].severity == "warning"


def test_the_summary_has_the_healthy_number(watch: Any, torch_scale: Any) -> None:
    """As a number of overflows, not a multiple of a rate."""
    scale, skipped = torch_scale([step in (300, 305, 311, 320, 333) for step in range(400)])
    run = watch()
    run.records(scale=scale, skipped=skipped)
    assert run.firing(BURST)[0].summary == "5 overflows in 50 updates; a healthy run has at most 1"
