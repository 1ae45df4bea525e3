"""A process with some browsers' WebSockets: most follow the fleet, every fourth follows one run.

``python fleet_browsers.py URL TOKEN COUNT RUN...``: prints ``ready`` once all have received something, then
reads until its standard input ends, and prints ``MEGABYTES`` and the sorted seconds from send to delta.
"""

from __future__ import annotations

import asyncio
import base64
import json
import struct
import sys
import time
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

PATH = "/api/v1/live"
RUN_EVERY = 4
"""One in this many browsers shows a run's page; the others show the fleet."""


class Received:
    """Data that all browsers of this process received."""

    def __init__(self) -> None:
        self.bytes = 0
        self.delays_s: list[float] = []

    def take(self, text: str, now: float) -> None:
        """Process one frame. Only deltas of runs are parsed; parsing the fleet's would cost the load process
        more."""
        self.bytes += len(text)
        if text.startswith('{"type":"run"'):
            for layer in json.loads(text)["series"].get("sent", ()):
                sent = sorted(set(numbers(layer["first"])))
                self.delays_s += [now - each for each in sent]


def numbers(reported: Any) -> list[float]:
    """Return a column of the live socket: a list, or float64 in base64 as in Plotly."""
    if isinstance(reported, dict):
        body = base64.b64decode(reported["bdata"])
        return list(struct.unpack(f"<{len(body) // 8}d", body))
    return [float(each) for each in reported]


async def _subscribed(url: str, token: str, run: str | None) -> ClientConnection:
    headers = {"authorization": f"Bearer {token}"}
    socket = await connect(
        url, additional_headers=headers, compression=None, ping_interval=None, max_size=None, open_timeout=120
    )
    wish = {"type": "subscribe", "id": 1, "view": "fleet"}
    if run is not None:
        wish = {"type": "subscribe", "id": 1, "view": "run", "run": run}
    await socket.send(json.dumps(wish))
    return socket


async def _follow(socket: ClientConnection, received: Received) -> None:
    async for text in socket:
        received.take(str(text), time.time())


async def main() -> None:
    """Run all browsers of this process until standard input ends."""
    base, token, count, *runs = sys.argv[1:]
    url, received = base.replace("http", "ws", 1) + PATH, Received()
    followed = [runs[no % len(runs)] if no % RUN_EVERY == 0 else None for no in range(int(count))]
    sockets = [await _subscribed(url, token, run) for run in followed]
    tasks = [asyncio.create_task(_follow(socket, received)) for socket in sockets]
    print("ready", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    print(received.bytes / 1e6, *(f"{delay:.4f}" for delay in sorted(received.delays_s)), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
