"""TRL."""

from __future__ import annotations

from tests.matrix import LONG
from tests.real_trainers.claims import ALL, IntegratedTrainer
from tests.real_trainers.trainings.length import BROKEN_AT


@LONG
class TestTRL(IntegratedTrainer):
    """``SFTTrainer``. Its learning rate is 1000 times too high for one step."""

    framework = "TRL"
    notes = "`SFTTrainer`, accumulation"
    training = "trl_sft"
    packages = ALL
    caught = ("lr-jump", BROKEN_AT)


@LONG
class TestDPO(IntegratedTrainer):
    """``DPOTrainer``: its rewards and log probabilities, under their names."""

    framework = "TRL DPO"
    notes = "`DPOTrainer`: rewards, margins and log probabilities"
    training = "trl_dpo"
    packages = ALL
    has_evaluations = False
    caught = ("lr-jump", BROKEN_AT)
