"""Tests of the rule recurrent-instability."""

from __future__ import annotations

import random
from typing import Any

RULE = "recurrent-instability"


def spiking(at: list[int], length: int) -> list[float]:
    draw = random.Random(1)
    return [
        9.0 if any(step - 5 < spike <= step for spike in at) else 2 + 0.05 * draw.gauss(0, 1)
        for step in range(length)
    ]


def test_the_third_episode_is_a_warning(watch: Any) -> None:
    """Uneven distances: recurrent, not periodic."""
    run = watch()
    run.records(loss=spiking([300, 500, 1500], 2000))
    finding = run.firing(RULE)[0]
    assert (finding.severity, finding.onset_step) == ("warning", 300)
    assert "irregular intervals" in finding.diagnosis.cause


def test_even_distances_have_a_period(watch: Any) -> None:
    """Every 500 steps."""
    run = watch()
    run.records(loss=spiking([500, 1000, 1500], 1800))
    assert "every 500 steps" in run.firing(RULE)[0].summary


def test_what_has_the_same_period_is_named(watch: Any) -> None:
    """An evaluation phase starts at the same interval."""
    run = watch()
    loss = spiking([500, 1000, 1500], 1800)
    for start in range(0, 1800, 450):
        run.records(start=start, loss=loss[start : start + 450])
        run.event("phase", start // 450 * 500, name="eval", state="begin")
    assert "eval phases" in run.firing(RULE)[-1].diagnosis.cause


def test_two_episodes_are_none(watch: Any) -> None:
    """Two episodes may be a coincidence."""
    run = watch()
    run.records(loss=spiking([300, 900], 2000))
    assert run.firing(RULE) == []


def test_any_batching_gives_the_same_alerts(watch: Any) -> None:
    """Episodes are reported in the order of the records."""
    outputs = []
    for size in (1, 7, 500):
        run = watch(size=size)
        run.records(loss=spiking([300, 500, 1500], 1700))
        outputs.append([repr(finding) for finding in run.findings])
    assert outputs[0] == outputs[1] == outputs[2]


def test_resolved_after_a_long_calm(watch: Any) -> None:
    """Fifty thousand updates, in thinned records."""
    run = watch()
    run.records(loss=spiking([300, 500, 1500], 1700))
    run.records(start=2000, every=100, loss=spiking([], 600))
    assert run.states(RULE) == ["firing", "recovering", "resolved"]
