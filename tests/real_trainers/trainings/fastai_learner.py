"""fastai's ``Learner``, whose optimizer is not a torch optimizer."""

from __future__ import annotations

from typing import Any

import torch
from fastai.basics import Callback, DataLoaders, Learner
from fastai.callback import schedule  # noqa: F401  (adds fit_one_cycle to the Learner)
from fastai.callback.training import GradientClip
from torch import nn

from tests.real_trainers.trainings.cases import OwnLog, batches, main, net, norm_of
from tests.real_trainers.trainings.length import BROKEN_AT, STEPS


class Copied(Callback):
    """Copies the loss and the rate of each batch."""

    order = 65  # behind the Recorder

    def __init__(self, log: OwnLog) -> None:
        self.log = log

    def after_backward(self) -> None:
        self.norm = norm_of(self.model)

    def before_step(self) -> None:
        self.rate = self.opt.hypers[-1]["lr"]

    def after_batch(self) -> None:
        self.log.note(self.train_iter - 1, loss=self.loss, lr=self.rate, grad_norm=self.norm)


def train(case: str, log: OwnLog) -> nn.Module:
    """Fit one epoch with the one-cycle schedule."""
    data: Any = batches(STEPS, nan_at=BROKEN_AT if case == "broken" else None)
    loader = torch.utils.data.DataLoader(data, batch_size=None)
    learner = Learner(
        DataLoaders(loader, [], device="cpu"),
        net(),
        loss_func=nn.functional.mse_loss,
        cbs=[Copied(log), GradientClip(1.0)],
    )
    with learner.no_bar(), learner.no_logging():
        learner.fit_one_cycle(1, 3e-3)
    trained: nn.Module = learner.model
    return trained


if __name__ == "__main__":
    main(train, "fastai", "healthy", "broken")
