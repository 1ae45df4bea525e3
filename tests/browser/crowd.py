"""Many small runs, as clients report them: ``crowd.py ADDRESS TOKEN FIRST END``. One in nine has a
problem."""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import make_url
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, ConnectionClosedError

from tocsin import protocol
from tocsin_server.core.models import Column, RecordBatch, WriteBatch
from tocsin_server.store.database import open_database
from tocsin_server.store.registration import register
from tocsin_server.store.writer import StoreWriter

AT_ONCE = 24
ATTEMPTS, PAUSE_S = 10, 2.0
STEPS = 80
PROJECTS = ("deblur", "speech", "nmt", "imagenet")


def hello(number: int, token: str) -> protocol.Hello:
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
    return protocol.Hello(version=1, token=token, writer=writer, time_ns=time.time_ns(), **reported, **rest)  # type: ignore[arg-type]


def values(number: int) -> dict[str, list[float]]:
    """Return eighty steps of the four vital signs; some runs have a spike and a NaN."""
    chance = random.Random(number)
    loss = [1 / (1 + step / 20) + chance.gauss(0, 0.02) for step in range(STEPS)]
    if number % 9 == 0:
        loss[50], loss[60] = 9.0, math.nan
    columns = {"loss": loss, "grad_norm": [chance.uniform(0.5, 1.5) for _ in loss]}
    return columns | {"scale": [65536.0] * STEPS, "lr": [1e-3] * STEPS, "skipped": [0.0] * STEPS}


def records(number: int, now_ns: int) -> protocol.Records:
    """Return these values as one message."""
    reported = values(number).items()
    packed: dict[str, protocol.Column] = {k: protocol.little_endian("d", v) for k, v in reported}
    steps, times = range(STEPS), [now_ns + step * 1_000_000 for step in range(STEPS)]
    step_bytes, time_bytes = protocol.little_endian("q", steps), protocol.little_endian("q", times)
    return protocol.Records(0, STEPS, step_bytes, time_bytes, packed)


async def report(address: str, token: str, number: int, gate: asyncio.Semaphore) -> None:
    """Report one run until all of it is acknowledged; retry if the server is overloaded."""
    async with gate:
        for _ in range(ATTEMPTS):
            with contextlib.suppress(ConnectionClosed):
                return await told(address, token, number)
            await asyncio.sleep(PAUSE_S)
    raise SystemExit(f"run {number}: expected to be let in at the latest at attempt {ATTEMPTS}")


async def told(address: str, token: str, number: int) -> None:
    """Report one run from its handshake to its last acknowledgement; one in five does not finish."""
    url = address.replace("http", "ws", 1) + protocol.PATH
    async with connect(url, compression=None, open_timeout=60) as socket:
        await socket.send(protocol.encode(hello(number, token)))
        await socket.send(protocol.encode(records(number, time.time_ns())))
        if number % 5:
            await socket.send(protocol.encode(protocol.Finish(0, time.time_ns(), records=STEPS)))
        async for frame in socket:
            message = protocol.decode_server(frame)  # type: ignore[arg-type]
            if isinstance(message, (protocol.Ack, protocol.Welcome)) and message.seq >= STEPS - 1:
                return
        raise ConnectionClosedError(None, None)


async def crowd(address: str, token: str, numbers: range) -> None:
    """Report all runs, a few at a time."""
    gate = asyncio.Semaphore(AT_ONCE)
    await asyncio.gather(*(report(address, token, number, gate) for number in numbers))


def crowd_of(tower: Any, runs: int, live: int) -> None:
    """Run this file against a server; return once everything is durable.

    The first ``live`` runs report over the socket. The others have ended and are written to the database
    while the server is stopped, as in a server that has been used for weeks.
    """
    subprocess.run([sys.executable, __file__, tower.base, tower.token, "0", str(live)], check=True)
    tower.stop()
    store(tower.directory / "tocsin.db", range(live, runs))
    tower.start()


def store(database: Path, numbers: range) -> None:
    """Write ended runs with the server's own writer."""
    now_ns, opened = time.time_ns(), open_database(make_url(f"sqlite:///{database}"))
    writer = StoreWriter(opened)
    writer.start()
    reported = [hello(number, "") for number in numbers]
    known = writer.call(lambda connection: [register(connection, each, now_ns) for each in reported]).result()
    step = np.arange(STEPS)
    for number, each in zip(numbers, known, strict=True):
        columns = {name: Column(np.asarray(column)) for name, column in values(number).items()}
        batch = RecordBatch(each.writer, 0, 0, STEPS, step, now_ns + step * 1_000_000, columns)
        ended = {"state": "finished", "ended_ns": now_ns}
        writer.submit(WriteBatch(each.writer.run_id, batch=batch, changes=ended))
    writer.call(lambda connection: None).result()
    writer.stop(60)
    opened.close()


if __name__ == "__main__":
    asyncio.run(crowd(sys.argv[1], sys.argv[2], range(int(sys.argv[3]), int(sys.argv[4]))))
