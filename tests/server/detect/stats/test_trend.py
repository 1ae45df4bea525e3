"""Tests of slow trends: bins, tests without a distribution, chance levels."""

from __future__ import annotations

import itertools
import math
import random

from hypothesis import given
from hypothesis import strategies as st

from tocsin_server.detect.interface.view import View
from tocsin_server.detect.stats.trend import PLAUSIBLE_K, Bins, autocorrelations, chance, falls, kendall


def view_of(values: list[float], start: int) -> View:
    steps = list(range(start, start + len(values)))
    return View(range(len(values)), steps, steps, {"loss": list(values)})


@given(st.lists(st.integers(1, 40), min_size=1, max_size=30))
def test_bins_do_not_depend_on_batches(sizes: list[int]) -> None:
    """One by one or in parts: the same medians at the same steps."""
    draw = random.Random(1)
    values = [draw.gauss(0, 1) for _ in range(sum(sizes))]
    single, pieces, at = Bins(16, 5), Bins(16, 5), 0
    for step, value in enumerate(values):
        single.push(step, value)
    for size in sizes:
        list(pieces.extend(view_of(values[at : at + size], at)))
        at += size
    assert (single.medians, single.steps, single.waiting) == (pieces.medians, pieces.steps, pieces.waiting)


@given(st.integers(1, 2000))
def test_growing_bins_stay_few_and_keep_the_start(count: int) -> None:
    """Neighbours are joined: at most ``keep``, the first still begins at the first step."""
    bins = Bins(4, 60, grow=True)
    for step in range(count):
        bins.push(step, float(step))
    assert len(bins.medians) <= 60
    assert not bins.steps or (bins.steps[0] == 0 and bins.medians == sorted(bins.medians))


@given(st.lists(st.integers(0, 9), min_size=2, max_size=30))
def test_kendall_counts_all_pairs(values: list[int]) -> None:
    """The score is the number of rising pairs less that of falling ones."""
    pairs = list(itertools.combinations(values, 2))
    score = sum((late > early) - (late < early) for early, late in pairs)
    n = len(values)
    sigma = math.sqrt(n * (n - 1) * (2 * n + 5) / 18)
    assert kendall(values) == ((score - math.copysign(1, score)) / sigma if score else 0.0)


@given(st.floats(-1, 14), st.sampled_from([0.0, 0.005, 0.05, 2.0]))
def test_chance_finds_the_class_count_among_all(loss: float, tolerance: float) -> None:
    """No class count within the tolerance is overlooked."""
    near = [k for k in PLAUSIBLE_K if abs(math.log(k) - loss) <= tolerance * math.log(k)]
    assert (chance(loss, tolerance) in near) if near else (chance(loss, tolerance) is None)


def test_kendall_distinguishes_a_rise_from_noise() -> None:
    """Ten rising values have a z of 3.9, and falling ones its negative."""
    assert kendall(range(10)) > 3.8
    assert kendall(range(10)) == -kendall(range(9, -1, -1))
    assert kendall([1.0] * 10) == 0.0


def test_mann_whitney_detects_a_fall() -> None:
    """All late values below all early ones; none where they are alike."""
    assert falls([2.0] * 10, [1.0] * 10) > 3.5
    assert falls([1.0] * 10, [1.0] * 10) == 0.0


def test_autocorrelation_of_a_swing() -> None:
    """-1 at half a period, 1 at the whole, 0 of a constant; short of what the window cuts off."""
    swing = [math.sin(math.pi * step / 4) for step in range(400)]
    half, whole = autocorrelations(swing, [4, 8])
    assert half < -0.95
    assert whole > 0.95
    assert autocorrelations([1.0] * 50, [1]) == [0.0]


def test_chance_prefers_round_numbers_of_classes() -> None:
    """ln 1000, not ln 1024; nothing far from any ln K, nothing below 0."""
    assert chance(6.91, 0.005) == 1000
    assert chance(math.log(50257), 1e-4) == 50257
    assert chance(3.0, 0.001) is None
    assert chance(-1.0, 0.005) is None
