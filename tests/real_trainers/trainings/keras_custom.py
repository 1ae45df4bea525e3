"""Keras with a ``train_step`` that does not call ``compute_loss``: ``keras_custom.py HOW``.

HOW: ``backward``, ``scale_loss`` or ``autograd.grad``. Prints its losses and the recorded ones.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import tempfile
from typing import Any

os.environ |= {"KERAS_BACKEND": "torch", "KERAS_HOME": tempfile.mkdtemp()}

import keras
import torch
from torch import nn

from tests.hook.captured import watched
from tests.real_trainers.trainings.cases import batches
from tocsin.integrations.keras import TocsinCallback

BATCHES = 4


class Custom(keras.Sequential):
    """A model that trains itself."""

    def __init__(self, how: str) -> None:
        super().__init__([keras.layers.Input((8,)), keras.layers.Dense(1)])
        self.how, self.own = how, list[float]()

    def train_step(self, data: Any) -> dict[str, Any]:
        self.zero_grad()
        loss = nn.functional.mse_loss(self(data[0], training=True), data[1])
        self.own.append(loss.item())
        weights = self.trainable_weights
        if self.how == "autograd.grad":
            grads = list(torch.autograd.grad(loss, [one.value for one in weights]))
        else:
            (self.optimizer.scale_loss(loss) if self.how == "scale_loss" else loss).backward()
            grads = [one.value.grad for one in weights]
        with torch.no_grad():
            self.optimizer.apply(grads, weights)
        return {"loss": loss}


def main(how: str) -> None:
    """Fit, and print both."""
    texts: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: texts.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("tocsin").addHandler(handler)
    keras.utils.set_random_seed(0)
    model, optimizer = Custom(how), keras.optimizers.SGD(0.05)
    if how == "scale_loss":
        optimizer = keras.mixed_precision.LossScaleOptimizer(optimizer, initial_scale=8.0)
    model.compile(optimizer, "mse", jit_compile=False)
    data = batches(BATCHES)
    with watched() as (_, outbox):
        model.fit((one for one in data), steps_per_epoch=BATCHES, callbacks=[TocsinCallback()], verbose=0)
    recorded = [record.get("loss") for record in outbox.records]
    print(json.dumps({"own": model.own, "recorded": recorded, "warnings": texts}))


if __name__ == "__main__":
    main(sys.argv[1])
