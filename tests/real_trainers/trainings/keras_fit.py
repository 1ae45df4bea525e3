"""Keras 3 with the torch backend: ``fit`` with a clip and a schedule, in float16 with its own loss scaling.

Keras logs the running mean of the loss. Loss and norm of each batch are computed here, before Keras does.
"""

from __future__ import annotations

import csv
import os
import tempfile
from pathlib import Path
from typing import Any

folder = tempfile.TemporaryDirectory()
os.environ |= {"KERAS_BACKEND": "torch", "KERAS_HOME": folder.name}

import keras  # noqa: E402 - it reads the variables
import torch  # noqa: E402
from torch import nn  # noqa: E402

from tests.real_trainers.trainings.cases import (  # noqa: E402
    OwnLog,
    batches,
    is_watched,
    main,
    uses_integration,
)
from tests.real_trainers.trainings.length import BROKEN_AT, STEPS  # noqa: E402

EPOCHS, BATCH = 4, 16
RATE = 3e-3


class Unconfigured(keras.optimizers.Adam):
    """A custom optimizer that lacks ``get_config``."""

    def get_config(self) -> Any:
        raise NotImplementedError


class Computed(keras.callbacks.Callback):
    """Computes the loss and the norm of each batch with the weights before it; reads rate and scale."""

    def __init__(self, log: OwnLog, data: Any) -> None:
        super().__init__()
        self.log, self.data, self.step = log, data, 0

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        features, targets = self.data[self.step]
        weights = [one.value for one in self.model.trainable_variables]
        loss = nn.functional.mse_loss(self.model(features, training=True).float(), targets)
        norm = nn.utils.get_total_norm(torch.autograd.grad(loss, weights))
        optimizer = self.model.optimizer
        scale = None
        if hasattr(optimizer, "inner_optimizer"):
            scale = float(optimizer.dynamic_scale if optimizer.built else optimizer.initial_scale)
        self.log.note(self.step, loss=loss, grad_norm=norm, lr=float(optimizer.learning_rate), scale=scale)
        self.step += 1


def network() -> Any:
    """Return a small network with a normalization."""
    inner = [
        keras.layers.Dense(32, "gelu"),
        keras.layers.LayerNormalization(),
        keras.layers.Dense(32, "gelu"),
    ]
    return keras.Sequential([keras.layers.Input((8,)), *inner, keras.layers.Dense(1, dtype="float32")])


def optimizer_of(case: str) -> Any:
    """Return Adam with a clip and a schedule; in float16 with a loss scale that is too high at first."""
    schedule = keras.optimizers.schedules.CosineDecay(RATE, STEPS)
    cls = Unconfigured if case == "lacking" else keras.optimizers.Adam
    optimizer = cls(schedule, global_clipnorm=1.0)
    if case != "scaled":
        return optimizer
    return keras.mixed_precision.LossScaleOptimizer(optimizer, initial_scale=2.0**22, dynamic_growth_steps=25)


def callbacks(log: OwnLog, data: Any, written: Path) -> list[Any]:
    """Return the callbacks; tocsin's is the last."""
    found: list[Any] = [Computed(log, data), keras.callbacks.CSVLogger(str(written))]
    if is_watched():
        from tocsin.integrations.keras import TocsinCallback

        found.append(TocsinCallback())
    return found


@uses_integration
def train(case: str, log: OwnLog) -> nn.Module:
    """Fit, one epoch after another of the same length, with a validation after each."""
    keras.backend.clear_session()  # names of layers are counted from the start again
    keras.utils.set_random_seed(0)
    keras.config.set_dtype_policy("mixed_float16" if case == "scaled" else "float32")
    data = batches(STEPS, nan_at=BROKEN_AT if case == "broken" else None)
    held_out = [torch.cat(parts).numpy() for parts in zip(*batches(2), strict=True)]
    model = network()
    model.compile(optimizer_of(case), "mse", metrics=["mae"], jit_compile=False)
    length = STEPS // EPOCHS
    written = Path(folder.name) / f"{case}.csv"
    model.fit(
        (batch for batch in data),
        steps_per_epoch=length,
        epochs=EPOCHS,
        validation_data=held_out,
        callbacks=callbacks(log, data, written),
        verbose=0,
    )
    for row in csv.DictReader(written.open()):
        step = (int(row["epoch"]) + 1) * length - 1
        log.note_evaluation(step, loss=float(row["val_loss"]), mae=float(row["val_mae"]))
        log.note_metrics(step, **{"train/mae": float(row["mae"])})
    log.planned, log.setting = STEPS, ("fit.epochs", EPOCHS)
    trained: nn.Module = model
    return trained


if __name__ == "__main__":
    main(train, "keras", "healthy", "scaled", "broken", "lacking")
