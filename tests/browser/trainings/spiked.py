"""Log a falling loss, a spike of a million at step 300, NaN at step 100: ``spiked.py NAME RUN [SEED]``."""

from __future__ import annotations

import math
import sys

import tocsin

SPIKE, FAULT, STEPS = 300, 100, 400
name, run_id = sys.argv[1:3]
seed = int(sys.argv[3]) if len(sys.argv) > 3 else 0
run = tocsin.watch("spiked", name=name, resume=run_id, patch=False, exit_timeout=60)
for step in range(STEPS):
    loss = 1 + seed / 10 + math.exp(-step / 80) + 0.05 * math.sin(step)
    loss = {SPIKE: 1e6, FAULT: math.nan}.get(step, loss)
    run.step(loss=loss, step=step, grad_norm=0.5 + 0.1 * math.sin(step / 3), scale=65536.0, lr=1e-3)
    run.log({"act/attn": math.cos(step / 50), "act/mlp": 2.0}, step=step)
run.finish()
