"""fastai."""

from __future__ import annotations

from tests.matrix import LONG
from tests.real_trainers.claims import ALL, LackingTrainer
from tests.real_trainers.trainings.length import BROKEN_AT


@LONG
class TestFastai(LackingTrainer):
    """``Learner.fit_one_cycle``."""

    framework = "fastai"
    notes = "its optimizer is no torch optimizer"
    training = "fastai_learner"
    packages = ALL
    caught = ("nonfinite-weights", BROKEN_AT)
    hook_point = "after_epoch"
