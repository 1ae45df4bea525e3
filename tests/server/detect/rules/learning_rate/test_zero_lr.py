"""Tests of the rule zero-lr."""

from __future__ import annotations

import math
from typing import Any

RULE = "zero-lr"


def cosine(count: int, peak: float = 1e-3) -> list[float]:
    return [peak * 0.5 * (1 + math.cos(math.pi * step / count)) for step in range(count)]


def test_dropped_to_zero_in_the_middle(watch: Any) -> None:
    """The scheduler was removed and left a rate of 0: critical after twenty updates."""
    run = watch(planned_steps=5000)
    run.records(lr=[5e-4] * 100 + [0.0] * 40)
    finding = run.firing(RULE)[0]
    assert (finding.onset_step, finding.step, finding.severity) == (100, 119, "critical")


def test_step_zero_of_a_warm_up_raises_no_alert(watch: Any) -> None:
    """A linear warm-up begins at 0."""
    run = watch()
    run.records(lr=[1e-3 * step / 500 for step in range(500)])
    assert run.findings == []


def test_the_end_of_a_cosine_raises_no_alert(watch: Any) -> None:
    """Where the planned length is known, its last 2 % may be at 0."""
    run = watch(planned_steps=1000)
    run.records(lr=cosine(1000) + [0.0] * 30)
    assert run.findings == []


def test_an_end_of_unknown_length_is_info_only(watch: Any) -> None:
    """A rate that decayed to 0 with no planned length: info after 200 updates."""
    run = watch()
    run.records(lr=cosine(1000) + [0.0] * 300)
    assert run.alarms == []
    assert next(finding.diagnosis.cause for finding in run.firing(RULE)).startswith("The schedule has ended")


def test_rates_printed_with_six_digits_raise_no_alert(watch: Any) -> None:
    """0.000000 while the loss falls is rounding: with a rate of 0 it could not fall."""
    run = watch()
    run.records(every=10, lr=[0.0] * 100, loss=[7.0 - 0.02 * index for index in range(100)])
    assert run.findings == []


def test_zero_from_the_start_with_a_still_loss(watch: Any) -> None:
    """A rate that was never above 0 and a loss that does not fall."""
    run = watch()
    run.records(lr=[0.0] * 60, loss=[2.3 + 0.01 * (step % 3) for step in range(60)])
    assert run.severities(RULE) == ["critical"]


def test_a_frozen_group_raises_no_alert(watch: Any) -> None:
    """One group at 0 on purpose, another learns."""
    run = watch()
    run.records(lr=[0.0] * 100, more={"lr/g1": [1e-3] * 100})
    assert run.findings == []


def test_all_groups_at_zero(watch: Any) -> None:
    """Two groups, both at 0 in the middle."""
    run = watch()
    run.records(lr=[1e-3] * 50 + [0.0] * 50, more={"lr/g1": [1e-2] * 50 + [0.0] * 50})
    assert run.severities(RULE) == ["critical"]


def test_zero_as_a_consequence_of_skipped_updates(watch: Any) -> None:
    """Every update is skipped, so the schedule never leaves 0, and the diagnosis says so."""
    run = watch()
    run.records(lr=[0.0] * 60, grad_norm=[math.nan] * 60, loss=[2.3] * 60)
    assert "consequence, not the cause" in run.firing(RULE)[-1].diagnosis.cause


def test_restarted_rate_resolves(watch: Any) -> None:
    """Back above 0 for fifty updates: resolved."""
    run = watch()
    run.records(lr=[1e-3] * 50 + [0.0] * 50 + [1e-3] * 80)
    assert run.states(RULE) == ["firing", "recovering", "resolved"]
