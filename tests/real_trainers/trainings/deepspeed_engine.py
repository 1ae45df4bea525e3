"""DeepSpeed's engine on the CPU, with its clip and its schedule."""

from __future__ import annotations

import os

import deepspeed
import torch
from torch import nn

from tests.hook.ingest_server import closed_port
from tests.real_trainers.trainings.cases import OwnLog, batches, main, net, norm_of
from tests.real_trainers.trainings.length import BROKEN_AT, STEPS

SETTINGS = {
    "train_micro_batch_size_per_gpu": 16,
    "gradient_accumulation_steps": 2,
    "gradient_clipping": 0.5,
    "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": 3e-3, "warmup_num_steps": 20}},
}


def train(case: str, log: OwnLog) -> nn.Module:
    """Train as DeepSpeed's documentation shows it."""
    model = net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    engine, *_ = deepspeed.initialize(
        model=model, optimizer=optimizer, config=SETTINGS, dist_init_required=False
    )
    losses: list[float] = []
    nan_at = 2 * BROKEN_AT if case == "broken" else None
    for features, targets in batches(2 * STEPS, nan_at=nan_at):
        loss = nn.functional.mse_loss(engine(features), targets)
        losses.append(loss.item())
        lr = engine.get_lr()[0]
        engine.backward(loss)
        is_last = engine.is_gradient_accumulation_boundary()
        norm = norm_of(model)
        engine.step()
        if is_last:
            log.note(engine.global_steps - 1, loss=sum(losses) / 2, grad_norm=norm, lr=lr)
            losses.clear()
    return model


if __name__ == "__main__":
    os.environ |= {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(closed_port()),
        "RANK": "0",
        "WORLD_SIZE": "1",
    }
    os.environ |= {"LOCAL_RANK": "0", "DS_ACCELERATOR": "cpu"}
    deepspeed.init_distributed("gloo")
    main(train, "deepspeed", "healthy", "broken")
