"""The healthy training of the demo."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Any

import pytest

from tests.matrix import LONG

pytestmark = [LONG, pytest.mark.timeout(700)]  # several hundred steps
STEPS = 700
START_UP = 30


@pytest.fixture(scope="module")
def run(trained: Callable[..., Any]) -> Any:
    return trained("transformer", "transformer-fp16", STEPS)


def test_it_learns(run: Any) -> None:
    """Its loss falls by a third within 700 steps."""
    losses = run[0]["loss"]
    assert len(losses) == STEPS
    assert median(losses[-50:]) < 2 / 3 * median(losses[:50])


def test_it_never_overflows_after_start_up(run: Any) -> None:
    """No step is skipped and the scale stays constant, once the scaler has found its level."""
    assert not any(run[0]["skipped"][START_UP:])
    assert len(set(run[0]["scale"][START_UP:])) == 1


def test_it_fires_no_alert(run: Any) -> None:
    """No rule fires."""
    assert run[1] == []
