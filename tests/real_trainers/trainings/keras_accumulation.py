"""Keras with accumulated gradients: prints what tocsin recorded, and the same computed in plain torch."""

from __future__ import annotations

import json
import os
import tempfile
from typing import Any

os.environ |= {"KERAS_BACKEND": "torch", "KERAS_HOME": tempfile.mkdtemp()}

import keras
import torch
from torch import nn

from tests.hook.captured import watched
from tests.real_trainers.trainings.cases import batches
from tocsin.integrations.keras import TocsinCallback

BATCHES, ACCUMULATED, RATE = 16, 4, 0.05


def computed(model: Any, data: list[Any]) -> list[tuple[float, float]]:
    """Return loss and norm of each update of a copy of the weights."""
    kernel, bias = [one.value.detach().clone().requires_grad_() for one in model.trainable_variables]
    found = []
    for first in range(0, BATCHES, ACCUMULATED):
        parts = data[first : first + ACCUMULATED]
        loss = torch.stack([nn.functional.mse_loss(x @ kernel + bias, y) for x, y in parts]).mean()
        grads = torch.autograd.grad(loss, (kernel, bias))
        found.append((loss.item(), nn.utils.get_total_norm(grads).item()))
        with torch.no_grad():
            for weight, grad in zip((kernel, bias), grads, strict=True):
                weight -= RATE * grad
    return found


def main() -> None:
    """Fit, and print both."""
    keras.utils.set_random_seed(0)
    data = batches(BATCHES)
    model = keras.Sequential([keras.layers.Input((8,)), keras.layers.Dense(1)])
    optimizer = keras.optimizers.SGD(RATE, gradient_accumulation_steps=ACCUMULATED)
    model.compile(optimizer, "mse", jit_compile=False)
    own = computed(model, data)
    with watched() as (run, outbox):
        callback = TocsinCallback()
        for half in (data[: BATCHES // 2], data[BATCHES // 2 :]):  # the second one continues
            model.fit((one for one in half), steps_per_epoch=len(half), callbacks=[callback], verbose=0)
        left = [name for one in (model, optimizer) for name in ("compute_loss", "apply") if name in vars(one)]
        planned = run.planned_steps
    recorded = [(one["loss"], one["grad_norm"]) for one in outbox.records]
    print(json.dumps({"own": own, "recorded": recorded, "left": left, "planned": planned}))


if __name__ == "__main__":
    main()
