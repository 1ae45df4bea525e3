"""Baselines that count records restart where a log becomes much sparser."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin_server.detect.engine.stream import Spacing

DENSE, SPARSE = list(range(100)), list(range(500, 100_000, 500))


def noisy(count: int, level: float, seed: int = 1) -> list[float]:
    draw = random.Random(seed)
    return [level * (1 + draw.gauss(0, 0.05)) for _ in range(count)]


def test_norms_of_the_first_steps_are_no_baseline(watch: Any) -> None:
    """A norm that rises tenfold within the first hundred steps of 100,000 has done so once."""
    run = watch()
    norms = noisy(100, 0.4) + noisy(len(SPARSE), 5.0, seed=2)
    run.records(steps=[*DENSE, *SPARSE], grad_norm=norms)
    assert run.firing("grad-explosion") + run.firing("grad-precursor") == []


def test_losses_of_the_first_steps_hide_no_climb(watch: Any) -> None:
    """From 1.7 to 10.6, while most of the last fifty losses are still those of the first steps."""
    run = watch()
    losses = noisy(100, 32.0) + noisy(60, 1.7, seed=2) + noisy(10, 10.6, seed=3)
    run.records(steps=[*DENSE, *SPARSE[:70]], loss=losses)
    assert run.firing("loss-spike")[0].onset_step == SPARSE[60]


@pytest.mark.parametrize("steps", [[0, 1, 2, 50, 51, 52, 90, 91], [0, 10, 20, 45, 90, 135], [5, 5, 5, 5]])
def test_a_hole_or_a_small_change_is_not_sparser(steps: list[int]) -> None:
    assert Spacing().sparser(steps) == []


def test_the_second_wide_distance_decides() -> None:
    assert Spacing().sparser([0, 1, 2, 100, 200, 300]) == [4]


@given(st.lists(st.sampled_from([1, 1, 1, 40, 700]), max_size=40), st.data())
def test_batches_change_nothing(gaps: list[int], data: Any) -> None:
    """Wherever the records are cut, the same steps are found."""
    steps = [sum(gaps[:index]) for index in range(len(gaps) + 1)]
    cut = data.draw(st.integers(0, len(steps)))
    whole, parts, found = Spacing(), Spacing(), []
    for part in (steps[:cut], steps[cut:]):
        found += [part[row] for row in parts.sparser(part)] if part else []
    assert found == [steps[row] for row in whole.sparser(steps)]
