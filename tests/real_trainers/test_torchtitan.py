"""torchtitan."""

from __future__ import annotations

from tests.matrix import LONG
from tests.real_trainers.claims import ALL, IntegratedTrainer
from tests.real_trainers.trainings.length import BROKEN_AT


@LONG
class TestTorchtitan(IntegratedTrainer):
    """The parts of its ``Trainer.train_step``; its trainer needs CUDA."""

    framework = "torchtitan"
    notes = "its optimizers, schedule, clip and metrics; its `Trainer` needs CUDA"
    training = "torchtitan_loop"
    packages = (*ALL, "requirements-torchtitan")
    caught = ("nonfinite-weights", BROKEN_AT)
    has_epochs = False
