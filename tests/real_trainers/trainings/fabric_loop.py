"""A loop with Lightning Fabric: clip; in float16 with a GradScaler; on two ranks."""

from __future__ import annotations

import torch
from lightning.fabric import Fabric
from lightning.fabric.plugins import MixedPrecision
from torch import nn
from torch.utils.data import DataLoader

from tests.real_trainers.trainings.cases import OwnLog, batches, grad_scaler, main, net
from tests.real_trainers.trainings.length import BROKEN_AT, STEPS


def fabric_for(case: str) -> tuple[Fabric, torch.amp.GradScaler | None]:
    """Return a Fabric, and its scaler where it trains in float16."""
    if case == "ranks":
        return Fabric(accelerator="cpu", devices=2, strategy="ddp"), None
    if case != "scaled":
        return Fabric(accelerator="cpu"), None
    scaler = grad_scaler()
    return Fabric(accelerator="cpu", plugins=MixedPrecision("16-mixed", "cpu", scaler)), scaler


def train(case: str, log: OwnLog) -> nn.Module:
    """Train as Fabric's documentation shows it; the broken one multiplies its rate by 1000."""
    fabric, scaler = fabric_for(case)
    fabric.launch()
    model = net()
    wrapped, optimizer = fabric.setup(model, torch.optim.AdamW(model.parameters(), lr=3e-3))
    data = batches(STEPS * fabric.world_size)[fabric.global_rank :: fabric.world_size]
    loader = fabric.setup_dataloaders(DataLoader(data, batch_size=None), use_distributed_sampler=False)  # type: ignore[arg-type]
    for step, (features, targets) in enumerate(loader):
        if case == "broken" and step == BROKEN_AT:
            optimizer.param_groups[0]["lr"] *= 1000
        loss = (wrapped(features) - targets).pow(2).mean()
        fabric.backward(loss)
        norm = fabric.clip_gradients(wrapped, optimizer, max_norm=1.0, error_if_nonfinite=False)
        lr, scale = optimizer.param_groups[0]["lr"], scaler and scaler.get_scale()
        optimizer.step()
        optimizer.zero_grad()
        log.note(step, loss=loss, grad_norm=norm, lr=lr, scale=scale)
    return model


if __name__ == "__main__":
    main(train, "lightning", "healthy", "scaled", "broken")
