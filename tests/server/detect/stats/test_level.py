"""Tests of the usual level of a heavy-tailed signal."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from tocsin_server.detect.stats.level import Level

norms = st.lists(st.floats(1e-3, 1e3), min_size=60, max_size=200)


@given(norms, st.integers(1, 30))
def test_the_level_does_not_depend_on_batches(values: list[float], size: int) -> None:
    """One by one or in parts that keep to ``room``: the same median."""
    one, other, at = Level(), Level(), 0
    for value in values:
        one.extend([value])
    while at < len(values):
        stop = min(len(values), at + min(size, other.room))
        other.extend(values[at:stop])
        at = stop
    assert (one.median, one.values) == (other.median, other.values)


@given(norms, st.lists(st.floats(0, 1e3), min_size=16, max_size=16))
def test_the_ceiling_holds_for_the_next_values(values: list[float], more: list[float]) -> None:
    """Whatever the next values are, the ceiling stays below the multiple of the median."""
    level = Level(kept=100, refresh=20)
    for value in values:
        level.extend([value])
    ceiling = level.ceiling(5.0, 16)
    for value in more:
        assert ceiling <= 5.0 * level.median
        level.extend([value])


def test_a_value_leaves_by_ratio_and_spread() -> None:
    """Twenty times the median is far for a quiet signal, and usual for one that varies as much."""
    quiet, wild = Level(), Level()
    for index in range(100):
        quiet.extend([1.0 + 0.1 * math.sin(index)])
        wild.extend([math.exp(2.5 * math.sin(index))])
    assert quiet.leaves(20.0, 10.0, 6.0)
    assert not wild.leaves(20.0, 10.0, 6.0)


def test_values_that_are_missing_or_not_finite_are_not_calm() -> None:
    """They are looked at one by one."""
    level = Level()
    level.extend([1.0] * 40)
    assert level.calm([1.0, 2.0], 5.0)
    assert not any(level.calm([1.0, bad], 5.0) for bad in (None, math.nan, math.inf, 6.0))
