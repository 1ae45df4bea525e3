"""A healthy run, and one whose learning rate and loss are broken: ``PROJECT NAME RUN``."""

from __future__ import annotations

import math
import sys

import tocsin

project, name, run_id = sys.argv[1:4]
for number, (lr, last) in enumerate(((0.1, 1.0), (3.0, math.nan)), 1):
    config = {"lr": lr, "batch": 32}
    run = tocsin.watch(
        project, name=f"{name} {number}", resume=f"{run_id}_{number}", patch=False, config=config
    )
    for step in range(40):
        run.step(loss=1.0 if step < 20 else last, step=step, grad_norm=0.5)
    run.finish()
