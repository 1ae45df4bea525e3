"""Stable-Baselines3."""

from __future__ import annotations

import json

from tests.matrix import LONG
from tests.real_trainers.claims import ALL, LackingTrainer
from tests.real_trainers.comparison import TRAININGS, Comparison
from tests.real_trainers.trainings.length import BROKEN_AT


@LONG
class TestStableBaselines3(LackingTrainer):
    """A DQN, whose logger has no gradient norm."""

    framework = "Stable-Baselines3"
    notes = "DQN; its logger reports no norm"
    training = "sb3_dqn"
    packages = ALL
    caught = ("nonfinite-weights", BROKEN_AT)
    has_epochs = False
    hook_point = "Logger.output_formats"

    def test_the_planned_steps_of_each_algorithm_are_the_real_ones(self, compared: Comparison) -> None:
        """On and off policy, several environments, in the first training and when it continues."""
        found = json.loads(compared.run([str(TRAININGS / "sb3_lengths.py")]))
        assert len(found) == 7
        assert {name: [one for one in pairs if one[0] != one[1]] for name, pairs in found.items()} == {
            name: [] for name in found
        }
