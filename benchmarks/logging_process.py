"""A process with some runs of the real hook that log as fast as their records are accepted.

``python logging_process.py URL TOKEN RUNS STEPS FOLDER``: prints ``ready``, waits for a line, logs four
floats per step to every run, ends them, and prints ``SECONDS ACKNOWLEDGED`` (records of all runs).
"""

from __future__ import annotations

import math
import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "client_hook"))

import tocsin
from tocsin.api.run import Run

WAITING = 20_000
"""Records that may wait in a run's outbox: far below where it would drop."""
BLOCK = 500
_DRAW = random.Random(1)
NOISE = [_DRAW.gauss(0.0, 1.0) for _ in range(10_007)]
"""Number of values drawn in advance; a prime, so that patterns do not repeat early."""


def signs(step: int) -> tuple[float, float, float, float]:
    """Return loss, grad norm, loss scale and learning rate of a healthy training, the usual input of the
    rules."""
    noise = NOISE[step % len(NOISE)]
    loss = 0.5 + 2.0 / (1.0 + step * 1e-4) + 0.05 * noise
    return loss, 1.0 + 0.2 * abs(noise), 65536.0, 1e-4 * math.exp(-step * 1e-7)


def log_all(runs: list[Run], steps: int) -> None:
    """Log every step of every run, in alternating blocks."""
    for first in range(0, steps, BLOCK):
        for run in runs:
            while run._reporter.sender.stats.queued > WAITING:  # type: ignore[attr-defined]
                time.sleep(0.002)
            for step in range(first, min(first + BLOCK, steps)):
                loss, norm, scale, rate = signs(step)
                run.log(step=step, loss=loss, grad_norm=norm, scale=scale, lr=rate)


def main() -> None:
    """Run the runs of one process."""
    url, token, count, steps, folder = sys.argv[1:]
    runs = [
        tocsin.watch("bench", name=f"{Path(folder).name}-{no}", url=url, token=token, patch=False,
                     spool_dir=Path(folder) / str(no), exit_timeout=600.0, parallel=True)
        for no in range(int(count))
    ]  # fmt: skip
    print("ready", flush=True)
    sys.stdin.readline()
    begun = time.perf_counter()
    log_all(runs, int(steps))  # type: ignore[arg-type]
    for run in runs:
        run.finish()
    acked = sum(run._reporter.sender.stats.acked_seq + 1 for run in runs)  # type: ignore[union-attr]
    print(time.perf_counter() - begun, acked, flush=True)


if __name__ == "__main__":
    main()
