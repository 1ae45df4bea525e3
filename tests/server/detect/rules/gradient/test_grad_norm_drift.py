"""Tests of the rule grad-norm-drift."""

from __future__ import annotations

import random
from typing import Any

RULE = "grad-norm-drift"


def growing(count: int, factor: float, seed: int = 1) -> list[float]:
    """Norms that grow by ``factor`` in every 500 records."""
    draw = random.Random(seed)
    return [factor ** (step / 500) * draw.lognormvariate(0, 0.4) for step in range(count)]


def test_three_times_in_three_windows_is_a_warning(watch: Any) -> None:
    """1 to 54 within two thousand records, at a constant learning rate."""
    run = watch()
    run.records(grad_norm=growing(2000, 3.7), lr=[1e-3] * 2000)
    assert run.severities(RULE) == ["warning"]
    assert run.firing(RULE)[0].onset_step == 500


def test_slow_growth_is_healthy(watch: Any) -> None:
    """Healthy runs reach 33 times their lowest norm."""
    run = watch()
    run.records(grad_norm=growing(6000, 1.34), lr=[1e-3] * 6000)
    assert run.findings == []


def test_slow_growth_over_the_whole_run_is_a_warning(watch: Any) -> None:
    """1 to 276 within 5,500 records, of which no window is three times the one before."""
    run = watch()
    run.records(grad_norm=growing(5500, 1.67), lr=[1e-3] * 5500)
    finding = run.firing(RULE)[0]
    assert (finding.severity, finding.onset_step) == ("warning", 0)


def test_growth_with_a_rising_rate_is_the_warm_up(watch: Any) -> None:
    """The learning rate explains it."""
    run = watch()
    run.records(grad_norm=growing(2500, 3.7), lr=[1e-6 * (1 + step) for step in range(2500)])
    assert run.firing(RULE) == []


def test_growth_while_the_rate_decays_is_info_only(watch: Any) -> None:
    """Common late in training."""
    run = watch()
    run.records(grad_norm=growing(2500, 3.7), lr=[1e-3 * 0.999**step for step in range(2500)])
    assert run.severities(RULE) == ["info"]


def test_ends_where_the_norm_is_level(watch: Any) -> None:
    """Windows without growth, two thousand updates of them."""
    run = watch()
    tail = [60.0 * random.Random(step).lognormvariate(0, 0.2) for step in range(4000)]
    run.records(grad_norm=[*growing(2000, 3.7), *tail])
    assert run.states(RULE) == ["firing", "recovering", "resolved"]
