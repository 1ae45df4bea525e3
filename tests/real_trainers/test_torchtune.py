"""torchtune."""

from __future__ import annotations

from tests.matrix import LONG
from tests.real_trainers.claims import ALL, IntegratedTrainer
from tests.real_trainers.trainings.length import BROKEN_AT


@LONG
class TestTorchtune(IntegratedTrainer):
    """Its recipe for one device, which divides the gradients of a sum by the number of tokens."""

    framework = "torchtune"
    notes = "its recipe `full_finetune_single_device`, accumulation; the loss is per token, as it logs it"
    training = "torchtune_recipe"
    packages = (*ALL, "requirements-torchtune")
    caught = ("nonfinite-loss", BROKEN_AT)
    has_evaluations = False
