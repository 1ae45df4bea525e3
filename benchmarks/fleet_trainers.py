"""A process with some clients that use the real protocol: ten steps per second each, as the hook sends them.

``python fleet_trainers.py URL TOKEN FIRST COUNT``: prints ``ready`` once all are accepted, then reports until
its standard input ends. The series ``sent`` is the wall clock in seconds when a frame was sent.
"""

from __future__ import annotations

import asyncio
import random
import struct
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "client_hook"))

from websockets.asyncio.client import ClientConnection, connect

from tocsin import protocol
from tocsin.protocol import Hello, Records, WriterId

STEPS_PER_S = 10
FLUSH_S = 0.2
"""The hook's usual flush interval, so that a frame holds two steps."""
HELD = round(STEPS_PER_S * FLUSH_S)


def hello(token: str, no: int) -> Hello:
    """Return the handshake of client ``no``."""
    key = f"fleet{no}"
    who = WriterId(attempt=key, rank=0, boot="bench", pid=no, started_ns=time.time_ns())
    return Hello(
        version=protocol.VERSION, token=token, project="fleet", name=f"run {no}", run=key, writer=who,
        world_size=1, host="bench", time_ns=time.time_ns(),
    )  # fmt: skip


def frame(first: int, draw: random.Random) -> bytes:
    """Return the steps from ``first`` that one flush contains: four vital signs of a healthy training."""
    now, steps = time.time(), range(first, first + HELD)
    losses = [2.0 / (1.0 + step / 4000.0) * (1.0 + draw.gauss(0.0, 0.05)) for step in steps]
    columns = {
        "loss": losses,
        "grad_norm": [draw.lognormvariate(0.0, 0.3) for _ in steps],
        "scale": [65536.0] * HELD,
        "lr": [1e-3] * HELD,
        "sent": [now] * HELD,
    }
    times = [int((now - (HELD - 1 - place) / STEPS_PER_S) * 1e9) for place in range(HELD)]
    made = Records(
        seq=first, n=HELD, step=struct.pack(f"<{HELD}q", *steps), t=struct.pack(f"<{HELD}q", *times),
        cols={name: struct.pack(f"<{HELD}d", *values) for name, values in columns.items()},
    )  # fmt: skip
    return protocol.encode(made)


async def _let_in(url: str, token: str, no: int) -> ClientConnection:
    socket = await connect(url, compression=None, ping_interval=None, open_timeout=120)
    await socket.send(protocol.encode(hello(token, no)))
    welcome = protocol.decode_server(await socket.recv(decode=False))
    assert isinstance(welcome, protocol.Welcome), welcome
    return socket


async def _train(socket: ClientConnection, no: int, count: int) -> None:
    """Send frames at constant intervals; the clients are spread over the interval."""
    draw, step = random.Random(no), 0
    due = time.monotonic() + FLUSH_S * (no % count) / count
    while True:
        await asyncio.sleep(max(due - time.monotonic(), 0.0))
        await socket.send(frame(step, draw))
        step, due = step + HELD, due + FLUSH_S


async def _listen(socket: ClientConnection) -> None:
    async for _ in socket:
        pass


async def main() -> None:
    """Run all clients of this process until standard input ends."""
    base, token, first, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    url = base.replace("http", "ws", 1) + protocol.PATH
    numbers = range(first, first + count)
    sockets = [await _let_in(url, token, no) for no in numbers]
    print("ready", flush=True)
    tasks = [
        asyncio.create_task(_train(socket, no, count)) for no, socket in zip(numbers, sockets, strict=True)
    ]
    tasks += [asyncio.create_task(_listen(socket)) for socket in sockets]
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


if __name__ == "__main__":
    asyncio.run(main())
