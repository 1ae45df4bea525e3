"""A sweep of 60 runs of the real hook: ``sweep_process.py URL TOKEN FOLDER``.

Each run logs loss, gradient norm, loss scale, learning rate and ``val_loss``. All end, except ``run-17`` with
the highest learning rate, whose loss becomes NaN: it trains on until the process is killed. Prints ``ready``
once all are there.
"""

from __future__ import annotations

import math
import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "client_hook"))

import tocsin
from tocsin.api.no_run import NoRun
from tocsin.api.run import Run

RUNS, STEPS, EVALUATED = 60, 240, 20
PLANNED = 2_400
BAD = 17
BEST = 42
DIVERGES = 180


def config_of(number: int) -> dict[str, object]:
    """Return the settings of a run."""
    rate = 3e-2 if number == BAD else 1e-3 if number == BEST else 10.0 ** -(2 + number % 4 / 2)
    optimizer = "sgd" if number % 3 == 0 else "adamw"
    return {"lr": rate, "optimizer": optimizer, "batch_size": 2 ** (4 + number % 3), "seed": number % 5}


def losses(number: int) -> tuple[list[float], list[float]]:
    """Return the training loss of each step, and the validation loss of each evaluation."""
    chance = random.Random(number)
    level = 0.18 if number == BEST else 0.25 + chance.random() / 5
    train = [level + 2 * math.exp(-step / 40) + chance.gauss(0, 0.01) for step in range(STEPS)]
    if number == BAD:
        train = [value + math.exp((step - 150) / 12) for step, value in enumerate(train)]
        train[DIVERGES:] = [math.nan] * (STEPS - DIVERGES)
    return train, [train[step] * 1.1 for step in range(EVALUATED - 1, STEPS, EVALUATED)]


def log_all(run: Run | NoRun, number: int) -> None:
    """Log every step of a run."""
    train, val = losses(number)
    norms = random.Random(number)
    for step, loss in enumerate(train):
        evaluated = {"val_loss": val[step // EVALUATED]} if step % EVALUATED == EVALUATED - 1 else {}
        norm = math.nan if math.isnan(loss) else 0.3 * loss + norms.random() / 5
        rate = config_of(number)["lr"]
        run.step(step=step, loss=loss, grad_norm=norm, scale=65536.0, lr=rate, **evaluated)


def main() -> None:
    """Train all, the bad one last."""
    url, token, folder = sys.argv[1:]
    for number in [*(each for each in range(RUNS) if each != BAD), BAD]:
        run = tocsin.watch("sweep", name=f"run-{number:02}", config=config_of(number), planned_steps=PLANNED,
                           url=url, token=token, patch=False, spool_dir=Path(folder) / str(number),
                           exit_timeout=60.0)  # fmt: skip
        log_all(run, number)
        if number != BAD:
            run.finish()
    print("ready", flush=True)
    step = STEPS
    while True:
        run.step(step=step, loss=math.nan, grad_norm=math.nan, scale=65536.0, lr=3e-2)
        step += 1
        time.sleep(0.5)


if __name__ == "__main__":
    main()
