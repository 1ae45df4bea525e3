"""Log numbers without torch, non-finite at known steps: ``scripted.py NAME RUN FIRST STEPS [SEED]``."""

from __future__ import annotations

import math
import sys

import tocsin

NOTES = """# Why
**Baseline**, see [the log](https://example.org/log) and [not this](javascript:alert(1)).

- <img src=x onerror=alert(1)>
"""
name, run_id, first, steps = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
seed = int(sys.argv[5]) if len(sys.argv) > 5 else 0
config = {"lr": 1e-3 * (seed + 1), "batch_size": 8, "<b>key</b>": "<img src=x onerror=alert(1)>"}
tags = ["fp16", "<i>tag</i>"]
run = tocsin.watch(
    "scripted",
    name=name,
    resume=run_id,
    start_step=first,
    planned_steps=1000,
    config=config,
    notes=NOTES,
    tags=tags,
    patch=False,
    exit_timeout=60,
)
FAULTS = {7: math.nan, 8: math.inf, 9: -math.inf}
for step in range(first, first + steps):
    loss = FAULTS.get(step, 1 + 1 / (1 + step) + 0.1 * (step % 2) + 0.01 * seed)
    run.step(loss=loss, step=step, grad_norm=0.0 if step == 11 else 0.5, scale=65536.0, lr=1e-3, skipped=0.0)
    run.log({"act/attn": float(step % 5), "act/mlp": 2.0, "opt/ratio": 1e-3}, step=step)
    run.log({"tokens": 4096.0 * step, "<img src=x onerror=alert(1)>": 1.0}, step=step)
run.event("checkpoint", step=first + steps - 1, path="<script>alert(1)</script>")
run.finish()
