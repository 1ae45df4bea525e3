"""timm."""

from __future__ import annotations

from tests.matrix import LONG
from tests.real_trainers.claims import ALL, IntegratedTrainer, ScaledTrainer
from tests.real_trainers.trainings.length import BROKEN_AT


@LONG
class TestTimm(IntegratedTrainer, ScaledTrainer):
    """The parts of its ``train.py``, without and with ``NativeScaler``; the log is its ``summary.csv``."""

    framework = "timm"
    notes = "the parts of its `train.py`; EMA"
    training = "timm_loop"
    packages = ALL
    caught = ("nonfinite-weights", BROKEN_AT)
