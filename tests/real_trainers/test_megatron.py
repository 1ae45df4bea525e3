"""Megatron Core."""

from __future__ import annotations

from tests.matrix import LONG
from tests.real_trainers.claims import IntegratedTrainer, ScaledTrainer
from tests.real_trainers.trainings.length import BROKEN_AT


@LONG
class TestMegatron(IntegratedTrainer, ScaledTrainer):
    """Its schedule of microbatches, its optimizers and its own scaler."""

    framework = "Megatron Core"
    notes = "its own optimizers, clip and `DynamicGradScaler`, microbatches; the CPU in place of CUDA"
    training = "megatron_core"
    packages = ("requirements-megatron",)
    caught = ("nonfinite-loss", BROKEN_AT)
    has_epochs = has_evaluations = False
