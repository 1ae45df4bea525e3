"""A loss that becomes NaN and stays NaN until the process is killed: ``nan_training.py PROJECT NAME
RUN``."""

from __future__ import annotations

import math
import sys
import time

import tocsin

project, name, run_id = sys.argv[1:4]
run = tocsin.watch(project, name=name, resume=run_id, patch=False, tags=["fp16"], exit_timeout=5)
step = 0
while True:
    run.step(loss=1.0 if step < 20 else math.nan, step=step, grad_norm=0.5, scale=65536.0, lr=1e-3)
    step += 1
    time.sleep(0.2 if step > 25 else 0.0)
