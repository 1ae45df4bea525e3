"""Tests of the rule data-bound."""

from __future__ import annotations

from typing import Any

import pytest

RULE = "data-bound"


@pytest.mark.parametrize(("share", "expected"), [(0.6, ["warning"]), (0.4, ["info"]), (0.076, [])])
def test_severity_follows_the_share_of_the_step(watch: Any, share: float, expected: list[str]) -> None:
    """Half is a warning, a third is info, healthy logs stay below 0.076."""
    run = watch()
    run.records(step_time=[0.2] * 300, data_time=[0.2 * share] * 300)
    assert run.severities(RULE) == expected


def test_the_first_batch_may_take_long(watch: Any) -> None:
    """Workers are being started."""
    run = watch()
    run.records(step_time=[30.0] * 3 + [0.2] * 300, data_time=[29.8] * 3 + [0.01] * 300)
    assert run.findings == []


def test_ends_below_the_limit(watch: Any) -> None:
    """Two windows."""
    run = watch()
    run.records(step_time=[0.2] * 632, data_time=[0.12] * 220 + [0.01] * 412)
    assert run.states(RULE) == ["firing", "recovering", "resolved"]
