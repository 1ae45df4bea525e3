"""A loss that is logged every 500 steps and becomes NaN: ``sparse_training.py PROJECT NAME RUN``."""

from __future__ import annotations

import math
import sys

import tocsin

project, name, run_id = sys.argv[1:4]
run = tocsin.watch(project, name=name, resume=run_id, patch=False, exit_timeout=30)
for no in range(60):
    run.step(loss=1.0 if no < 30 else math.nan, step=500 * no)
