"""A training that uses every call of the hook, then runs out of memory: ``talkative.py NAME``."""

from __future__ import annotations

import math
import sys

import torch

import tocsin

STEPS, BAD, EVERY, LATE = 150, 60, 50, 140
"""Steps, the step with a bad batch, how often it evaluates, and from when on it logs ``late``."""

torch.set_num_threads(1)
torch.manual_seed(0)
run = tocsin.watch("browser", name=sys.argv[1], exit_timeout=60)
run.expect("lr-restart", steps=[100])
model = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=20.0)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)

for step in range(STEPS):
    run.batch(f"shard-{step}")
    for micro in range(2):
        x = torch.randn(16, 4)
        if (step, micro) == (BAD, 1):
            x[0, 0] = math.nan
        near = 1e-3 * torch.nan_to_num(model(x)).clamp(-9, 9).clamp(max=8).pow(2).mean()
        flat = 1e-6 * model[0](x).abs().mean()
        run.check(batch={"image": x}, losses={"near": near, "flat": flat})
        scaler.scale((near + flat) / 2).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    run.log({"probe": {"mean": float(step)}, "index": torch.tensor(step)})
    if step >= LATE:
        tocsin.log(late=float(step))
    if step % EVERY == EVERY - 1:
        with run.phase("eval"):
            run.evaluate(psnr=30 + step / 100, goal="max", unit="dB")
        run.event("checkpoint", path=f"step-{step}.pt")
raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
