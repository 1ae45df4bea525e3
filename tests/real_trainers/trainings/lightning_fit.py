"""Lightning's ``Trainer.fit`` with clip, accumulation, validation, its CSV logger and its rate monitor."""

from __future__ import annotations

import csv
import logging
import tempfile
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import LearningRateMonitor
from lightning.pytorch.loggers import CSVLogger
from lightning.pytorch.plugins import MixedPrecision
from lightning.pytorch.utilities import grad_norm
from torch import nn
from torch.utils.data import DataLoader

from tests.real_trainers.trainings.cases import (
    OwnLog,
    batches,
    grad_scaler,
    is_watched,
    main,
    net,
    rank,
    uses_integration,
)
from tests.real_trainers.trainings.length import BROKEN_AT, STEPS

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Regression(pl.LightningModule):
    """A regression that logs its loss, its gradient norm and the scale as Lightning documents it."""

    def __init__(self, rate: float = 3e-3) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.net = net()
        self.losses: list[float] = []

    def training_step(self, batch: Any, number: int) -> torch.Tensor:
        loss: torch.Tensor = (self.net(batch[0]).float() - batch[1]).pow(2).mean()
        self.log("loss", loss)
        return loss

    def on_train_batch_end(self, outputs: Any, batch: Any, number: int) -> None:
        self.losses.append(outputs["loss"].item())

    def validation_step(self, batch: Any, number: int) -> None:
        self.log("validation_loss", (self.net(batch[0]) - batch[1]).pow(2).mean())

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        self.log("grad_norm", grad_norm(self.net, norm_type=2)["grad_2.0_norm_total"])
        scaler = getattr(self.trainer.precision_plugin, "scaler", None)
        if scaler is not None:
            self.log("scale", scaler.get_scale())

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.hparams["rate"])
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def loggers(folder: str) -> list[Any]:
    """Return the CSV logger, and tocsin's if this training is watched."""
    found: list[Any] = [CSVLogger(folder, version="", name="")]
    if is_watched():
        from tocsin.integrations.lightning import TocsinLogger

        found.append(TocsinLogger("real-trainers"))
    return found


@uses_integration
def train(case: str, log: OwnLog) -> nn.Module:
    """Fit, and read the rows that Lightning's CSV logger wrote."""
    model = Regression()
    more: dict[str, Any] = {}
    if case == "scaled":
        more["plugins"] = MixedPrecision("16-mixed", "cpu", grad_scaler())
    if case in ("ranks", "spawned"):
        strategy = "ddp" if case == "ranks" else "ddp_spawn"
        more |= {"strategy": strategy, "devices": 2, "use_distributed_sampler": False}
    data = batches(2 * STEPS, nan_at=BROKEN_AT if case == "broken" else None)[rank() * STEPS :]
    loader: DataLoader[Any] = DataLoader(data, batch_size=None)  # type: ignore[arg-type]
    with tempfile.TemporaryDirectory() as folder:
        trainer = pl.Trainer(
            max_steps=STEPS,
            accelerator="cpu",
            gradient_clip_val=1.0,
            val_check_interval=20,
            log_every_n_steps=1,
            logger=loggers(folder),
            callbacks=[LearningRateMonitor("step")],
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            num_sanity_val_steps=0,
            **more,
        )
        trainer.fit(model, loader, DataLoader(batches(2), batch_size=None))  # type: ignore[arg-type]
        written = Path(folder) / "metrics.csv"
        for row in csv.DictReader(written.open()) if rank() == 0 else ():
            read(row, log)
    if rank() != 0:  # only the first rank has a logger
        log.series["loss"] = dict(enumerate(model.losses))
    log.planned, log.setting = trainer.max_steps, ("rate", model.hparams["rate"])
    return model.net


def read(row: dict[str, str], log: OwnLog) -> None:
    """Note one row of the CSV logger."""
    names = {"loss": "loss", "grad_norm": "grad_norm", "scale": "scale", "lr-AdamW": "lr"}
    for column, name in names.items():
        if row.get(column):
            log.note(int(row["step"]), **{name: float(row[column])})
    if row.get("validation_loss"):
        log.note_evaluation(int(row["step"]), loss=float(row["validation_loss"]))


if __name__ == "__main__":
    main(train, "lightning", "healthy", "scaled", "broken")
