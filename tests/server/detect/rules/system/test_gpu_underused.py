"""Tests of the rule gpu-underused."""

from __future__ import annotations

from typing import Any

RULE = "gpu-underused"


def test_an_idle_gpu_is_info(watch: Any) -> None:
    """Never more than info, because it may be intended."""
    run = watch()
    run.records(gpu_util=[30.0 + step % 20 for step in range(400)])
    assert run.severities(RULE) == ["info"]


def test_a_busy_gpu_with_pauses_is_healthy(watch: Any) -> None:
    """Evaluation and checkpoints leave it idle for a while."""
    run = watch()
    run.records(gpu_util=[5.0 if step % 4 == 0 else 97.0 for step in range(2000)])
    assert run.findings == []


def test_samples_may_be_sparse(watch: Any) -> None:
    """System signals come every few steps."""
    run = watch()
    sampled = [40.0 if step % 5 == 0 else None for step in range(2000)]
    run.records(loss=[1.0 / (1 + step) for step in range(2000)], gpu_util=sampled)
    assert run.severities(RULE) == ["info"]


def test_ends_with_a_busy_window(watch: Any) -> None:
    """Two hundred samples."""
    run = watch()
    run.records(gpu_util=[40.0] * 220 + [95.0] * 420)
    assert run.states(RULE) == ["firing", "recovering", "resolved"]
