"""Many small runs that have ended. One in nine has a problem."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import make_url

from tocsin import protocol
from tocsin_server.core.models import Column, RecordBatch, WriteBatch
from tocsin_server.store.database import open_database
from tocsin_server.store.registration import register
from tocsin_server.store.writer import StoreWriter

STEPS = 80
PROJECTS = ("deblur", "speech", "nmt", "imagenet")
AGE_NS = 3 * 3600 * 10**9


def hello(number: int) -> protocol.Hello:
    """Return the handshake of run ``number``."""
    writer = protocol.WriterId("first", 0, "boot", 1000 + number, 1)
    reported = {"name": f"run-{number:04}", "run": f"c_{number:04}", "project": PROJECTS[number % 4]}
    config = {"lr": 10.0 ** -(2 + number % 4), "batch_size": 2 ** (3 + number % 5), "seed": number}
    tags = ["fp16" if number % 2 else "bf16"]
    rest = {
        "planned_steps": 200,
        "config": config,
        "tags": tags,
        "world_size": 1,
        "host": f"node-{number % 32}",
    }
    return protocol.Hello(version=1, token="", writer=writer, time_ns=time.time_ns(), **reported, **rest)  # type: ignore[arg-type]


def values(number: int) -> dict[str, list[float]]:
    """Return eighty steps of the four vital signs; some runs have a spike and a NaN."""
    chance = random.Random(number)
    loss = [1 / (1 + step / 20) + chance.gauss(0, 0.02) for step in range(STEPS)]
    if number % 9 == 0:
        loss[50], loss[60] = 9.0, math.nan
    columns = {"loss": loss, "grad_norm": [chance.uniform(0.5, 1.5) for _ in loss]}
    return columns | {"scale": [65536.0] * STEPS, "lr": [1e-3] * STEPS, "skipped": [0.0] * STEPS}


def crowd_of(tower: Any, runs: int) -> None:
    """Store the runs with the server's own writer while the server is stopped, and start it again.

    They are some hours old: the age of a new run would change on the page every second.
    """
    tower.stop()
    store(tower.directory / "tocsin.db", runs)
    tower.start()


def store(
    database: Path,
    runs: int,
    hello: Callable[[int], protocol.Hello] = hello,
    values: Callable[[int], dict[str, list[float]]] = values,
    state: Callable[[int], str] = lambda number: "finished",
) -> None:
    """Write ended runs, ``c_0000`` and following unless others are given."""
    now_ns, opened = time.time_ns() - AGE_NS, open_database(make_url(f"sqlite:///{database}"))
    writer = StoreWriter(opened)
    writer.start()
    reported = [hello(number) for number in range(runs)]
    known = writer.call(lambda connection: [register(connection, each, now_ns) for each in reported]).result()
    for number, each in enumerate(known):
        series = values(number)
        columns = {name: Column(np.asarray(column)) for name, column in series.items()}
        step = np.arange(len(series["loss"]))
        batch = RecordBatch(each.writer, 0, 0, len(step), step, now_ns + step * 1_000_000, columns)
        ended = {"state": state(number), "ended_ns": now_ns}
        writer.submit(WriteBatch(each.writer.run_id, batch=batch, changes=ended))
    writer.call(lambda connection: None).result()
    writer.stop(60)
    opened.close()
