"""A process with many clients that use the real protocol, lose their server, and reconnect at once.

``python restart_trainers.py PORT TOKEN COUNT STEPS`` reports ``STEPS`` steps of each of ``COUNT`` runs and
prints ``ready`` once all are acknowledged. When the server is gone and a line arrives on standard input, it
waits until something listens on the port again; then every client connects and sends the steps made
meanwhile. It prints one line of JSON: the time (Unix seconds) of each client's acknowledgement, and how often
a connection failed. The time limits are the hook's.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "client_hook"))

from msgspec.structs import replace
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, WebSocketException

from benchmarks.fleet_trainers import frame, hello
from tocsin import protocol
from tocsin.transport.connection import CONNECT_S
from tocsin.transport.session import BACKOFF_CAP_S, BACKOFF_FIRST_S, WELCOME_S

BATCH = 50
MEANWHILE = 20
"""Steps that each client made while the server was down."""
AT_ONCE = 50
"""Clients that report their first steps at the same time."""
LOOK_S = 0.005


class RejectedError(Exception):
    """The server closed the connection or did not answer in time."""


@dataclass
class Client:
    """One training process: the next record to send, and what is acknowledged."""

    url: str
    token: str
    no: int
    sent: int = 0
    acked: int = 0
    failures: int = 0
    socket: ClientConnection | None = None

    async def report(self, count: int) -> None:
        """Connect, and send ``count`` more steps until they are acknowledged. Raise RejectedError."""
        try:
            async with asyncio.timeout(CONNECT_S):
                self.socket = await connect(
                    self.url, compression=None, ping_interval=None, open_timeout=None, max_queue=None
                )
            async with asyncio.timeout(WELCOME_S):
                await self.socket.send(protocol.encode(self._hello()))
                welcome = await self._received()
            if not isinstance(welcome, protocol.Welcome):
                raise RejectedError(str(welcome))
            assert welcome.seq + 1 >= self.acked, f"acknowledged {self.acked}, stored {welcome.seq + 1}"
            await self._send(welcome.seq + 1, self.sent + count)
        except (OSError, TimeoutError, WebSocketException) as error:
            raise RejectedError(repr(error)) from error
        self.sent += count

    def _hello(self) -> protocol.Hello:
        made = hello(self.token, self.no)
        return replace(made, writer=replace(made.writer, started_ns=1))  # the same process each time

    async def _send(self, first: int, stop: int) -> None:
        assert self.socket is not None
        draw = random.Random(self.no)
        for seq in range(first, stop, BATCH):
            await self.socket.send(frame(seq, min(BATCH, stop - seq), draw))
        while self.acked < stop:
            message = await self._received()
            if isinstance(message, protocol.Ack):
                self.acked = message.seq + 1

    async def _received(self) -> protocol.ServerMessage:
        assert self.socket is not None
        return protocol.decode_server(await self.socket.recv(decode=False))

    async def persist(self, count: int) -> float:
        """Report as :meth:`report`, again after each failure with the hook's backoff; return when."""
        while True:
            try:
                await self.report(count)
            except RejectedError:
                self.failures += 1
                await self.close()
                pause_s = min(BACKOFF_CAP_S, BACKOFF_FIRST_S * 2**self.failures)
                await asyncio.sleep(pause_s * random.random())
            else:
                return time.time()

    async def lost(self) -> None:
        """Wait until the server closes the connection."""
        assert self.socket is not None
        with suppress(ConnectionClosed):
            while True:
                await self.socket.recv()

    async def close(self) -> None:
        """Drop the connection, if there is one."""
        if self.socket is not None:
            self.socket.transport.abort()
            self.socket = None


async def begin(clients: list[Client], steps: int) -> None:
    """Report the first steps of all clients."""
    room = asyncio.Semaphore(AT_ONCE)

    async def one(client: Client) -> None:
        async with room:
            await client.persist(steps)

    await asyncio.gather(*map(one, clients))


async def listening(port: int) -> None:
    """Wait until the port accepts connections."""
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(LOOK_S)
        else:
            writer.close()
            return


async def main() -> None:
    """Report, lose the server, and report again."""
    port, token, count, steps = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    url = f"ws://127.0.0.1:{port}{protocol.PATH}"
    clients = [Client(url, token, no) for no in range(count)]
    await begin(clients, steps)
    for one in clients:
        one.failures = 0
    print("ready", flush=True)
    await asyncio.gather(*(one.lost() for one in clients))
    await asyncio.to_thread(sys.stdin.readline)  # the old server no longer holds the port
    await listening(port)
    acked = await asyncio.gather(*(one.persist(MEANWHILE) for one in clients))
    print(json.dumps({"acked": acked, "failures": sum(one.failures for one in clients)}), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
