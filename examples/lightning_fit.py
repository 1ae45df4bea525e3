"""Lightning: `watch` before `fit`, and no callback or logger.

Run `pip install lightning` and `python examples/lightning_fit.py`.
"""

import lightning.pytorch as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import tocsin

STEPS = 100


class Regression(pl.LightningModule):
    """An ordinary LightningModule; it contains no tocsin code."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 1))

    def training_step(self, batch, batch_idx):
        features, targets = batch
        return nn.functional.mse_loss(self.net(features), targets)

    def validation_step(self, batch, batch_idx):
        features, targets = batch
        self.log("val_loss", nn.functional.mse_loss(self.net(features), targets))

    def on_validation_epoch_end(self) -> None:
        # Optional: metrics of an evaluation, so that rules such as `overfitting` can check them.
        run.evaluate(loss=self.trainer.callback_metrics["val_loss"], goal="min")

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=3e-3)


def batches(count: int) -> DataLoader:
    """Return a loader of random samples."""
    features = torch.randn(32 * count, 16)
    targets = features[:, :4].sum(1, keepdim=True).sin()
    return DataLoader(TensorDataset(features, targets), batch_size=32)


if __name__ == "__main__":
    pl.seed_everything(0)
    run = tocsin.watch("examples", name="lightning", planned_steps=STEPS)
    trainer = pl.Trainer(max_steps=STEPS, gradient_clip_val=1.0, val_check_interval=25, logger=False)
    trainer.fit(Regression(), batches(STEPS), batches(4))
