"""Minimize an unconstrained variance: when it becomes negative, its square root is NaN."""

from __future__ import annotations

import torch

import tocsin

torch.set_num_threads(1)
torch.manual_seed(0)

variance = torch.nn.Parameter(torch.ones(8))
optimizer = torch.optim.SGD([variance], lr=0.05)
tocsin.watch("browser", name="root-of-negative", exit_timeout=30)

for _ in range(400):
    optimizer.zero_grad()
    loss = (torch.sqrt(variance) * (1 + 0.1 * torch.rand(8))).mean()
    loss.backward()
    torch.nn.utils.clip_grad_norm_([variance], 1e3)
    optimizer.step()
