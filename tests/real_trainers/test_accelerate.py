"""Accelerate."""

from __future__ import annotations

from tests.matrix import LONG
from tests.real_trainers.claims import IntegratedTrainer, LaunchedTrainer, ScaledTrainer
from tests.real_trainers.trainings.length import BROKEN_AT


@LONG
class TestAccelerate(IntegratedTrainer, ScaledTrainer, LaunchedTrainer):
    """Its loop, alone and with ``accelerate launch``."""

    framework = "Accelerate"
    notes = (
        'accumulation; scale in float16 with `GradScaler("cpu")` put in by hand; ranks by `accelerate launch`'
    )
    training = "accelerate_loop"
    has_epochs = False
    caught = ("nonfinite-loss", BROKEN_AT)
    launcher = "-m accelerate.commands.launch --multi_gpu --num_processes=2 --main_process_port={port}"
