"""A sweep over learning rate, optimizer and batch size with three seeds. Some runs diverge or end early."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import msgspec

from tests.browser import crowd
from tocsin import protocol

RATES = (1e-4, 3e-4, 1e-3, 3e-2)
OPTIMIZERS = ("adamw", "sgd")
SEEDS = 3


def settings(number: int) -> dict[str, Any]:
    """Return the config of run ``number``."""
    rest, seed = divmod(number, SEEDS)
    rate, optimizer = RATES[rest % 4], OPTIMIZERS[rest // 4 % 2]
    return {
        "lr": rate,
        "optimizer": optimizer,
        "batch_size": 2 ** (4 + rest // 8 % 3),
        "seed": seed,
        "epochs": 3,
    }


def hello(number: int) -> protocol.Hello:
    """Return the handshake of run ``number``."""
    known = crowd.hello(number)
    name, project = f"sweep-{number:03}", "sweep"
    config = settings(number)
    return msgspec.structs.replace(known, name=name, run=f"s_{number:03}", project=project, config=config)


def diverges(number: int) -> bool:
    """Return whether the loss of run ``number`` becomes NaN."""
    return bool(settings(number)["lr"] == RATES[-1] and settings(number)["seed"] > 0)


def values(number: int) -> dict[str, list[float]]:
    """Return the series of run ``number``: the loss depends on its learning rate, and little on its seed."""
    chance, config = random.Random(number), settings(number)
    steps = 45 if config["seed"] == 2 and config["optimizer"] == "sgd" else 80
    level = 0.1 + abs(math.log10(config["lr"]) + 3) / 4
    loss = [level + math.exp(-step / 12) + chance.gauss(0, 0.01) for step in range(steps)]
    if diverges(number):
        loss[30:] = [math.nan] * (steps - 30)
    whole = crowd.values(number) | {"loss": loss, "lr": [config["lr"]] * steps}
    return {name: column[:steps] for name, column in whole.items()}


def store(database: Path, runs: int) -> None:
    """Write the runs ``s_000`` and following."""
    failed = lambda number: "failed" if diverges(number) else "finished"  # noqa: E731
    crowd.store(database, runs, hello, values, failed)


def address(runs: int) -> str:
    """Return the address that compares them."""
    return "/compare?" + "&".join(f"run=s_{number:03}" for number in range(runs))


def sweep_of(tower: Any, runs: int) -> None:
    """Store the runs while the server is stopped, and start it again."""
    tower.stop()
    store(tower.directory / "tocsin.db", runs)
    tower.start()
