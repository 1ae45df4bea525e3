"""Runs of 300 steps with tokens and epochs: ``o_killed`` was resumed 14 hours later, ``o_whole`` was not.

``o_long`` has too many steps to be drawn one by one.
"""

from __future__ import annotations

import math
import time
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from sqlalchemy import make_url

from tests.browser import crowd
from tocsin import protocol
from tocsin_server.core.models import Column, RecordBatch, WriteBatch
from tocsin_server.store.database import open_database
from tocsin_server.store.registration import register
from tocsin_server.store.writer import StoreWriter

STEPS = 300
KILLED_AT = 180
NIGHT_S = 14 * 3600
TOKENS = 4096
NAN_AT = 40
LONG = 40_000
ATTEMPTS = (
    ("o_killed", 0, KILLED_AT, 0),
    ("o_killed", KILLED_AT, STEPS, NIGHT_S),
    ("o_whole", 0, STEPS, 0),
    ("o_long", 0, LONG, 0),
)
"""Run, first step, end, and how many seconds later than step 0 it would start."""


def hello(number: int) -> protocol.Hello:
    """Return the handshake of an attempt."""
    run = ATTEMPTS[number][0]
    writer = protocol.WriterId(f"attempt-{number}", 0, "boot", 2000 + number, 1)
    known = crowd.hello(number)
    return msgspec.structs.replace(
        known, name=run[2:], run=run, project="overnight", writer=writer, planned_steps=None
    )


def columns(number: int) -> dict[str, Column]:
    """Return the series of an attempt. The run that was not killed has no epoch before step 50, and a NaN."""
    run, first, end, _ = ATTEMPTS[number]
    step = np.arange(first, end)
    loss = 2 * np.exp(-step / 120) + 0.3 + 0.02 * np.sin(step)
    loss[NAN_AT - first : NAN_AT - first + 1] = math.nan if run == "o_whole" else loss[:1]
    lr = np.where(step < 60, step + 1, np.maximum(60 - (step - 60) / 4.5, 1)) * 1e-5
    dense: dict[str, Any] = {"loss": loss, "grad_norm": 1 / (1 + step / 50), "lr": lr}
    dense["tokens"] = step * float(TOKENS)
    row = np.flatnonzero((step % 50 == 0) & (step > 0)).astype(np.uint32)
    epochs = {"train/epoch": Column(step[row] / 100, row)}
    return {name: Column(values) for name, values in dense.items()} | epochs


def store(database: Path) -> None:
    """Write both runs, a step per second."""
    opened = open_database(make_url(f"sqlite:///{database}"))
    writer = StoreWriter(opened)
    writer.start()
    began = time.time_ns() - 20 * 3600 * 10**9
    for number, (_, first, end, late) in enumerate(ATTEMPTS):
        known = writer.call(partial(register, hello=hello(number), now_ns=began)).result()
        step = np.arange(first, end)
        times = began + (step + late) * 10**9
        batch = RecordBatch(known.writer, number, 0, len(step), step, times, columns(number))
        ended = {"state": "finished", "ended_ns": int(times[-1])}
        writer.submit(WriteBatch(known.writer.run_id, batch=batch, changes=ended))
    writer.call(lambda connection: None).result()
    writer.stop(60)
    opened.close()
