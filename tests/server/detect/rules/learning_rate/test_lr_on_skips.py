"""Tests of the rule lr-on-skips."""

from __future__ import annotations

from typing import Any

RULE = "lr-on-skips"


def test_a_schedule_that_advances_on_skipped_updates(watch: Any) -> None:
    """Reported after ten of them changed the rate."""
    run = watch()
    run.records(lr=[1e-3 - 1e-6 * step for step in range(40)], skipped=[1.0] * 15 + [0.0] * 25)
    finding = run.firing(RULE)[0]
    assert (finding.severity, finding.onset_step) == ("info", 1)


def test_a_schedule_that_waits_raises_no_alert(watch: Any) -> None:
    """The rate stays while updates are skipped."""
    run = watch()
    rates = [1e-3] * 16 + [1e-3 - 1e-6 * step for step in range(40)]
    run.records(lr=rates, skipped=[1.0] * 15 + [0.0] * 41)
    assert run.findings == []


def test_a_constant_rate_raises_no_alert(watch: Any) -> None:
    """There is no schedule that could run ahead."""
    run = watch()
    run.records(lr=[1e-3] * 60, skipped=[1.0] * 20 + [0.0] * 40)
    assert run.firing(RULE) == []


def test_occasional_skips_raise_no_alert(watch: Any) -> None:
    """One every two thousand updates."""
    run = watch()
    count = 9000
    skipped = [1.0 if step % 2000 == 1999 else 0.0 for step in range(count)]
    run.records(lr=[1e-3 - 1e-8 * step for step in range(count)], skipped=skipped)
    assert run.findings == []


def test_ends_without_skips(watch: Any) -> None:
    """Three hundred updates later it is over."""
    run = watch()
    run.records(lr=[1e-3 - 1e-6 * step for step in range(600)], skipped=[1.0] * 15 + [0.0] * 585)
    assert run.states(RULE) == ["firing", "recovering", "resolved"]
