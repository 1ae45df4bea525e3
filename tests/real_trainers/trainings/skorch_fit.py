"""skorch's ``NeuralNetRegressor`` with its clip and its schedule."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from skorch import NeuralNetRegressor
from skorch.callbacks import Callback, GradientNormClipping, LRScheduler
from torch import nn

from tests.real_trainers.trainings.cases import OwnLog, batches, main, net, norm_of
from tests.real_trainers.trainings.length import BROKEN_AT, STEPS


class Norms(Callback):
    """Notes the norm of the gradients before the clip, whose callback comes later."""

    def __init__(self, log: OwnLog) -> None:
        self.log, self.step = log, 0

    def on_grad_computed(self, net: Any, named_parameters: Any, **_: Any) -> None:
        self.log.note(self.step, grad_norm=norm_of(net.module_))
        self.step += 1


def train(case: str, log: OwnLog) -> nn.Module:
    """Fit one epoch, and read the history of its batches."""
    features, targets = zip(*batches(STEPS, nan_at=BROKEN_AT if case == "broken" else None), strict=True)
    regressor = NeuralNetRegressor(
        net(),
        optimizer=torch.optim.AdamW,
        lr=3e-3,
        max_epochs=1,
        batch_size=len(features[0]),
        train_split=None,
        iterator_train__shuffle=False,
        callbacks=[
            Norms(log),
            GradientNormClipping(1.0),
            LRScheduler("CosineAnnealingLR", step_every="batch", T_max=STEPS, event_name="lr"),
        ],
        verbose=0,
    )
    regressor.fit(stacked(features), stacked(targets))
    for step, row in enumerate(regressor.history[0]["batches"]):
        log.note(step, loss=row["train_loss"], lr=row["lr"])
    trained: nn.Module = regressor.module_
    return trained


def stacked(parts: Any) -> np.ndarray[Any, Any]:
    """Return the batches as one array."""
    found: np.ndarray[Any, Any] = torch.cat(list(parts)).numpy()
    return found


if __name__ == "__main__":
    main(train, "skorch", "healthy", "broken")
