"""Stable-Baselines3."""

from __future__ import annotations

from tests.matrix import LONG
from tests.real_trainers.claims import ALL, RealTrainer
from tests.real_trainers.trainings.length import BROKEN_AT


@LONG
class TestStableBaselines3(RealTrainer):
    """A DQN, whose logger has no gradient norm."""

    framework = "Stable-Baselines3"
    notes = "DQN; its logger reports no norm"
    training = "sb3_dqn"
    packages = ALL
    caught = ("nonfinite-weights", BROKEN_AT)
