"""The training of a test class, run once."""

from __future__ import annotations

import pytest

from tests.conftest import Tower
from tests.real_trainers.comparison import Comparison


@pytest.fixture(scope="class")
def compared(
    request: pytest.FixtureRequest, shared_tower: Tower, tmp_path_factory: pytest.TempPathFactory
) -> Comparison:
    """The training, which runs when a test first asks for its logs."""
    trainer = request.cls
    folder = tmp_path_factory.mktemp(trainer.training)
    return Comparison(shared_tower, trainer.training, folder, trainer.packages)
