"""The arithmetic of the published rules that detection is compared with."""

from __future__ import annotations

import math

from benchmarks import published as p

EVEN = [1.0, 2.0] * 64
"""Mean 1.5, standard deviation 0.502."""


def test_six_sigma_needs_128_values_and_more_than_six() -> None:
    """1.5 + 6 x 0.502 = 4.51."""
    assert p.olmo([*EVEN, 4.5]) == []
    assert p.olmo([*EVEN, 4.52]) == [128]
    assert p.olmo([*EVEN[1:], 100.0]) == []


def test_three_sigma_looks_at_the_last_hundred() -> None:
    """1.5 + 3 x 0.5025 = 3.0076."""
    assert p.three_sigma([*EVEN[:100], 3.0]) == []
    assert p.three_sigma([*EVEN[:100], 3.01]) == [100]


def test_lightning_leaves_the_previous_value_out_of_the_mean() -> None:
    """Flags values that are not finite, or above the previous one and at least three times the mean."""
    assert p.lightning([1.0, 1.0, 1.0, 3.0]) == [3]
    assert p.lightning([1.0, 1.0, 1.0, 2.9]) == []
    assert p.lightning([1.0, 1.0, 2.5, 3.0]) == [3]
    assert p.lightning([1.0, 1.0, 9.0, 3.0]) == [2]
    assert p.lightning([1.0, math.nan]) == [1]


def test_megatron_takes_ten_times_the_largest_of_the_first_hundred() -> None:
    """Above ten times the maximum of 2.0, a value alarms; 19.9 does not, and infinity always does."""
    assert p.megatron([*EVEN[:100], 19.9, 20.0, math.inf]) == [101, 102]
    assert p.megatron([*EVEN[:50], 20.0]) == []


def test_loss_not_decreasing_asks_for_a_thousandth_in_ten() -> None:
    """A fall from 1 to 0.9995 is too small, one to 0.998 is enough; only every tenth value is checked."""
    assert p.not_decreasing([1.0] * 10 + [0.9995]) == [10]
    assert p.not_decreasing([1.0] * 10 + [0.998, 5.0]) == []


def test_fixed_limits_are_exclusive() -> None:
    """Values equal to the limits, 10 and 16384, raise no alarm."""
    assert p.norm_above_10([10.0, 10.1, math.inf]) == [1, 2]
    assert p.scale_below_16384([16384.0, 8192.0]) == [1]
