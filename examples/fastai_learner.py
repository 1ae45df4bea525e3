"""fastai: `TocsinCallback` adds settings, planned steps, epochs, validation and metrics.

Run `pip install fastai` and `python examples/fastai_learner.py`.
"""

import torch
from fastai.callback.schedule import Learner  # brings fit_one_cycle
from fastai.data.core import DataLoaders
from fastai.data.load import DataLoader
from fastai.metrics import mae
from torch import nn

from tocsin.integrations.fastai import TocsinCallback

EPOCHS, STEPS_PER_EPOCH = 4, 25


def batches(count: int) -> DataLoader:
    """Return a loader of random samples."""
    features = torch.randn(32 * count, 16)
    targets = features[:, :4].sum(1, keepdim=True).sin()
    return DataLoader(list(zip(features, targets, strict=True)), bs=32)


def main() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 1))
    loaders = DataLoaders(batches(STEPS_PER_EPOCH), batches(4), device=torch.device("cpu"))
    watch = TocsinCallback(project="examples", name="fastai")
    learner = Learner(loaders, model, loss_func=nn.functional.mse_loss, metrics=mae, cbs=watch)
    with learner.no_bar():
        learner.fit_one_cycle(EPOCHS, lr_max=3e-3)


if __name__ == "__main__":
    main()
