"""fastai's ``Learner``, whose optimizer is not a torch optimizer, with its CSV logger."""

from __future__ import annotations

import csv
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from fastai.basics import Callback, DataLoaders, Learner, Recorder
from fastai.callback import schedule  # noqa: F401  (adds fit_one_cycle to the Learner)
from fastai.callback.progress import CSVLogger
from fastai.callback.training import GradientClip
from fastai.metrics import mae
from torch import nn

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


class Consecutive(torch.utils.data.IterableDataset[Any]):
    """Batches of which each epoch has the next."""

    def __init__(self, found: list[Any]) -> None:
        self.left, self.per_epoch = iter(found), len(found) // EPOCHS

    def __len__(self) -> int:
        return self.per_epoch

    def __iter__(self) -> Iterator[Any]:
        return islice(self.left, self.per_epoch)


class Copied(Callback):
    """Copies the loss and the rate of each batch."""

    order, run_valid = 65, False  # behind the Recorder

    def __init__(self, log: OwnLog) -> None:
        self.log = log

    def after_backward(self) -> None:
        self.norm = norm_of(self.model)

    def before_step(self) -> None:
        self.rate = self.opt.hypers[-1]["lr"]

    def after_batch(self) -> None:
        self.log.note(self.train_iter - 1, loss=self.loss, lr=self.rate, grad_norm=self.norm)


def callbacks(case: str, log: OwnLog) -> list[Any]:
    """Return the callbacks; the CSV logger needs the Recorder, which the case ``lacking`` removes."""
    found: list[Any] = [Copied(log), GradientClip(1.0)]
    if case != "lacking":
        found.append(CSVLogger())
    if is_watched():
        from tocsin.integrations.fastai import TocsinCallback

        found.append(TocsinCallback())
    return found


@uses_integration
def train(case: str, log: OwnLog) -> nn.Module:
    """Fit with the one-cycle schedule; read the rows that fastai's CSV logger wrote."""
    data: Any = Consecutive(batches(STEPS, nan_at=BROKEN_AT if case == "broken" else None))
    held_out: Any = batches(2)
    loaders = [torch.utils.data.DataLoader(one, batch_size=None) for one in (data, held_out)]
    with tempfile.TemporaryDirectory() as folder:
        learner = Learner(
            DataLoaders(*loaders, device="cpu"),
            net(),
            loss_func=nn.functional.mse_loss,
            metrics=mae,
            cbs=callbacks(case, log),
            path=folder,
        )
        if case == "lacking":
            learner.remove_cb(Recorder)
        with learner.no_bar(), learner.no_logging():
            learner.fit_one_cycle(EPOCHS, 3e-3)
        written = Path(folder) / "history.csv"
        for row in csv.DictReader(written.open()) if written.exists() else ():
            step = (int(row["epoch"]) + 1) * len(data) - 1
            log.note_evaluation(step, loss=float(row["valid_loss"]), mae=float(row["mae"]))
    log.planned, log.setting = learner.train_iter, ("learner.n_epoch", learner.n_epoch)
    trained: nn.Module = learner.model
    return trained


if __name__ == "__main__":
    main(train, "fastai", "healthy", "broken", "lacking")
