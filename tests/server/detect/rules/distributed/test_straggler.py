"""Tests of the rule straggler."""

from __future__ import annotations

import random
from typing import Any

RULE = "straggler"


def together(run: Any, steps: int, *seconds: float, start: int = 0) -> None:
    """Ranks that take ``seconds`` for a step, with some noise, report in turns of ten."""
    draw = random.Random(1)
    for first in range(start, start + steps, 10):
        for rank, mean in enumerate(seconds):
            times = [mean * draw.lognormvariate(0, 0.1) for _ in range(10)]
            run.records(rank=rank, start=first, step_time=times)


def test_a_rank_at_half_the_speed_is_a_warning(watch: Any) -> None:
    """Named, and dated to its first slow window."""
    run = watch(world_size=3)
    together(run, 200, 0.2, 0.2, 0.4)
    finding = run.firing(RULE)[0]
    assert (finding.onset_step, finding.severity) == (0, "warning")
    assert finding.summary.startswith("Rank 2 takes")


def test_equal_ranks_raise_no_alert(watch: Any) -> None:
    """Noise does not make a straggler."""
    run = watch(world_size=3)
    together(run, 2000, 0.2, 0.21, 0.22)
    assert run.firing(RULE) == []


def test_one_process_alone_has_no_straggler(watch: Any) -> None:
    """There is no other process to compare with."""
    run = watch()
    together(run, 500, 0.4)
    assert run.firing(RULE) == []


def test_ends_without_a_slow_rank(watch: Any) -> None:
    """The slow machine was replaced."""
    run = watch(world_size=2)
    together(run, 200, 0.2, 0.4)
    together(run, 400, 0.2, 0.2, start=200)
    assert run.states(RULE) == ["firing", "recovering", "resolved"]
