"""Composer's ``Trainer.fit`` with clip, microbatches, evaluation, its own logger and a rate per batch."""

from __future__ import annotations

import logging
from typing import Any

import tests.real_trainers.trainings.torchvision_operators  # noqa: F401  (before what imports torchvision)

# isort: split

import torch
from composer import Callback, ComposerModel, Trainer
from composer.algorithms import GradientClipping
from composer.core import State
from composer.loggers import InMemoryLogger
from torch import nn
from torch.utils.data import DataLoader
from torchmetrics import MeanSquaredError

from tests.real_trainers.trainings.cases import (
    OwnLog,
    batches,
    is_watched,
    main,
    net,
    norm_of,
    uses_integration,
)
from tests.real_trainers.trainings.length import BROKEN_AT, STEPS

EPOCHS = 4
SAMPLES = 16
"""Samples in a batch."""
logging.getLogger("composer").setLevel(logging.ERROR)


class Regression(ComposerModel):
    """A regression."""

    def __init__(self) -> None:
        super().__init__()
        self.net = net()
        self.error = MeanSquaredError()

    def forward(self, batch: Any) -> torch.Tensor:
        found: torch.Tensor = self.net(batch[0])
        return found

    def loss(self, outputs: Any, batch: Any, *args: Any, **kwargs: Any) -> torch.Tensor:
        return nn.functional.mse_loss(outputs, batch[1])

    def get_metrics(self, is_train: bool) -> dict[str, Any]:
        return {} if is_train else {"MeanSquaredError": self.error}

    def update_metric(self, batch: Any, outputs: Any, metric: Any) -> None:
        metric.update(outputs, batch[1])


class Watch(Callback):
    """Notes the rate at the start of a batch, and the norm of the gradients before they are clipped."""

    def __init__(self, log: OwnLog) -> None:
        self.log, self.step = log, 0

    def batch_start(self, state: State, logger: Any) -> None:
        self.step = int(state.timestamp.batch)
        self.log.note(self.step, lr=state.optimizers[0].param_groups[0]["lr"])

    def after_backward(self, state: State, logger: Any) -> None:
        self.log.note(self.step, grad_norm=norm_of(state.model))  # the last microbatch counts


def samples(count: int, nan_at: int | None = None) -> DataLoader[Any]:
    """Return a loader of whole batches, in order."""
    features, targets = (torch.cat(parts) for parts in zip(*batches(count, nan_at=nan_at), strict=True))
    return DataLoader(torch.utils.data.TensorDataset(features, targets), batch_size=SAMPLES)


def loggers(case: str, own: InMemoryLogger) -> list[Any]:
    """Return Composer's logger, and tocsin's if this training is watched."""
    if not is_watched():
        return [own]
    from tocsin.integrations.composer import TocsinLogger

    return [own, TocsinLogger("real-trainers")]


@uses_integration
def train(case: str, log: OwnLog) -> nn.Module:
    """Fit, and read what Composer's own logger kept."""
    model, own = Regression(), InMemoryLogger()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    data = samples(STEPS // EPOCHS) if case != "broken" else samples(STEPS, BROKEN_AT)
    trainer = Trainer(
        model=model,
        train_dataloader=data,
        eval_dataloader=samples(2),
        eval_interval="1ep" if case != "broken" else "20ba",
        max_duration=f"{EPOCHS}ep" if case != "broken" else f"{STEPS}ba",
        optimizers=optimizer,
        schedulers=torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS),
        step_schedulers_every_batch=True,
        algorithms=[GradientClipping("norm", 1.0)],
        device_train_microbatch_size=SAMPLES // 2,
        loggers=loggers(case, own),
        callbacks=[Watch(log)],
        device="cpu",
        seed=0,
        progress_bar=False,
    )
    trainer.fit()
    for stamp, loss in own.data["loss/train/total"]:
        log.note(int(stamp.batch), loss=loss)
    for stamp, error in own.data["metrics/eval/MeanSquaredError"]:
        log.note_evaluation(int(stamp.batch) - 1, MeanSquaredError=error)
    log.planned = int(trainer.state.timestamp.batch)
    log.setting = ("trainer.max_duration", str(trainer.state.max_duration))
    trainer.close()
    return model.net


if __name__ == "__main__":
    main(train, "mosaicml", "healthy", "broken")
