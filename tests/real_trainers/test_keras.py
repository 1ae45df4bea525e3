"""Keras 3 with the torch backend."""

from __future__ import annotations

import json

import pytest

from tests.matrix import LONG
from tests.real_trainers.claims import ALL, LackingTrainer, ScaledTrainer
from tests.real_trainers.comparison import RELATIVE, TRAININGS, Comparison
from tests.real_trainers.trainings.length import BROKEN_AT


@LONG
class TestKeras(LackingTrainer, ScaledTrainer):
    """``fit``. Its optimizers are not torch's, and its log has the running mean of the loss."""

    framework = "Keras"
    notes = "torch backend; loss scale of its `LossScaleOptimizer`"
    training = "keras_fit"
    packages = ALL
    caught = ("nonfinite-loss", BROKEN_AT)
    hook_point = "Optimizer.get_config"

    def test_accumulated_batches_are_one_step(self, compared: Comparison) -> None:
        """Loss and norm are those of all its batches, in two calls of ``fit``; the model is left alone."""
        found = json.loads(compared.run([str(TRAININGS / "keras_accumulation.py")]))
        assert (len(found["recorded"]), found["planned"], found["left"]) == (4, 4, [])
        for own, recorded in zip(found["own"], found["recorded"], strict=True):
            assert recorded == pytest.approx(own, rel=RELATIVE)
