"""The training loops that hook and trackers are measured in: an MLP, and a small transformer with AMP."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor, nn

Values = tuple[Tensor, Tensor, float, float]
"""Loss, gradient norm, loss scale and learning rate of a step."""


class Loop(Protocol):
    """A training, one step a call."""

    def step(self) -> Values: ...


class Mlp:
    """fp32, three layers, batch 64, SGD; with ``clip`` the script clips its gradient norm."""

    def __init__(self, clip: bool = True) -> None:
        torch.manual_seed(0)
        self.clip = clip
        self.model = nn.Sequential(
            nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1)
        )
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.batch = torch.randn(64, 256), torch.randn(64, 1)

    def step(self) -> Values:
        """Forward, backward, clip, update."""
        inputs, targets = self.batch
        loss = nn.functional.mse_loss(self.model(inputs), targets)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), 1.0) if self.clip else loss
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss, norm, 1.0, self.optimizer.param_groups[0]["lr"]


class Transformer:
    """Two encoder layers of width 64, bf16 autocast, a GradScaler, unscaling and clip, AdamW, a scheduler."""

    def __init__(self, clip: bool = True) -> None:
        torch.manual_seed(0)
        self.clip = clip
        layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
        self.model = nn.Sequential(nn.TransformerEncoder(layer, 2), nn.Linear(64, 32))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-4)
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda step: 0.9999**step)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        self.batch = torch.randn(4, 16, 64), torch.randint(32, (4, 16))

    def step(self) -> Values:
        """Forward under autocast, scaled backward, unscale, clip, update, scheduler."""
        inputs, targets = self.batch
        with torch.autocast("cpu", torch.bfloat16):
            logits = self.model(inputs)
        loss = nn.functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten())
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.optimizer)
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), 1.0) if self.clip else loss
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.scheduler.step()
        self.optimizer.zero_grad()
        return loss, norm, self.scaler.get_scale(), self.optimizer.param_groups[0]["lr"]


LOOPS: dict[str, type[Mlp] | type[Transformer]] = {"mlp": Mlp, "transformer": Transformer}
