"""skorch."""

from __future__ import annotations

from tests.matrix import LONG
from tests.real_trainers.claims import ALL, RealTrainer
from tests.real_trainers.trainings.length import BROKEN_AT


@LONG
class TestSkorch(RealTrainer):
    """``NeuralNetRegressor.fit``."""

    framework = "skorch"
    training = "skorch_fit"
    packages = ALL
    caught = ("nonfinite-weights", BROKEN_AT)
