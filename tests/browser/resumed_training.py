"""A loss that becomes NaN; called again, the run continues from before with half the rate.

``resumed_training.py PROJECT NAME RUN [again]``.
"""

from __future__ import annotations

import math
import sys

import tocsin

project, name, run_id, *again = sys.argv[1:]
lr, first, last = (0.05, 11, 160) if again else (0.1, 0, 40)
run = tocsin.watch(project, name=name, resume=run_id, patch=False, start_step=first)
for step in range(first, last):
    loss = 1.0 + 0.01 * (step % 7) if again or step < 20 else math.nan
    run.step(loss=loss, step=step, grad_norm=0.5 + 0.01 * (step % 5), lr=lr)
run.finish()
