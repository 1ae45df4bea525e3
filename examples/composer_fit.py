"""Composer: `TocsinLogger` adds settings, planned steps, epochs, evaluations and metrics.

Run `pip install mosaicml` and `python examples/composer_fit.py`.
"""

import torch
from composer import Trainer
from composer.algorithms import GradientClipping
from composer.models import ComposerModel
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics import MeanSquaredError

from tocsin.integrations.composer import TocsinLogger

EPOCHS, STEPS_PER_EPOCH = 4, 25


class Regression(ComposerModel):
    """An ordinary ComposerModel; it contains no tocsin code."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 1))
        self.error = MeanSquaredError()

    def forward(self, batch):
        return self.net(batch[0])

    def loss(self, outputs, batch, *args, **kwargs):
        return nn.functional.mse_loss(outputs, batch[1])

    def get_metrics(self, is_train):
        return {} if is_train else {"MeanSquaredError": self.error}

    def update_metric(self, batch, outputs, metric):
        metric.update(outputs, batch[1])


def batches(count: int) -> DataLoader:
    """Return a loader of random samples."""
    features = torch.randn(32 * count, 16)
    targets = features[:, :4].sum(1, keepdim=True).sin()
    return DataLoader(TensorDataset(features, targets), batch_size=32)


def main() -> None:
    torch.manual_seed(0)
    model = Regression()
    trainer = Trainer(
        model=model,
        train_dataloader=batches(STEPS_PER_EPOCH),
        eval_dataloader=batches(4),
        max_duration=f"{EPOCHS}ep",
        optimizers=torch.optim.AdamW(model.parameters(), lr=3e-3),
        algorithms=[GradientClipping("norm", 1.0)],
        loggers=[TocsinLogger("examples", name="composer")],
        progress_bar=False,
    )
    trainer.fit()


if __name__ == "__main__":
    main()
