"""Tests of the rule rank-divergence."""

from __future__ import annotations

import math
from typing import Any

RULE = "rank-divergence"


def together(run: Any, steps: int, *ranks: dict[str, Any], start: int = 0) -> None:
    """All ranks report ``steps`` steps in turns of ten."""
    for first in range(start, start + steps, 10):
        for rank, series in enumerate(ranks):
            part = {
                name: (values if callable(values) else lambda step, v=values: v)
                for name, values in series.items()
            }
            chosen = {
                name: [value(step) for step in range(first, first + 10)] for name, value in part.items()
            }
            run.records(rank=rank, start=first, **chosen)


def test_a_scale_that_differs_is_a_warning(watch: Any) -> None:
    """One rank backed off alone: dated to that step, with both values."""
    run = watch(world_size=2)
    together(run, 50, {"scale": 65536.0}, {"scale": lambda step: 65536.0 if step < 30 else 32768.0})
    finding = run.firing(RULE)[0]
    assert (finding.onset_step, finding.step, finding.severity) == (30, 32, "warning")
    assert {item.name for item in finding.diagnosis.evidence} >= {
        "loss scale of rank 0",
        "loss scale of rank 1",
    }


def test_losses_may_differ(watch: Any) -> None:
    """Each rank has its own batch."""
    run = watch(world_size=2)
    together(run, 200, {"loss": 1.0, "lr": 1e-3}, {"loss": 1.5, "lr": 1e-3})
    assert run.firing(RULE) == []


def test_norms_that_never_agreed_are_those_of_shards(watch: Any) -> None:
    """Local norms of a sharded model differ from the first step on."""
    run = watch(world_size=2)
    together(run, 200, {"grad_norm": 1.0}, {"grad_norm": 1.7})
    assert run.firing(RULE) == []


def test_norms_that_start_to_differ_are_reported(watch: Any) -> None:
    """The weights are no longer the same."""
    run = watch(world_size=2)
    together(run, 100, {"grad_norm": 1.0}, {"grad_norm": lambda step: 1.0 if step < 60 else 1.2})
    assert run.firing(RULE)[0].onset_step == 60


def test_nan_agrees_with_nan(watch: Any) -> None:
    """After the reduction all ranks read NaN."""
    run = watch(world_size=2)
    norm = {"grad_norm": lambda step: 1.0 if step < 50 else math.nan}
    together(run, 100, norm, norm)
    assert run.firing(RULE) == []


def test_ends_in_agreement(watch: Any) -> None:
    """It resolves after a hundred steps in agreement."""
    run = watch(world_size=2)
    together(run, 200, {"lr": 1e-3}, {"lr": lambda step: 2e-3 if step < 40 else 1e-3})
    assert run.states(RULE) == ["firing", "recovering", "resolved"]
