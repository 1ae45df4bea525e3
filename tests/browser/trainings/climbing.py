"""A regression whose loss climbs: ``climbing.py NAME HOW``, which waits at its end until it is killed.

HOW is one of:

- ``stays``: the targets become unlearnable, so the loss stays high.
- ``diverges``: the learning rate rises from step 200 on to 2,000 times its value.
- ``values``: a value function whose targets grow with it, as they should.
"""

from __future__ import annotations

import copy
import sys
import time

import torch

import tocsin

torch.set_num_threads(1)
torch.manual_seed(0)
name, how = sys.argv[1:3]
model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
target = copy.deepcopy(model)
rate = 0.01
optimizer = torch.optim.SGD(model.parameters(), lr=rate)
tocsin.watch("climbing", name=name, exit_timeout=30)

for step in range(600):
    x = torch.randn(64, 8)
    wanted = x.sum(1, keepdim=True)
    if how == "stays" and step >= 300:
        wanted = wanted + 6 * torch.randn(64, 1)
    if how == "values":
        if step % 20 == 0:
            target.load_state_dict(model.state_dict())
        wanted = wanted + 0.95 * target(torch.randn(64, 8)).detach() + 0.02 * step
    loss = torch.nn.functional.mse_loss(model(x), wanted)
    optimizer.zero_grad()
    loss.backward()
    if how == "diverges" and step >= 200:
        optimizer.param_groups[0]["lr"] = min(20.0, rate * 1.05 ** (step - 200))
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
while True:
    time.sleep(1)
