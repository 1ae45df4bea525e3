"""skorch."""

from __future__ import annotations

from tests.real_trainers.claims import ALL, RealTrainer
from tests.real_trainers.trainings.length import BROKEN_AT
from tests.selection import LONG


@LONG
class TestSkorch(RealTrainer):
    """``NeuralNetRegressor.fit``."""

    framework = "skorch"
    training = "skorch_fit"
    packages = ALL
    caught = ("nonfinite-weights", BROKEN_AT)
