"""Three ranks of one run, without torch; rank 1 is slower and ends early: ``ranked.py RUN STEPS``."""

from __future__ import annotations

import os
import subprocess
import sys

import tocsin

RANKS = 3
SLOW = 1
run_id, steps = sys.argv[1], int(sys.argv[2])


def train(rank: int) -> None:
    """Report the steps of a rank."""
    run = tocsin.watch("ranked", name="three ranks", resume=run_id, patch=False, exit_timeout=60)
    for step in range(steps // 2 if rank == SLOW else steps):
        seconds = 0.5 if rank == SLOW else 0.2 + 0.01 * (step % 3)
        run.step(loss=1 / (1 + step) + rank, step=step, step_time=seconds)
        usage = {"sys/gpu0/util_percent": 60.0 + step % 20, "sys/gpu0/memory_gib": 12.5, "sys/rss_gib": 3.0}
        run.log({**usage, "val/psnr": float(step)}, step=step)
    run.finish()


if "RANK" in os.environ:
    train(int(os.environ["RANK"]))
else:
    job = {"WORLD_SIZE": str(RANKS), "TORCHELASTIC_RUN_ID": "job", "LOCAL_WORLD_SIZE": str(RANKS)}
    line = [sys.executable, __file__, *sys.argv[1:]]
    ranks = [subprocess.Popen(line, env=os.environ | job | {"RANK": str(k)}) for k in range(RANKS)]
    sys.exit(max(rank.wait() for rank in ranks))
