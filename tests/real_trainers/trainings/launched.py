"""A training with DDP that a launcher starts on each rank; it does not mention tocsin."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn

from tests.real_trainers.trainings.cases import batches, net

STEPS = 5


def main() -> None:
    """Train."""
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for features, targets in batches(STEPS):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(features), targets).backward()
        optimizer.step()
    dist.barrier()


if __name__ == "__main__":
    main()
