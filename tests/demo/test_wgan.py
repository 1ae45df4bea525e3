"""The training of the demo whose two losses saturate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.matrix import LONG

pytestmark = [LONG, pytest.mark.timeout(700)]
"""Over a thousand steps; ``tests/scenarios/test_clamped_critic.py`` is the short form."""
STEPS = 1300


@pytest.fixture(scope="module")
def run(trained: Callable[..., Any]) -> Any:
    return trained("wgan", "wgan-clamped", STEPS)


def test_it_has_two_losses(run: Any) -> None:
    """The critic's loss is the run's loss; the generator's loss carries its name."""
    assert len(run[0]["loss"]) == len(run[0]["loss/generator"]) == STEPS


def test_its_losses_saturate_symmetrically(run: Any) -> None:
    """They end at the clamp, -1000 and +1000, and did not start there."""
    assert abs(run[0]["loss"][0]) < 10
    assert run[0]["loss"][-1] == pytest.approx(-1000)
    assert run[0]["loss/generator"][-1] == pytest.approx(1000)


def test_both_norms_are_zero_beyond_the_clamp(run: Any) -> None:
    """Both gradient norms end at exactly zero."""
    assert run[0]["grad_norm"][-1] == run[0]["grad_norm/generator"][-1] == 0.0
