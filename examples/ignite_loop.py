"""PyTorch Ignite: `TocsinHandler` adds planned steps, epochs, evaluations and metrics.

Run `pip install pytorch-ignite` and `python examples/ignite_loop.py`.
"""

import torch
from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
from ignite.metrics import Loss
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from tocsin.integrations.ignite import TocsinHandler

EPOCHS, STEPS_PER_EPOCH = 4, 25


def batches(count: int) -> DataLoader:
    """Return a loader of random samples."""
    features = torch.randn(32 * count, 16)
    targets = features[:, :4].sum(1, keepdim=True).sin()
    return DataLoader(TensorDataset(features, targets), batch_size=32)


def main() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    trainer = create_supervised_trainer(model, optimizer, nn.functional.mse_loss)
    evaluator = create_supervised_evaluator(model, {"loss": Loss(nn.functional.mse_loss)})
    held_out = batches(4)
    trainer.add_event_handler(Events.EPOCH_COMPLETED, lambda engine: evaluator.run(held_out))

    TocsinHandler(project="examples", name="ignite").attach(trainer, evaluator)
    trainer.run(batches(STEPS_PER_EPOCH), max_epochs=EPOCHS)


if __name__ == "__main__":
    main()
