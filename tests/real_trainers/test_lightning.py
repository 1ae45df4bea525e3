"""Lightning."""

from __future__ import annotations

from tests.real_trainers.claims import LaunchedTrainer, ScaledTrainer
from tests.real_trainers.trainings.length import BROKEN_AT


class TestLightning(ScaledTrainer, LaunchedTrainer):
    """``Trainer.fit``, alone and with ``strategy="ddp"``, which starts the second process itself."""

    training = "lightning_fit"
    packages = ("requirements-lightning",)
    caught = ("nonfinite-weights", BROKEN_AT)
    launcher = ""
