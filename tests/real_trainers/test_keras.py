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

    @pytest.mark.parametrize("how", ["backward", "scale_loss", "autograd.grad"])
    def test_a_custom_train_step_is_read_or_warned_of(self, compared: Comparison, how: str) -> None:
        """Its loss is what it backpropagates, unscaled; without any, one warning names the method."""
        found = json.loads(compared.run([str(TRAININGS / "keras_custom.py"), how]))
        is_seen = how != "autograd.grad"
        own = found["own"] if is_seen else [None] * len(found["own"])
        assert found["recorded"] == [value if value is None else pytest.approx(value) for value in own]
        assert [("train_step" in text, "keras" in text) for text in found["warnings"]] == [(True, True)] * (
            not is_seen
        )
