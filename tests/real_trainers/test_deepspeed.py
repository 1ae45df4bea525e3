"""DeepSpeed."""

from __future__ import annotations

from tests.matrix import LONG
from tests.real_trainers.claims import ALL, RealTrainer
from tests.real_trainers.trainings.length import BROKEN_AT


@LONG
class TestDeepSpeed(RealTrainer):
    """Its engine on the CPU."""

    framework = "DeepSpeed"
    notes = "its engine on the CPU, its own clip, accumulation"
    training = "deepspeed_engine"
    packages = ALL
    caught = ("nonfinite-weights", BROKEN_AT)
