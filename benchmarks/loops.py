"""The training loops for measuring hook and trackers: an MLP, and a small transformer with AMP."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor, nn

Values = tuple[Tensor, Tensor, float, float]
"""Loss, gradient norm, loss scale and learning rate of a step."""


class Loop(Protocol):
    """A training that makes one step per call."""

    def step(self) -> Values: ...


class Mlp:
    """fp32, three layers, batch 64, SGD; with ``clip`` the script clips its gradient norm."""

    def __init__(self, clip: bool = True, device: str = "cpu") -> None:
        torch.manual_seed(0)
        self.clip = clip
        self.model = nn.Sequential(
            nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1)
        ).to(device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.batch = torch.randn(64, 256).to(device), torch.randn(64, 1).to(device)

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
    """Two encoder layers of width 64, autocast, a GradScaler, unscaling and clip, AdamW, a scheduler.

    Autocast to bf16 on a CPU, to fp16 on a CUDA device.
    """

    def __init__(self, clip: bool = True, device: str = "cpu", fused: bool = False) -> None:
        torch.manual_seed(0)
        self.clip = clip
        self.device = device
        self.half = torch.bfloat16 if device == "cpu" else torch.float16
        self.model, self.batch = self.parts()
        self.model.to(device)
        self.batch = self.batch[0].to(device), self.batch[1].to(device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-4, fused=fused or None)
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda step: 0.9999**step)
        self.scaler = torch.amp.GradScaler(device, init_scale=1024.0)

    def parts(self) -> tuple[nn.Module, tuple[Tensor, Tensor]]:
        """Return the model, and the batch for every step."""
        layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
        model = nn.Sequential(nn.TransformerEncoder(layer, 2), nn.Linear(64, 32))
        return model, (torch.randn(4, 16, 64), torch.randint(32, (4, 16)))

    def step(self) -> Values:
        """Forward under autocast, scaled backward, unscale, clip, update, scheduler."""
        inputs, targets = self.batch
        with torch.autocast(self.device, self.half):
            logits = self.model(inputs)
        loss = nn.functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten())
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.optimizer)
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), 1.0) if self.clip else loss
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.scheduler.step()
        self.optimizer.zero_grad()
        scale = self.scaler.get_scale() if self.device == "cpu" else 1024.0  # on a device it would wait
        return loss, norm, scale, self.optimizer.param_groups[0]["lr"]


class Gpt(Transformer):
    """124 M parameters in twelve layers of width 768 on 16 x 512 tokens: keeps a CUDA device busy."""

    def __init__(self, fused: bool = False) -> None:
        super().__init__(device="cuda", fused=fused)

    def parts(self) -> tuple[nn.Module, tuple[Tensor, Tensor]]:
        """Like the smallest GPT-2, without its mask."""
        layer = nn.TransformerEncoderLayer(768, 12, 3072, dropout=0.0, batch_first=True, norm_first=True)
        body = nn.TransformerEncoder(layer, 12, enable_nested_tensor=False)
        model = nn.Sequential(nn.Embedding(50304, 768), body, nn.Linear(768, 50304, bias=False))
        return model, (torch.randint(50304, (16, 512)), torch.randint(50304, (16, 512)))


LOOPS: dict[str, type[Mlp] | type[Transformer]] = {"mlp": Mlp, "transformer": Transformer}
