"""A regression that breaks: ``broken.py NAME HOW``, where HOW is ``finish``, ``crash`` or ``nothing``.

It saves its weights at step 20, before anything breaks.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch

import tocsin

torch.set_num_threads(1)
torch.manual_seed(0)
name, how = sys.argv[1:3]
model = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
tocsin.watch("broken", name=name, exit_timeout=30)

for step in range(40):
    x = torch.randn(32, 4)
    loss = torch.nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
    if how == "finish" and step >= 30:
        loss = loss + torch.sqrt(model(x)).mean()  # of outputs below 0
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step == 20:
        torch.save(model.state_dict(), Path(os.environ["TOCSIN_SPOOL_DIR"]).with_name(f"{name}.pt"))
if how == "crash":
    raise RuntimeError("CUDA error: device-side assert triggered")
