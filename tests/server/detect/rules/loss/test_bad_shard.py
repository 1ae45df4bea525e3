"""Tests of the rule bad-shard."""

from __future__ import annotations

import math
from typing import Any

RULE = "bad-shard"


def troubled(watch: Any, named: list[tuple[int, Any]]) -> Any:
    """Send losses that are NaN at each of these steps, and the names of their batches."""
    run = watch()
    length = max(step for step, _ in named) + 200
    bad = {step for step, _ in named}
    run.records(loss=[math.nan if step in bad else 1.0 + 0.01 * (step % 5) for step in range(length)])
    for step, name in named:
        run.event("batch", step, id=name)
    return run


def test_the_shard_is_named(watch: Any) -> None:
    """Three NaN with shard 12, whatever the index within it."""
    run = troubled(watch, [(100 + 300 * i, {"shard": 12, "index": i}) for i in range(3)])
    finding = run.firing(RULE)[0]
    assert finding.severity == "warning"
    assert "shard 12" in finding.summary
    assert "whenever shard 12 is read" in finding.diagnosis.cause


def test_different_data_raises_no_alert(watch: Any) -> None:
    """Each episode has its own batch."""
    assert troubled(watch, [(100 + 300 * i, f"file-{i}") for i in range(5)]).firing(RULE) == []


def test_steps_close_together_count_once(watch: Any) -> None:
    """Three steps in a row with one batch are one episode."""
    assert troubled(watch, [(100 + i, "file-1") for i in range(3)]).firing(RULE) == []


def test_batches_without_alerts_do_not_count(watch: Any) -> None:
    """Only batches of failing steps count."""
    run = watch()
    run.records(loss=[1.0 + 0.01 * (step % 5) for step in range(1000)])
    for step in (100, 400, 700):
        run.event("batch", step, id="file-1")
    assert run.firing(RULE) == []
