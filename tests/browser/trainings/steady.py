"""A healthy regression: ``steady.py NAME STEPS STEPS_PER_S``."""

from __future__ import annotations

import sys
import time

import torch

import tocsin

torch.set_num_threads(1)
torch.manual_seed(0)
name, steps, per_second = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])

model = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
tocsin.watch("browser", name=name, exit_timeout=30)

for _ in range(steps):
    x = torch.randn(32, 4)
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    time.sleep(1 / per_second)
