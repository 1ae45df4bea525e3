"""A process with some clients that use the real protocol, as the hook sends it: ten steps per second each.

``python fleet_trainers.py URL TOKEN FIRST COUNT [STEPS_PER_S]``: prints ``ready`` once all are accepted, then
reports until its standard input ends. The series ``sent`` is the wall clock in seconds when a frame was sent.
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

STEPS_PER_S = 10.0
FLUSH_S = 0.2
"""The hook's usual flush interval; the server may ask for another one in each ack."""


class Client:
    """One training process."""

    def __init__(self, socket: ClientConnection, no: int, steps_per_s: float) -> None:
        self.socket = socket
        self.no = no
        self.steps_per_s = steps_per_s
        self.flush_s = FLUSH_S

    async def train(self, count: int) -> None:
        """Send what is waiting, one flush interval after its oldest step; ``count`` clients take turns."""
        draw, step = random.Random(self.no), 0
        begun = time.monotonic() + self.no % count / count / self.steps_per_s
        while True:
            due = begun + step / self.steps_per_s + self.flush_s
            await asyncio.sleep(max(due - time.monotonic(), 0.0))
            held = int((time.monotonic() - begun) * self.steps_per_s) + 1 - step
            await self.socket.send(frame(step, held, draw, self.steps_per_s))
            step += held

    async def listen(self) -> None:
        """Follow the flush interval that the server asks for."""
        async for text in self.socket:
            message = protocol.decode_server(text if isinstance(text, bytes) else text.encode())
            if isinstance(message, protocol.Ack) and message.flush_ms:
                self.flush_s = message.flush_ms / 1000


def hello(token: str, no: int) -> Hello:
    """Return the handshake of client ``no``."""
    key = f"fleet{no}"
    who = WriterId(attempt=key, rank=0, boot="bench", pid=no, started_ns=time.time_ns())
    return Hello(
        version=protocol.VERSION, token=token, project="fleet", name=f"run {no}", run=key, writer=who,
        world_size=1, host="bench", time_ns=time.time_ns(),
    )  # fmt: skip


def frame(first: int, held: int, draw: random.Random, steps_per_s: float = STEPS_PER_S) -> bytes:
    """Return the steps from ``first`` that one flush contains: four vital signs of a healthy training."""
    now, steps = time.time(), range(first, first + held)
    losses = [2.0 / (1.0 + step / 4000.0) * (1.0 + draw.gauss(0.0, 0.05)) for step in steps]
    columns = {
        "loss": losses,
        "grad_norm": [draw.lognormvariate(0.0, 0.3) for _ in steps],
        "scale": [65536.0] * held,
        "lr": [1e-3] * held,
        "sent": [now] * held,
    }
    times = [int((now - (held - 1 - place) / steps_per_s) * 1e9) for place in range(held)]
    made = Records(
        seq=first, n=held, step=struct.pack(f"<{held}q", *steps), t=struct.pack(f"<{held}q", *times),
        cols={name: struct.pack(f"<{held}d", *values) for name, values in columns.items()},
    )  # fmt: skip
    return protocol.encode(made)


async def _let_in(url: str, token: str, no: int) -> ClientConnection:
    socket = await connect(url, compression=None, ping_interval=None, open_timeout=120)
    await socket.send(protocol.encode(hello(token, no)))
    welcome = protocol.decode_server(await socket.recv(decode=False))
    assert isinstance(welcome, protocol.Welcome), welcome
    return socket


async def main() -> None:
    """Run all clients of this process until standard input ends."""
    base, token, first, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    url = base.replace("http", "ws", 1) + protocol.PATH
    numbers = range(first, first + count)
    steps_per_s = float(sys.argv[5]) if len(sys.argv) > 5 else STEPS_PER_S
    clients = [Client(await _let_in(url, token, no), no, steps_per_s) for no in numbers]
    print("ready", flush=True)
    tasks = [asyncio.create_task(part) for one in clients for part in (one.train(count), one.listen())]
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


if __name__ == "__main__":
    asyncio.run(main())
